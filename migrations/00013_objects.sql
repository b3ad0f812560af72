-- Objects in full: options of a bucket, versions that are kept, bodies that several objects share, lists, and objects that lie in the
-- bucket under their own keys.
-- +goose Up

-- What is set for the keys below a bucket's prefix: keep (an interval: how long a superseded body is kept), redirect, existing and
-- deletes. See fence.set_options.
ALTER TABLE fence.protected ADD COLUMN options jsonb NOT NULL DEFAULT '{}';

-- token is the mark under which the present state was published, 0 for one that was imported. etag is what the S3 front answers for it,
-- null for one that was not put there.
ALTER TABLE fence.objects ADD COLUMN token bigint NOT NULL DEFAULT 0, ADD COLUMN etag text;
UPDATE fence.objects o SET token = m.token FROM fence.marks m WHERE m.resource = 'objects/' || o.bucket || '/' || o.key;

-- Several objects and versions may refer to one blob.
DROP INDEX fence.objects_blob;
CREATE INDEX objects_blob ON fence.objects (blob) WHERE blob IS NOT NULL;
CREATE INDEX objects_live ON fence.objects (bucket, key) WHERE NOT deleted;
CREATE INDEX objects_deleted ON fence.objects (bucket, key) WHERE deleted;

-- A former state of an object: a body, or that it was deleted (blob is null). token is the mark under which it was published.
CREATE TABLE fence.versions (
    bucket        text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    token         bigint      NOT NULL,
    blob          uuid REFERENCES fence.blobs,
    size          bigint,
    sha256        bytea,
    etag          text,
    header        jsonb,
    modified_at   timestamptz NOT NULL,
    superseded_at timestamptz NOT NULL,
    superseded_by bigint      NOT NULL,
    keep_until    timestamptz NOT NULL,
    PRIMARY KEY (bucket, key, token)
);
CREATE INDEX versions_blob ON fence.versions (blob) WHERE blob IS NOT NULL;
CREATE INDEX versions_until ON fence.versions (keep_until);

-- Of a blob that is stored in parts: the store's name for it, and the key and token of the write that publishes it. Of one that the
-- client puts into the store itself: that it lies under its staging key still. etag is what the store says of a blob.
ALTER TABLE fence.blobs ADD COLUMN upload text, ADD COLUMN key text COLLATE "C", ADD COLUMN token bigint, ADD COLUMN staged boolean NOT NULL DEFAULT false,
    ADD COLUMN etag text;
CREATE INDEX blobs_parts ON fence.blobs (bucket, key, id) WHERE state = 'pending' AND upload IS NOT NULL;

-- What a blob holds.
CREATE TYPE fence.body AS (blob uuid, size bigint, sha256 bytea, etag text, header jsonb);

-- The options of the longest protected prefix of a key; null when none is. In PL/pgSQL, which keeps its plans.
-- +goose StatementBegin
CREATE FUNCTION fence.bucket_options(p_bucket text, p_key text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT p.options FROM fence.protected p
             WHERE p.kind = 'bucket' AND p.name = p_bucket AND pg_catalog.starts_with(p_key, p.prefix)
             ORDER BY pg_catalog.octet_length(p.prefix) DESC LIMIT 1);
END $$;
-- +goose StatementEnd

-- Sets options of a protected prefix; one that is null goes back to its default. Leases do not depend on them, so that nobody is waited for.
-- +goose StatementBegin
CREATE FUNCTION fence.set_options(p_bucket text, p_prefix text, p_options jsonb) RETURNS jsonb LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_name    text;
    v_value   jsonb;
    v_options jsonb;
BEGIN
    FOR v_name, v_value IN SELECT e.key, e.value FROM jsonb_each(p_options) e LOOP
        CONTINUE WHEN v_value = 'null';
        IF v_name = 'keep' THEN
            BEGIN
                IF (v_value #>> '{}')::interval NOT BETWEEN '0s' AND '3650 days' THEN
                    RAISE EXCEPTION USING ERRCODE = 'invalid_datetime_format';
                END IF;
            EXCEPTION WHEN data_exception THEN
                RAISE EXCEPTION 'keep is a time of up to 3650 days, not %', v_value USING ERRCODE = 'FG008';
            END;
        ELSIF v_name IN ('redirect', 'existing') AND jsonb_typeof(v_value) <> 'boolean' THEN
            RAISE EXCEPTION '% is true or false, not %', v_name, v_value USING ERRCODE = 'FG008';
        ELSIF v_name = 'deletes' AND v_value NOT IN ('"refuse"', '"lease"') THEN
            RAISE EXCEPTION 'deletes is refuse or lease, not %', v_value USING ERRCODE = 'FG008';
        ELSIF v_name NOT IN ('redirect', 'existing', 'deletes') THEN
            RAISE EXCEPTION 'a bucket has no option %', v_name USING ERRCODE = 'FG008';
        END IF;
    END LOOP;
    UPDATE fence.protected p SET options = jsonb_strip_nulls(p.options || p_options)
     WHERE p.kind = 'bucket' AND p.name = p_bucket AND p.prefix = p_prefix RETURNING p.options INTO v_options;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the bucket % is not protected%', p_bucket, CASE WHEN p_prefix = '' THEN '' ELSE ' below ' || p_prefix END USING ERRCODE = 'FG007';
    END IF;
    RETURN v_options;
END $$;
-- +goose StatementEnd

-- Makes garbage of a blob that nothing refers to any more. Whoever makes a new reference to a blob holds the same lock.
-- +goose StatementBegin
CREATE FUNCTION fence.drop_reference(p_blob uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_blob IS NULL THEN
        RETURN;
    END IF;
    PERFORM FROM fence.blobs b WHERE b.id = p_blob FOR NO KEY UPDATE;
    -- A statement of its own, which sees what the lock has waited for.
    UPDATE fence.blobs b SET state = 'garbage', state_at = clock_timestamp()
     WHERE b.id = p_blob AND b.state = 'committed'
       AND NOT EXISTS (SELECT FROM fence.objects o WHERE o.blob = p_blob) AND NOT EXISTS (SELECT FROM fence.versions v WHERE v.blob = p_blob);
END $$;
-- +goose StatementEnd

-- Sets an object's state, keeps the former one as a version where that is wanted, and tells whether there was a body before. p_body is
-- null for a delete. p_natural says that the bucket has an object under the key itself, which counts until the key is first written. Raises
-- FG013 when a condition on the object's existence does not hold.
-- +goose StatementBegin
CREATE FUNCTION fence.flip(p_bucket text, p_key text, p_token bigint, p_body fence.body, p_natural boolean, p_exists boolean, p_absent boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_old  fence.objects;
    v_had  boolean;
    v_keep interval;
BEGIN
    LOOP
        SELECT * INTO v_old FROM fence.objects o WHERE o.bucket = p_bucket AND o.key = p_key FOR UPDATE;
        v_had := CASE WHEN v_old.key IS NULL THEN p_natural ELSE v_old.blob IS NOT NULL END;
        IF (p_exists AND NOT v_had) OR (p_absent AND v_had) THEN
            RAISE EXCEPTION 'the object % exist', CASE WHEN v_had THEN 'does' ELSE 'does not' END USING ERRCODE = 'FG013';
        END IF;
        IF p_body.blob IS NULL AND NOT v_had THEN
            RETURN false;
        END IF;
        EXIT WHEN v_old.key IS NOT NULL;
        INSERT INTO fence.objects (bucket, key, blob, size, sha256, etag, header, deleted, modified_at, token)
        VALUES (p_bucket, p_key, p_body.blob, p_body.size, p_body.sha256, p_body.etag, p_body.header, p_body.blob IS NULL, clock_timestamp(), p_token)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN v_had;
        END IF;
        -- It was imported in between.
    END LOOP;
    UPDATE fence.objects o SET blob = p_body.blob, size = p_body.size, sha256 = p_body.sha256, etag = p_body.etag, header = p_body.header,
           deleted = p_body.blob IS NULL, modified_at = clock_timestamp(), token = p_token
     WHERE o.bucket = p_bucket AND o.key = p_key;
    v_keep := fence.bucket_options(p_bucket, p_key) ->> 'keep';
    IF v_keep > '0s' THEN
        INSERT INTO fence.versions (bucket, key, token, blob, size, sha256, etag, header, modified_at, superseded_at, superseded_by, keep_until)
        VALUES (p_bucket, p_key, v_old.token, v_old.blob, v_old.size, v_old.sha256, v_old.etag, v_old.header, v_old.modified_at,
                clock_timestamp(), p_token, clock_timestamp() + v_keep)
        ON CONFLICT DO NOTHING;
    END IF;
    PERFORM fence.drop_reference(v_old.blob);
    RETURN v_had;
END $$;
-- +goose StatementEnd

-- Publishes a blob whose intent is pending (FG012), so that one that was given up can never be published, under an admitted write. Returns
-- null when nothing was admitted, else whether the object is new.
-- +goose StatementBegin
CREATE FUNCTION fence.publish(p_bucket text, p_key text, p_token bigint, p_body fence.body, p_natural boolean, p_exists boolean, p_absent boolean)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_had boolean;
BEGIN
    IF fence.admitted(p_token) IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    UPDATE fence.blobs b SET state = 'committed', state_at = clock_timestamp() WHERE b.id = p_body.blob AND b.state = 'pending';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the upload was given up' USING ERRCODE = 'FG012';
    END IF;
    v_had := fence.flip(p_bucket, p_key, p_token, p_body, p_natural, p_exists, p_absent);
    IF NOT v_had THEN
        PERFORM fence.note_created();
    END IF;
    RETURN NOT v_had;
END $$;
-- +goose StatementEnd

-- What programs of before call.
CREATE OR REPLACE FUNCTION fence.put_object(p_bucket text, p_key text, p_token bigint, p_blob uuid, p_size bigint, p_sha256 bytea, p_header jsonb,
    p_exists boolean, p_absent boolean) RETURNS boolean LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT fence.publish(p_bucket, p_key, p_token, ROW(p_blob, p_size, p_sha256, NULL, p_header)::fence.body, false, p_exists, p_absent)
$$;

-- Hides the object of an admitted delete (FG010 when there is none). Returns null when nothing was admitted.
-- +goose StatementBegin
CREATE FUNCTION fence.hide(p_bucket text, p_key text, p_token bigint, p_natural boolean, p_absent boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF fence.admitted(p_token) IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    IF NOT fence.flip(p_bucket, p_key, p_token, NULL, p_natural, false, p_absent) THEN
        RETURN fence.undo(0);
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd

CREATE OR REPLACE FUNCTION fence.delete_object(p_bucket text, p_key text, p_token bigint, p_absent boolean) RETURNS boolean LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT fence.hide(p_bucket, p_key, p_token, false, p_absent)
$$;

-- Points an object, under an admitted write, to the body of another one (p_from_token 0), or to one of its versions (-1 is what was
-- imported, which no token published). FG018 when there is none. p_header replaces the headers; null keeps them. Returns null when nothing was
-- admitted, else whether the object is new.
-- +goose StatementBegin
CREATE FUNCTION fence.copy_object(p_bucket text, p_key text, p_token bigint, p_from_bucket text, p_from_key text, p_from_token bigint, p_header jsonb,
    p_natural boolean, p_exists boolean, p_absent boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_body fence.body;
    v_had  boolean;
BEGIN
    IF fence.admitted(p_token) IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    LOOP
        SELECT s.blob, s.size, s.sha256, s.etag, s.header INTO v_body
          FROM (SELECT o.blob, o.size, o.sha256, o.etag, o.header, o.token FROM fence.objects o WHERE o.bucket = p_from_bucket AND o.key = p_from_key
                UNION ALL
                SELECT v.blob, v.size, v.sha256, v.etag, v.header, v.token FROM fence.versions v
                 WHERE v.bucket = p_from_bucket AND v.key = p_from_key AND v.token = greatest(p_from_token, 0) AND p_from_token <> 0) s
         WHERE s.blob IS NOT NULL AND (p_from_token = 0 OR s.token = greatest(p_from_token, 0)) LIMIT 1;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no %objects/%/% to copy', CASE WHEN p_from_token = 0 THEN '' ELSE 'version ' || greatest(p_from_token, 0) || ' of ' END, p_from_bucket, p_from_key
                  USING ERRCODE = 'FG018';
        END IF;
        -- Held until the new reference is committed; a blob that became garbage meanwhile is not the object's any more.
        PERFORM FROM fence.blobs b WHERE b.id = v_body.blob AND b.state = 'committed' FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
    v_body.header := coalesce(p_header, v_body.header);
    v_had := fence.flip(p_bucket, p_key, p_token, v_body, p_natural, p_exists, p_absent);
    IF NOT v_had THEN
        PERFORM fence.note_created();
    END IF;
    RETURN NOT v_had;
END $$;
-- +goose StatementEnd

-- The same for a write of a commit, which was admitted with the others.
-- +goose StatementBegin
CREATE FUNCTION fence.copy_committed(p_bucket text, p_key text, p_token bigint, p_from_bucket text, p_from_key text, p_from_token bigint, p_header jsonb,
    p_natural boolean, p_exists boolean, p_absent boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('fence.admitted', p_token || ' objects/' || p_bucket || '/' || p_key, true);
    RETURN coalesce(fence.copy_object(p_bucket, p_key, p_token, p_from_bucket, p_from_key, p_from_token, p_header, p_natural, p_exists, p_absent), fence.undo(0));
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION fence.hide_committed(p_bucket text, p_key text, p_token bigint, p_natural boolean, p_absent boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('fence.admitted', p_token || ' objects/' || p_bucket || '/' || p_key, true);
    RETURN coalesce(fence.hide(p_bucket, p_key, p_token, p_natural, p_absent), fence.undo(0));
END $$;
-- +goose StatementEnd

-- Publishes an upload of the principal's for a write of a commit, as fence.put_upload does. It was stored for the bucket p_stored.
-- p_natural as in fence.flip.
-- +goose StatementBegin
CREATE FUNCTION fence.publish_upload(p_bucket text, p_key text, p_token bigint, p_blob uuid, p_stored text, p_principal text, p_natural boolean,
    p_exists boolean, p_absent boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_blob fence.blobs;
BEGIN
    SELECT * INTO v_blob FROM fence.blobs b WHERE b.id = p_blob AND b.bucket = p_stored AND b.principal = p_principal AND b.size IS NOT NULL AND NOT b.staged AND b.upload IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no such upload of this principal' USING ERRCODE = 'FG012';
    END IF;
    PERFORM set_config('fence.admitted', p_token || ' objects/' || p_bucket || '/' || p_key, true);
    RETURN coalesce(fence.publish(p_bucket, p_key, p_token, ROW(p_blob, v_blob.size, v_blob.sha256, v_blob.etag, v_blob.header)::fence.body,
        p_natural, p_exists, p_absent), fence.undo(0));
END $$;
-- +goose StatementEnd

-- Lists what the ledger has of a bucket, in the order of the keys' bytes: objects, and with a delimiter the groups of keys that have it
-- behind the prefix. p_after is where it begins: behind this key, or group.
-- +goose StatementBegin
CREATE FUNCTION fence.list_objects(p_bucket text, p_prefix text, p_delimiter text, p_after text, p_limit integer)
RETURNS TABLE (name text, grouped boolean, size bigint, sha256 bytea, etag text, token bigint, modified_at timestamptz, content_type text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- No key is behind this one, of 1028 bytes. An end that could be null would not bound the index in a plan for any end.
    v_end   text COLLATE "C" := coalesce(fence.prefix_end(p_prefix), repeat(chr(1114111), 257));
    v_after text COLLATE "C" := greatest(p_after COLLATE "C", '');
    v_from  text COLLATE "C" := p_prefix;
    v_found integer := 0;
    v_chunk integer := 1;
    v_at    integer;
    v_row   record;
    v_more  boolean;
BEGIN
    IF p_delimiter <> '' AND starts_with(p_after, p_prefix) AND right(substr(p_after, length(p_prefix) + 1), length(p_delimiter)) = p_delimiter THEN
        v_from := fence.prefix_end(p_after);
    END IF;
    IF p_delimiter = '' THEN
        v_chunk := p_limit;
    END IF;
    WHILE v_found < p_limit AND v_from IS NOT NULL LOOP
        v_more := false;
        FOR v_row IN SELECT o.* FROM fence.objects o
                      WHERE o.bucket = p_bucket AND NOT o.deleted AND o.key >= v_from AND o.key > v_after AND o.key < v_end
                      ORDER BY o.key LIMIT v_chunk LOOP
            v_more := true;
            v_found := v_found + 1;
            v_after := v_row.key;
            v_at := CASE WHEN p_delimiter = '' THEN 0 ELSE position(p_delimiter IN substr(v_row.key, length(p_prefix) + 1)) END;
            name := v_row.key; grouped := v_at > 0;
            IF grouped THEN
                -- What else begins like this is passed over.
                name := left(v_row.key, length(p_prefix) + v_at + length(p_delimiter) - 1);
                v_from := fence.prefix_end(name);
                size := NULL; sha256 := NULL; etag := NULL; token := NULL; modified_at := NULL; content_type := NULL;
                RETURN NEXT;
                v_chunk := 1;
                EXIT;
            END IF;
            size := v_row.size; sha256 := v_row.sha256; etag := v_row.etag; token := v_row.token; modified_at := v_row.modified_at;
            content_type := v_row.header ->> 'content_type';
            RETURN NEXT;
            EXIT WHEN v_found = p_limit;
        END LOOP;
        EXIT WHEN NOT v_more;
        v_chunk := least(2 * v_chunk, p_limit);
    END LOOP;
END $$;
-- +goose StatementEnd

-- The first text, in the order of bytes, behind all that begin with the prefix; null when there is none.
-- +goose StatementBegin
CREATE FUNCTION fence.prefix_end(p_prefix text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_prefix text := p_prefix;
    v_last   integer;
BEGIN
    WHILE v_prefix <> '' LOOP
        v_last := ascii(right(v_prefix, 1));
        v_prefix := left(v_prefix, -1);
        IF v_last < 1114111 THEN
            RETURN v_prefix || chr(CASE WHEN v_last = 55295 THEN 57344 ELSE v_last + 1 END);  -- 0xD800 to 0xDFFF are no characters
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Takes an object that lies in the bucket under its key into the ledger, unless the key was written before: its mark stays 0. False
-- when it was.
-- +goose StatementBegin
CREATE FUNCTION fence.import_object(p_bucket text, p_key text, p_body fence.body, p_modified_at timestamptz) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM pg_advisory_xact_lock_shared(fence.binding_lock('objects/' || p_bucket));
    IF (fence.object_name(p_bucket, p_key)).lease IS NULL THEN
        RAISE EXCEPTION 'nothing protects objects/%/%', p_bucket, p_key USING ERRCODE = 'FG007';
    END IF;
    IF EXISTS (SELECT FROM fence.marks m WHERE m.resource = 'objects/' || p_bucket || '/' || p_key) THEN
        RETURN false;
    END IF;
    INSERT INTO fence.objects (bucket, key, blob, size, sha256, etag, header, deleted, modified_at, token)
    VALUES (p_bucket, p_key, p_body.blob, p_body.size, p_body.sha256, p_body.etag, p_body.header, false, p_modified_at, 0)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE fence.blobs b SET state = 'committed', state_at = clock_timestamp() WHERE b.id = p_body.blob AND b.state = 'pending';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the upload was given up' USING ERRCODE = 'FG012';
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd

-- Forgets versions that are kept no longer, at most p_limit of them, and returns how many.
-- +goose StatementBegin
CREATE FUNCTION fence.expire_versions(p_limit integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_blobs uuid[];
    v_count integer;
BEGIN
    PERFORM fence.require_read_committed();
    WITH old AS (SELECT v.bucket, v.key, v.token FROM fence.versions v WHERE v.keep_until < now() ORDER BY v.keep_until LIMIT p_limit FOR UPDATE SKIP LOCKED),
         gone AS (DELETE FROM fence.versions v USING old WHERE v.bucket = old.bucket AND v.key = old.key AND v.token = old.token RETURNING v.blob)
    SELECT count(*), array_agg(DISTINCT g.blob ORDER BY g.blob) FILTER (WHERE g.blob IS NOT NULL) INTO v_count, v_blobs FROM gone g;
    PERFORM fence.drop_reference(b) FROM unnest(v_blobs) b;  -- in one order
    RETURN v_count;
END $$;
-- +goose StatementEnd

-- As in 00002, without a look for the pieces of a template that has none: this is a good part of what a short statement takes.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fence.lease_name(p_template text, p_names text[], p_values text[]) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_piece text[];
    v_name  text := '';
    v_bytes bytea;
    v_cut   integer;
BEGIN
    IF cardinality(p_names) = 1 AND position('{key:' IN p_template) = 0 THEN
        v_name := replace(p_template, '{' || p_names[1] || '}', p_values[1]);  -- one pass: nothing is expanded twice
    ELSE
        FOR v_piece IN SELECT regexp_matches(p_template, '\{([^{}]+)\}|([^{}]+)', 'g') LOOP
            IF v_piece[1] IS NULL THEN
                v_name := v_name || v_piece[2];
            ELSIF v_piece[1] ~ '^key:[1-9][0-9]?$' AND p_names = ARRAY['key'] THEN
                v_name := v_name || split_part(p_values[1], '/', substr(v_piece[1], 5)::integer);
            ELSE
                v_name := v_name || p_values[array_position(p_names, v_piece[1])];
            END IF;
        END LOOP;
    END IF;
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

-- As in all of the schema: nobody but the owner, until it is granted.
REVOKE ALL ON FUNCTION fence.bucket_options, fence.set_options, fence.drop_reference, fence.flip, fence.publish, fence.hide, fence.copy_object, fence.copy_committed,
    fence.hide_committed, fence.publish_upload, fence.list_objects, fence.prefix_end, fence.import_object, fence.expire_versions FROM PUBLIC;
