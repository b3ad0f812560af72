-- Spends 10 from the wallet 42. The token comes from whoever holds the lease wallet:42; here from fencegate run, which puts it into
-- the environment. A token is spent once for each row: the next transaction takes the next one, up to FENCE_TOKEN_LAST.
\set ON_ERROR_STOP on
\set token `echo "$FENCE_TOKEN"`
BEGIN;
-- Raises an error, and so ends this script, when the lease has passed on. It stands in a statement of its own, before the change.
SELECT fence.admit('wallets', '42', :token) \g /dev/null
UPDATE wallets SET balance = balance - 10 WHERE id = 42 AND balance >= 10 RETURNING 'left: ' || balance;
COMMIT;
