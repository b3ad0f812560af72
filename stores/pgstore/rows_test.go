package pgstore_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func patch(table, key, body string, token fence.Token) fence.RowWrite {
	return rowWrite(fence.OpPatch, table, key, body, token)
}

func rowWrite(op fence.Op, table, key, body string, token fence.Token) fence.RowWrite {
	w := fence.RowWrite{Op: op, Row: fence.RowName{Table: table, Key: strings.Split(key, ",")}, Access: fence.Access{Principal: "p", Token: token}}
	if body != "" {
		w.Body = json.RawMessage(body)
		var members map[string]json.RawMessage
		if err := json.Unmarshal(w.Body, &members); err == nil {
			for name := range members {
				w.Columns = append(w.Columns, name)
			}
		}
	}
	return w
}

func TestPatch(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	g := w.grant("wallet:42", "p", "a")
	first := g.First()

	t.Run("Accepted", func(t *testing.T) {
		row, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance": 90.10}`, first))
		wantCode(t, err, fence.CodeAccepted)
		if row.Resource != "rows/public.wallets/42" || row.Lease != "wallet:42" || row.Mark != first {
			t.Errorf("state %+v", row.State)
		}
		if got := string(row.JSON); got != `{"id":42,"owner":"alice","balance":90.10}` {
			t.Errorf("row %s", got)
		}
	})
	t.Run("Replayed", func(t *testing.T) {
		row, err := w.WriteRow(ctx, patch("public.wallets", "042", `{"balance": 90.10}`, first))
		wantCode(t, err, fence.CodeAccepted)
		if !row.Replayed || string(row.JSON) != `{"id":42,"owner":"alice","balance":90.10}` {
			t.Errorf("row %+v %s", row, row.JSON)
		}
	})
	t.Run("SpentToken", func(t *testing.T) {
		_, err := w.WriteRow(ctx, patch("wallets", "+42", `{"balance": 1}`, first))
		e := wantCode(t, err, fence.CodeSpentToken)
		if e.State == nil || e.State.Mark != first || e.First != first || e.Holder != "p" {
			t.Errorf("error %+v", e)
		}
	})
	t.Run("UnissuedToken", func(t *testing.T) {
		_, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance": 1}`, fence.MaxToken))
		wantCode(t, err, fence.CodeUnissuedToken)
	})
	t.Run("NotFoundLeavesTheMark", func(t *testing.T) {
		g := w.grant("wallet:43", "p", "a")
		for _, op := range []fence.Op{fence.OpPatch, fence.OpDelete} {
			body := `{"balance": 1}`
			if op == fence.OpDelete {
				body = ""
			}
			_, err := w.WriteRow(ctx, rowWrite(op, "wallets", "43", body, g.First()))
			e := wantCode(t, err, fence.CodeNotFound)
			if e.State == nil || e.State.Mark != 0 || e.State.Lease != "wallet:43" {
				t.Errorf("%s: state %+v", op, e.State)
			}
		}
		if n := w.text("SELECT count(*)::text FROM fence.marks WHERE resource LIKE '%43'"); n != "0" {
			t.Errorf("marks %s", n)
		}
	})
	t.Run("ConstraintViolationLeavesTheMark", func(t *testing.T) {
		_, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance": -1}`, first+1))
		e := wantCode(t, err, fence.CodeConstraintViolation)
		if e.Constraint != "wallets_balance_check" || e.State == nil || e.State.Mark != first {
			t.Errorf("error %+v", e)
		}
		_, err = w.WriteRow(ctx, patch("wallets", "42", `{"owner": null}`, first+1))
		if e := wantCode(t, err, fence.CodeConstraintViolation); e.Field != "owner" {
			t.Errorf("error %+v", e)
		}
	})
	t.Run("InvalidRequestNamesTheField", func(t *testing.T) {
		for _, c := range []struct{ key, body, field string }{
			{"42", `{"nope": 1}`, "nope"},
			{"42", `{"balance": "abc"}`, "balance"},
			{"42", `{"owner": "bob", "balance": {"a": 1}}`, "balance"},
			{"42", `{"id": 43}`, "id"},
			{"4x2", `{"balance": 1}`, "id"},
			{"", `{"balance": 1}`, "id"},
			{"42,1", `{"balance": 1}`, "id"},
			{"99999999999999999999", `{"balance": 1}`, "id"},
		} {
			_, err := w.WriteRow(ctx, patch("wallets", c.key, c.body, first+1))
			if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != c.field {
				t.Errorf("%s %s: field %q: %v", c.key, c.body, e.Field, e)
			}
		}
	})
	t.Run("StaleToken", func(t *testing.T) {
		g2 := w.grant("wallet:42", "p", "b")
		_, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance": 1}`, first+5))
		e := wantCode(t, err, fence.CodeStaleToken)
		if e.First != g2.First() {
			t.Errorf("first %d, want %d", e.First, g2.First())
		}
		row, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance": 90.10}`, first))
		if wantCode(t, err, fence.CodeAccepted); !row.Replayed {
			t.Errorf("a replay after a successor's grant was not recognised: %+v", row)
		}
		_, err = w.WriteRow(ctx, func() fence.RowWrite {
			x := patch("wallets", "42", `{"balance": 1}`, g2.First())
			x.Principal = "q"
			return x
		}())
		wantCode(t, err, fence.CodeForeignToken)
		if _, err := w.End(ctx, "wallet:42", fence.GrantRef{ID: g2.ID, Principal: "p"}, fence.Ending{Why: fence.EndReleased}); err != nil {
			t.Fatal(err)
		}
		_, err = w.WriteRow(ctx, patch("wallets", "42", `{"balance": 1}`, g2.First()))
		wantCode(t, err, fence.CodeGrantEnded)
	})
	t.Run("NotProtected", func(t *testing.T) {
		w.exec("CREATE TABLE free (id int PRIMARY KEY)")
		for _, table := range []string{"free", "nope", "a.b.c", `x"`, "fence.marks"} {
			_, err := w.WriteRow(ctx, patch(table, "1", `{"x": 1}`, first))
			wantCode(t, err, fence.CodeNotFound)
		}
	})
}

func TestPutAndDelete(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE "Odd" ("A b" int, c numeric(10,2), v text DEFAULT 'none', n int DEFAULT 7, j json, big bigint,
			d numeric GENERATED ALWAYS AS (n * 2) STORED, PRIMARY KEY (c, "A b")); SELECT fence.protect('"Odd"', 'odd:{c}:{A b}')`)
	ctx := t.Context()
	g := w.grant("odd:1:7", "p", "a")
	next := g.First()
	spend := func() fence.Token { next++; return next - 1 }

	row, err := w.WriteRow(ctx, rowWrite(fence.OpPut, `"Odd"`, "1.00,+7", `{"v":"x","j":{"b":1,  "a":1.50},"big":9223372036854775807}`, spend()))
	wantCode(t, err, fence.CodeAccepted)
	want := `{"A b":7,"c":1.00,"v":"x","n":7,"j":{"b":1,  "a":1.50},"big":9223372036854775807,"d":14}`
	if !row.Created || string(row.JSON) != want || row.Resource != `rows/public."Odd"/1,7` || row.Lease != "odd:1:7" {
		t.Errorf("created=%v %s %+v", row.Created, row.JSON, row.State)
	}
	again := rowWrite(fence.OpPut, `"Odd"`, "1,7", `{"v":"x","j":{"b":1,  "a":1.50},"big":9223372036854775807}`, g.First())
	if row, err = w.WriteRow(ctx, again); err != nil || !row.Replayed || !row.Created {
		t.Errorf("replay: %+v %v", row, err)
	}
	row, err = w.WriteRow(ctx, rowWrite(fence.OpPut, `public."Odd"`, "1,7", `{"c":1.0,"A b":"7","n":9}`, spend()))
	wantCode(t, err, fence.CodeAccepted)
	if row.Created || string(row.JSON) != `{"A b":7,"c":1.00,"v":"none","n":9,"j":null,"big":null,"d":18}` {
		t.Errorf("created=%v %s", row.Created, row.JSON)
	}
	absent := rowWrite(fence.OpPut, `"Odd"`, "1,7", `{"n":9}`, spend())
	absent.If.Absent = true
	_, err = w.WriteRow(ctx, absent)
	if e := wantCode(t, err, fence.CodePreconditionFailed); e.State.Mark != next-2 {
		t.Errorf("mark %d", e.State.Mark)
	}
	_, err = w.WriteRow(ctx, rowWrite(fence.OpPut, `"Odd"`, "1,7", `{"d":9}`, next))
	if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != "d" {
		t.Error(e)
	}
	del := rowWrite(fence.OpDelete, `"Odd"`, "1,7", "", spend())
	if row, err = w.WriteRow(ctx, del); err != nil || row.JSON != nil || row.Mark != next-1 {
		t.Errorf("delete: %+v %v", row, err)
	}
	if row, err = w.WriteRow(ctx, del); err != nil || !row.Replayed {
		t.Errorf("repeated delete: %+v %v", row, err)
	}
	exists := rowWrite(fence.OpPut, `"Odd"`, "1,7", `{"n":9}`, spend())
	exists.If.Exists = true
	_, err = w.WriteRow(ctx, exists)
	wantCode(t, err, fence.CodePreconditionFailed)
	_, err = w.Row(ctx, fence.RowRead{Row: fence.RowName{Table: `"Odd"`, Key: []string{"1", "7"}}, Access: fence.Access{Principal: "p"}})
	if e := wantCode(t, err, fence.CodeNotFound); e.State.Mark != next-2 {
		t.Errorf("mark after delete %d", e.State.Mark)
	}
	// I1: the mark survived the delete.
	_, err = w.WriteRow(ctx, rowWrite(fence.OpPut, `"Odd"`, "1,7", `{"n":1}`, g.First()+1))
	wantCode(t, err, fence.CodeStaleToken)
	absent.Token = spend()
	if row, err = w.WriteRow(ctx, absent); err != nil || !row.Created {
		t.Errorf("re-create: %+v %v", row, err)
	}
}

// A table whose columns carry the names of the statement's own parts.
func TestColumnNamesThatCollide(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE "order" ("v" int PRIMARY KEY, t int, r int, u int, i int, j int, d int, "select" int, "a""b" int);
		SELECT fence.protect('"order"', 'order:{v}')`)
	g := w.grant("order:1", "p", "a")
	body := `{"t":1,"r":2,"u":3,"i":4,"j":5,"d":6,"select":7,"a\"b":8}`
	row, err := w.WriteRow(t.Context(), rowWrite(fence.OpPut, "order", "1", body, g.First()))
	wantCode(t, err, fence.CodeAccepted)
	want := `{"v":1,"t":1,"r":2,"u":3,"i":4,"j":5,"d":6,"select":7,"a\"b":8}`
	if string(row.JSON) != want || row.Resource != `rows/public."order"/1` {
		t.Errorf("%s %s", row.Resource, row.JSON)
	}
	row, err = w.WriteRow(t.Context(), patch(`public."order"`, "1", `{"t":10}`, g.First()+1))
	wantCode(t, err, fence.CodeAccepted)
	row, err = w.Row(t.Context(), fence.RowRead{Row: fence.RowName{Table: "order", Key: []string{"1"}}, Access: fence.Access{Principal: "p"}})
	if wantCode(t, err, fence.CodeAccepted); string(row.JSON) != strings.Replace(want, `"t":1`, `"t":10`, 1) {
		t.Errorf("%s", row.JSON)
	}
}

func TestNumbersAsText(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE n (id bigint PRIMARY KEY, i int, d numeric, a numeric[], b bigint[], x text); SELECT fence.protect('n', 'n:{id}')`)
	g := w.grant("n:9223372036854775807", "p", "a")
	x := rowWrite(fence.OpPut, "n", "9223372036854775807", `{"i":1,"d":123456789012345678901234567890.10,"a":[1.10,null],"b":[9223372036854775807],"x":"y"}`, g.First())
	row, err := w.WriteRow(t.Context(), x)
	if wantCode(t, err, fence.CodeAccepted); string(row.JSON) != `{"id":9223372036854775807,"i":1,"d":123456789012345678901234567890.10,"a":[1.10,null],"b":[9223372036854775807],"x":"y"}` {
		t.Errorf("%s", row.JSON)
	}
	const want = `{"id":"9223372036854775807","i":1,"d":"123456789012345678901234567890.10","a":["1.10",null],"b":["9223372036854775807"],"x":"y"}`
	x.NumbersAsText = true
	row, err = w.WriteRow(t.Context(), x)
	if wantCode(t, err, fence.CodeAccepted); string(row.JSON) != want || !row.Replayed {
		t.Errorf("%v %s", row.Replayed, row.JSON)
	}
	x.Op, x.Token = fence.OpPatch, x.Token+1
	row, err = w.WriteRow(t.Context(), x)
	if wantCode(t, err, fence.CodeAccepted); string(row.JSON) != want {
		t.Errorf("%s", row.JSON)
	}
}

// TestExistence tries every write with every condition on existence, on a row that is there and one that is not.
func TestExistence(t *testing.T) {
	w := newWorld(t)
	g := w.grant("constant", "p", "a")
	w.exec("SELECT fence.protect('wallets', 'constant')")
	next := g.First()
	for _, c := range []struct {
		op             fence.Op
		exists, absent bool
		there, gone    fence.Code
	}{
		{fence.OpPatch, false, false, fence.CodeAccepted, fence.CodeNotFound},
		{fence.OpPatch, true, false, fence.CodeAccepted, fence.CodePreconditionFailed},
		{fence.OpPatch, false, true, fence.CodePreconditionFailed, fence.CodeNotFound},
		{fence.OpDelete, false, false, fence.CodeAccepted, fence.CodeNotFound},
		{fence.OpDelete, true, false, fence.CodeAccepted, fence.CodePreconditionFailed},
		{fence.OpDelete, false, true, fence.CodePreconditionFailed, fence.CodeNotFound},
		{fence.OpPut, false, false, fence.CodeAccepted, fence.CodeAccepted},
		{fence.OpPut, true, false, fence.CodeAccepted, fence.CodePreconditionFailed},
		{fence.OpPut, false, true, fence.CodePreconditionFailed, fence.CodeAccepted},
	} {
		for key, want := range map[string]fence.Code{"1": c.there, "2": c.gone} {
			w.exec("DELETE FROM wallets; INSERT INTO wallets VALUES (1, 'x', 1)")
			body := `{"owner":"y","balance":2}`
			if c.op == fence.OpDelete {
				body = ""
			}
			x := rowWrite(c.op, "wallets", key, body, next)
			next++
			x.If.Exists, x.If.Absent = c.exists, c.absent
			_, err := w.WriteRow(t.Context(), x)
			if got := fence.CodeOf(err); got != want {
				t.Errorf("%s of %s, exists=%v absent=%v: %v, want %s", c.op, key, c.exists, c.absent, err, want)
			}
			marked := w.text("SELECT count(*)::text FROM fence.marks WHERE token = $1", int64(x.Token))
			if (marked == "1") != (want == fence.CodeAccepted) {
				t.Errorf("%s of %s, exists=%v absent=%v: marked %s", c.op, key, c.exists, c.absent, marked)
			}
		}
	}
}

func TestSuppressed(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE TRIGGER swallow BEFORE INSERT OR UPDATE OR DELETE ON wallets FOR EACH ROW EXECUTE FUNCTION swallow()`)
	g := w.grant("wallet:42", "p", "a")
	for _, op := range []fence.Op{fence.OpPatch, fence.OpPut, fence.OpDelete} {
		body := `{"owner":"x","balance":1}`
		if op == fence.OpDelete {
			body = ""
		}
		_, err := w.WriteRow(t.Context(), rowWrite(op, "wallets", "42", body, g.First()))
		if e := wantCode(t, err, fence.CodeWriteSuppressed); e.State.Mark != 0 {
			t.Errorf("%s: mark %d", op, e.State.Mark)
		}
	}
	g = w.grant("wallet:44", "p", "a")
	_, err := w.WriteRow(t.Context(), rowWrite(fence.OpPut, "wallets", "44", `{"owner":"x","balance":1}`, g.First()))
	wantCode(t, err, fence.CodeWriteSuppressed)
}

func TestConcurrentWrites(t *testing.T) {
	w := newWorld(t)
	g := w.grant("wallet:42", "p", "a")
	ctx := context.Background()
	both := func(one, two fence.RowWrite) (rows [2]fence.Row, codes [2]fence.Code) {
		var wg sync.WaitGroup
		for i, x := range []fence.RowWrite{one, two} {
			wg.Go(func() {
				row, err := w.WriteRow(ctx, x)
				rows[i], codes[i] = row, fence.CodeOf(err)
			})
		}
		wg.Wait()
		return rows, codes
	}
	t.Run("SameRequestTwice", func(t *testing.T) {
		for i := range 100 {
			x := patch("wallets", "42", `{"balance": 5}`, g.First()+fence.Token(i))
			rows, codes := both(x, x)
			if codes != [2]fence.Code{"accepted", "accepted"} || rows[0].Replayed == rows[1].Replayed {
				t.Fatalf("round %d: %v, replayed %v and %v", i, codes, rows[0].Replayed, rows[1].Replayed)
			}
		}
	})
	t.Run("SameIfMatchTwice", func(t *testing.T) {
		mark := g.First() + 99
		for i := range 100 {
			one := patch("wallets", "42", `{"balance": 1}`, g.First()+fence.Token(200+2*i))
			two := patch("wallets", "42", `{"balance": 2}`, g.First()+fence.Token(201+2*i))
			one.If.Match, two.If.Match = []fence.Token{mark}, []fence.Token{mark}
			rows, codes := both(one, two)
			switch {
			case codes[0] == "accepted" && codes[1] == "precondition-failed":
				mark = rows[0].Mark
			case codes[1] == "accepted" && (codes[0] == "stale-token" || codes[0] == "precondition-failed"):
				mark = rows[1].Mark
			default:
				t.Fatalf("round %d: %v", i, codes)
			}
		}
	})
}
