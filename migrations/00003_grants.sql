-- Grants: certified here, whatever the locker lost. Each step takes the exclusive lock of the lease in a statement
-- of its own, first, so that what it reads afterwards is newer than every write that held the shared lock.
-- +goose Up

-- HMAC-SHA-256 with the ledger's secret.
CREATE FUNCTION fence.hmac(p_message bytea) RETURNS bytea LANGUAGE sql STABLE AS $$ SELECT sha256(outer_key || sha256(inner_key || p_message)) FROM fence.settings $$;

CREATE FUNCTION fence.field(p_value bytea) RETURNS bytea LANGUAGE sql IMMUTABLE
AS $$ SELECT pg_catalog.int8send(pg_catalog.octet_length(p_value)) || p_value $$;

-- The secret id of a grant: whoever repeats the acquire learns it again, nobody else can compute it.
CREATE FUNCTION fence.grant_id(p_principal text, p_lease text, p_acquire_hash bytea, p_first bigint) RETURNS text LANGUAGE sql STABLE AS $$ SELECT encode(fence.hmac(fence.field(convert_to(p_principal, 'UTF8')) || fence.field(convert_to(p_lease, 'UTF8'))
                    || fence.field(p_acquire_hash) || fence.field(int8send(p_first))), 'hex') $$;

-- Certify: the acquire becomes the newest grant where the newest one's first token is still the floor. code is
-- accepted (also for the repetition of an acquire), void, grant-ended or invalid-request; id is empty unless accepted.
-- +goose StatementBegin
CREATE FUNCTION fence.certify(p_lease text, p_floor bigint, p_acquire_hash bytea, p_principal text, p_holder text, p_ttl_ms bigint,
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

-- Whether a grant is the one that the caller names: by its secret id and principal, by its acquire, or any.
CREATE FUNCTION fence.names_grant(g fence.grants, p_id_hash bytea, p_principal text, p_acquire_hash bytea, p_newest boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN p_id_hash IS NOT NULL THEN g.id_hash = p_id_hash AND g.principal = p_principal
                  WHEN p_acquire_hash IS NOT NULL THEN g.acquire_hash = p_acquire_hash
                  ELSE p_newest END $$;

-- End the newest grant if it is the one named: its tokens are void once this has committed. One that has ended
-- already is returned as it is; no row when it is not the newest.
-- +goose StatementBegin
CREATE FUNCTION fence.end_grant(p_lease text, p_id_hash bytea, p_principal text, p_acquire_hash bytea, p_newest boolean, p_why text)
RETURNS SETOF fence.grants LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM pg_advisory_xact_lock(fence.lease_lock(p_lease));
    RETURN QUERY
        UPDATE fence.grants g SET ended_at = coalesce(g.ended_at, clock_timestamp()), ended_why = coalesce(g.ended_why, p_why)
         WHERE g.lease = p_lease AND fence.names_grant(g, p_id_hash, p_principal, p_acquire_hash, p_newest)
        RETURNING g.*;
END $$;
-- +goose StatementEnd

-- Ends the transactions that hold the lease's lock, shared, while their client has kept them waiting for p_after: a
-- worker or gateway that was paused in mid-message, which no timeout of the server ends (the session counts as active).
-- What they wrote is undone.
-- +goose StatementBegin
CREATE FUNCTION fence.end_stalled(p_lease text, p_after interval) RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*) FILTER (WHERE pg_terminate_backend(l.pid))
      FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ShareLock' AND l.objsubid = 1
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND (l.classid::bigint << 32 | l.objid::bigint) = fence.lease_lock(p_lease)
       AND a.wait_event_type = 'Client' AND a.state_change < clock_timestamp() - p_after
$$;
-- +goose StatementEnd

-- Another block for the newest grant if it is the one named and has not ended. Its first token stays.
-- +goose StatementBegin
CREATE FUNCTION fence.more_tokens(p_lease text, p_id_hash bytea, p_principal text, p_acquire_hash bytea) RETURNS SETOF fence.grants
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_first bigint;
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM pg_advisory_xact_lock(fence.lease_lock(p_lease));
    PERFORM FROM fence.grants g
      WHERE g.lease = p_lease AND g.ended_at IS NULL AND fence.names_grant(g, p_id_hash, p_principal, p_acquire_hash, false);
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
