-- Names: one resource has one name, and one lease (I2 would mean nothing otherwise). The gateway and SQL callers
-- derive them by these functions only. Functions without a search_path of their own are called by those that
-- have one (a setting costs time at each call), or name pg_catalog where another function could be a better match.
-- +goose Up

-- Every step that locks or decides runs at READ COMMITTED: an older snapshot would let a sealed token in.
-- +goose StatementBegin
CREATE FUNCTION fence.require_read_committed() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'fencegate works at READ COMMITTED only, this transaction is %', upper(current_setting('transaction_isolation'))
              USING ERRCODE = 'FG014';
    END IF;
END $$;
-- +goose StatementEnd

-- Lock keys have seeds of their own, so that they do not meet the user's advisory locks.
CREATE FUNCTION fence.lease_lock(p_lease text) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT pg_catalog.hashtextextended(p_lease, 4919130327486021) $$;

CREATE FUNCTION fence.binding_lock(p_binding text) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT pg_catalog.hashtextextended(p_binding, 4919130327486022) $$;

-- wallets, "a.b"."Reply" -> public.wallets, "a.b"."Reply": quoted as PostgreSQL quotes, where it needs it.
-- +goose StatementBegin
CREATE FUNCTION fence.table_name(p_relation text) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    v_parts text[];
BEGIN
    BEGIN
        v_parts := parse_ident(p_relation);
    EXCEPTION WHEN invalid_parameter_value THEN
        RAISE EXCEPTION 'not a table name: %', left(p_relation, 200)
              USING ERRCODE = 'FG007', HINT = 'Quote it as in SQL where it needs it: wallets, sales.orders, "a.b"."Reply".';
    END;
    IF cardinality(v_parts) = 1 THEN
        v_parts := ARRAY['public', v_parts[1]];
    END IF;
    IF cardinality(v_parts) <> 2 THEN
        RAISE EXCEPTION 'a table is named by table or schema.table, not by %', left(p_relation, 200) USING ERRCODE = 'FG007';
    END IF;
    RETURN format('%I.%I', v_parts[1], v_parts[2]);
END $$;
-- +goose StatementEnd

-- One value, one text: whatever the session's settings, whatever the spelling (042, +42, a uuid in capitals).
-- +goose StatementBegin
CREATE FUNCTION fence.canonical_setting(p_type text, p_value text) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres'
SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
DECLARE
    v_text text;
BEGIN
    IF p_value ~* '(?<![a-z])(now|today|tomorrow|yesterday)(?![a-z])' AND p_type ~ '^(date|time|timestamp)( |$)' THEN
        RAISE EXCEPTION '% names another value at each moment', p_value USING ERRCODE = 'FG008';
    END IF;
    EXECUTE format('SELECT CAST($1 AS %s)::text', p_type) INTO v_text USING p_value;
    RETURN v_text;
END $$;
-- +goose StatementEnd

-- The same, without the settings for the types that know none.
-- +goose StatementBegin
CREATE FUNCTION fence.canonical(p_type text, p_value text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    CASE p_type
        WHEN 'bigint'  THEN RETURN p_value::bigint::text;
        WHEN 'integer' THEN RETURN p_value::integer::text;
        WHEN 'text', 'character varying' THEN RETURN p_value;
        WHEN 'uuid'    THEN RETURN p_value::uuid::text;
        WHEN 'numeric' THEN RETURN trim_scale(p_value::numeric)::text;
        -- As in the row's JSON: without a mask that says nothing.
        WHEN 'inet'    THEN RETURN pg_catalog.format('%s', p_value::inet);
        ELSE RETURN fence.canonical_setting(p_type, p_value);
    END CASE;
END $$;
-- +goose StatementEnd

-- RFC 3986's unreserved characters stay, every other byte becomes %XX.
-- +goose StatementBegin
CREATE FUNCTION fence.escape(p_text text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_bytes bytea;
BEGIN
    IF p_text COLLATE "C" ~ '^[A-Za-z0-9._~-]*$' THEN
        RETURN p_text;
    END IF;
    v_bytes := convert_to(p_text, 'UTF8');
    RETURN (SELECT string_agg(CASE WHEN b BETWEEN 48 AND 57 OR b BETWEEN 65 AND 90 OR b BETWEEN 97 AND 122 OR b IN (45, 46, 95, 126)
                                   THEN chr(b) ELSE '%' || upper(lpad(to_hex(b), 2, '0')) END, '' ORDER BY i)
              FROM (SELECT i, get_byte(v_bytes, i) AS b FROM generate_series(0, octet_length(v_bytes) - 1) i) bytes);
END $$;
-- +goose StatementEnd

-- The reverse, strict: a % that is not followed by two hex digits is an error.
-- +goose StatementBegin
CREATE FUNCTION fence.unescape(p_text text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_out  bytea := '';
    v_part text;
    v_first boolean := true;
BEGIN
    IF position('%' IN p_text) = 0 THEN
        RETURN p_text;
    END IF;
    IF p_text ~ '%(?![0-9A-Fa-f]{2})' THEN
        RAISE EXCEPTION 'a %% in a key is followed by two hex digits, not so in %', left(p_text, 200) USING ERRCODE = 'FG008';
    END IF;
    FOREACH v_part IN ARRAY string_to_array(p_text, '%') LOOP
        IF v_first THEN
            v_out := convert_to(v_part, 'UTF8');
            v_first := false;
        ELSE
            v_out := v_out || decode(left(v_part, 2), 'hex') || convert_to(substr(v_part, 3), 'UTF8');
        END IF;
    END LOOP;
    RETURN convert_from(v_out, 'UTF8');
END $$;
-- +goose StatementEnd

-- A lease's name from a template: {id}, {order_id} for a row's key columns; {key}, {key:1} for an object's key.
-- +goose StatementBegin
CREATE FUNCTION fence.lease_name(p_template text, p_names text[], p_values text[]) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_piece text[];
    v_name  text := '';
    v_bytes bytea;
    v_cut   integer;
BEGIN
    IF cardinality(p_names) = 1 AND position('{key:' IN p_template) = 0 THEN
        v_name := replace(p_template, '{' || p_names[1] || '}', p_values[1]);  -- one pass: nothing is expanded twice
        p_template := '';
    END IF;
    FOR v_piece IN SELECT regexp_matches(p_template, '\{([^{}]+)\}|([^{}]+)', 'g') LOOP
        IF v_piece[1] IS NULL THEN
            v_name := v_name || v_piece[2];
        ELSIF v_piece[1] ~ '^key:[1-9][0-9]?$' AND p_names = ARRAY['key'] THEN
            v_name := v_name || split_part(p_values[1], '/', substr(v_piece[1], 5)::integer);
        ELSE
            v_name := v_name || p_values[array_position(p_names, v_piece[1])];
        END IF;
    END LOOP;
    IF v_name = '' THEN
        RAISE EXCEPTION 'the lease template gives no name for this key' USING ERRCODE = 'FG008', COLUMN = p_names[1];
    END IF;
    IF octet_length(v_name) <= 1024 AND v_name !~ '[\u0001-\u001f\u007f-\u009f]' THEN
        RETURN v_name;
    END IF;
    v_bytes := convert_to(v_name, 'UTF8');
    v_cut := least(900, octet_length(v_bytes));
    WHILE v_cut < octet_length(v_bytes) AND (get_byte(v_bytes, v_cut) & 192) = 128 LOOP
        v_cut := v_cut - 1;
    END LOOP;
    RETURN regexp_replace(convert_from(substr(v_bytes, 1, v_cut), 'UTF8'), '[\u0001-\u001f\u007f-\u009f]', '', 'g')
           || '~sha256:' || encode(sha256(v_bytes), 'hex');
END $$;
-- +goose StatementEnd

CREATE TYPE fence.name AS (resource text, lease text);

-- The name of a row and of its lease, from the binding and the decoded key parts.
-- +goose StatementBegin
CREATE FUNCTION fence.row_name(p_binding fence.protected, p_parts text[]) RETURNS fence.name LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_values text[] := '{}';
    v_name   fence.name;
    v_width  integer := cardinality(p_binding.key_columns);
BEGIN
    IF cardinality(p_parts) > v_width THEN
        RAISE EXCEPTION 'the key of % has % part(s): %', p_binding.name, v_width, array_to_string(p_binding.key_columns, ',')
              USING ERRCODE = 'FG008', HINT = 'A comma inside a part is written %2C.', COLUMN = p_binding.key_columns[v_width];
    END IF;
    v_name.resource := 'rows/' || p_binding.name || '/';
    FOR i IN 1..v_width LOOP
        IF coalesce(p_parts[i], '') = '' THEN
            RAISE EXCEPTION 'the key of % misses its part %', p_binding.name, p_binding.key_columns[i]
                  USING ERRCODE = 'FG008', COLUMN = p_binding.key_columns[i];
        END IF;
        v_values[i] := fence.canonical(p_binding.key_types[i], p_parts[i]);
        v_name.resource := v_name.resource || CASE WHEN i > 1 THEN ',' ELSE '' END || fence.escape(v_values[i]);
    END LOOP;
    IF octet_length(v_name.resource) > 2600 THEN
        RAISE EXCEPTION 'a resource name has at most 2600 bytes, this one has %', octet_length(v_name.resource) USING ERRCODE = 'FG008';
    END IF;
    v_name.lease := fence.lease_name(p_binding.template, p_binding.key_columns, v_values);
    RETURN v_name;
END $$;
-- +goose StatementEnd
