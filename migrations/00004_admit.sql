-- Admit: the rule. It stands once, in fence.admit_resource; fence.Decide says the same in Go.
-- +goose Up

-- What admit says of a write, and what is known of the resource.
CREATE TYPE fence.verdict AS (
    code        text,
    resource    text,
    lease       text,
    mark        bigint,
    marked_by   text,
    written_at  timestamptz,
    created     boolean,
    first_token bigint,
    holder      text
);

-- The part of the rule that looks at the grant alone. A null principal is a SQL caller's: the database role is the
-- authority.
-- +goose StatementBegin
CREATE FUNCTION fence.decide_grant(g fence.grants, p_token bigint, p_principal text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN g.first IS NULL THEN 'unissued-token'
                WHEN p_token < g.first THEN 'stale-token'
                WHEN NOT g.blocks @> p_token THEN 'unissued-token'
                WHEN g.principal <> p_principal THEN 'foreign-token'
                WHEN g.ended_at IS NOT NULL THEN 'grant-ended'
                ELSE 'accepted' END $$;
-- +goose StatementEnd

-- Checks a write against grant and mark and raises the mark, for one resource protected by one lease. It waits for
-- the lease's lock, shared, in a statement of its own: a grant, release or break that has returned is seen by the
-- statements after it (I2). The mark's row is the arbiter between writes. p_match null: no condition.
-- +goose StatementBegin
CREATE FUNCTION fence.admit_resource(p_resource text, p_lease text, p_token bigint, p_principal text, p_digest bytea,
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

-- Whether this transaction's last admit accepted the token: what the statement that changes the data asks.
CREATE FUNCTION fence.admitted(p_token bigint) RETURNS boolean LANGUAGE sql STABLE
AS $$ SELECT pg_catalog.starts_with(pg_catalog.current_setting('fence.admitted', true), pg_catalog.concat(p_token, ' ')) $$;

-- Undoes an admitted write that did not change exactly the row it named: the whole transaction, so the mark too (I5).
-- p_changed is 0 when nothing changed.
-- +goose StatementBegin
CREATE FUNCTION fence.undo(p_changed bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF p_changed = 0 THEN
        RAISE EXCEPTION 'the write changed nothing' USING ERRCODE = 'FG010';
    END IF;
    RAISE EXCEPTION 'the row would be stored under another key than it was named by, or several rows have this key' USING ERRCODE = 'FG015';
END $$;
-- +goose StatementEnd

-- Remembers that the admitted write created its resource, for the replay's status.
-- +goose StatementBegin
CREATE FUNCTION fence.note_created() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_admitted text := current_setting('fence.admitted', true);
BEGIN
    UPDATE fence.marks m SET created = true
     WHERE m.resource = substr(v_admitted, position(' ' IN v_admitted) + 1) AND m.xid = pg_current_xact_id();
    RETURN true;
END $$;
-- +goose StatementEnd

-- Reads a table's binding under its lock, shared: a template that changes waits for the writes that used the old
-- one, and is in force everywhere when the change returns.
-- +goose StatementBegin
CREATE FUNCTION fence.table_binding(p_table text) RETURNS fence.protected LANGUAGE plpgsql AS $$
DECLARE
    v_binding fence.protected;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(fence.binding_lock('rows/' || p_table));
    SELECT * INTO v_binding FROM fence.protected p WHERE p.kind = 'table' AND p.name = p_table AND p.prefix = '';
    RETURN v_binding;
END $$;
-- +goose StatementEnd

-- Admits a write to a row. Two codes beside the rule's: not-found (the table is not protected) and binding-changed
-- (the caller's idea of the table is older than its binding or shape; null: the caller has none).
-- +goose StatementBegin
CREATE FUNCTION fence.admit_row(p_table text, p_version bigint, p_relation oid, p_shape text, p_parts text[], p_token bigint,
    p_principal text, p_digest bytea, p_match bigint[], p_none_match bigint[]) RETURNS fence.verdict LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v         fence.verdict;
    v_binding fence.protected;
    v_name    fence.name;
BEGIN
    PERFORM fence.require_read_committed();
    v_binding := fence.table_binding(p_table);
    IF v_binding.version IS NULL OR v_binding.version <> p_version THEN
        v.code := CASE WHEN v_binding.version IS NULL THEN 'not-found' ELSE 'binding-changed' END;
        RETURN v;
    END IF;
    -- The table's row in the catalogue is another one after most changes of its columns.
    PERFORM FROM pg_class c WHERE c.oid = p_relation AND c.xmin::text = p_shape;
    IF NOT FOUND AND p_relation IS NOT NULL THEN
        v.code := 'binding-changed';
        RETURN v;
    END IF;
    v_name := fence.row_name(v_binding, p_parts);
    RETURN fence.admit_resource(v_name.resource, v_name.lease, p_token, p_principal, p_digest, p_match, p_none_match);
END $$;
-- +goose StatementEnd

-- What is known of a row's mark and grant, in the caller's snapshot. With a token, code is the grant's verdict.
-- +goose StatementBegin
CREATE FUNCTION fence.row_state(p_table text, p_version bigint, p_parts text[], p_token bigint, p_principal text) RETURNS fence.verdict
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v         fence.verdict;
    v_binding fence.protected;
    v_name    fence.name;
BEGIN
    SELECT * INTO v_binding FROM fence.protected p WHERE p.kind = 'table' AND p.name = p_table AND p.prefix = '';
    IF v_binding.version IS NULL OR v_binding.version <> p_version THEN
        v.code := CASE WHEN v_binding.version IS NULL THEN 'not-found' ELSE 'binding-changed' END;
        RETURN v;
    END IF;
    v_name := fence.row_name(v_binding, p_parts);
    RETURN fence.resource_state(v_name.resource, v_name.lease, p_token, p_principal);
END $$;
-- +goose StatementEnd

-- The same of any resource, once its name and lease are known.
-- +goose StatementBegin
CREATE FUNCTION fence.resource_state(p_resource text, p_lease text, p_token bigint, p_principal text) RETURNS fence.verdict
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v       fence.verdict;
    v_grant fence.grants;
BEGIN
    v.resource := p_resource;
    v.lease := p_lease;
    SELECT m.token, m.principal, m.written_at, m.created INTO v.mark, v.marked_by, v.written_at, v.created
      FROM fence.marks m WHERE m.resource = p_resource;
    v.mark := coalesce(v.mark, 0);
    SELECT * INTO v_grant FROM fence.grants g WHERE g.lease = p_lease;
    v.first_token := v_grant.first;
    v.holder := v_grant.holder;
    v.code := CASE WHEN p_token IS NULL THEN 'accepted' ELSE fence.decide_grant(v_grant, p_token, p_principal) END;
    RETURN v;
END $$;
-- +goose StatementEnd

-- For plain SQL writers: SELECT fence.admit('wallets', '42', 1001) first, in the transaction that changes the row.
-- Raises on every refusal: FG001 stale-token, FG002 spent-token, FG003 grant-ended, FG005 unissued-token,
-- FG007 not protected, FG008 bad key, FG009 malformed token, FG014 isolation. Returns the resource's name. A transaction
-- that was admitted and then sits idle is ended by the server, so that it cannot hold up the next grant for ever.
-- +goose StatementBegin
CREATE FUNCTION fence.admit(p_relation text, p_key text, p_token bigint) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v         fence.verdict;
    v_table   text := fence.table_name(p_relation);
    v_binding fence.protected;
    v_parts   text[];
    v_outer   text := current_setting('fence.admitted', true);
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM fence.limit_timeouts();
    IF p_token IS NULL OR p_token < 1 OR p_token > 999999999999999 THEN
        RAISE EXCEPTION 'invalid-token: a token has 1 to 15 digits' USING ERRCODE = 'FG009';
    END IF;
    v_binding := fence.table_binding(v_table);
    IF fence.as_protected(v_binding) IS NOT TRUE THEN
        RAISE EXCEPTION '% is not protected, or its key was altered since: protect it again', v_table USING ERRCODE = 'FG007';
    END IF;
    BEGIN
        SELECT array_agg(fence.unescape(part) ORDER BY i) INTO v_parts
          FROM unnest(string_to_array(p_key, ',')) WITH ORDINALITY parts(part, i);
        PERFORM fence.row_name(v_binding, v_parts);
    EXCEPTION WHEN data_exception THEN
        RAISE EXCEPTION 'the key % cannot be read: %', left(p_key, 200), SQLERRM USING ERRCODE = 'FG008';
    END;
    v := fence.admit_row(v_table, NULL, NULL, NULL, v_parts, p_token, NULL, NULL, NULL, NULL);
    IF v.code = 'accepted' THEN
        -- A trigger that admits must not hide the admitted write that fired it.
        PERFORM set_config('fence.admitted', v_outer, true);
        RETURN v.resource;
    END IF;
    RAISE EXCEPTION '%: token % for %', v.code, p_token, v.resource
          USING ERRCODE = CASE v.code WHEN 'stale-token' THEN 'FG001' WHEN 'spent-token' THEN 'FG002' WHEN 'grant-ended' THEN 'FG003'
                                      ELSE 'FG005' END,
                DETAIL = json_build_object('code', v.code, 'resource', v.resource, 'lease', v.lease, 'mark', v.mark, 'first_token', v.first_token)::text;
END $$;
-- +goose StatementEnd

-- Bounds what a caller's transaction may wait or sit idle while it holds our locks. Tighter settings stay.
-- +goose StatementBegin
CREATE FUNCTION fence.limit_timeouts() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_limit constant integer := 4000;  -- ms; less than the gateway's default lock timeout, so that the next grant only waits
    v_name  text;
BEGIN
    FOREACH v_name IN ARRAY ARRAY['lock_timeout', 'idle_in_transaction_session_timeout'] LOOP
        IF (SELECT setting::integer NOT BETWEEN 1 AND v_limit FROM pg_settings WHERE name = v_name) THEN
            PERFORM set_config(v_name, v_limit::text, true);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd
