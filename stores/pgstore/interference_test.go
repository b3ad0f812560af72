package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
)

// A SQL writer that is busy is not taken for one that has stalled, however long its transaction.
func TestBusyWriterIsNotEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	g := w.grant("wallet:42", "p", "a")
	tx, err := w.connect().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT fence.admit('wallets', '42', $1)", int64(g.First())); err != nil {
		t.Fatal(err)
	}
	certified := make(chan error, 1)
	go func() {
		_, err := w.Certify(ctx, fence.Certificate{Lease: "wallet:42", Principal: "q", Holder: "q", Acquire: fence.AcquireDigest("q", "b"), TTL: 30e9, Floor: g.First()})
		certified <- err
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case err := <-certified:
			wantCode(t, err, fence.CodeContention)
			waiting = false
		case <-tick.C:
			if _, err := tx.Exec(ctx, "UPDATE wallets SET balance = balance + 1 WHERE id = 42"); err != nil {
				t.Fatalf("the busy writer was ended: %v", err)
			}
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Error(err)
	}
}

// A SQL caller's admit looks at the table as it is now, as the gateway does.
func TestAdmitOnAnAlteredTable(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE k (id text PRIMARY KEY); INSERT INTO k VALUES ('42'); SELECT fence.protect('k', 'k'); ALTER TABLE k ALTER id TYPE bigint USING id::bigint;
		CREATE TABLE par (id bigint PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE ch (id bigint PRIMARY KEY);
		SELECT fence.protect('par', 'par'), fence.protect('ch', 'ch'); ALTER TABLE par ATTACH PARTITION ch FOR VALUES FROM (0) TO (100)`)
	for table, key := range map[string]string{"k": "042", "par": "1", "ch": "1"} {
		g := w.grant(table, "p", "a")
		_, err := w.db.Exec(t.Context(), "SELECT fence.admit($1, $2, $3)", table, key, int64(g.First()))
		if err == nil || !strings.Contains(err.Error(), "FG007") {
			t.Errorf("%s: %v", table, err)
		}
	}
	for _, key := range []string{"%ff", "%00", "%2", "x"} {
		_, err := w.db.Exec(t.Context(), "SELECT fence.admit('wallets', $1, 1)", key)
		if err == nil || !strings.Contains(err.Error(), "FG008") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// What stands in public when the ledger is made, or later, is not called with its owner's rights.
func TestForeignFunctionsAreNotBound(t *testing.T) {
	url := testenv.Database(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `CREATE TABLE loot (what text);
		CREATE FUNCTION public.nextval(text) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.loot VALUES ('nextval'); RETURN pg_catalog.nextval($1::regclass); END $$;
		CREATE FUNCTION public.format(text, inet) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.loot VALUES ('format'); RETURN 'x'; END $$`); err != nil {
		t.Fatal(err)
	}
	w := newWorldAt(t, url)
	w.exec(`CREATE TABLE hosts (ip inet PRIMARY KEY, v int); INSERT INTO hosts VALUES ('10.0.0.1', 1); SELECT fence.protect('hosts', 'h')`)
	g := w.grant("h", "p", "a")
	for i, body := range []string{`{"v":99999999999999}`, `{"v":2}`} {
		_, err = w.WriteRow(t.Context(), patch("hosts", "10.0.0.1", body, g.First()+fence.Token(i)))
	}
	wantCode(t, err, fence.CodeAccepted)
	if loot := w.text("SELECT string_agg(what, ' ') FROM loot"); loot != "<null>" {
		t.Errorf("called: %s", loot)
	}
}

// However many sessions were left with another isolation, a write of somebody else is served.
func TestManyAlteredSessions(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	w.exec(`CREATE TABLE pol (id bigint PRIMARY KEY, v int); INSERT INTO pol SELECT i, 0 FROM generate_series(1, 8) i; SELECT fence.protect('pol', 'pol:{id}');
		CREATE FUNCTION pol() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('default_transaction_isolation', 'serializable', false), pg_sleep(0.5); RETURN NEW; END $$;
		CREATE TRIGGER pol BEFORE UPDATE ON pol FOR EACH ROW EXECUTE FUNCTION pol()`)
	done := make(chan error, 8)
	for i := 1; i <= cap(done); i++ {
		g := w.grant(fmt.Sprintf("pol:%d", i), "p", "a")
		go func() {
			_, err := w.WriteRow(ctx, patch("pol", fmt.Sprint(i), `{"v":1}`, g.First()))
			done <- err
		}()
	}
	var failed error
	for range cap(done) {
		failed = errors.Join(failed, <-done)
	}
	wantCode(t, failed, fence.CodeAccepted)
	_, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance":1}`, w.grant("wallet:42", "p", "a").First()))
	wantCode(t, err, fence.CodeAccepted)
}

func TestProtectUnderOtherSettings(t *testing.T) {
	w := newWorld(t)
	w.exec(`SET quote_all_identifiers = on; SELECT fence.protect('wallets', 'wallet:{id}'); RESET quote_all_identifiers;
		CREATE SCHEMA timesheets; CREATE TYPE timesheets.st AS ENUM ('now', 'later'); CREATE TABLE e (s timesheets.st PRIMARY KEY, v int);
		INSERT INTO e VALUES ('now', 1); SELECT fence.protect('e', 'e'); CREATE TABLE d (id timestamptz PRIMARY KEY); SELECT fence.protect('d', 'd');
		CREATE TABLE gk (a int, id int GENERATED ALWAYS AS (a + 1) STORED PRIMARY KEY)`)
	_, err := w.WriteRow(t.Context(), patch("e", "now", `{"v":2}`, w.grant("e", "p", "a").First()))
	wantCode(t, err, fence.CodeAccepted)
	for _, key := range []string{"(now)", "10:00 tomorrow", "today10:00", "NOW", " yesterday "} {
		_, err := w.RowMark(t.Context(), fence.RowName{Table: "d", Key: []string{key}})
		wantCode(t, err, fence.CodeInvalidRequest)
	}
	wantCode(t, w.Protect(t.Context(), "gk", "gk"), fence.CodeInvalidRequest)
}

func TestDeleteOfAnObjectThatMustNotExist(t *testing.T) {
	w, g := objectWorld(t)
	if _, err := w.PutObject(t.Context(), objectWrite(fence.OpPut, g.First()), w.blob("x")); err != nil {
		t.Fatal(err)
	}
	x := objectWrite(fence.OpDelete, g.First()+1)
	x.If.Absent = true
	_, err := w.DeleteObject(t.Context(), x)
	if e := wantCode(t, err, fence.CodePreconditionFailed); e.State.Mark != g.First() {
		t.Errorf("mark %d", e.State.Mark)
	}
}
