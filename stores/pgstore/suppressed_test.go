package pgstore_test

import (
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// A row that is absent while it is written and there when somebody asks why looks as if a trigger had swallowed the write.
// Here one does, once: a sequence is not turned back with the transaction.
func TestWriteOfARowThatCameBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE SEQUENCE tries;
		CREATE FUNCTION not_at_first() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF nextval(''public.tries'') = 1 THEN RETURN NULL; END IF; RETURN NEW; END';
		CREATE TRIGGER not_at_first BEFORE UPDATE ON wallets FOR EACH ROW EXECUTE FUNCTION not_at_first()`)
	g := w.grant("wallet:42", "p", "a")
	row, err := w.WriteRow(t.Context(), rowWrite(fence.OpPatch, "wallets", "42", `{"balance":7}`, g.First()))
	if err != nil || row.Mark != g.First() {
		t.Errorf("%+v, %v", row, err)
	}
}
