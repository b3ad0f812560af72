-- Operation: which programs a ledger works with, and the step after a restore.
-- +goose Up

-- A program works with a newer schema than its own from the version on that compatible_from names, so that the
-- programs of a deployment can be replaced one by one. The rule for every later migration: one that the programs before
-- it cannot work with (a function of theirs gone or of another meaning, a column they do not fill) sets compatible_from to its own version.
ALTER TABLE fence.settings ADD COLUMN compatible_from bigint NOT NULL DEFAULT 7;

-- What was answered before is answered again only when it is as durable as the answer says. A transaction that wrote
-- nothing commits without waiting for a synchronous standby, and could tell of a write, or a grant, whose own commit still
-- waits for it and would be lost in a fail-over. So the replay of a write and the repetition of an acquire leave an empty
-- message in the log, and wait as a write does. The transaction id is asked for first: a standby refuses it in plain words.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.admit_resource(p_resource text, p_lease text, p_token bigint, p_principal text, p_digest bytea,
    p_match bigint[], p_none_match bigint[]) RETURNS fence.verdict LANGUAGE plpgsql AS $$
DECLARE
    v       fence.verdict;
    v_grant fence.grants;
    v_mark  fence.marks;
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM set_config('fence.admitted', '', true);
    PERFORM pg_advisory_xact_lock_shared(fence.lease_lock(p_lease));
    SELECT * INTO v_grant FROM fence.grants g WHERE g.lease = p_lease;
    v.resource := p_resource;
    v.lease := p_lease;
    v.first_token := v_grant.first;
    v.holder := v_grant.holder;
    FOR i IN 1..10 LOOP
        -- A statement of its own each time: a write that was waited for has moved the mark.
        SELECT * INTO v_mark FROM fence.marks m WHERE m.resource = p_resource;
        v.mark := coalesce(v_mark.token, 0);
        v.marked_by := v_mark.principal;
        v.written_at := v_mark.written_at;
        v.created := v_mark.created;
        IF v_mark.token = p_token AND v_mark.principal = p_principal AND v_mark.digest = p_digest THEN
            PERFORM pg_current_xact_id(), pg_logical_emit_message(true, 'fencegate', '');
            v.code := 'replayed';
            RETURN v;
        END IF;
        v.code := fence.decide_grant(v_grant, p_token, p_principal);
        IF v.code = 'accepted' THEN
            v.code := CASE WHEN p_token < v.mark THEN 'stale-token'
                           WHEN p_token = v.mark THEN 'spent-token'
                           WHEN NOT coalesce(v.mark = ANY (p_match), true) OR coalesce(v.mark = ANY (p_none_match), false)
                           THEN 'precondition-failed'
                           ELSE 'accepted' END;
        END IF;
        IF v.code <> 'accepted' THEN
            RETURN v;
        END IF;
        INSERT INTO fence.marks AS m (resource, token, lease, principal, digest, created, xid, written_at)
        VALUES (p_resource, p_token, p_lease, coalesce(p_principal, v_grant.principal), p_digest, false, pg_current_xact_id(), clock_timestamp())
        ON CONFLICT (resource) DO UPDATE SET token = excluded.token, lease = excluded.lease, principal = excluded.principal,
               digest = excluded.digest, created = false, xid = excluded.xid, written_at = excluded.written_at
         WHERE m.token < excluded.token AND (m.token = v.mark OR (p_match IS NULL AND p_none_match IS NULL))
        RETURNING m.token, m.principal, m.written_at INTO v.mark, v.marked_by, v.written_at;
        IF FOUND THEN
            PERFORM set_config('fence.admitted', p_token || ' ' || p_resource, true);
            RETURN v;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'the mark of % keeps moving', p_resource USING ERRCODE = 'serialization_failure';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.certify(p_lease text, p_floor bigint, p_acquire_hash bytea, p_principal text, p_holder text, p_ttl_ms bigint,
    OUT code text, OUT id text, OUT newest fence.grants) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_first bigint;
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM pg_advisory_xact_lock(fence.lease_lock(p_lease));
    SELECT * INTO newest FROM fence.grants g WHERE g.lease = p_lease;
    IF newest.acquire_hash = p_acquire_hash THEN
        code := CASE WHEN newest.holder <> p_holder OR newest.ttl_ms <> p_ttl_ms THEN 'invalid-request'
                     WHEN newest.ended_at IS NOT NULL THEN 'grant-ended'
                     ELSE 'accepted' END;
        IF code = 'accepted' THEN
            PERFORM pg_current_xact_id(), pg_logical_emit_message(true, 'fencegate', '');
            id := fence.grant_id(newest.principal, p_lease, p_acquire_hash, newest.first);
        END IF;
        RETURN;
    END IF;
    IF coalesce(newest.first, 0) <> p_floor THEN
        code := 'void';
        RETURN;
    END IF;
    v_first := nextval('fence.blocks') * 1000;
    id := fence.grant_id(p_principal, p_lease, p_acquire_hash, v_first);
    INSERT INTO fence.grants AS g (lease, first, blocks, id_hash, acquire_hash, principal, holder, ttl_ms, granted_at)
    VALUES (p_lease, v_first, int8multirange(int8range(v_first, v_first + 1000)), sha256(convert_to(id, 'UTF8')), p_acquire_hash,
            p_principal, p_holder, p_ttl_ms, clock_timestamp())
    ON CONFLICT (lease) DO UPDATE SET first = excluded.first, blocks = excluded.blocks, id_hash = excluded.id_hash,
           acquire_hash = excluded.acquire_hash, principal = excluded.principal, holder = excluded.holder, ttl_ms = excluded.ttl_ms,
           granted_at = excluded.granted_at, ended_at = NULL, ended_why = NULL
    RETURNING g.* INTO newest;
    code := 'accepted';
END $$;
-- +goose StatementEnd

-- After a restore, or a fail-over that lost commits: ends every grant and moves the tokens p_blocks blocks on. Afterwards every
-- token issued before is refused, and the next one is higher than any that the lost part can have issued, if that drew
-- fewer than p_blocks. Returns how many grants it ended and the first block from now on.
--
-- The marks stay as they are. The transactions of another server, or of a restored dump, count anew, so that a mark can
-- have the xid of a transaction to come. That does no harm: fence.note_created alone compares it, with its own
-- transaction's, and for the mark which that transaction has just written.
--
-- The lock waits for every transaction that has looked at a grant, and keeps new ones out: all that admit, certify or add
-- tokens look first. Whoever holds a mark's row, or a lease's lock, and goes on holds the table already and needs nothing
-- of this transaction, so that there is no cycle. While the lock is waited for, those that come later queue up behind it, readers too: the caller
-- sets a short lock_timeout, and comes back. A statement_timeout would have to allow for writing every live grant.
-- +goose StatementBegin
CREATE FUNCTION fence.advance(p_blocks bigint, OUT ended bigint, OUT first_block bigint) LANGUAGE plpgsql
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
    -- What is drawn from a sequence is not given back by a rollback: last, and harmless.
    first_block := setval('fence.blocks', v_last + p_blocks) + 1;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION fence.advance(bigint) FROM PUBLIC;
