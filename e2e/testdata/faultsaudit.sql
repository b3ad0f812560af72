-- What the checkers need to know of every commit. seq is drawn while the transaction holds the locks that order it: see
-- history.Audit.
CREATE SCHEMA audit;

CREATE TABLE audit.log (
    seq  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    xact xid8        NOT NULL DEFAULT pg_current_xact_id(),
    kind text        NOT NULL,
    old  jsonb,
    new  jsonb
);

CREATE FUNCTION audit.record() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO audit.log (kind, old, new)
    VALUES (TG_TABLE_NAME, CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END);
    RETURN NULL;
END $$;

CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON fence.grants FOR EACH ROW EXECUTE FUNCTION audit.record();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON fence.marks FOR EACH ROW EXECUTE FUNCTION audit.record();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON fence.objects FOR EACH ROW EXECUTE FUNCTION audit.record();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON fence.blobs FOR EACH ROW EXECUTE FUNCTION audit.record();

CREATE TABLE jobs (id bigint PRIMARY KEY, token bigint NOT NULL, nonce text NOT NULL);
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION audit.record();
