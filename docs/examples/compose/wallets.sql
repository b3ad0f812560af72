-- The demonstration's table. Made once, with the empty database; fencegate changes nothing in it.
CREATE TABLE wallets (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric NOT NULL);
INSERT INTO wallets VALUES (42, 'alice', 100), (43, 'bob', 100);
