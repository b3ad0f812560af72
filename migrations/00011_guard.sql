-- Guarded tables: triggers that refuse what was not admitted. Views with a declared key. Protection can be taken away.
-- +goose Up

-- declared: the key was named by whoever protected it; that is so for views, which have no primary key.
ALTER TABLE fence.protected ADD COLUMN guarded boolean NOT NULL DEFAULT false, ADD COLUMN declared boolean NOT NULL DEFAULT false;

-- Every relation with which one may share rows: what a view reads, up to the roots of their families, and all that is below these.
-- A view that PostgreSQL updates by itself has the rows of one relation, the first that its query names; of another view, and of
-- one in which triggers write, it is not known which of the relations that it reads it changes. Like the others that fence.admit
-- calls it is plpgsql, which keeps its plans.
-- +goose StatementBegin
CREATE FUNCTION fence.footprint(p_oid oid) RETURNS oid[] LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_base oid[] := ARRAY[p_oid];
BEGIN
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = p_oid AND c.relkind = 'v') THEN
        WITH RECURSIVE base(oid) AS (
                 SELECT p_oid
                 UNION
                 SELECT c.oid
                   FROM base JOIN pg_rewrite r ON r.ev_class = base.oid AND r.ev_type = '1' AND r.rulename = '_RETURN'
                        CROSS JOIN LATERAL (
                            SELECT d.refobjid FROM pg_depend d
                             WHERE d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> r.ev_class
                               AND (pg_relation_is_updatable(r.ev_class, false) = 0
                                    OR d.refobjid = (SELECT m.named[1]::oid FROM regexp_matches(r.ev_action::text, ':relid (\d+)', 'g') WITH ORDINALITY m(named, pos)
                                                      WHERE m.named[1]::oid NOT IN (0, r.ev_class) ORDER BY m.pos LIMIT 1))) d
                        JOIN pg_class c ON c.oid = d.refobjid AND c.relkind IN ('r', 'p', 'v', 'm', 'f'))
        SELECT array_agg(oid) INTO v_base FROM base;
    END IF;
    RETURN ARRAY(WITH RECURSIVE up(oid) AS (SELECT unnest(v_base) UNION SELECT i.inhparent FROM pg_inherits i JOIN up ON i.inhrelid = up.oid),
                      family(oid) AS (SELECT oid FROM up UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON i.inhparent = f.oid)
                 SELECT oid FROM family);
END $$;
-- +goose StatementEnd

-- The protected relation, other than the one itself, with which it may share rows: they would have two names.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.protected_relative(p_oid oid) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_family oid[] := fence.footprint(p_oid);
BEGIN
    RETURN (SELECT p.name FROM fence.protected p
             WHERE p.kind = 'table' AND to_regclass(p.name) <> p_oid
               AND (to_regclass(p.name) = ANY (v_family) OR p.declared AND fence.footprint(to_regclass(p.name)) && v_family)
             LIMIT 1);
END $$;
-- +goose StatementEnd

-- The key of a relation: a table's primary key, or the columns that were declared for a view, with their types. A type is null
-- where equal values can differ as text; columns is null when there is no such key.
-- +goose StatementBegin
CREATE FUNCTION fence.key_of(p_oid oid, p_declared text[], OUT columns text[], OUT types text[]) LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    SELECT array_agg(k.attname::text ORDER BY i.pos), array_agg(fence.key_type(k.atttypid, k.attcollation) ORDER BY i.pos) INTO columns, types
      FROM (SELECT u.attnum, u.pos FROM pg_index x, unnest(x.indkey) WITH ORDINALITY u(attnum, pos)
             WHERE p_declared IS NULL AND x.indrelid = p_oid AND x.indisprimary AND u.pos <= x.indnkeyatts
             UNION ALL
            SELECT a.attnum, u.pos FROM pg_class c, unnest(p_declared) WITH ORDINALITY u(name, pos), pg_attribute a
             WHERE c.oid = p_oid AND c.relkind = 'v' AND a.attrelid = p_oid AND a.attname = u.name AND a.attnum > 0 AND NOT a.attisdropped) i
      JOIN pg_attribute k ON k.attrelid = p_oid AND k.attnum = i.attnum;
END $$;
-- +goose StatementEnd

-- Whether a relation still is as it was when it was protected: its key has the same columns and types, and no relative of it
-- is protected. One that was altered does not exist until it is protected again. With the rights of the owner, so that roles which could
-- call it before go on: it calls new functions.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.as_protected(p fence.protected) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_oid oid := to_regclass(p.name);
    v_key record := fence.key_of(v_oid, CASE WHEN p.declared THEN p.key_columns END);
BEGIN
    RETURN p.key_columns = v_key.columns AND p.key_types = v_key.types AND fence.protected_relative(v_oid) IS NULL;
END $$;
-- +goose StatementEnd

-- Protects a relation, or changes its template or key; returns the binding's version, which stays when nothing changes. Waits for
-- the writes that are under way with the old template: when it returns, the new one is in force everywhere (I2).
-- +goose StatementBegin
CREATE FUNCTION fence.protect_relation(p_relation text, p_template text, p_key text[]) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    v_table    text := fence.table_name(p_relation);
    v_oid      oid  := to_regclass(v_table);
    v_class    pg_class;
    v_now      fence.protected;
    v_key      record;
    v_relative text;
BEGIN
    PERFORM fence.require_read_committed();
    SELECT * INTO v_class FROM pg_class c WHERE c.oid = v_oid;
    IF v_oid IS NULL OR v_table <> format('%I.%I', (SELECT n.nspname FROM pg_namespace n WHERE n.oid = v_class.relnamespace), v_class.relname) THEN
        -- A name that PostgreSQL cuts to 63 bytes would be a second name of the same rows.
        RAISE EXCEPTION 'there is no table %', v_table USING ERRCODE = 'FG007';
    END IF;
    IF v_class.relkind NOT IN ('r', 'p', 'v') OR v_class.relnamespace IN (SELECT n.oid FROM pg_namespace n WHERE n.nspname IN ('fence', 'pg_catalog', 'information_schema')) THEN
        RAISE EXCEPTION '% is not a table or view that can be protected', v_table USING ERRCODE = 'FG008';
    END IF;
    -- Two relations that share rows would give one row two names. One protect at a time, so that two relatives
    -- cannot be protected at once.
    PERFORM pg_advisory_xact_lock(fence.binding_lock('protect'));
    SELECT * INTO v_now FROM fence.protected p WHERE p.kind = 'table' AND p.name = v_table AND p.prefix = '';
    IF v_class.relkind <> 'v' AND p_key IS NOT NULL THEN
        RAISE EXCEPTION '% is a table, whose key is its primary key: a key is declared for a view only', v_table USING ERRCODE = 'FG008';
    END IF;
    IF v_class.relkind = 'v' THEN
        p_key := coalesce(p_key, CASE WHEN v_now.declared THEN v_now.key_columns END, '{}');
        PERFORM fence.check_view(v_table, v_oid, p_key);
    END IF;
    SELECT k.columns, k.types,
           (SELECT a.attname FROM pg_attribute a WHERE a.attrelid = v_oid AND a.attname = ANY (k.columns) AND a.attgenerated <> '' LIMIT 1) AS generated
      INTO v_key FROM fence.key_of(v_oid, p_key) k;
    IF v_key.columns IS NULL THEN
        RAISE EXCEPTION '% cannot be protected: it has no primary key', v_table USING ERRCODE = 'FG008';
    END IF;
    IF array_position(v_key.types, NULL) IS NOT NULL THEN
        RAISE EXCEPTION '% cannot be protected: the key column % is %, whose equal values can differ as text', v_table,
              v_key.columns[array_position(v_key.types, NULL)],
              (SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE a.attrelid = v_oid AND a.attname = v_key.columns[array_position(v_key.types, NULL)])
              USING ERRCODE = 'FG008';
    END IF;
    IF v_key.generated IS NOT NULL THEN
        RAISE EXCEPTION '% cannot be protected: the key column % is generated from others', v_table, v_key.generated USING ERRCODE = 'FG008';
    END IF;
    PERFORM fence.check_template(p_template, v_key.columns);
    v_relative := fence.protected_relative(v_oid);
    IF v_relative IS NOT NULL THEN
        RAISE EXCEPTION '% cannot be protected: its rows are protected as %', v_table, v_relative USING ERRCODE = 'FG008';
    END IF;
    IF v_now.template = p_template AND v_now.key_columns = v_key.columns AND v_now.key_types = v_key.types AND v_now.declared = (p_key IS NOT NULL) THEN
        IF v_now.guarded AND EXISTS (SELECT FROM fence.guard_gaps(v_oid, true)) THEN
            PERFORM fence.make_guard(v_now);
        END IF;
        RETURN v_now.version;
    END IF;
    PERFORM pg_advisory_xact_lock(fence.binding_lock('rows/' || v_table));
    INSERT INTO fence.protected AS p (kind, name, template, key_columns, key_types, declared)
    VALUES ('table', v_table, p_template, v_key.columns, v_key.types, p_key IS NOT NULL)
    ON CONFLICT (kind, name, prefix) DO UPDATE SET template = excluded.template, key_columns = excluded.key_columns,
           key_types = excluded.key_types, declared = excluded.declared, guarded = p.guarded AND NOT excluded.declared,
           version = nextval('fence.binding_versions')
    RETURNING * INTO v_now;
    IF v_now.guarded THEN
        PERFORM fence.make_guard(v_now);
    END IF;
    RETURN v_now.version;
END $$;
-- +goose StatementEnd

-- Refuses a view that cannot be protected by the key that was declared for it.
-- +goose StatementBegin
CREATE FUNCTION fence.check_view(p_view text, p_oid oid, p_key text[]) RETURNS void LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_column text;
BEGIN
    IF p_key = '{}' THEN
        RAISE EXCEPTION '% is a view, which has no primary key: declare the columns that name its rows', p_view
              USING ERRCODE = 'FG008', HINT = 'fencegate protect … --key id, or SELECT fence.protect_view(view, template, ''{id}'').';
    END IF;
    FOREACH v_column IN ARRAY p_key LOOP
        IF v_column IS NULL OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = p_oid AND a.attname = v_column AND a.attnum > 0 AND NOT a.attisdropped) THEN
            RAISE EXCEPTION '% has no column %', p_view, coalesce(v_column, 'null') USING ERRCODE = 'FG008', COLUMN = coalesce(v_column, '');
        END IF;
    END LOOP;
    IF cardinality(p_key) <> (SELECT count(DISTINCT k) FROM unnest(p_key) k) OR array_ndims(p_key) <> 1 THEN
        RAISE EXCEPTION 'the key of % names a column twice', p_view USING ERRCODE = 'FG008';
    END IF;
    IF pg_relation_is_updatable(p_oid, true) & 28 <> 28 THEN  -- the bits of UPDATE, INSERT and DELETE
        RAISE EXCEPTION '% cannot be protected: it cannot be updated, inserted into and deleted from', p_view
              USING ERRCODE = 'FG008', HINT = 'A view of one table can be; one of another kind needs INSTEAD OF triggers for all three.';
    END IF;
END $$;
-- +goose StatementEnd

-- Protects a table, or changes its template, or that of a view whose key was declared before.
CREATE OR REPLACE FUNCTION fence.protect(p_relation text, p_template text) RETURNS bigint LANGUAGE sql
AS $$ SELECT fence.protect_relation(p_relation, p_template, NULL) $$;

-- Protects a view, whose rows are named by the columns of p_key. That no two rows have the same is for its maker to see to: a write
-- that would change two is undone.
CREATE FUNCTION fence.protect_view(p_view text, p_template text, p_key text[]) RETURNS bigint LANGUAGE sql
AS $$ SELECT fence.protect_relation(p_view, p_template, coalesce(p_key, '{}')) $$;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.protect_bucket(p_bucket text, p_prefix text, p_template text) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_version bigint;
BEGIN
    PERFORM fence.require_read_committed();
    IF coalesce(p_bucket, '') !~ '^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$' OR p_bucket ~ '\.\.' THEN
        RAISE EXCEPTION 'a bucket name has 3 to 63 characters of a-z, 0-9, . and -, and begins and ends with a letter or digit' USING ERRCODE = 'FG008';
    END IF;
    IF octet_length(p_prefix) > 1024 OR p_prefix IS NULL THEN
        RAISE EXCEPTION 'a prefix has at most 1024 bytes' USING ERRCODE = 'FG008';
    END IF;
    PERFORM fence.check_template(p_template, ARRAY['key']);
    SELECT p.version INTO v_version FROM fence.protected p
     WHERE p.kind = 'bucket' AND p.name = p_bucket AND p.prefix = p_prefix AND p.template = p_template;
    IF FOUND THEN
        RETURN v_version;
    END IF;
    PERFORM pg_advisory_xact_lock(fence.binding_lock('objects/' || p_bucket));
    INSERT INTO fence.protected AS p (kind, name, prefix, template) VALUES ('bucket', p_bucket, p_prefix, p_template)
    ON CONFLICT (kind, name, prefix) DO UPDATE SET template = excluded.template, version = nextval('fence.binding_versions')
    RETURNING p.version INTO v_version;
    RETURN v_version;
END $$;
-- +goose StatementEnd

-- Takes the protection of a table or view away, and its guard with it; false when it had none. Waits like fence.protect. The marks
-- stay: protected again, the rows go on from them.
-- +goose StatementBegin
CREATE FUNCTION fence.unprotect(p_relation text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_table text := fence.table_name(p_relation);
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM pg_advisory_xact_lock(fence.binding_lock('protect'));
    PERFORM pg_advisory_xact_lock(fence.binding_lock('rows/' || v_table));
    PERFORM fence.drop_guard(to_regclass(v_table)) FROM fence.protected p WHERE p.kind = 'table' AND p.name = v_table AND p.guarded;
    DELETE FROM fence.protected p WHERE p.kind = 'table' AND p.name = v_table;
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- The same for a bucket, or the keys below a prefix of it: these are protected by a shorter prefix from then on, if there is one.
-- +goose StatementBegin
CREATE FUNCTION fence.unprotect_bucket(p_bucket text, p_prefix text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM pg_advisory_xact_lock(fence.binding_lock('objects/' || p_bucket));
    DELETE FROM fence.protected p WHERE p.kind = 'bucket' AND p.name = p_bucket AND p.prefix = p_prefix;
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- The text of a time, as the row's name has it.
CREATE FUNCTION fence.key_text(p_value anyelement) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$ SELECT p_value::text $$;

-- The expression for the text of a key column, as the row's name has it whatever the session's settings: fence.canonical for a
-- value that is there. p_type is the key's type, p_column an expression.
CREATE FUNCTION fence.key_expression(p_type text, p_column text) RETURNS text LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT format(CASE p_type
               WHEN 'numeric' THEN 'pg_catalog.trim_scale(%1$s::%2$s)::pg_catalog.text'
               WHEN 'inet'    THEN 'pg_catalog.format(''%%s'', %1$s::%2$s)'
               WHEN 'bytea'   THEN '(''\x'' OPERATOR(pg_catalog.||) pg_catalog.encode(%1$s::%2$s, ''hex''))'
               -- An enum, by its output function: a cast of its owner's would run with the rights of whoever asks.
               ELSE CASE WHEN position('.' IN p_type) > 0 THEN 'pg_catalog.format(''%%s'', %1$s::%2$s)'
                         WHEN p_type ~ '^(date|time|timestamp)( |$)' THEN 'fence.key_text(%1$s::%2$s)'
                         ELSE '%1$s::%2$s::pg_catalog.text' END END,
           p_column, p_type)
$$;

-- +goose StatementBegin
CREATE FUNCTION fence.escape_key(p_key text[]) RETURNS text LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT string_agg(fence.escape(k), ',' ORDER BY i) FROM unnest(p_key) WITH ORDINALITY parts(k, i));
END $$;
-- +goose StatementEnd

-- Whether this transaction has not been admitted for a row: what the triggers of a guarded table ask for each. A mark counts that
-- was raised by this very transaction, which has held the lease's lock since then. Transactions count anew on another server, so
-- that the mark of another can have the number of this one; it is older then. A clock that was set back refuses, and never
-- admits. Anybody may ask: the answer tells of what the asker's own transaction did. It has no search_path of its own, for a
-- setting costs time with each row, so everything in it is named in full.
-- +goose StatementBegin
CREATE FUNCTION fence.unadmitted(p_relation regclass, p_table text, p_key text[]) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_key pg_catalog.text := p_key[1];
BEGIN
    IF v_key COLLATE pg_catalog."C" OPERATOR(pg_catalog.!~) '^[A-Za-z0-9._~-]+$' OR pg_catalog.cardinality(p_key) OPERATOR(pg_catalog.>) 1 THEN
        v_key := fence.escape_key(p_key);
    END IF;
    PERFORM FROM fence.marks m
      WHERE m.resource OPERATOR(pg_catalog.=) pg_catalog.concat('rows/', p_table, '/', v_key)
        AND m.xid OPERATOR(pg_catalog.=) pg_catalog.pg_current_xact_id_if_assigned()
        AND m.written_at OPERATOR(pg_catalog.>=) pg_catalog.transaction_timestamp();
    RETURN NOT FOUND OR (pg_catalog.to_regclass(p_table)::pg_catalog.oid OPERATOR(pg_catalog.=) p_relation::pg_catalog.oid) IS NOT TRUE;
END $$;
-- +goose StatementEnd

-- What the triggers do. The argument is the name by which the table was protected.
-- +goose StatementBegin
CREATE FUNCTION fence.refuse_unadmitted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_table   constant text := TG_ARGV[0];
    v_hint    text := 'Protect and guard it again: fencegate protect TABLE --lease TEMPLATE --guard.';
    v_binding fence.protected;
    v_roots   oid[];
    v_keys    text[];
    v_parts   text[];
    v_name    fence.name;
BEGIN
    WITH RECURSIVE up(oid) AS (SELECT TG_RELID UNION SELECT i.inhparent FROM pg_inherits i JOIN up ON i.inhrelid = up.oid)
    SELECT array_agg(up.oid) INTO v_roots FROM up
      JOIN pg_trigger g ON g.tgrelid = up.oid AND g.tgname = 'fence_guard_insert' AND g.tgparentid = 0 AND g.tgfoid = 'fence.refuse_unadmitted'::regproc;
    IF v_roots IS NULL THEN
        RETURN NULL;  -- a partition that was detached keeps its triggers for statements, and is guarded no more
    END IF;
    SELECT * INTO v_binding FROM fence.protected p WHERE p.kind = 'table' AND p.name = v_table AND p.prefix = '';
    IF fence.as_protected(v_binding) IS NOT TRUE OR to_regclass(v_table) <> ALL (v_roots) THEN
        RAISE EXCEPTION '% on %: it is guarded as %, and was renamed, or its key altered, since then', TG_OP, TG_RELID::regclass, v_table
              USING ERRCODE = 'FG016', HINT = v_hint;
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'TRUNCATE of %: it is guarded, and tokens are for rows', v_table
              USING ERRCODE = 'FG017', HINT = 'Delete the rows that were admitted, or take the guard away: fencegate protect TABLE --unguard.';
    END IF;
    v_hint := format('Call SELECT fence.admit(%L, KEY, TOKEN) for each row before, in the same transaction.', v_table);
    IF TG_LEVEL = 'STATEMENT' THEN
        RAISE EXCEPTION '% on %, which is guarded: no row was admitted in this transaction', TG_OP, v_table
              USING ERRCODE = 'FG016', HINT = v_hint, SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
                    DETAIL = json_build_object('code', 'unadmitted', 'table', v_table)::text;
    END IF;
    SELECT array_agg(fence.key_expression(k.type, format('($1).%I', k.name)) ORDER BY k.pos)
      INTO v_keys FROM unnest(v_binding.key_columns, v_binding.key_types) WITH ORDINALITY k(name, type, pos);
    IF TG_OP <> 'INSERT' THEN
        EXECUTE format('SELECT ARRAY[%s]', array_to_string(v_keys, ', ')) INTO v_parts USING OLD;
    END IF;
    IF TG_OP = 'INSERT' OR TG_OP = 'UPDATE' AND NOT fence.unadmitted(to_regclass(v_table), v_table, v_parts) THEN
        EXECUTE format('SELECT ARRAY[%s]', array_to_string(v_keys, ', ')) INTO v_parts USING NEW;
    END IF;
    BEGIN
        v_name := fence.row_name(v_binding, v_parts);
    EXCEPTION WHEN SQLSTATE 'FG008' THEN
        RAISE EXCEPTION '% on %, which is guarded: this row cannot be admitted: %', TG_OP, v_table, SQLERRM
              USING ERRCODE = 'FG016', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME;
    END;
    -- The key as fence.admit takes it.
    v_parts := ARRAY(SELECT fence.escape(k) FROM unnest(v_parts) WITH ORDINALITY parts(k, i) ORDER BY i);
    RAISE EXCEPTION '% on %, which is guarded: the row % was not admitted in this transaction', TG_OP, v_table, left(array_to_string(v_parts, ','), 200)
          USING ERRCODE = 'FG016', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
                HINT = replace(v_hint, 'KEY', quote_literal(array_to_string(v_parts, ','))),
                DETAIL = json_build_object('code', 'unadmitted', 'table', v_table, 'resource', v_name.resource, 'lease', v_name.lease)::text;
END $$;
-- +goose StatementEnd

-- The table and all below it: partitions, to which PostgreSQL clones triggers for rows but not those for statements, and tables
-- that inherit, to which it clones none.
CREATE FUNCTION fence.guarded_tree(p_root oid) RETURNS TABLE (relation oid, partition boolean) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE tree(oid) AS (SELECT p_root UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.oid)
    SELECT c.oid, c.relispartition AND c.oid <> p_root FROM tree JOIN pg_class c USING (oid)
$$;

-- Those of them that lack one of the five triggers, or have it disabled, as p_enabled says.
CREATE FUNCTION fence.guard_gaps(p_root oid, p_enabled boolean) RETURNS SETOF oid LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.relation FROM fence.guarded_tree(p_root) t
     WHERE 5 > (SELECT count(*) FROM pg_trigger g WHERE g.tgrelid = t.relation AND starts_with(g.tgname, 'fence_guard_')
                        AND g.tgfoid = 'fence.refuse_unadmitted'::regproc AND (g.tgenabled IN ('O', 'A') OR NOT p_enabled))
$$;

-- Makes the triggers of a guarded table, also those that are there: their conditions follow the key. A row is looked at after it was
-- written, since a trigger that comes before could still change its key; a condition holds no row back that was admitted. A
-- statement of a transaction that has done nothing yet is refused before it begins; a gateway's are let through, for its change
-- of a write that was refused, which finds no row, must not hide the refusal. Whoever takes its name gains nothing but that.
-- +goose StatementBegin
CREATE FUNCTION fence.make_guard(p fence.protected) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    v_ask  text := format('fence.unadmitted(%L::regclass, %L, ARRAY[%%s])', p.name, p.name);
    v_old  text;
    v_new  text;
    v_same text;
    t      record;
BEGIN
    PERFORM set_config('fence.making_guard', 'on', true);
    SELECT string_agg(fence.key_expression(k.type, 'OLD.' || quote_ident(k.name)), ', ' ORDER BY k.pos),
           string_agg(fence.key_expression(k.type, 'NEW.' || quote_ident(k.name)), ', ' ORDER BY k.pos),
           string_agg(format('OLD.%1$I IS DISTINCT FROM NEW.%1$I', k.name), ' OR ' ORDER BY k.pos)
      INTO v_old, v_new, v_same FROM unnest(p.key_columns, p.key_types) WITH ORDINALITY k(name, type, pos);
    v_old := format(v_ask, v_old);
    v_new := format(v_ask, v_new);
    FOR t IN SELECT format('%I.%I', n.nspname, c.relname) AS name, g.partition
               FROM fence.guarded_tree(to_regclass(p.name)) g JOIN pg_class c ON c.oid = g.relation JOIN pg_namespace n ON n.oid = c.relnamespace
    LOOP
        IF NOT t.partition THEN
            EXECUTE format('CREATE OR REPLACE TRIGGER fence_guard_insert AFTER INSERT ON %s FOR EACH ROW WHEN (%s)
                            EXECUTE FUNCTION fence.refuse_unadmitted(%L)', t.name, v_new, p.name);
            EXECUTE format('CREATE OR REPLACE TRIGGER fence_guard_update AFTER UPDATE ON %s FOR EACH ROW WHEN (%s OR (%s) AND %s)
                            EXECUTE FUNCTION fence.refuse_unadmitted(%L)', t.name, v_old, v_same, v_new, p.name);
            EXECUTE format('CREATE OR REPLACE TRIGGER fence_guard_delete AFTER DELETE ON %s FOR EACH ROW WHEN (%s)
                            EXECUTE FUNCTION fence.refuse_unadmitted(%L)', t.name, v_old, p.name);
        END IF;
        EXECUTE format('CREATE OR REPLACE TRIGGER fence_guard_statement BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT
                        WHEN (pg_current_xact_id_if_assigned() IS NULL AND current_setting(''application_name'') NOT LIKE ''fencegate%%'')
                        EXECUTE FUNCTION fence.refuse_unadmitted(%L)', t.name, p.name);
        EXECUTE format('CREATE OR REPLACE TRIGGER fence_guard_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT
                        EXECUTE FUNCTION fence.refuse_unadmitted(%L)', t.name, p.name);
    END LOOP;
    PERFORM set_config('fence.making_guard', '', true);
END $$;
-- +goose StatementEnd

-- Removes the triggers from a table and all below it, whatever made them.
-- +goose StatementBegin
CREATE FUNCTION fence.drop_guard(p_root oid) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT g.tgname, format('%I.%I', n.nspname, c.relname) AS name
               FROM fence.guarded_tree(p_root) r JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace n ON n.oid = c.relnamespace
                    JOIN pg_trigger g ON g.tgrelid = c.oid AND g.tgparentid = 0 AND g.tgfoid = 'fence.refuse_unadmitted'::regproc
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', t.tgname, t.name);
    END LOOP;
END $$;
-- +goose StatementEnd

-- Guards a protected table: from now on its rows change in transactions that were admitted for them, and in no others. Again does
-- no harm, and covers partitions that were added. Waits for the transactions that write to the table.
-- +goose StatementBegin
CREATE FUNCTION fence.guard(p_relation text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_table   text := fence.table_name(p_relation);
    v_binding fence.protected;
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM pg_advisory_xact_lock(fence.binding_lock('protect'));
    SELECT * INTO v_binding FROM fence.protected p WHERE p.kind = 'table' AND p.name = v_table AND p.prefix = '';
    IF fence.as_protected(v_binding) IS NOT TRUE THEN
        RAISE EXCEPTION '% is not protected, or its key was altered since: protect it first', v_table USING ERRCODE = 'FG007';
    END IF;
    IF v_binding.declared THEN
        RAISE EXCEPTION '% is a view: only a table can be guarded', v_table
              USING ERRCODE = 'FG008', HINT = 'Whoever may write to the tables below the view goes round it; grant rights on the view alone.';
    END IF;
    PERFORM fence.make_guard(v_binding);
    UPDATE fence.protected p SET guarded = true WHERE p.kind = 'table' AND p.name = v_table AND NOT p.guarded;
END $$;
-- +goose StatementEnd

-- Takes the guard away, also from a table that was renamed since, or detached. The table stays protected.
-- +goose StatementBegin
CREATE FUNCTION fence.unguard(p_relation text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_table text := fence.table_name(p_relation);
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM pg_advisory_xact_lock(fence.binding_lock('protect'));
    PERFORM fence.drop_guard(to_regclass(v_table));
    UPDATE fence.protected p SET guarded = false WHERE p.kind = 'table' AND p.name = v_table;
    IF NOT FOUND AND to_regclass(v_table) IS NULL THEN
        RAISE EXCEPTION 'there is no table %', v_table USING ERRCODE = 'FG007';
    END IF;
END $$;
-- +goose StatementEnd

-- Makes the triggers that guarded tables lack, such as those of partitions that were added, and returns for how many tables. One
-- that was disabled stays so: its owner wants it. What the ledger's owner lacks the right to do it warns of. p_changed limits it to
-- the tables that have one of these among them.
-- +goose StatementBegin
CREATE FUNCTION fence.refresh_guards(p_changed oid[] DEFAULT NULL) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_binding fence.protected;
    v_made    integer := 0;
BEGIN
    IF coalesce(current_setting('fence.making_guard', true), '') <> '' THEN
        RETURN 0;  -- called from within itself, by an event trigger
    END IF;
    FOR v_binding IN
        SELECT * FROM fence.protected p
         WHERE p.guarded AND (p_changed IS NULL OR EXISTS (SELECT FROM fence.guarded_tree(to_regclass(p.name)) t WHERE t.relation = ANY (p_changed)))
           AND EXISTS (SELECT FROM fence.guard_gaps(to_regclass(p.name), false))
    LOOP
        CONTINUE WHEN NOT fence.as_protected(v_binding);
        BEGIN
            PERFORM fence.make_guard(v_binding);
            v_made := v_made + 1;
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE WARNING 'the guard of % has gaps: %', v_binding.name, SQLERRM USING HINT = 'Call fence.guard again, as the owner of the table and of schema fence.';
        END;
    END LOOP;
    RETURN v_made;
END $$;
-- +goose StatementEnd

-- Where the one who migrates may say so, partitions that are made or attached are covered at once; event triggers are a superuser's. Tables
-- that have nothing to do with the command are left alone: to make a trigger locks its table to the end of the transaction.
-- +goose StatementBegin
CREATE FUNCTION fence.guard_ddl() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fence.refresh_guards(ARRAY(SELECT c.objid FROM pg_event_trigger_ddl_commands() c WHERE c.classid = 'pg_class'::regclass));
EXCEPTION WHEN OTHERS THEN
    -- It must not keep anybody from changing a table: rows of a partition are guarded without it too.
    RAISE WARNING 'guards could not be refreshed: %', SQLERRM USING HINT = 'Call fence.refresh_guards() later.';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    CREATE EVENT TRIGGER fencegate_guard ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE') EXECUTE FUNCTION fence.guard_ddl();
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'no right to create an event trigger: call fence.guard again when a guarded table gets a partition';
END $$;
-- +goose StatementEnd

-- What is protected and how it stands; state is '' when all is well.
CREATE FUNCTION fence.protections(OUT kind text, OUT name text, OUT prefix text, OUT template text, OUT key_columns text[], OUT view boolean,
    OUT guarded boolean, OUT state text)
RETURNS SETOF record LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.kind, p.name, p.prefix, p.template, p.key_columns, p.declared, p.guarded,
           CASE WHEN p.kind = 'bucket' THEN ''
                WHEN to_regclass(p.name) IS NULL THEN 'gone'
                WHEN fence.as_protected(p) IS NOT TRUE THEN 'altered'
                WHEN p.guarded AND EXISTS (SELECT FROM fence.guard_gaps(to_regclass(p.name), true)) THEN 'guard-gaps'
                ELSE '' END
      FROM fence.protected p ORDER BY p.kind DESC, p.name, p.prefix
$$;

-- fence.describe_table tells more than before; whoever had the right to call it keeps that.
-- +goose StatementBegin
DO $$ BEGIN
    PERFORM set_config('fence.rights', coalesce((SELECT p.proacl::text FROM pg_proc p WHERE p.oid = 'fence.describe_table(text)'::regprocedure), ''), true);
END $$;
-- +goose StatementEnd
DROP FUNCTION fence.describe_table(text);

-- What a writer of rows needs to know of a protected relation; no row when it is not protected. Types and defaults are qualified, so
-- that they mean the same under every search_path. Columns that the database generates are not settable, nor those
-- of a view that it could not hand on. nullable and default_exprs are those of the relation itself: a view's are not the base's.
-- +goose StatementBegin
CREATE FUNCTION fence.describe_table(p_relation text, OUT name text, OUT version bigint, OUT relation oid, OUT shape text,
    OUT key_columns text[], OUT key_types text[], OUT key_constraint text, OUT columns text[], OUT types text[], OUT settable boolean[], OUT base_types text[],
    OUT nullable boolean[], OUT has_default boolean[], OUT default_exprs text[], OUT labels jsonb, OUT comments text[], OUT comment text,
    OUT template text, OUT view boolean, OUT guarded boolean, OUT row_security boolean)
RETURNS SETOF record LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
    SELECT p.name, p.version, c.oid, c.xmin::text, p.key_columns, p.key_types,
           (SELECT k.conname FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p'),
           a.columns, a.types, a.settable, a.base_types, a.nullable, a.has_default, a.default_exprs, a.labels, a.comments, obj_description(c.oid, 'pg_class'),
           p.template, c.relkind = 'v', p.guarded, c.relrowsecurity
      FROM fence.protected p JOIN pg_class c ON c.oid = to_regclass(p.name),
           LATERAL (SELECT array_agg(b.attname::text ORDER BY b.attnum) AS columns,
                           array_agg(format_type(b.atttypid, b.atttypmod) ORDER BY b.attnum) AS types,
                           array_agg(b.settable ORDER BY b.attnum) AS settable,
                           array_agg(format_type(b.base, -1) ORDER BY b.attnum) AS base_types,
                           array_agg(NOT b.required ORDER BY b.attnum) AS nullable,
                           array_agg(b.default_expr IS NOT NULL ORDER BY b.attnum) AS has_default,
                           array_agg(b.default_expr ORDER BY b.attnum) AS default_exprs,
                           jsonb_agg((SELECT jsonb_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = b.base) ORDER BY b.attnum) AS labels,
                           array_agg(col_description(c.oid, b.attnum) ORDER BY b.attnum) AS comments
                      FROM (SELECT a.*, fence.base_type(a.atttypid) AS base, a.attnotnull OR t.typtype = 'd' AND t.typnotnull AS required,
                                   a.attgenerated = '' AND a.attidentity <> 'a'
                                     AND (c.relkind <> 'v' OR pg_column_is_updatable(c.oid, a.attnum, true)) AS settable,
                                   CASE WHEN a.attgenerated <> '' THEN NULL
                                        WHEN a.attidentity <> '' THEN format('nextval(%L::regclass)', pg_get_serial_sequence(p.name, a.attname))
                                        ELSE coalesce(pg_get_expr(d.adbin, d.adrelid), pg_get_expr(t.typdefaultbin, 0)) END AS default_expr
                              FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) b) a
     WHERE p.kind = 'table' AND p.prefix = '' AND p.name = fence.table_name(p_relation) AND a.columns IS NOT NULL AND fence.as_protected(p)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
DECLARE
    v_right record;
BEGIN
    REVOKE ALL ON FUNCTION fence.describe_table(text) FROM PUBLIC;
    IF current_setting('fence.rights') <> '' THEN
        FOR v_right IN SELECT x.grantee, x.is_grantable FROM aclexplode(current_setting('fence.rights')::aclitem[]) x
                        WHERE x.privilege_type = 'EXECUTE' AND x.grantee <> x.grantor AND x.grantee <> 0 LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION fence.describe_table(text) TO %s', v_right.grantee::regrole)
                    || CASE WHEN v_right.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END;
        END LOOP;
    END IF;
END $$;
-- +goose StatementEnd

-- As in all of the schema: nobody but the owner, until it is granted. The conditions of the triggers run as whoever writes.
REVOKE ALL ON FUNCTION fence.footprint, fence.key_of, fence.protect_relation, fence.check_view, fence.protect_view, fence.unprotect,
    fence.unprotect_bucket, fence.key_expression, fence.escape_key, fence.guarded_tree, fence.guard_gaps, fence.make_guard, fence.drop_guard,
    fence.refuse_unadmitted, fence.guard, fence.unguard, fence.refresh_guards, fence.guard_ddl, fence.protections FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fence.unadmitted, fence.key_text TO PUBLIC;
