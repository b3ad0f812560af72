-- Objects: a pointer from a key to a blob, flipped together with the mark.
-- +goose Up

-- The lease of an object: the longest protected prefix of the bucket wins. Null names when none is protected.
-- +goose StatementBegin
CREATE FUNCTION fence.object_name(p_bucket text, p_key text) RETURNS fence.name LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_name     fence.name;
    v_template text;
BEGIN
    SELECT p.template INTO v_template FROM fence.protected p
     WHERE p.kind = 'bucket' AND p.name = p_bucket AND starts_with(p_key, p.prefix)
     ORDER BY octet_length(p.prefix) DESC LIMIT 1;
    IF FOUND THEN
        v_name.resource := 'objects/' || p_bucket || '/' || p_key;
        v_name.lease := fence.lease_name(v_template, ARRAY['key'], ARRAY[p_key]);
    END IF;
    RETURN v_name;
END $$;
-- +goose StatementEnd

-- Admits a write to an object; not-found when nothing protects it.
-- +goose StatementBegin
CREATE FUNCTION fence.admit_object(p_bucket text, p_key text, p_token bigint, p_principal text, p_digest bytea,
    p_match bigint[], p_none_match bigint[]) RETURNS fence.verdict LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v      fence.verdict;
    v_name fence.name;
BEGIN
    PERFORM fence.require_read_committed();
    -- One lock for the whole bucket: a new prefix changes the lease of the keys below it.
    PERFORM pg_advisory_xact_lock_shared(fence.binding_lock('objects/' || p_bucket));
    v_name := fence.object_name(p_bucket, p_key);
    IF v_name.lease IS NULL THEN
        v.code := 'not-found';
        RETURN v;
    END IF;
    RETURN fence.admit_resource(v_name.resource, v_name.lease, p_token, p_principal, p_digest, p_match, p_none_match);
END $$;
-- +goose StatementEnd

-- What is known of an object's mark and grant, in the caller's snapshot. With a token, code is the grant's verdict.
-- +goose StatementBegin
CREATE FUNCTION fence.object_state(p_bucket text, p_key text, p_token bigint, p_principal text) RETURNS fence.verdict
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v      fence.verdict;
    v_name fence.name := fence.object_name(p_bucket, p_key);
BEGIN
    IF v_name.lease IS NULL THEN
        v.code := 'not-found';
        RETURN v;
    END IF;
    RETURN fence.resource_state(v_name.resource, v_name.lease, p_token, p_principal);
END $$;
-- +goose StatementEnd

-- Flips the pointer of an admitted write. The blob's intent is locked and must be pending (FG012), so a blob that was
-- given up can never be published. Returns null when nothing was admitted, else whether the object is new.
-- +goose StatementBegin
CREATE FUNCTION fence.put_object(p_bucket text, p_key text, p_token bigint, p_blob uuid, p_size bigint, p_sha256 bytea, p_header jsonb,
    p_exists boolean, p_absent boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_old     fence.objects;
    v_created boolean;
BEGIN
    IF fence.admitted(p_token) IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    PERFORM FROM fence.blobs b WHERE b.id = p_blob AND b.bucket = p_bucket AND b.state = 'pending' FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the upload was given up' USING ERRCODE = 'FG012';
    END IF;
    SELECT * INTO v_old FROM fence.objects o WHERE o.bucket = p_bucket AND o.key = p_key FOR UPDATE;
    v_created := v_old.blob IS NULL;
    IF (p_exists AND v_created) OR (p_absent AND NOT v_created) THEN
        RAISE EXCEPTION 'the object % exist', CASE WHEN v_created THEN 'does not' ELSE 'does' END USING ERRCODE = 'FG013';
    END IF;
    INSERT INTO fence.objects AS o (bucket, key, blob, size, sha256, header, deleted, modified_at)
    VALUES (p_bucket, p_key, p_blob, p_size, p_sha256, p_header, false, clock_timestamp())
    ON CONFLICT (bucket, key) DO UPDATE SET blob = excluded.blob, size = excluded.size, sha256 = excluded.sha256,
           header = excluded.header, deleted = false, modified_at = excluded.modified_at;
    UPDATE fence.blobs b SET state = 'committed', state_at = clock_timestamp() WHERE b.id = p_blob;
    UPDATE fence.blobs b SET state = 'garbage', state_at = clock_timestamp() WHERE b.id = v_old.blob;
    IF v_created THEN
        PERFORM fence.note_created();
    END IF;
    RETURN v_created;
END $$;
-- +goose StatementEnd

-- Hides the object of an admitted delete (FG010 when there is none). Returns null when nothing was admitted.
-- +goose StatementBegin
CREATE FUNCTION fence.delete_object(p_bucket text, p_key text, p_token bigint, p_absent boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_blob uuid;
BEGIN
    IF fence.admitted(p_token) IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    SELECT o.blob INTO v_blob FROM fence.objects o WHERE o.bucket = p_bucket AND o.key = p_key FOR UPDATE;
    IF v_blob IS NOT NULL AND p_absent THEN
        RAISE EXCEPTION 'the object does exist' USING ERRCODE = 'FG013';
    END IF;
    IF v_blob IS NULL THEN
        RETURN fence.undo(0);
    END IF;
    UPDATE fence.objects o SET blob = NULL, size = NULL, sha256 = NULL, header = NULL, deleted = true, modified_at = clock_timestamp()
     WHERE o.bucket = p_bucket AND o.key = p_key;
    UPDATE fence.blobs b SET state = 'garbage', state_at = clock_timestamp() WHERE b.id = v_blob;
    RETURN true;
END $$;
-- +goose StatementEnd
