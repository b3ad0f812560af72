-- Rows in full: commits of several resources, inserts with generated keys, blobs that a commit publishes, and statements that run
-- under another role.
-- +goose Up

-- The key that an insert into a table's own resource (rows/<table>) made, for its replay.
ALTER TABLE fence.marks ADD COLUMN made text[];

-- What an upload verified of its body, and the headers that came with it: known once all of it has been stored.
ALTER TABLE fence.blobs ADD COLUMN size bigint, ADD COLUMN sha256 bytea, ADD COLUMN header jsonb;

-- Whether this transaction's last admit accepted the token: what the statement that changes the data asks. The setting names the resource, and
-- anybody may have set it, so the mark decides: it must have been raised by this very transaction. In PL/pgSQL, which keeps its plans from
-- one statement to the next.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.admitted(p_token bigint) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_admitted text := current_setting('fence.admitted', true);
BEGIN
    IF starts_with(v_admitted, p_token || ' ') IS NOT TRUE THEN
        RETURN false;
    END IF;
    PERFORM FROM fence.marks m
      WHERE m.resource = substr(v_admitted, position(' ' IN v_admitted) + 1) AND m.token = p_token AND m.xid = pg_current_xact_id_if_assigned();
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- Remembers that a write of this transaction created its resource, for the replay's status.
-- +goose StatementBegin
CREATE FUNCTION fence.note_created(p_resource text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE fence.marks m SET created = true WHERE m.resource = p_resource AND m.xid = pg_current_xact_id();
    RETURN true;
END $$;
-- +goose StatementEnd

-- One value, one text: whatever the session's settings, whatever the spelling. An enum (the one key type with a schema in its name) is
-- read by its input function and written by its output function: casts of its owner's would run with the rights of the ledger's.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.canonical_setting(p_type text, p_value text) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres'
SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
DECLARE
    v_text text;
BEGIN
    IF p_value ~* '(?<![a-z])(now|today|tomorrow|yesterday)(?![a-z])' AND p_type ~ '^(date|time|timestamp)( |$)' THEN
        RAISE EXCEPTION '% names another value at each moment', p_value USING ERRCODE = 'FG008';
    END IF;
    IF p_type IN ('timestamp without time zone', 'time without time zone') AND regexp_replace(p_value, '(am|pm|bc|ad)', '', 'gi') ~* ':.*[+a-z-]' THEN
        RAISE EXCEPTION 'a % has no offset, and that of % would be dropped', p_type, left(p_value, 80) USING ERRCODE = 'FG008';
    END IF;
    IF position('.' IN p_type) > 0 THEN
        EXECUTE format('SELECT format(''%%s'', %L::%s)', p_value, p_type) INTO v_text;
        RETURN v_text;
    END IF;
    EXECUTE format('SELECT CAST($1 AS %s)::text', p_type) INTO v_text USING p_value;
    RETURN v_text;
END $$;
-- +goose StatementEnd

-- Reads which resources a commit is about and which leases protect them, under the locks of their bindings. A problem ends
-- the reading: the last name is then null, and code says what is the matter, as in fence.admit_row.
-- +goose StatementBegin
CREATE FUNCTION fence.commit_names(p_writes jsonb, OUT names fence.name[], OUT code text) LANGUAGE plpgsql AS $$
DECLARE
    v_lock    bigint;
    v_write   jsonb;
    v_binding fence.protected;
    v_name    fence.name;
BEGIN
    FOR v_lock IN
        SELECT DISTINCT fence.binding_lock(CASE WHEN w ? 'table' THEN 'rows/' || (w->>'table') ELSE 'objects/' || (w->>'bucket') END)
          FROM jsonb_array_elements(p_writes) w ORDER BY 1
    LOOP
        PERFORM pg_advisory_xact_lock_shared(v_lock);
    END LOOP;
    names := '{}';
    code := 'accepted';
    FOR v_write IN SELECT w FROM jsonb_array_elements(p_writes) w LOOP
        v_name := NULL;
        BEGIN
            IF v_write ? 'bucket' THEN
                v_name := fence.object_name(v_write->>'bucket', v_write->>'key');
                code := CASE WHEN v_name.lease IS NULL THEN 'not-found' ELSE 'accepted' END;
            ELSE
                SELECT * INTO v_binding FROM fence.protected p WHERE p.kind = 'table' AND p.name = v_write->>'table' AND p.prefix = '';
                PERFORM FROM pg_class c WHERE c.oid = (v_write->>'relation')::oid AND c.xmin::text = v_write->>'shape';
                code := CASE WHEN v_binding.version IS NULL THEN 'not-found'
                             WHEN v_binding.version <> (v_write->>'version')::bigint OR NOT FOUND THEN 'binding-changed'
                             ELSE 'accepted' END;
                IF code = 'accepted' THEN
                    v_name := fence.row_name(v_binding, ARRAY(SELECT part FROM jsonb_array_elements_text(v_write->'key') part));
                END IF;
            END IF;
        EXCEPTION WHEN data_exception OR SQLSTATE 'FG008' THEN
            code := SQLERRM;
        END;
        IF code <> 'accepted' THEN
            names := array_append(names, v_name);
            RETURN;
        END IF;
        names := array_append(names, v_name);
    END LOOP;
END $$;
-- +goose StatementEnd

-- Whether one of a commit's marks carries its digest. It is answered as durably as it says, as in fence.admit_resource.
-- +goose StatementBegin
CREATE FUNCTION fence.commit_replayed(p_names fence.name[], p_writes jsonb, p_principal text, p_digest bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM unnest(p_names) WITH ORDINALITY u(resource, lease, pos) JOIN jsonb_array_elements(p_writes) WITH ORDINALITY w(value, pos) ON w.pos = u.pos
             JOIN fence.marks m ON m.resource = u.resource
            WHERE m.token = (w.value->>'token')::bigint AND m.principal = p_principal AND m.digest = p_digest;
    IF FOUND THEN
        PERFORM pg_current_xact_id(), pg_logical_emit_message(true, 'fencegate', '');
        RETURN true;
    END IF;
    RETURN false;
END $$;
-- +goose StatementEnd

-- Admits all writes of a commit, or none: the row of the write that was refused is then the only one, and the marks that were raised
-- for others are undone. slot is the write's place, from 1. Locks are taken in one order each: of bindings, of leases, and
-- the marks in the order of their names, so that commits do not wait for each other in circles. One mark that carries the
-- commit's digest makes the whole a replay. Two codes beside the rule's and fence.admit_row's: bad-key, with what is wrong in holder,
-- and duplicate.
-- +goose StatementBegin
CREATE FUNCTION fence.admit_commit(p_writes jsonb, p_principal text, p_digest bytea) RETURNS TABLE (slot integer, verdict fence.verdict)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_names    fence.name[];
    v_code     text;
    v_lock     bigint;
    v_write    record;
    v_slots    integer[] := '{}';
    v_verdicts fence.verdict[] := '{}';
BEGIN
    PERFORM fence.require_read_committed();
    SELECT c.names, c.code INTO v_names, v_code FROM fence.commit_names(p_writes) c;
    IF v_code <> 'accepted' THEN
        slot := cardinality(v_names);
        verdict.code := CASE WHEN v_code IN ('not-found', 'binding-changed') THEN v_code ELSE 'bad-key' END;
        verdict.holder := v_code;
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT n.pos INTO slot FROM (SELECT u.pos, row_number() OVER (PARTITION BY u.resource COLLATE "C" ORDER BY u.pos) AS nth
                                   FROM unnest(v_names) WITH ORDINALITY u(resource, lease, pos)) n WHERE n.nth > 1 ORDER BY n.pos LIMIT 1;
    IF FOUND THEN
        verdict.code := 'duplicate';
        verdict.resource := v_names[slot].resource;
        RETURN NEXT;
        RETURN;
    END IF;
    -- A write whose grant is not good is refused before anything is locked: no grant that comes later makes its token good, and the locks of
    -- a thousand leases are not to be had for one grant.
    SELECT u.pos, u.resource, u.lease, (w.value->>'token')::bigint AS token INTO v_write
      FROM unnest(v_names) WITH ORDINALITY u(resource, lease, pos) JOIN jsonb_array_elements(p_writes) WITH ORDINALITY w(value, pos) ON w.pos = u.pos
           LEFT JOIN fence.grants g ON g.lease = u.lease
     WHERE fence.decide_grant(g, (w.value->>'token')::bigint, p_principal) <> 'accepted'
     ORDER BY u.pos LIMIT 1;
    IF FOUND THEN
        slot := v_write.pos;
        verdict := fence.resource_state(v_write.resource, v_write.lease, v_write.token, p_principal);
        IF fence.commit_replayed(v_names, p_writes, p_principal, p_digest) THEN
            verdict.code := 'replayed';
        END IF;
        RETURN NEXT;
        RETURN;
    END IF;
    FOR v_lock IN SELECT DISTINCT fence.lease_lock(u.lease) FROM unnest(v_names) u ORDER BY 1 LOOP
        PERFORM pg_advisory_xact_lock_shared(v_lock);
    END LOOP;
    BEGIN
        FOR v_write IN
            SELECT u.pos::integer AS pos, u.resource, u.lease, (w.value->>'token')::bigint AS token,
                   CASE WHEN jsonb_typeof(w.value->'match') = 'array' THEN ARRAY(SELECT m::bigint FROM jsonb_array_elements_text(w.value->'match') m) END AS match,
                   CASE WHEN jsonb_typeof(w.value->'none_match') = 'array' THEN ARRAY(SELECT m::bigint FROM jsonb_array_elements_text(w.value->'none_match') m) END AS none_match
              FROM unnest(v_names) WITH ORDINALITY u(resource, lease, pos) JOIN jsonb_array_elements(p_writes) WITH ORDINALITY w(value, pos) ON w.pos = u.pos
             ORDER BY u.resource COLLATE "C"
        LOOP
            slot := v_write.pos;
            verdict := fence.admit_resource(v_write.resource, v_write.lease, v_write.token, p_principal, p_digest, v_write.match, v_write.none_match);
            IF verdict.code <> 'accepted' THEN
                RAISE SQLSTATE 'FG018' USING MESSAGE = 'refused';
            END IF;
            v_slots := array_append(v_slots, slot);
            v_verdicts := array_append(v_verdicts, verdict);
        END LOOP;
        PERFORM set_config('fence.admitted', '', true);
        FOR i IN 1..cardinality(v_slots) LOOP
            slot := v_slots[i];
            verdict := v_verdicts[i];
            RETURN NEXT;
        END LOOP;
        RETURN;
    EXCEPTION WHEN SQLSTATE 'FG018' THEN
        NULL;
    END;
    -- The marks are as they were. A replay is told apart from here on only: the writes that are repeated may have been under way.
    IF fence.commit_replayed(v_names, p_writes, p_principal, p_digest) THEN
        verdict.code := 'replayed';
    END IF;
    RETURN NEXT;
END $$;
-- +goose StatementEnd

-- Publishes the upload that an admitted write of a commit names, with the headers that came with it. FG012 when it is not pending, not
-- whole, or another principal's. Else as fence.put_object.
-- +goose StatementBegin
CREATE FUNCTION fence.put_upload(p_bucket text, p_key text, p_token bigint, p_blob uuid, p_principal text,
    p_exists boolean, p_absent boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_blob fence.blobs;
    v_new  boolean;
BEGIN
    SELECT * INTO v_blob FROM fence.blobs b WHERE b.id = p_blob AND b.principal = p_principal AND b.size IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no such upload of this principal' USING ERRCODE = 'FG012';
    END IF;
    PERFORM set_config('fence.admitted', p_token || ' objects/' || p_bucket || '/' || p_key, true);
    v_new := fence.put_object(p_bucket, p_key, p_token, p_blob, v_blob.size, v_blob.sha256, v_blob.header, p_exists, p_absent);
    RETURN coalesce(v_new, fence.undo(0));
END $$;
-- +goose StatementEnd

-- fence.delete_object for a write of a commit.
-- +goose StatementBegin
CREATE FUNCTION fence.delete_committed(p_bucket text, p_key text, p_token bigint, p_absent boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('fence.admitted', p_token || ' objects/' || p_bucket || '/' || p_key, true);
    RETURN coalesce(fence.delete_object(p_bucket, p_key, p_token, p_absent), fence.undo(0));
END $$;
-- +goose StatementEnd

-- The name of a table's own resource, on which inserts with generated keys spend their tokens, and of its lease. The lease must be
-- the same for every row: a key that is not known yet cannot choose one.
-- +goose StatementBegin
CREATE FUNCTION fence.table_resource(p_binding fence.protected) RETURNS fence.name LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_name fence.name;
BEGIN
    IF position('{' IN p_binding.template) > 0 THEN
        RAISE EXCEPTION 'the lease of a row of % depends on its key (%): name the key', p_binding.name, p_binding.template
              USING ERRCODE = 'FG008', HINT = 'PUT the row under its key.';
    END IF;
    v_name.resource := 'rows/' || p_binding.name;
    v_name.lease := fence.lease_name(p_binding.template, '{}', '{}');
    RETURN v_name;
END $$;
-- +goose StatementEnd

-- Admits an insert into a table, on the table's own resource. made is the key of the row that a replayed insert made. Codes as in fence.admit_row.
-- +goose StatementBegin
CREATE FUNCTION fence.admit_insert(p_table text, p_version bigint, p_relation oid, p_shape text, p_token bigint, p_principal text, p_digest bytea,
    p_match bigint[], p_none_match bigint[], OUT verdict fence.verdict, OUT made text[]) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_binding fence.protected;
    v_name    fence.name;
BEGIN
    PERFORM fence.require_read_committed();
    v_binding := fence.table_binding(p_table);
    IF v_binding.version IS NULL OR v_binding.version <> p_version THEN
        verdict.code := CASE WHEN v_binding.version IS NULL THEN 'not-found' ELSE 'binding-changed' END;
        RETURN;
    END IF;
    PERFORM FROM pg_class c WHERE c.oid = p_relation AND c.xmin::text = p_shape;
    IF NOT FOUND THEN
        verdict.code := 'binding-changed';
        RETURN;
    END IF;
    -- Whatever the template has become: what was done is told.
    SELECT m.made, m.token, m.principal, m.written_at, m.created, m.lease, m.resource
      INTO made, verdict.mark, verdict.marked_by, verdict.written_at, verdict.created, verdict.lease, verdict.resource
      FROM fence.marks m WHERE m.resource = 'rows/' || p_table AND m.token = p_token AND m.principal = p_principal AND m.digest = p_digest;
    IF FOUND THEN
        PERFORM pg_current_xact_id(), pg_logical_emit_message(true, 'fencegate', '');
        verdict.code := 'replayed';
        RETURN;
    END IF;
    v_name := fence.table_resource(v_binding);
    verdict := fence.admit_resource(v_name.resource, v_name.lease, p_token, p_principal, p_digest, p_match, p_none_match);
    IF verdict.code = 'replayed' THEN
        SELECT m.made INTO made FROM fence.marks m WHERE m.resource = v_name.resource;
    END IF;
END $$;
-- +goose StatementEnd

-- Raises the mark of the row that an admitted insert is about to make, whose key stands in the setting fence.made, as a JSON array.
-- Mark first, here too; the row's lease is the table's. False when nothing was admitted.
-- +goose StatementBegin
CREATE FUNCTION fence.admit_made(p_table text, p_token bigint, p_principal text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_binding fence.protected;
    v_parts   text[];
    v_name    fence.name;
    v         fence.verdict;
BEGIN
    IF current_setting('fence.admitted', true) IS DISTINCT FROM p_token || ' rows/' || p_table OR NOT fence.admitted(p_token) THEN
        RETURN false;  -- the mark decides, as in fence.admitted
    END IF;
    SELECT * INTO v_binding FROM fence.protected p WHERE p.kind = 'table' AND p.name = p_table AND p.prefix = '';
    v_parts := ARRAY(SELECT part FROM json_array_elements_text(current_setting('fence.made')::json) part);
    v_name := fence.row_name(v_binding, v_parts);
    v := fence.admit_resource(v_name.resource, v_name.lease, p_token, p_principal, NULL, NULL, NULL);
    IF v.code <> 'accepted' THEN
        RAISE EXCEPTION 'the row % was written with token % before', v_name.resource, v.mark
              USING ERRCODE = CASE v.code WHEN 'spent-token' THEN 'FG002' ELSE 'FG001' END;
    END IF;
    UPDATE fence.marks m SET made = v_parts, created = true WHERE m.resource = 'rows/' || p_table;
    RETURN true;
END $$;
-- +goose StatementEnd

-- fence.row_state of a table's own resource.
-- +goose StatementBegin
CREATE FUNCTION fence.table_state(p_table text, p_version bigint, p_token bigint, p_principal text) RETURNS fence.verdict
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
    v_name := fence.table_resource(v_binding);
    RETURN fence.resource_state(v_name.resource, v_name.lease, p_token, p_principal);
END $$;
-- +goose StatementEnd

-- Tells gateways, once the transaction has committed, that what they know of tables is out of date.
-- +goose StatementBegin
CREATE FUNCTION fence.tell_catalogue() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_notify('fencegate_catalogue', '');
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER tell_catalogue AFTER INSERT OR UPDATE OR DELETE ON fence.protected FOR EACH STATEMENT EXECUTE FUNCTION fence.tell_catalogue();

-- The same of changes to the tables themselves, where the one who migrates may say so: event triggers are a superuser's.
-- +goose StatementBegin
CREATE FUNCTION fence.tell_ddl() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_notify('fencegate_catalogue', '');
EXCEPTION WHEN OTHERS THEN
    NULL;  -- whatever it is, it must not keep anybody from changing a table
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    CREATE EVENT TRIGGER fencegate_ddl ON ddl_command_end
        WHEN TAG IN ('ALTER TABLE', 'ALTER VIEW', 'CREATE VIEW', 'ALTER DOMAIN', 'ALTER TYPE', 'CREATE TRIGGER', 'CREATE POLICY', 'ALTER POLICY')
        EXECUTE FUNCTION fence.tell_ddl();
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'no right to create an event trigger: gateways learn of changed tables when a statement fails, or within seconds';
END $$;
-- +goose StatementEnd

-- What a write that was carried out before is answered, when what it asks for cannot be asked for any more: nothing, or a replay.
-- +goose StatementBegin
CREATE FUNCTION fence.replayed_row(p_table text, p_parts text[], p_token bigint, p_principal text, p_digest bytea) RETURNS fence.verdict
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v         fence.verdict;
    v_binding fence.protected;
    v_name    fence.name;
BEGIN
    SELECT * INTO v_binding FROM fence.protected p WHERE p.kind = 'table' AND p.name = p_table AND p.prefix = '';
    v_name := fence.row_name(v_binding, p_parts);
    v := fence.resource_state(v_name.resource, v_name.lease, NULL, p_principal);
    PERFORM FROM fence.marks m WHERE m.resource = v_name.resource AND m.token = p_token AND m.principal = p_principal AND m.digest = p_digest;
    v.code := CASE WHEN FOUND THEN 'replayed' ELSE 'stale-token' END;
    IF v.code = 'replayed' THEN
        PERFORM pg_current_xact_id(), pg_logical_emit_message(true, 'fencegate', '');
    END IF;
    RETURN v;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION fence.commit_names, fence.commit_replayed, fence.admit_commit, fence.put_upload, fence.delete_committed, fence.replayed_row,
    fence.table_resource, fence.admit_insert, fence.admit_made, fence.table_state, fence.tell_catalogue, fence.tell_ddl FROM PUBLIC;

-- What the statement that changes the data asks, under whatever role it runs. They tell of the own transaction alone.
GRANT USAGE ON SCHEMA fence TO PUBLIC;
GRANT EXECUTE ON FUNCTION fence.admitted(bigint), fence.undo(bigint), fence.note_created(), fence.note_created(text),
    fence.canonical(text, text), fence.canonical_setting(text, text) TO PUBLIC;
