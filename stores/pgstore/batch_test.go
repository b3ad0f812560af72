package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// many has a table of rows 1 to 20, all of which one lease protects, and the first token of its grant.
func many(t *testing.T, more string) (*world, fence.Token) {
	w := newWorld(t)
	w.exec(`CREATE TABLE many (id int PRIMARY KEY, n int CHECK (n < 1000), label text UNIQUE); INSERT INTO many SELECT i, 0, i::text FROM generate_series(1, 20) i;
		SELECT fence.protect('many', 'many'); ` + more)
	return w, w.grant("many", "p", "1").First()
}

// beginWrites begins writes that make up a batch once land is called.
func (w *world) beginWrites(writes ...fence.RowWrite) (land func(), came []chan answered) {
	w.t.Helper()
	land = w.HoldLane()
	queued := 0
	for _, x := range writes {
		c := make(chan answered, 1)
		came = append(came, c)
		go func() {
			row, err := w.WriteRow(context.Background(), x)
			c <- answerOf(row, fence.Object{}, err)
		}()
		w.until("the write is queued, or has gone alone", func() bool { return len(c) > 0 || w.QueuedWrites() == queued+1 })
		if len(c) == 0 {
			queued++
		}
	}
	return land, came
}

func (w *world) until(what string, f func() bool) {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			w.t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// transactions counts in how many transactions the marks of a table's rows were raised last.
func (w *world) transactions(table string) string {
	return w.text("SELECT count(DISTINCT xid)::text FROM fence.marks WHERE starts_with(resource, $1)", "rows/public."+table+"/")
}

func TestBatchIsOneTransaction(t *testing.T) {
	w, first := many(t, "")
	var writes []fence.RowWrite
	for i := range 20 {
		writes = append(writes, patch("many", fmt.Sprint(i+1), fmt.Sprintf(`{"n":%d}`, i), first+fence.Token(i)))
	}
	land, came := w.beginWrites(writes...)
	land()
	for i := range came {
		if a := <-came[i]; a.JSON != fmt.Sprintf(`{"id":%d,"n":%d,"label":"%d"}`, i+1, i, i+1) || a.State.Mark != writes[i].Token {
			t.Errorf("%+v", a)
		}
	}
	if n := w.transactions("many"); n != "1" {
		t.Errorf("%s transactions", n)
	}
	if got := w.Stats().Batches; got.Sent != 1 || got.Writes != 20 || got.Failed+got.FellBack+got.Busy != 0 {
		t.Errorf("%+v", got)
	}
}

// What is wrong with a batch is found, and made alone: those that changed nothing at once, others by parts.
func TestBatchThatFails(t *testing.T) {
	for name, bad := range map[string]struct {
		key, body string
		more      string
		code      fence.Code
		failed    int64 // at most so many batches
	}{
		"Absent":     {"99", `{"n":1}`, "", fence.CodeNotFound, 1},
		"Check":      {"7", `{"n":1000}`, "", fence.CodeConstraintViolation, 5},
		"Value":      {"7", `{"n":"x"}`, "", fence.CodeInvalidRequest, 5},
		"Unique":     {"7", `{"label":"15"}`, "", fence.CodeConstraintViolation, 5},
		"Deferred":   {"7", `{"n":-1}`, "CREATE TABLE ok (n int PRIMARY KEY); INSERT INTO ok SELECT i FROM generate_series(0, 20) i; ALTER TABLE many ADD FOREIGN KEY (n) REFERENCES ok DEFERRABLE INITIALLY DEFERRED", fence.CodeConstraintViolation, 5},
		"Trigger":    {"7", `{"n":13}`, "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n = 13 THEN RAISE 'no'; END IF; RETURN NEW; END $$; CREATE TRIGGER f BEFORE UPDATE ON many FOR EACH ROW EXECUTE FUNCTION f()", fence.CodeConstraintViolation, 5},
		"Suppressed": {"7", `{"n":13}`, "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN NEW.n <> 13 THEN NEW END; END $$; CREATE TRIGGER f BEFORE UPDATE ON many FOR EACH ROW EXECUTE FUNCTION f()", fence.CodeWriteSuppressed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, first := many(t, bad.more)
			writes := []fence.RowWrite{patch("many", bad.key, bad.body, first)}
			column := "n"
			if strings.Contains(bad.body, "label") {
				column = "label"
			}
			for i := range 12 {
				if key := fmt.Sprint(i + 1); key != bad.key {
					writes = append(writes, patch("many", key, fmt.Sprintf(`{"%s":%d}`, column, i+1+100*len(column)/5), first+1+fence.Token(i)))
				}
			}
			if name == "Deferred" {
				for i := range writes[1:] {
					writes[i+1] = patch("many", writes[i+1].Row.Key[0], `{"n":2}`, writes[i+1].Token)
				}
			}
			land, came := w.beginWrites(writes...)
			land()
			for i := range came {
				want := string(fence.CodeAccepted)
				if i == 0 {
					want = string(bad.code)
				}
				if a := <-came[i]; a.Code != want {
					t.Errorf("write %d: %+v", i, a)
				}
			}
			if got := w.Stats().Batches; got.FellBack != 1 || got.Failed > bad.failed || got.Failed == 0 || got.Writes != int64(len(writes)-1) {
				t.Errorf("%+v", got)
			}
			if n := w.text("SELECT count(*)::text FROM fence.marks WHERE resource = 'rows/public.many/' || $1", bad.key); n != "0" {
				t.Error("a write that was refused raised a mark")
			}
		})
	}
}

// A write whose lease a grant is waiting for, and one whose row is locked, are waited for by nobody but those that write the same.
func TestBatchWaitsForNobody(t *testing.T) {
	w, first := many(t, "SELECT fence.protect('wallets', 'wallet:{id}')")
	wallet := w.grant("wallet:42", "p", "a").First()
	for name, lock := range map[string]string{
		"Lease":   "SELECT pg_advisory_xact_lock(fence.lease_lock('wallet:42'))",
		"Binding": "SELECT pg_advisory_xact_lock(fence.binding_lock('rows/public.wallets'))",
		"Row":     "SELECT FROM wallets WHERE id = 42 FOR UPDATE",
		"Mark":    "SELECT fence.admit('wallets', '42', " + fmt.Sprint(wallet+500) + ")",
	} {
		t.Run(name, func(t *testing.T) {
			tx := w.begin()
			if _, err := tx.Exec(t.Context(), lock); err != nil {
				t.Fatal(err)
			}
			first, wallet = first+10, wallet+10
			land, came := w.beginWrites(patch("many", "1", `{"n":1}`, first), patch("wallets", "42", `{"balance":1}`, wallet), patch("many", "2", `{"n":2}`, first+1))
			began := time.Now()
			land()
			for _, i := range []int{0, 2} {
				if a := <-came[i]; a.Code != "accepted" {
					t.Errorf("%+v", a)
				}
			}
			if took := time.Since(began); took > 3*time.Second { // the lock timeout is 5 s
				t.Errorf("the others took %v", took)
			}
			if len(came[1]) > 0 {
				t.Errorf("the write did not wait: %+v", <-came[1])
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if a := <-came[1]; a.Code != "accepted" {
				t.Errorf("%+v", a)
			}
		})
	}
}

// Rows under roles and claims are changed with their rights, in batches of their own.
func TestBatchUnderARole(t *testing.T) {
	w, ann, token := newTenants(t)
	bob := fence.Identity{Role: ann.Role, Claims: `{"sub":"bob"}`}
	w.exec("INSERT INTO notes SELECT i, CASE WHEN i % 2 = 0 THEN 'ann' ELSE 'bob' END, true, '' FROM generate_series(10, 19) i")
	var writes []fence.RowWrite
	for i := range 10 {
		x := patch("notes", fmt.Sprint(10+i), fmt.Sprintf(`{"text":"%d"}`, i), token+fence.Token(i))
		x.As = ann
		writes = append(writes, x)
	}
	for i := range 4 {
		x := rowWrite(fence.OpPut, "notes", fmt.Sprint(20+i), fmt.Sprintf(`{"owner":"%s","text":"new"}`, []string{"bob", "ann"}[i/3]), token+20+fence.Token(i))
		x.As = bob
		writes = append(writes, x)
	}
	land, came := w.beginWrites(writes...)
	land()
	for i := range came {
		want := fence.CodeAccepted
		switch {
		case i < 10 && i%2 == 1:
			want = fence.CodeNotFound // she sees it, and may not change it
		case i == 13:
			want = fence.CodeForbidden
		}
		a := <-came[i]
		if a.Code != string(want) {
			t.Errorf("write %d: %+v", i, a)
		}
		if i >= 10 && want == fence.CodeAccepted && !a.Created {
			t.Errorf("write %d: %+v", i, a)
		}
	}
	if got := w.text("SELECT string_agg(id || ' ' || owner || ' ' || text, ', ' ORDER BY id) FROM notes WHERE id >= 10 AND text <> ''"); got != "10 ann 0, 12 ann 2, 14 ann 4, 16 ann 6, 18 ann 8, 20 bob new, 21 bob new, 22 bob new" {
		t.Error(got)
	}
	if got := w.text("SELECT string_agg(resource || created, ' ' ORDER BY resource) FROM fence.marks WHERE created"); got != "rows/public.notes/20true rows/public.notes/21true rows/public.notes/22true" {
		t.Error(got)
	}
}

// A caller that gives up while a batch is under way is told that the outcome is open; the batch goes on.
func TestBatchOutlivesItsCallers(t *testing.T) {
	w, first := many(t, "")
	tx := w.begin()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE many"); err != nil {
		t.Fatal(err)
	}
	land := w.HoldLane()
	ctx, cancel := context.WithCancel(t.Context())
	came := make(chan error, 2)
	for i := range 2 {
		go func() {
			_, err := w.WriteRow(ctx, patch("many", fmt.Sprint(i+1), `{"n":7}`, first+fence.Token(i)))
			came <- err
		}()
		w.until("the write is queued", func() bool { return w.QueuedWrites() == i+1 })
	}
	land()
	w.until("the batch waits", func() bool {
		return w.text("SELECT count(*)::text FROM pg_locks WHERE NOT granted AND relation = 'many'::regclass") == "1"
	})
	cancel()
	for range 2 {
		wantCode(t, <-came, fence.CodeOutcomeUnknown)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until("nothing is being written", func() bool { return w.Writing() == 0 })
	for i := range 2 {
		row, err := w.WriteRow(t.Context(), patch("many", fmt.Sprint(i+1), `{"n":7}`, first+fence.Token(i)))
		if wantCode(t, err, fence.CodeAccepted); !strings.Contains(string(row.JSON), `"n":7`) {
			t.Errorf("%s", row.JSON)
		}
	}
}

// Rows that are long together are all answered, and the batch's answer is bounded.
func TestBatchOfLongRows(t *testing.T) {
	w, first := many(t, "ALTER TABLE many ADD long text; UPDATE many SET long = repeat('x', 1500000) WHERE id <= 8")
	var writes []fence.RowWrite
	for i := range 8 {
		writes = append(writes, patch("many", fmt.Sprint(i+1), `{"n":5}`, first+fence.Token(i)))
	}
	land, came := w.beginWrites(writes...)
	land()
	for i := range came {
		if a := <-came[i]; a.Code != "accepted" || len(a.JSON) < 1500000 {
			t.Errorf("write %d: %s, %d bytes", i, a.Code, len(a.JSON))
		}
	}
}

// Behind a pooler nothing is kept in a session.
func TestBatchSettingsEndWithIt(t *testing.T) {
	w, first := many(t, "")
	land, came := w.beginWrites(patch("many", "1", `{"n":1}`, first), patch("many", "2", `{"n":2}`, first+1))
	land()
	<-came[0]
	<-came[1]
	s := w.another(pgstore.Config{MaxConns: 1, Lanes: 1})
	_, err := s.WriteRow(t.Context(), patch("many", "3", `{"n":1}`, first+2))
	wantCode(t, err, fence.CodeAccepted)
	for _, name := range []string{"enable_seqscan", "enable_hashjoin", "lock_timeout", "plan_cache_mode"} {
		got, err := s.Setting(t.Context(), name)
		if err != nil || got != map[string]string{"enable_seqscan": "on", "enable_hashjoin": "on", "lock_timeout": "5s", "plan_cache_mode": "auto"}[name] {
			t.Errorf("%s is %s, %v", name, got, err)
		}
	}
}
