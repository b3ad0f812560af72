package pgstore_test

import (
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// An insert whose key the database makes admits the row that it makes.
func TestGuardedInsertOfAGeneratedKey(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.exec(`CREATE TABLE made (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), v int); SELECT fence.protect('made', 'all'); SELECT fence.guard('made')`)
	if _, err := g.write(fence.OpInsert, "made", nil, `{"v":5}`, "v"); err != nil {
		t.Fatal(err)
	}
	if got := g.text("SELECT id || ':' || v FROM made"); got != "1:5" {
		t.Error(got)
	}
	wantState(t, g.db, "FG016", "INSERT INTO made (v) VALUES (6)")
}
