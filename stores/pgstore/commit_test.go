package pgstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

func patchRow(table, key string, token fence.Token, body string) fence.CommitWrite {
	w := rowOf(fence.OpPatch, table, key, token, body)
	return fence.CommitWrite{Row: &w}
}

// rowOf is a write of worker-a's. The parts of the key are separated by commas.
func rowOf(op fence.Op, table, key string, token fence.Token, body string) fence.RowWrite {
	w := fence.RowWrite{Op: op, Row: fence.RowName{Table: table, Key: strings.Split(key, ",")}, Access: fence.Access{Principal: "worker-a", Token: token}}
	if body != "" {
		w.Body, w.Columns = json.RawMessage(body), namesIn(body)
	}
	return w
}

// namesIn lists the members of a flat JSON object in some order.
func namesIn(body string) []string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		panic(err)
	}
	var names []string
	for n := range members {
		names = append(names, n)
	}
	return names
}

func (w *world) commit(writes ...fence.CommitWrite) (fence.Committed, error) {
	for i := range writes {
		if o := writes[i].Object; o != nil {
			o.Principal = "worker-a"
		}
	}
	return w.Commit(context.Background(), fence.Commit{Principal: "worker-a", Writes: writes})
}

// upload stores a body's record as the gateway does; the bytes do not matter here.
func (w *world) upload(bucket, principal string) string {
	w.t.Helper()
	id, err := w.BeginBlob(context.Background(), bucket, principal)
	if err == nil {
		err = w.KeepBlob(context.Background(), fence.Blob{ID: id, Size: 3, SHA256: [32]byte{1}}, fence.ObjectHeader{ContentType: "text/csv"})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func putObject(bucket, key string, token fence.Token, blob string) fence.CommitWrite {
	return fence.CommitWrite{Blob: blob, Object: &fence.ObjectWrite{
		Op: fence.OpPut, Object: fence.ObjectName{Bucket: bucket, Key: key}, Access: fence.Access{Token: token},
	}}
}

func (w *world) mark(resource string) string {
	return w.text("SELECT coalesce((SELECT token FROM fence.marks WHERE resource = $1), 0)::text", resource)
}

// two wallets under their own leases, and a bucket: what a transfer with a receipt needs.
func newTransfer(t *testing.T) (w *world, from, to fence.Token) {
	w = newWorld(t)
	w.exec(`INSERT INTO wallets VALUES (43, 'bob', 10); SELECT fence.protect_bucket('receipts', '', 'wallet:42')`)
	return w, w.grant("wallet:42", "worker-a", "1").First(), w.grant("wallet:43", "worker-a", "1").First()
}

func TestCommitSpansLeases(t *testing.T) {
	w, from, to := newTransfer(t)
	blob := w.upload("receipts", "worker-a")
	writes := []fence.CommitWrite{
		patchRow("wallets", "42", from, `{"balance":90}`), patchRow("wallets", "43", to, `{"balance":20}`), putObject("receipts", "1.csv", from, blob),
	}
	done, err := w.commit(writes...)
	if err != nil || done.Replayed {
		t.Fatalf("%+v, %v", done, err)
	}
	first, receipt := done.Results[0].Row, done.Results[2].Object
	if first.Mark != from || first.Lease != "wallet:42" || first.Resource != "rows/public.wallets/42" || !strings.Contains(string(first.JSON), `"balance":90`) {
		t.Errorf("the first write: %+v", first)
	}
	if done.Results[1].Row.Mark != to || receipt.Mark != from || !receipt.Created || receipt.Blob != blob || receipt.Size != 3 || receipt.Header.ContentType != "text/csv" {
		t.Errorf("the others: %+v, %+v", done.Results[1].Row, receipt)
	}

	again, err := w.commit(writes...)
	if err != nil || !again.Replayed || again.Results[2].Object.Blob != blob || !again.Results[2].Object.Created || string(again.Results[0].Row.JSON) != string(first.JSON) {
		t.Errorf("the same commit again: %+v, %v", again, err)
	}
	// One of its resources has been written since: the others still tell that it was carried out.
	if _, err := w.commit(patchRow("wallets", "42", from+1, `{"balance":80}`)); err != nil {
		t.Fatal(err)
	}
	if again, err = w.commit(writes...); err != nil || !again.Replayed || again.Results[0].Row.Mark != from+1 {
		t.Errorf("the same commit after another write: %+v, %v", again, err)
	}
	if _, err := w.commit(patchRow("wallets", "42", from, `{"balance":90}`), patchRow("wallets", "43", to, `{"balance":21}`)); fence.CodeOf(err) == fence.CodeAccepted {
		t.Error("another commit with the same tokens was accepted")
	}
}

func TestCommitIsAllOrNothing(t *testing.T) {
	w, from, to := newTransfer(t)
	w.exec(`CREATE TABLE notes (id int PRIMARY KEY, text text NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO notes VALUES (1, 'a'), (2, 'b');
		CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TABLE silent (id int PRIMARY KEY, n int); INSERT INTO silent VALUES (1, 1); CREATE TRIGGER s BEFORE UPDATE ON silent FOR EACH ROW EXECUTE FUNCTION swallow();
		SELECT fence.protect('notes', 'wallet:42'), fence.protect('silent', 'wallet:42')`)
	good := patchRow("wallets", "42", from, `{"balance":90}`)
	insert := rowOf(fence.OpPut, "wallets", "44", w.grant("wallet:44", "worker-a", "1").First(), `{"owner":"cid","balance":1}`)
	for _, c := range []struct {
		name   string
		second fence.CommitWrite
		code   fence.Code
		write  int
	}{
		{"Stale", patchRow("wallets", "43", to-1, `{"balance":20}`), fence.CodeStaleToken, 2},
		{"Unissued", patchRow("wallets", "43", to+500000, `{"balance":20}`), fence.CodeUnissuedToken, 2},
		{"Absent", patchRow("wallets", "99", w.grant("wallet:99", "worker-a", "1").First(), `{"balance":20}`), fence.CodeNotFound, 2},
		{"Constraint", patchRow("wallets", "43", to, `{"balance":-1}`), fence.CodeConstraintViolation, 2},
		{"Deferred", patchRow("notes", "2", from, `{"text":"a"}`), fence.CodeConstraintViolation, 0},
		{"Suppressed", patchRow("silent", "1", from, `{"n":2}`), fence.CodeWriteSuppressed, 2},
		{"UnknownColumn", patchRow("wallets", "43", to, `{"nonsense":1}`), fence.CodeInvalidRequest, 2},
		{"BadValue", patchRow("wallets", "43", to, `{"balance":"x"}`), fence.CodeInvalidRequest, 2},
		{"BadKey", patchRow("wallets", "x", to, `{"balance":20}`), fence.CodeInvalidRequest, 2},
		{"NotProtected", patchRow("strangers", "1", to, `{"balance":20}`), fence.CodeNotFound, 2},
		{"SameRow", patchRow("public.wallets", "042", from+1, `{"balance":20}`), fence.CodeInvalidRequest, 2},
		{"OtherBucket", putObject("reports", "a", from, w.upload("reports", "worker-a")), fence.CodeNotFound, 2},
		{"ForeignUpload", putObject("receipts", "a", from, w.upload("receipts", "mallory")), fence.CodeUploadExpired, 2},
		{"UploadOfAnotherBucket", putObject("receipts", "a", from, w.upload("reports", "worker-a")), fence.CodeUploadExpired, 2},
		{"NoSuchObject", fence.CommitWrite{Object: &fence.ObjectWrite{Op: fence.OpDelete, Object: fence.ObjectName{Bucket: "receipts", Key: "none"}, Access: fence.Access{Token: from}}}, fence.CodeNotFound, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.commit(good, c.second, fence.CommitWrite{Row: &insert})
			e := wantCode(t, err, c.code)
			if e.Write != c.write {
				t.Errorf("the error is about write %d, want %d: %v", e.Write, c.write, err)
			}
			if got := w.text("SELECT string_agg(id || '=' || balance, ' ' ORDER BY id) FROM wallets"); got != "42=100 43=10" {
				t.Errorf("the wallets are %s", got)
			}
			if got := w.text("SELECT count(*)::text FROM fence.marks"); got != "0" {
				t.Errorf("%s marks were raised", got)
			}
		})
	}
}

func TestCommitOfManyWithOneStale(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE counters (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO counters SELECT i, 0 FROM generate_series(1, 1000) i; SELECT fence.protect('counters', 'counters')`)
	token := w.grant("counters", "worker-a", "1").First()
	if _, err := w.commit(patchRow("counters", "700", token+10, `{"n":7}`)); err != nil {
		t.Fatal(err)
	}
	many := func(token fence.Token) []fence.CommitWrite {
		var writes []fence.CommitWrite
		for i := 1; i <= 1000; i++ {
			writes = append(writes, patchRow("counters", strconv.Itoa(i), token, fmt.Sprintf(`{"n":%d}`, i)))
		}
		return writes
	}
	_, err := w.commit(many(token + 5)...)
	if e := wantCode(t, err, fence.CodeStaleToken); e.Write != 700 || e.State.Mark != token+10 {
		t.Errorf("refused for write %d: %+v", e.Write, e.State)
	}
	if got := w.text("SELECT sum(n)::text || ' ' || (SELECT count(*) FROM fence.marks) FROM counters"); got != "7 1" {
		t.Errorf("sum and marks are %s", got)
	}
	done, err := w.commit(many(token + 11)...)
	if err != nil || len(done.Results) != 1000 || done.Results[999].Row.Mark != token+11 {
		t.Fatalf("%d results, %v", len(done.Results), err)
	}
	if got := w.text("SELECT sum(n)::text || ' ' || (SELECT count(*) FROM fence.marks WHERE token = $1) FROM counters", int64(token+11)); got != "500500 1000" {
		t.Errorf("sum and marks are %s", got)
	}
}

// No deadlock reaches a client, whatever the order in which commits name their rows.
func TestCommitsInOppositeOrders(t *testing.T) {
	w, from, to := newTransfer(t)
	const writers, rounds = 6, 40
	var wg sync.WaitGroup
	errs := make(chan error, writers*rounds)
	var mu sync.Mutex
	next := fence.Token(0)
	for n := range writers {
		wg.Go(func() {
			for range rounds {
				mu.Lock()
				next++
				a, b := from+next, to+next
				mu.Unlock()
				writes := []fence.CommitWrite{patchRow("wallets", "42", a, `{"balance":1}`), patchRow("wallets", "43", b, `{"balance":2}`)}
				if n%2 == 1 {
					writes[0], writes[1] = writes[1], writes[0]
				}
				_, err := w.commit(writes...)
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	accepted := 0
	for err := range errs {
		switch fence.CodeOf(err) {
		case fence.CodeAccepted:
			accepted++
		case fence.CodeStaleToken: // another one with a higher token was first
		default:
			t.Errorf("a client was told %v", err)
		}
	}
	if accepted < rounds {
		t.Errorf("only %d commits were accepted", accepted)
	}
	if w.mark("rows/public.wallets/42") != strconv.FormatInt(int64(from+next), 10) {
		t.Error("the highest token is not the mark")
	}
}

// A grant that has been superseded seals a commit of it, on each of its leases.
func TestCommitIsSealed(t *testing.T) {
	w, from, to := newTransfer(t)
	w.grant("wallet:43", "worker-b", "2")
	_, err := w.commit(patchRow("wallets", "42", from, `{"balance":90}`), patchRow("wallets", "43", to, `{"balance":20}`))
	if e := wantCode(t, err, fence.CodeStaleToken); e.Write != 2 || e.Lease != "wallet:43" {
		t.Errorf("%+v", e)
	}
	if w.mark("rows/public.wallets/42") != "0" {
		t.Error("the mark of the other row was raised")
	}
}

// A commit that is repeated while its first copy is under way is applied once.
func TestCommitTwiceAtOnce(t *testing.T) {
	w, from, to := newTransfer(t)
	w.exec(`CREATE TABLE log (at timestamptz DEFAULT clock_timestamp()); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log DEFAULT VALUES; RETURN NEW; END';
		CREATE TRIGGER note BEFORE UPDATE ON wallets FOR EACH ROW EXECUTE FUNCTION note()`)
	holder := w.connect()
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT 1 FROM wallets WHERE id = 43 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		done fence.Committed
		err  error
	}
	answers := make(chan answer, 2)
	for range 2 {
		go func() {
			done, err := w.commit(patchRow("wallets", "42", from, `{"balance":90}`), patchRow("wallets", "43", to, `{"balance":20}`))
			answers <- answer{done, err}
		}()
	}
	deadline := time.Now().Add(10 * time.Second)
	for w.text("SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") != "2" {
		if time.Now().After(deadline) {
			t.Fatal("the commits do not wait")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	a, b := <-answers, <-answers
	if a.err != nil || b.err != nil || a.done.Replayed == b.done.Replayed {
		t.Errorf("%+v and %+v", a, b)
	}
	if got := w.text("SELECT count(*)::text FROM log"); got != "2" {
		t.Errorf("%s rows were changed, want 2", got)
	}
}
