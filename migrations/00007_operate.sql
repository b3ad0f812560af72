-- Operation: which programs a ledger works with, and the step after a restore.
-- +goose Up

-- A program works with a newer schema than its own from the version on that compatible_from names, so that the
-- programs of a deployment can be replaced one by one. The rule for every later migration: one that the programs before
-- it cannot work with (a function of theirs gone or of another meaning, a column they do not fill) sets compatible_from to its own version.
ALTER TABLE fence.settings ADD COLUMN compatible_from bigint NOT NULL DEFAULT 7;

-- After a restore, or a fail-over that lost commits: ends every grant, moves the tokens p_blocks blocks on, and clears the
-- xids of the marks, which the transactions of another server, or of a restored dump, count anew. Afterwards every token
-- issued before is refused, and the next one is higher than any that the lost part can have issued, if that drew fewer
-- than p_blocks. Returns how many grants it ended and the first block from now on.
--
-- The lock waits for every transaction that has looked at a grant, and keeps new ones out: all that admit, certify or add
-- tokens look first. Whoever holds a mark's row, or a lease's lock, and goes on holds the table already and needs nothing
-- of this transaction, so that there is no cycle. The caller sets lock_timeout; a statement_timeout would have to
-- allow for writing every mark.
-- +goose StatementBegin
CREATE FUNCTION fence.advance(p_blocks bigint, OUT ended bigint, OUT first_block bigint) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_last bigint;
    v_max  constant bigint := 999999999999;
BEGIN
    PERFORM fence.require_read_committed();
    IF p_blocks IS NULL OR p_blocks < 1 THEN
        RAISE EXCEPTION 'the ledger is advanced by one block or more' USING ERRCODE = 'FG008';
    END IF;
    LOCK TABLE fence.grants IN ACCESS EXCLUSIVE MODE;
    -- A sequence that was restored from an older moment than the tables must not count.
    SELECT greatest((SELECT CASE WHEN b.is_called THEN b.last_value ELSE b.last_value - 1 END FROM fence.blocks b),
                    (SELECT max((upper(g.blocks) - 1) / 1000) FROM fence.grants g), (SELECT max(m.token / 1000) FROM fence.marks m))
      INTO v_last;
    IF p_blocks >= v_max - v_last THEN
        RAISE EXCEPTION 'the ledger has % blocks of tokens left, fewer than it would be advanced by', v_max - v_last
              USING ERRCODE = 'sequence_generator_limit_exceeded';
    END IF;
    UPDATE fence.grants g SET ended_at = clock_timestamp(), ended_why = 'ledger advanced' WHERE g.ended_at IS NULL;
    GET DIAGNOSTICS ended = ROW_COUNT;
    UPDATE fence.marks m SET xid = '0' WHERE m.xid <> '0'; -- no transaction has it
    -- What is drawn from a sequence is not given back by a rollback: last, and harmless.
    first_block := setval('fence.blocks', v_last + p_blocks) + 1;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION fence.advance(bigint) FROM PUBLIC;
