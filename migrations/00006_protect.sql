-- Protect: registers a table or a bucket with the template of its leases. Nothing in the table changes.
-- +goose Up

-- Refuses a template with a placeholder that is none of the names, with a stray brace, or that is empty.
-- +goose StatementBegin
CREATE FUNCTION fence.check_template(p_template text, p_names text[]) RETURNS void LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_name text;
BEGIN
    IF coalesce(p_template, '') = '' OR octet_length(p_template) > 1024 OR p_template ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        RAISE EXCEPTION 'a lease template has 1 to 1024 bytes and no control characters' USING ERRCODE = 'FG008';
    END IF;
    IF regexp_replace(p_template, '\{[^{}]+\}', '', 'g') ~ '[{}]' THEN
        RAISE EXCEPTION 'the lease template % has a brace without its partner', p_template USING ERRCODE = 'FG008';
    END IF;
    FOR v_name IN SELECT (regexp_matches(p_template, '\{([^{}]+)\}', 'g'))[1] LOOP
        IF v_name <> ALL (p_names) AND NOT (p_names = ARRAY['key'] AND v_name ~ '^key:[1-9][0-9]?$') THEN
            RAISE EXCEPTION 'the lease template % names {%}, which is not part of the key (%)', p_template, v_name, array_to_string(p_names, ', ')
                  USING ERRCODE = 'FG008';
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- The type below a domain, however deep.
-- +goose StatementBegin
CREATE FUNCTION fence.base_type(p_type oid) RETURNS oid LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_base oid;
BEGIN
    LOOP
        SELECT t.typbasetype INTO v_base FROM pg_type t WHERE t.oid = p_type AND t.typtype = 'd';
        IF NOT FOUND THEN
            RETURN p_type;
        END IF;
        p_type := v_base;
    END LOOP;
END $$;
-- +goose StatementEnd

-- The types whose equality is equality of the canonical text, or can be made so (numeric is trimmed).
-- +goose StatementBegin
CREATE FUNCTION fence.key_type(p_type oid, p_collation oid) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_type pg_type;
BEGIN
    SELECT * INTO v_type FROM pg_type t WHERE t.oid = fence.base_type(p_type);
    IF EXISTS (SELECT FROM pg_collation c WHERE c.oid = p_collation AND NOT c.collisdeterministic) THEN
        RETURN NULL;
    END IF;
    IF v_type.typtype = 'e' OR v_type.oid = ANY (ARRAY['int2', 'int4', 'int8', 'oid', 'numeric', 'text', 'varchar', 'bpchar', 'name', 'uuid', 'bool',
           'date', 'timestamp', 'timestamptz', 'time', 'timetz', 'bytea', 'inet', 'cidr', 'macaddr', 'macaddr8', 'bit', 'varbit']::regtype[]::oid[]) THEN
        RETURN format_type(v_type.oid, -1);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- The protected table, other than the relation itself, with which it may share rows: they would have two names.
CREATE FUNCTION fence.protected_relative(p_oid oid) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE up(oid) AS (SELECT p_oid UNION SELECT i.inhparent FROM pg_inherits i JOIN up ON i.inhrelid = up.oid),
         family(oid) AS (SELECT oid FROM up UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON i.inhparent = f.oid)
    SELECT p.name FROM family f JOIN fence.protected p ON p.kind = 'table' AND to_regclass(p.name) = f.oid WHERE f.oid <> p_oid LIMIT 1
$$;

-- Protects a table, or changes its template; returns the binding's version. Waits for the writes that are under way
-- with the old template: when it returns, the new one is in force everywhere (I2).
-- +goose StatementBegin
CREATE FUNCTION fence.protect(p_relation text, p_template text) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    v_table    text := fence.table_name(p_relation);
    v_oid      oid  := to_regclass(v_table);
    v_columns  text[] := '{}';
    v_types    text[] := '{}';
    v_col      record;
    v_version  bigint;
    v_relative text;
BEGIN
    PERFORM fence.require_read_committed();
    IF v_oid IS NULL OR v_table <> (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = v_oid) THEN
        -- A name that PostgreSQL cuts to 63 bytes would be a second name of the same rows.
        RAISE EXCEPTION 'there is no table %', v_table USING ERRCODE = 'FG007';
    END IF;
    IF (SELECT c.relkind NOT IN ('r', 'p') FROM pg_class c WHERE c.oid = v_oid)
       OR (SELECT n.nspname IN ('fence', 'pg_catalog', 'information_schema') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = v_oid) THEN
        RAISE EXCEPTION '% is not a table that can be protected', v_table USING ERRCODE = 'FG008';
    END IF;
    FOR v_col IN SELECT a.attname, a.attgenerated <> '' AS generated, fence.key_type(a.atttypid, a.attcollation) AS type, format_type(a.atttypid, a.atttypmod) AS shown
                   FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, pos), pg_attribute a
                  WHERE i.indrelid = v_oid AND i.indisprimary AND k.pos <= i.indnkeyatts AND a.attrelid = v_oid AND a.attnum = k.attnum
                  ORDER BY k.pos
    LOOP
        IF v_col.type IS NULL THEN
            RAISE EXCEPTION '% cannot be protected: the key column % is %, whose equal values can differ as text', v_table, v_col.attname, v_col.shown
                  USING ERRCODE = 'FG008';
        END IF;
        IF v_col.generated THEN
            RAISE EXCEPTION '% cannot be protected: the key column % is generated from others', v_table, v_col.attname USING ERRCODE = 'FG008';
        END IF;
        v_columns := v_columns || v_col.attname::text;
        v_types := v_types || v_col.type;
    END LOOP;
    IF v_columns = '{}' THEN
        RAISE EXCEPTION '% cannot be protected: it has no primary key', v_table USING ERRCODE = 'FG008';
    END IF;
    PERFORM fence.check_template(p_template, v_columns);
    -- Two relations that share rows would give one row two names. One protect at a time, so that two relatives
    -- cannot be protected at once.
    PERFORM pg_advisory_xact_lock(fence.binding_lock('protect'));
    v_relative := fence.protected_relative(v_oid);
    IF v_relative IS NOT NULL THEN
        RAISE EXCEPTION '% cannot be protected: its rows are protected as %', v_table, v_relative USING ERRCODE = 'FG008';
    END IF;
    PERFORM pg_advisory_xact_lock(fence.binding_lock('rows/' || v_table));
    INSERT INTO fence.protected AS p (kind, name, template, key_columns, key_types)
    VALUES ('table', v_table, p_template, v_columns, v_types)
    ON CONFLICT (kind, name, prefix) DO UPDATE SET template = excluded.template, key_columns = excluded.key_columns,
           key_types = excluded.key_types, version = nextval('fence.binding_versions')
    RETURNING p.version INTO v_version;
    RETURN v_version;
END $$;
-- +goose StatementEnd

-- Whether a table still is as it was when it was protected: its key has the same columns and types, and no relative of it
-- is protected. One that was altered does not exist until it is protected again.
CREATE FUNCTION fence.as_protected(p fence.protected) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT fence.protected_relative(to_regclass(p.name)) IS NULL
       AND (p.key_columns, p.key_types) = (SELECT array_agg(k.attname::text ORDER BY i.pos), array_agg(fence.key_type(k.atttypid, k.attcollation) ORDER BY i.pos)
              FROM pg_index x, unnest(x.indkey) WITH ORDINALITY i(attnum, pos), pg_attribute k
             WHERE x.indrelid = to_regclass(p.name) AND x.indisprimary AND i.pos <= x.indnkeyatts AND k.attrelid = x.indrelid AND k.attnum = i.attnum)
$$;

-- What a writer of rows needs to know of a protected table; no row when it is not protected. Types are qualified, so
-- that they mean the same under every search_path. Generated columns and identity columns GENERATED ALWAYS are not settable.
-- +goose StatementBegin
CREATE FUNCTION fence.describe_table(p_relation text, OUT name text, OUT version bigint, OUT relation oid, OUT shape text,
    OUT key_columns text[], OUT key_types text[], OUT key_constraint text, OUT columns text[], OUT types text[], OUT settable boolean[], OUT base_types text[])
RETURNS SETOF record LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.name, p.version, to_regclass(p.name)::oid, (SELECT c.xmin::text FROM pg_class c WHERE c.oid = to_regclass(p.name)), p.key_columns, p.key_types,
           (SELECT c.conname FROM pg_constraint c WHERE c.conrelid = to_regclass(p.name) AND c.contype = 'p'),
           a.columns, a.types, a.settable, a.base_types
      FROM fence.protected p,
           LATERAL (SELECT array_agg(a.attname::text ORDER BY a.attnum) AS columns,
                           array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum) AS types,
                           array_agg(a.attgenerated = '' AND a.attidentity <> 'a' ORDER BY a.attnum) AS settable,
                           array_agg(format_type(fence.base_type(a.atttypid), -1) ORDER BY a.attnum) AS base_types
                      FROM pg_attribute a
                     WHERE a.attrelid = to_regclass(p.name) AND a.attnum > 0 AND NOT a.attisdropped) a
     WHERE p.kind = 'table' AND p.prefix = '' AND p.name = fence.table_name(p_relation) AND a.columns IS NOT NULL AND fence.as_protected(p)
$$;
-- +goose StatementEnd

-- Protects a bucket, or the keys below a prefix of it, or changes their template.
-- +goose StatementBegin
CREATE FUNCTION fence.protect_bucket(p_bucket text, p_prefix text, p_template text) RETURNS bigint LANGUAGE plpgsql
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
    PERFORM pg_advisory_xact_lock(fence.binding_lock('objects/' || p_bucket));
    INSERT INTO fence.protected AS p (kind, name, prefix, template) VALUES ('bucket', p_bucket, p_prefix, p_template)
    ON CONFLICT (kind, name, prefix) DO UPDATE SET template = excluded.template, version = nextval('fence.binding_versions')
    RETURNING p.version INTO v_version;
    RETURN v_version;
END $$;
-- +goose StatementEnd

-- Nobody but the owner may call anything here, save fence.admit for members of fence_writer. Roles belong to the whole
-- server: another database's migration may have made it, or may be making it now.
-- +goose StatementBegin
DO $$
BEGIN
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fence FROM PUBLIC;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fence_writer') THEN
        BEGIN
            CREATE ROLE fence_writer NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'no right to create the role fence_writer: only this role can call fence.admit';
                RETURN;
        END;
    END IF;
    GRANT USAGE ON SCHEMA fence TO fence_writer;
    GRANT EXECUTE ON FUNCTION fence.admit(text, text, bigint) TO fence_writer;
END $$;
-- +goose StatementEnd
