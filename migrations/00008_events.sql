-- Grants remember the hold that they were certified under, what happens to them is told, and many are certified in one
-- commit. Programs of version 7 go on: the functions that they call stay, and do the same as the new ones for the hold that
-- a locker of theirs keeps, which is the acquire hash. They have the owner's rights now: a gateway whose role was given its
-- rights before this migration may not write the new table.
-- +goose Up

-- hold is null in a row that a program of version 7 wrote; it means the acquire hash then. expired_at is when somebody noticed
-- that the lease had run out under the grant, which still is the newest and has not ended.
ALTER TABLE fence.grants ADD COLUMN hold bytea, ADD COLUMN ended_by text, ADD COLUMN expired_at timestamptz;

-- What happened, for people. The order of events is that of (xid, id). A transaction that tells of a lease takes the lease's
-- lock before it is given its xid, so that what happens to one lease stands in its order.
CREATE TABLE fence.events (
    xid       bigint      NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    id        bigint      GENERATED ALWAYS AS IDENTITY (CACHE 100),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind      text        NOT NULL,
    lease     text        NOT NULL,
    principal text        NOT NULL,
    holder    text,
    first     bigint,
    why       text,
    by        text,
    resource  text,
    token     bigint,
    code      text,
    PRIMARY KEY (xid, id)
);

-- What the events are a part of. Each cluster counts its transactions anew, so a restore to another one begins another epoch,
-- in which positions of the one before mean nothing. pruned is the last of the events that were deleted.
CREATE TABLE fence.event_log (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch      text   NOT NULL DEFAULT left(md5(gen_random_uuid()::text), 8),
    pruned_xid bigint NOT NULL DEFAULT 0,
    pruned_id  bigint NOT NULL DEFAULT 0
);
INSERT INTO fence.event_log DEFAULT VALUES;

-- Takes a lease's lock exclusively: a statement of its own, before anything is read. Unless p_wait it only tries to, and
-- false means that somebody has it.
-- +goose StatementBegin
CREATE FUNCTION fence.lock_lease(p_lease text, p_wait boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence.require_read_committed();
    IF p_wait THEN
        PERFORM pg_advisory_xact_lock(fence.lease_lock(p_lease));
        RETURN true;
    END IF;
    RETURN pg_try_advisory_xact_lock(fence.lease_lock(p_lease));
END $$;
-- +goose StatementEnd

-- What becomes of a certificate: accepted, repeated (the newest grant is this acquire's), void, grant-ended or invalid-request.
-- A local one, of a lease that is handed on without asking the locker, needs a newest grant of the same hold that has not ended:
-- whoever ends a grant gives its lease away.
-- +goose StatementBegin
CREATE FUNCTION fence.decide_certificate(g fence.grants, p_floor bigint, p_acquire_hash bytea, p_holder text, p_ttl_ms bigint,
    p_hold bytea, p_local boolean) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN g.acquire_hash = p_acquire_hash
                THEN CASE WHEN g.holder <> p_holder OR g.ttl_ms <> p_ttl_ms THEN 'invalid-request'
                          WHEN g.ended_at IS NOT NULL THEN 'grant-ended'
                          ELSE 'repeated' END
                WHEN coalesce(g.first, 0) <> p_floor THEN 'void'
                WHEN p_local AND (coalesce(g.hold, g.acquire_hash) IS DISTINCT FROM p_hold OR g.ended_at IS NOT NULL) THEN 'void'
                ELSE 'accepted' END $$;
-- +goose StatementEnd

-- Certify, for a caller that has the lease's lock. code is accepted (also for the repetition of an acquire), void,
-- grant-ended or invalid-request; id is empty unless accepted. p_handed: the holder before has released the lease.
-- +goose StatementBegin
CREATE FUNCTION fence.certify_locked(p_lease text, p_floor bigint, p_acquire_hash bytea, p_principal text, p_holder text, p_ttl_ms bigint,
    p_hold bytea, p_local boolean, p_handed boolean, OUT code text, OUT id text, OUT newest fence.grants) LANGUAGE plpgsql AS $$
DECLARE
    v_first bigint;
BEGIN
    SELECT * INTO newest FROM fence.grants g WHERE g.lease = p_lease;
    code := fence.decide_certificate(newest, p_floor, p_acquire_hash, p_holder, p_ttl_ms, p_hold, p_local);
    IF code = 'repeated' THEN
        code := 'accepted';
        id := fence.grant_id(newest.principal, p_lease, p_acquire_hash, newest.first);
        IF newest.hold IS DISTINCT FROM p_hold THEN
            UPDATE fence.grants g SET hold = p_hold WHERE g.lease = p_lease RETURNING g.* INTO newest;
        END IF;
        -- So that the answer is as durable as the first one: see fence.admit_resource.
        PERFORM pg_current_xact_id(), pg_logical_emit_message(true, 'fencegate', '');
        RETURN;
    END IF;
    IF code <> 'accepted' THEN
        RETURN;
    END IF;
    v_first := nextval('fence.blocks') * 1000;
    id := fence.grant_id(p_principal, p_lease, p_acquire_hash, v_first);
    IF newest.first IS NOT NULL AND newest.ended_at IS NULL AND (p_handed OR newest.expired_at IS NULL) THEN
        INSERT INTO fence.events (kind, lease, principal, holder, first, why)
        VALUES (CASE WHEN p_handed THEN 'released' ELSE 'expired' END, p_lease, newest.principal, newest.holder, newest.first,
                CASE WHEN p_handed THEN 'released' END);
    END IF;
    INSERT INTO fence.grants AS g (lease, first, blocks, id_hash, acquire_hash, principal, holder, ttl_ms, granted_at, hold)
    VALUES (p_lease, v_first, int8multirange(int8range(v_first, v_first + 1000)), sha256(convert_to(id, 'UTF8')), p_acquire_hash,
            p_principal, p_holder, p_ttl_ms, clock_timestamp(), p_hold)
    ON CONFLICT (lease) DO UPDATE SET first = excluded.first, blocks = excluded.blocks, id_hash = excluded.id_hash,
           acquire_hash = excluded.acquire_hash, principal = excluded.principal, holder = excluded.holder, ttl_ms = excluded.ttl_ms,
           granted_at = excluded.granted_at, hold = excluded.hold, ended_at = NULL, ended_why = NULL, ended_by = NULL, expired_at = NULL
    RETURNING g.* INTO newest;
    INSERT INTO fence.events (kind, lease, principal, holder, first) VALUES ('granted', p_lease, p_principal, p_holder, v_first);
END $$;
-- +goose StatementEnd

-- Certify: the acquire becomes the newest grant where the newest one's first token is still the floor. code is that of
-- fence.certify_locked, or busy: somebody has the lock, and p_wait is false.
-- +goose StatementBegin
CREATE FUNCTION fence.certify(p_lease text, p_floor bigint, p_acquire_hash bytea, p_principal text, p_holder text, p_ttl_ms bigint,
    p_hold bytea, p_local boolean, p_handed boolean, p_wait boolean, OUT code text, OUT id text, OUT newest fence.grants) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v record;
BEGIN
    IF NOT fence.lock_lease(p_lease, p_wait) THEN
        code := 'busy';
        RETURN;
    END IF;
    v := fence.certify_locked(p_lease, p_floor, p_acquire_hash, p_principal, p_holder, p_ttl_ms, p_hold, p_local, p_handed);
    code := v.code;
    id := v.id;
    newest := v.newest;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.certify(p_lease text, p_floor bigint, p_acquire_hash bytea, p_principal text, p_holder text, p_ttl_ms bigint,
    OUT code text, OUT id text, OUT newest fence.grants) LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.code, c.id, c.newest
      FROM fence.certify(p_lease, p_floor, p_acquire_hash, p_principal, p_holder, p_ttl_ms, p_acquire_hash, false, false, true) c
$$;
-- +goose StatementEnd

-- Whether a grant is the one that the caller names: by its secret id and principal, by its acquire (and hold, if given), or any.
CREATE FUNCTION fence.names_grant(g fence.grants, p_id_hash bytea, p_principal text, p_acquire_hash bytea, p_hold bytea, p_newest boolean)
RETURNS boolean LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN p_id_hash IS NOT NULL THEN g.id_hash = p_id_hash AND g.principal = p_principal
                  WHEN p_acquire_hash IS NOT NULL
                  THEN g.acquire_hash = p_acquire_hash AND (p_hold IS NULL OR coalesce(g.hold, g.acquire_hash) = p_hold)
                  ELSE p_newest END $$;

-- End the newest grant if it is the one named, for a caller that has the lease's lock. code is lease-lost if it is not, else
-- accepted. One that has ended already is returned as it is. The kind of the event is the first word of why.
-- +goose StatementBegin
CREATE FUNCTION fence.end_locked(p_lease text, p_id_hash bytea, p_principal text, p_acquire_hash bytea, p_hold bytea, p_newest boolean,
    p_why text, p_by text, OUT code text, OUT newest fence.grants) LANGUAGE plpgsql AS $$
BEGIN
    SELECT * INTO newest FROM fence.grants g
     WHERE g.lease = p_lease AND fence.names_grant(g, p_id_hash, p_principal, p_acquire_hash, p_hold, p_newest);
    IF NOT FOUND THEN
        code := 'lease-lost';
        RETURN;
    END IF;
    code := 'accepted';
    IF newest.ended_at IS NOT NULL THEN
        PERFORM pg_current_xact_id(), pg_logical_emit_message(true, 'fencegate', '');
        RETURN;
    END IF;
    UPDATE fence.grants g SET ended_at = clock_timestamp(), ended_why = p_why, ended_by = p_by WHERE g.lease = p_lease
    RETURNING g.* INTO newest;
    INSERT INTO fence.events (kind, lease, principal, holder, first, why, by)
    VALUES (substring(p_why, '^[a-z]+'), p_lease, newest.principal, newest.holder, newest.first, p_why, p_by);
END $$;
-- +goose StatementEnd

-- End the newest grant if it is the one named: its tokens are void once this has committed. code is that of
-- fence.end_locked, or busy: somebody has the lock, and p_wait is false.
-- +goose StatementBegin
CREATE FUNCTION fence.end_grant(p_lease text, p_id_hash bytea, p_principal text, p_acquire_hash bytea, p_hold bytea, p_newest boolean,
    p_why text, p_by text, p_wait boolean, OUT code text, OUT newest fence.grants) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v record;
BEGIN
    IF NOT fence.lock_lease(p_lease, p_wait) THEN
        code := 'busy';
        RETURN;
    END IF;
    v := fence.end_locked(p_lease, p_id_hash, p_principal, p_acquire_hash, p_hold, p_newest, p_why, p_by);
    code := v.code;
    newest := v.newest;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.end_grant(p_lease text, p_id_hash bytea, p_principal text, p_acquire_hash bytea, p_newest boolean, p_why text)
RETURNS SETOF fence.grants LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT (e.newest).* FROM fence.end_grant(p_lease, p_id_hash, p_principal, p_acquire_hash, NULL, p_newest, p_why, NULL, true) e
     WHERE e.code = 'accepted'
$$;
-- +goose StatementEnd

-- Certificates and ends of different leases, all in one commit. Call i is what the i-th element of each array says: an end
-- where why is not null, else a certificate. Nobody is waited for: a call whose lock is not free at once is left out of the answer.
-- All locks are taken before anything is written, and so before the transaction has its xid: see fence.events.
-- +goose StatementBegin
CREATE FUNCTION fence.settle(p_lease text[], p_principal text[], p_acquire_hash bytea[], p_hold bytea[],
    p_floor bigint[], p_holder text[], p_ttl_ms bigint[], p_local boolean[], p_handed boolean[],
    p_id_hash bytea[], p_newest boolean[], p_why text[], p_by text[])
RETURNS TABLE (item bigint, code text, id text, newest fence.grants) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms' AS $$
DECLARE
    v_locked bigint[];
BEGIN
    PERFORM fence.require_read_committed();
    SELECT array_agg(l.item) INTO v_locked
      FROM (SELECT c.item, fence.lease_lock(c.lease) AS lock FROM unnest(p_lease) WITH ORDINALITY c(lease, item) ORDER BY lock OFFSET 0) l
     WHERE pg_try_advisory_xact_lock(l.lock);
    RETURN QUERY
        SELECT c.item, r.code, r.id, r.newest
          FROM unnest(p_lease, p_floor, p_acquire_hash, p_principal, p_holder, p_ttl_ms, p_hold, p_local, p_handed, p_why) WITH ORDINALITY
               c(lease, floor, acquire_hash, principal, holder, ttl_ms, hold, local, handed, why, item),
               LATERAL fence.certify_locked(c.lease, c.floor, c.acquire_hash, c.principal, c.holder, c.ttl_ms, c.hold, c.local, c.handed) r
         WHERE c.why IS NULL AND c.item = ANY (v_locked);
    RETURN QUERY
        SELECT c.item, r.code, NULL::text, r.newest
          FROM unnest(p_lease, p_id_hash, p_principal, p_acquire_hash, p_hold, p_newest, p_why, p_by) WITH ORDINALITY
               c(lease, id_hash, principal, acquire_hash, hold, newest, why, by, item),
               LATERAL fence.end_locked(c.lease, c.id_hash, c.principal, c.acquire_hash, c.hold, c.newest, c.why, c.by) r
         WHERE c.why IS NOT NULL AND c.item = ANY (v_locked);
END $$;
-- +goose StatementEnd

-- Another block for the newest grant if it is the one named and has not ended. Its first token stays.
-- +goose StatementBegin
CREATE FUNCTION fence.more_tokens(p_lease text, p_id_hash bytea, p_principal text, p_acquire_hash bytea, p_hold bytea) RETURNS SETOF fence.grants
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_first bigint;
BEGIN
    PERFORM fence.lock_lease(p_lease, true);
    PERFORM FROM fence.grants g
      WHERE g.lease = p_lease AND g.ended_at IS NULL AND fence.names_grant(g, p_id_hash, p_principal, p_acquire_hash, p_hold, false);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_first := nextval('fence.blocks') * 1000;
    RETURN QUERY
        UPDATE fence.grants g SET blocks = g.blocks + int8multirange(int8range(v_first, v_first + 1000))
         WHERE g.lease = p_lease
        RETURNING g.*;
END $$;
-- +goose StatementEnd

CREATE OR REPLACE FUNCTION fence.more_tokens(p_lease text, p_id_hash bytea, p_principal text, p_acquire_hash bytea) RETURNS SETOF fence.grants
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT m.* FROM fence.more_tokens(p_lease, p_id_hash, p_principal, p_acquire_hash, NULL) m $$;

-- Tells, once, that the lease of the newest grant has run out, if its first token is p_first and it has not ended. The grant
-- stays: its holder may write until there is a successor. False when there was nothing to tell, or while somebody has
-- the lease's lock; the next certificate tells what is left untold.
-- +goose StatementBegin
CREATE FUNCTION fence.note_expiry(p_lease text, p_first bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v fence.grants;
BEGIN
    IF NOT fence.lock_lease(p_lease, false) THEN
        RETURN false;
    END IF;
    UPDATE fence.grants g SET expired_at = clock_timestamp()
     WHERE g.lease = p_lease AND g.first = p_first AND g.ended_at IS NULL AND g.expired_at IS NULL
    RETURNING g.* INTO v;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO fence.events (kind, lease, principal, holder, first) VALUES ('expired', p_lease, v.principal, v.holder, v.first);
    RETURN true;
END $$;
-- +goose StatementEnd

-- Tells of writes that were refused for their tokens: the i-th is what the i-th element of each array says.
CREATE FUNCTION fence.note_refusals(p_lease text[], p_principal text[], p_holder text[], p_first bigint[], p_resource text[], p_token bigint[], p_code text[])
RETURNS void LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ INSERT INTO fence.events (kind, lease, principal, holder, first, resource, token, code)
      SELECT 'refused', r.* FROM unnest(p_lease, p_principal, p_holder, p_first, p_resource, p_token, p_code) r $$;

-- Deletes events older than p_age from the first on, at most p_limit of them, and returns how many; 0 also while somebody else
-- does. One from the future, that a clock gave before it was set back, does not keep those behind it.
-- +goose StatementBegin
CREATE FUNCTION fence.prune_events(p_age interval, p_limit integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_last record;
BEGIN
    PERFORM FROM fence.event_log FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    WITH head AS (
        SELECT e.xid, e.id, bool_and(e.at < clock_timestamp() - p_age OR e.at > clock_timestamp() + interval '1 hour') OVER (ORDER BY e.xid, e.id) AS old
          FROM (SELECT * FROM fence.events ORDER BY xid, id LIMIT p_limit) e
    ), deleted AS (
        DELETE FROM fence.events e USING head h WHERE h.old AND e.xid = h.xid AND e.id = h.id RETURNING e.xid, e.id
    )
    SELECT d.xid, d.id, count(*) OVER () AS n INTO v_last FROM deleted d ORDER BY d.xid DESC, d.id DESC LIMIT 1;
    UPDATE fence.event_log l SET pruned_xid = v_last.xid, pruned_id = v_last.id WHERE (l.pruned_xid, l.pruned_id) < (v_last.xid, v_last.id);
    RETURN coalesce(v_last.n, 0);
END $$;
-- +goose StatementEnd

-- After a restore, or a fail-over that lost commits: ends every grant and moves the tokens p_blocks blocks on. Afterwards every
-- token issued before is refused, and the next one is higher than any that the lost part can have issued, if that drew
-- fewer than p_blocks. Returns how many grants it ended and the first block from now on.
--
-- The marks stay as they are. The transactions of another server, or of a restored dump, count anew, so that a mark can
-- have the xid of a transaction to come. That does no harm: fence.note_created alone compares it, with its own
-- transaction's, and for the mark which that transaction has just written. Events do compare theirs: they go, and a new epoch
-- begins.
--
-- The lock waits for every transaction that has looked at a grant, and keeps new ones out: all that admit, certify or add
-- tokens look first. Whoever holds a mark's row, or a lease's lock, and goes on holds the table already and needs nothing
-- of this transaction, so that there is no cycle. While the lock is waited for, those that come later queue up behind it, readers too: the caller
-- sets a short lock_timeout, and comes back. A statement_timeout would have to allow for writing every live grant.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.advance(p_blocks bigint, OUT ended bigint, OUT first_block bigint) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_last bigint;
    v_max  constant bigint := 999999999999;
BEGIN
    PERFORM fence.require_read_committed();
    IF p_blocks IS NULL OR p_blocks < 1 THEN
        RAISE EXCEPTION 'the ledger is advanced by one block or more' USING ERRCODE = 'FG008';
    END IF;
    LOCK TABLE fence.grants IN ACCESS EXCLUSIVE MODE;
    -- A sequence that was restored from an older moment than the tables must not count.
    SELECT greatest((SELECT CASE WHEN b.is_called THEN b.last_value ELSE b.last_value - 1 END FROM fence.blocks b),
                    (SELECT max((upper(g.blocks) - 1) / 1000) FROM fence.grants g), (SELECT max(m.token / 1000) FROM fence.marks m))
      INTO v_last;
    IF p_blocks >= v_max - v_last THEN
        RAISE EXCEPTION 'the ledger has % blocks of tokens left, fewer than it would be advanced by', v_max - v_last
              USING ERRCODE = 'FG008';
    END IF;
    UPDATE fence.grants g SET ended_at = clock_timestamp(), ended_why = 'ledger advanced' WHERE g.ended_at IS NULL;
    GET DIAGNOSTICS ended = ROW_COUNT;
    -- In the order of fence.prune_events.
    UPDATE fence.event_log SET epoch = left(md5(gen_random_uuid()::text), 8), pruned_xid = 0, pruned_id = 0;
    TRUNCATE fence.events;
    -- What is drawn from a sequence is not given back by a rollback: last, and harmless.
    first_block := setval('fence.blocks', v_last + p_blocks) + 1;
END $$;
-- +goose StatementEnd

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fence FROM PUBLIC;
