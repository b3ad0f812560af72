-- +goose Up

-- fence.replayed_row of an insert whose key the database made: nothing, or a replay with the key of its row.
-- +goose StatementBegin
CREATE FUNCTION fence.replayed_insert(p_table text, p_token bigint, p_principal text, p_digest bytea, OUT verdict fence.verdict, OUT made text[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT m.made, m.token, m.principal, m.written_at, m.created, m.lease, m.resource
      INTO made, verdict.mark, verdict.marked_by, verdict.written_at, verdict.created, verdict.lease, verdict.resource
      FROM fence.marks m WHERE m.resource = 'rows/' || p_table AND m.token = p_token AND m.principal = p_principal AND m.digest = p_digest;
    verdict.code := CASE WHEN FOUND THEN 'replayed' ELSE 'stale-token' END;
    IF verdict.code = 'replayed' THEN
        -- Its message in the log is waited for as the write's own was to be.
        PERFORM pg_current_xact_id(), pg_logical_emit_message(true, 'fencegate', '');
    END IF;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION fence.replayed_insert FROM PUBLIC;
