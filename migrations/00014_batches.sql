-- Batches: writes of different requests, admitted in one transaction.
-- +goose Up

-- Whether a mark was raised by this very transaction. Its xid alone does not tell: that of a mark that was restored from a dump, or replicated, is
-- another cluster's. xmin is this one's, and it alone does not tell either: it counts in a circle. Inlined, so that it costs nothing.
CREATE FUNCTION fence.raised_now(p_xid xid8, p_xmin xid) RETURNS boolean LANGUAGE sql STABLE
AS $$ SELECT p_xid OPERATOR(pg_catalog.=) pg_catalog.pg_current_xact_id_if_assigned() AND p_xmin OPERATOR(pg_catalog.=) (pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.xid) $$;

-- Admits many writes of one transaction, of different resources, and says what became of each that was not simply accepted. It waits
-- for no lease and no binding: a write whose lock is not free at once is 'busy', and nothing was done for it. Item 0 tells when the
-- marks of those that are not in the answer were written; the others are writes by their place, from 1.
--
-- Each write names its binding by its place. A table's binding comes with what fence.admit_row checks, and its writes with
-- the names of resource and lease; a bucket's has no version, and the leases of its writes are found here. match and none_match
-- are arrays as text, null where the write has no such condition, and both all null where no write has; writes that have one are admitted one
-- by one.
--
-- The marks are raised in the order of their names, by the same rule as in fence.admit_resource and with the same effect: a row
-- that another write holds is waited for and looked at again. Plans are made once and for keys; p_plain says that no code of a table's owner
-- runs in the transaction, which keeps the settings for that.
-- +goose StatementBegin
CREATE FUNCTION fence.admit_batch(p_bindings text[], p_versions bigint[], p_relations oid[], p_shapes text[], p_lock_timeout integer, p_plain boolean,
    p_of integer[], p_resources text[], p_leases text[], p_tokens bigint[], p_principals text[], p_digests bytea[], p_matches text[], p_none_matches text[])
RETURNS TABLE (item integer, verdict fence.verdict) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_settings constant text[] := ARRAY['plan_cache_mode', 'enable_hashjoin', 'enable_mergejoin', 'enable_seqscan', 'enable_bitmapscan'];
    v_before   text[] := CASE WHEN NOT p_plain THEN ARRAY(SELECT current_setting(n) FROM unnest(v_settings) n) END;
    v_now      timestamptz := clock_timestamp();
    v_codes    text[] := array_fill(NULL::text, ARRAY[cardinality(p_bindings)]);  -- of bindings: null is good
    v_shut     boolean := false;
    v_code     text;
    v_busy     text[];  -- leases
    v_codes_of text[];  -- of writes: null is open
    v_raised   bigint;
    v_refused  bigint := 0;
    v_rest     bigint := 0;
    v_new      integer[];  -- writes of resources that were never written
    v_new_resources text[];
    v_new_leases    text[];
    v_new_tokens    bigint[];
    v_new_principals text[];
    v_new_digests   bytea[];
    v_write    record;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM fence.require_read_committed();
    END IF;
    PERFORM set_config('fence.admitted', '', true), set_config('lock_timeout', p_lock_timeout::text, true), set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
            set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
    FOR i IN 1..cardinality(p_bindings) LOOP
        IF NOT pg_try_advisory_xact_lock_shared(fence.binding_lock(p_bindings[i])) THEN
            v_codes[i] := 'busy';
        ELSIF p_versions[i] IS NOT NULL THEN
            -- A statement of its own: a template that was changed under the lock is seen.
            SELECT CASE WHEN p.version IS NULL THEN 'not-found' WHEN p.version <> p_versions[i] OR c.oid IS NULL THEN 'binding-changed' END INTO v_code
              FROM (SELECT) one LEFT JOIN fence.protected p ON p.kind = 'table' AND p.name = substr(p_bindings[i], 6) AND p.prefix = ''
                   LEFT JOIN pg_class c ON c.oid = p_relations[i] AND c.xmin::text = p_shapes[i];
            v_codes[i] := v_code;
        END IF;
        v_shut := v_shut OR v_codes[i] IS NOT NULL;
    END LOOP;
    IF array_position(p_leases, NULL) IS NOT NULL THEN
        SELECT array_agg(coalesce(w.lease, (fence.object_name(substr(b.name, 9), substr(w.resource, length(b.name) + 2))).lease) ORDER BY w.pos) INTO p_leases
          FROM unnest(p_of, p_resources, p_leases) WITH ORDINALITY w(binding, resource, lease, pos), LATERAL (SELECT p_bindings[w.binding] AS name) b;
        v_shut := v_shut OR array_position(p_leases, NULL) IS NOT NULL;
    END IF;
    IF cardinality(p_leases) = 1 THEN
        v_busy := CASE WHEN NOT pg_try_advisory_xact_lock_shared(fence.lease_lock(p_leases[1])) THEN p_leases END;
    ELSE
        SELECT array_agg(l.lease) INTO v_busy
          FROM (SELECT u.lease, fence.lease_lock(u.lease) AS lock FROM unnest(p_leases) u(lease) ORDER BY lock OFFSET 0) l
         WHERE NOT pg_try_advisory_xact_lock_shared(l.lock);
    END IF;
    IF v_busy IS NOT NULL OR v_shut THEN
        SELECT array_agg(coalesce(v_codes[w.binding], CASE WHEN w.lease IS NULL THEN 'not-found' WHEN w.lease = ANY (v_busy) THEN 'busy' END) ORDER BY w.pos) INTO v_codes_of
          FROM unnest(p_of, p_leases) WITH ORDINALITY w(binding, lease, pos);
    END IF;
    IF v_codes_of IS NULL AND p_matches IS NULL THEN
        -- The same as below, with less to unnest.
        UPDATE fence.marks m SET token = w.token, lease = w.lease, principal = w.principal, digest = w.digest, created = false, xid = pg_current_xact_id(), written_at = v_now
          FROM (SELECT u.resource, u.lease, u.token, u.principal, u.digest
                  FROM unnest(p_resources, p_leases, p_tokens, p_principals, p_digests) u(resource, lease, token, principal, digest)
                       JOIN fence.grants g ON g.lease = u.lease
                 WHERE fence.decide_grant(g, u.token, u.principal) = 'accepted'
                 ORDER BY u.resource COLLATE "C" OFFSET 0) w
         WHERE m.resource = w.resource AND m.token < w.token;
    ELSE
        UPDATE fence.marks m SET token = w.token, lease = w.lease, principal = w.principal, digest = w.digest, created = false, xid = pg_current_xact_id(), written_at = v_now
          FROM (SELECT u.resource, u.lease, u.token, u.principal, u.digest
                  FROM unnest(p_resources, p_leases, p_tokens, p_principals, p_digests, p_matches, p_none_matches, v_codes_of)
                       u(resource, lease, token, principal, digest, match, none_match, code)
                       JOIN fence.grants g ON g.lease = u.lease
                 WHERE u.code IS NULL AND u.match IS NULL AND u.none_match IS NULL AND fence.decide_grant(g, u.token, u.principal) = 'accepted'
                 ORDER BY u.resource COLLATE "C" OFFSET 0) w
         WHERE m.resource = w.resource AND m.token < w.token;
    END IF;
    GET DIAGNOSTICS v_raised = ROW_COUNT;
    item := 0;
    verdict.written_at := v_now;
    RETURN NEXT;
    IF v_raised < cardinality(p_resources) THEN
        -- What was refused, or carried out before: that is answered as durably as it says, as in fence.admit_resource.
        RETURN QUERY
            SELECT d.pos::integer, CASE WHEN d.code IN ('busy', 'not-found', 'binding-changed') THEN ROW(d.code, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::fence.verdict
                        ELSE ROW(d.code, d.resource, d.lease, coalesce(d.mark, 0), d.marked_by, d.written_at, d.created, d.first, d.holder)::fence.verdict END
              FROM (SELECT w.pos, w.resource, w.lease, m.token AS mark, m.principal AS marked_by, m.written_at, m.created, g.first, g.holder,
                           CASE WHEN w.shut IS NOT NULL THEN w.shut
                                WHEN w.match IS NOT NULL OR w.none_match IS NOT NULL THEN NULL
                                WHEN m.token = w.token AND m.principal = w.principal AND m.digest = w.digest
                                THEN (SELECT 'replayed' WHERE pg_current_xact_id() IS NOT NULL AND pg_logical_emit_message(true, 'fencegate', '') IS NOT NULL)
                                WHEN fence.decide_grant(g, w.token, w.principal) <> 'accepted' THEN fence.decide_grant(g, w.token, w.principal)
                                WHEN w.token < m.token THEN 'stale-token'
                                WHEN w.token = m.token THEN 'spent-token'
                                WHEN m.token IS NULL THEN NULL
                                ELSE 'busy' END AS code
                      FROM unnest(p_resources, p_leases, p_tokens, p_principals, p_digests, p_matches, p_none_matches, v_codes_of) WITH ORDINALITY
                           w(resource, lease, token, principal, digest, match, none_match, shut, pos)
                           LEFT JOIN fence.grants g ON g.lease = w.lease
                           LEFT JOIN fence.marks m ON m.resource = w.resource
                     WHERE (m.token = w.token AND fence.raised_now(m.xid, m.xmin)) IS NOT TRUE OFFSET 0) d
             WHERE d.code IS NOT NULL;
        GET DIAGNOSTICS v_refused = ROW_COUNT;
    END IF;
    IF v_raised + v_refused < cardinality(p_resources) THEN
        -- Those with conditions, one by one, and those of resources that were never written.
        FOR v_write IN
            SELECT w.pos, w.resource, w.lease, w.token, w.principal, w.digest, w.match::bigint[] AS match, w.none_match::bigint[] AS none_match,
                   w.match IS NULL AND w.none_match IS NULL AS is_new
              FROM unnest(p_resources, p_leases, p_tokens, p_principals, p_digests, p_matches, p_none_matches, v_codes_of) WITH ORDINALITY
                   w(resource, lease, token, principal, digest, match, none_match, shut, pos)
                   LEFT JOIN fence.grants g ON g.lease = w.lease
             WHERE w.shut IS NULL AND (w.match IS NOT NULL OR w.none_match IS NOT NULL
                   OR NOT EXISTS (SELECT FROM fence.marks m WHERE m.resource = w.resource) AND fence.decide_grant(g, w.token, w.principal) = 'accepted')
             ORDER BY w.resource COLLATE "C"
        LOOP
            item := v_write.pos;
            v_rest := v_rest + 1;
            IF v_write.is_new THEN
                v_new := v_new || item;
                v_new_resources := v_new_resources || v_write.resource;
                v_new_leases := v_new_leases || v_write.lease;
                v_new_tokens := v_new_tokens || v_write.token;
                v_new_principals := v_new_principals || v_write.principal;
                v_new_digests := v_new_digests || v_write.digest;
            ELSE
                verdict := fence.admit_resource(v_write.resource, v_write.lease, v_write.token, v_write.principal, v_write.digest, v_write.match, v_write.none_match);
                RETURN NEXT;
            END IF;
        END LOOP;
        IF v_raised + v_refused + v_rest <> cardinality(p_resources) THEN
            -- A mark was made between two looks. No write may be missing from both the answer and the marks.
            RAISE EXCEPTION 'a mark was moving' USING ERRCODE = 'serialization_failure';
        END IF;
        IF v_new IS NOT NULL THEN
            -- They were never written. Of one that another write makes first, the answer is for that write to find.
            INSERT INTO fence.marks AS m (resource, token, lease, principal, digest, created, xid, written_at)
            SELECT u.resource, u.token, u.lease, u.principal, u.digest, false, pg_current_xact_id(), v_now
              FROM unnest(v_new_resources, v_new_leases, v_new_tokens, v_new_principals, v_new_digests) u(resource, lease, token, principal, digest)
             ORDER BY u.resource COLLATE "C"
            ON CONFLICT (resource) DO NOTHING;
            GET DIAGNOSTICS v_raised = ROW_COUNT;
            IF v_raised < cardinality(v_new) THEN
                FOR item IN SELECT n.pos FROM unnest(v_new, v_new_resources) n(pos, resource)
                             WHERE NOT EXISTS (SELECT FROM fence.marks m WHERE m.resource = n.resource AND fence.raised_now(m.xid, m.xmin)) LOOP
                    verdict := NULL;
                    verdict.code := 'busy';
                    RETURN NEXT;
                END LOOP;
            END IF;
        END IF;
        PERFORM set_config('fence.admitted', '', true);
    END IF;
    IF NOT p_plain THEN
        PERFORM set_config(u.name, u.value, true) FROM unnest(v_settings, v_before) u(name, value);
    END IF;
END $$;
-- +goose StatementEnd

-- Which of the writes this transaction has admitted, by their places: what the statement that changes their rows asks under another role.
-- +goose StatementBegin
CREATE FUNCTION fence.admitted_of(p_resources text[], p_tokens bigint[]) RETURNS bigint[] LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT array_agg(w.pos) FROM unnest(p_resources, p_tokens) WITH ORDINALITY w(resource, token, pos)
              JOIN fence.marks m ON m.resource = w.resource AND m.token = w.token AND fence.raised_now(m.xid, m.xmin));
END $$;
-- +goose StatementEnd

-- Undoes a batch, for writes in it that did not change exactly the row they named: their places are the error's detail.
-- +goose StatementBegin
CREATE FUNCTION fence.undo_batch(p_items integer[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'writes of a batch changed nothing, or not the row they named' USING ERRCODE = 'FG019', DETAIL = pg_catalog.array_to_string(p_items, ',');
END $$;
-- +goose StatementEnd

-- fence.note_created for several writes.
-- +goose StatementBegin
CREATE FUNCTION fence.note_created(p_resources text[]) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE fence.marks m SET created = true WHERE m.resource = ANY (p_resources) AND m.xid = pg_current_xact_id();
    RETURN true;
END $$;
-- +goose StatementEnd

-- Changes the objects of those writes of a batch that were admitted, by op put, copy or delete, with the arguments of fence.publish,
-- fence.copy_object and fence.hide. changed is what these return. An error's detail is the place of the write that it is about.
-- +goose StatementBegin
CREATE FUNCTION fence.flip_batch(p_items integer[], p_ops text[], p_buckets text[], p_keys text[], p_tokens bigint[], p_blobs uuid[], p_sizes bigint[], p_sums bytea[],
    p_etags text[], p_headers jsonb[], p_naturals boolean[], p_exists boolean[], p_absents boolean[], p_from_buckets text[], p_from_keys text[], p_from_tokens bigint[])
RETURNS TABLE (item integer, changed boolean) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    w         record;
    v_message text;
    v_state   text;
BEGIN
    FOR w IN
        SELECT u.*, m.resource
          FROM unnest(p_items, p_ops, p_buckets, p_keys, p_tokens, p_blobs, p_sizes, p_sums, p_etags, p_headers, p_naturals, p_exists, p_absents,
                      p_from_buckets, p_from_keys, p_from_tokens)
               u(item, op, bucket, key, token, blob, size, sum, etag, header, is_natural, if_exists, if_absent, from_bucket, from_key, from_token)
               JOIN fence.marks m ON m.resource = 'objects/' || u.bucket || '/' || u.key AND m.token = u.token AND fence.raised_now(m.xid, m.xmin)
         ORDER BY m.resource COLLATE "C"
    LOOP
        item := w.item;
        PERFORM set_config('fence.admitted', w.token || ' ' || w.resource, true);
        changed := CASE w.op
            WHEN 'put' THEN fence.publish(w.bucket, w.key, w.token, ROW(w.blob, w.size, w.sum, w.etag, w.header)::fence.body, w.is_natural, w.if_exists, w.if_absent)
            WHEN 'copy' THEN fence.copy_object(w.bucket, w.key, w.token, w.from_bucket, w.from_key, w.from_token, w.header, w.is_natural, w.if_exists, w.if_absent)
            ELSE fence.hide(w.bucket, w.key, w.token, w.is_natural, w.if_absent) END;
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('fence.admitted', '', true);
EXCEPTION WHEN SQLSTATE 'FG010' OR SQLSTATE 'FG012' OR SQLSTATE 'FG013' OR SQLSTATE 'FG018' THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_message = MESSAGE_TEXT;
    RAISE EXCEPTION USING ERRCODE = 'FG019', MESSAGE = v_message, DETAIL = item::text;
END $$;
-- +goose StatementEnd

-- As in all of the schema: nobody but the owner, until it is granted.
REVOKE ALL ON FUNCTION fence.admit_batch, fence.flip_batch FROM PUBLIC;
-- What the statement that changes the data asks, under whatever role it runs. They tell of the own transaction alone.
GRANT EXECUTE ON FUNCTION fence.raised_now(xid8, xid), fence.admitted_of(text[], bigint[]), fence.undo_batch(integer[]), fence.note_created(text[]) TO PUBLIC;
