package pgstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
)

// olderProgram speaks to the ledger as programs of schema version 7 do, over one session that it has kept since then.
type olderProgram struct {
	t    *testing.T
	conn *pgx.Conn
}

const (
	olderColumns = "g.lease, g.acquire_hash, g.holder, g.ended_why"
	olderCertify = "SELECT c.code, c.id, " + olderColumns + " FROM fence.certify($1, $2, $3, $4, $5, $6) c, LATERAL (SELECT (c.newest).*) g"
	olderEnd     = "SELECT " + olderColumns + " FROM fence.end_grant($1, $2, $3, $4, $5, $6) g"
	olderMore    = "SELECT " + olderColumns + " FROM fence.more_tokens($1, $2, $3, $4) g"
	olderHeld    = "SELECT " + olderColumns + " FROM fence.grants g WHERE g.lease = $1 AND g.ended_at IS NULL AND fence.names_grant(g, $2, $3, $4, $5)"
)

func (o olderProgram) certify(lease, acquire string, floor fence.Token) (code string, id *string) {
	o.t.Helper()
	var name, holder, ended *string
	var hash []byte
	d := fence.AcquireDigest("old", acquire)
	err := o.conn.QueryRow(context.Background(), olderCertify, lease, int64(floor), d[:], "old", "old", int64(30000)).Scan(&code, &id, &name, &hash, &holder, &ended)
	if err != nil {
		o.t.Fatalf("certify: %v", err)
	}
	return code, id
}

// grantOf runs one of the others and returns why the grant has ended.
func (o olderProgram) grantOf(sql string, args ...any) string {
	o.t.Helper()
	var name, holder string
	var ended *string
	var hash []byte
	if err := o.conn.QueryRow(context.Background(), sql, args...).Scan(&name, &hash, &holder, &ended); err != nil {
		return err.Error()
	}
	if ended == nil {
		return "live"
	}
	return *ended
}

// A gateway of the version before goes on after the migration, with the rights that its role had, and both kinds agree.
func TestOlderProgramGoesOn(t *testing.T) {
	url := testenv.Database(t)
	migrateTo(t, url, 7)
	ctx := context.Background()
	older := olderProgram{t, connectAs(t, url, `GRANT USAGE ON SCHEMA fence TO %[1]s; GRANT SELECT ON ALL TABLES IN SCHEMA fence TO %[1]s;
		GRANT INSERT, UPDATE ON fence.grants TO %[1]s; GRANT USAGE ON SEQUENCE fence.blocks TO %[1]s; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fence TO %[1]s;
		REVOKE EXECUTE ON FUNCTION fence.advance(bigint), fence.protect(text, text), fence.protect_bucket(text, text, text) FROM %[1]s`)}
	if code, _ := older.certify("l", "0", 0); code != "accepted" {
		t.Fatal(code)
	}
	zero := fence.AcquireDigest("old", "0")
	// Its statements are prepared from here on.
	if more, held := older.grantOf(olderMore, "l", nil, nil, zero[:]), older.grantOf(olderHeld, "l", nil, nil, zero[:], false); more != "live" || held != "live" {
		t.Fatalf("more: %s, held: %s", more, held)
	}
	if got := older.grantOf(olderEnd, "nobody's", nil, nil, nil, true, "released"); !strings.Contains(got, "no rows") {
		t.Fatalf("end: %s", got)
	}

	w := newWorldAt(t, url)
	newest, err := w.Newest(ctx, "l")
	if err != nil || newest.Hold != zero || newest.Acquire != zero {
		t.Fatalf("a grant of before: %+v %v", newest, err)
	}
	if got := older.grantOf(olderEnd, "l", nil, nil, zero[:], false, "released"); got != "released" {
		t.Errorf("end: %s", got)
	}
	code, id := older.certify("l", "1", newest.First())
	if code != "accepted" || id == nil {
		t.Fatalf("certify: %s", code)
	}
	if code, again := older.certify("l", "1", 0); code != "accepted" || *again != *id {
		t.Errorf("repeated: %s", code)
	}
	if code, _ := older.certify("l", "2", 0); code != "void" {
		t.Errorf("on an old floor: %s", code)
	}
	one := fence.AcquireDigest("old", "1")
	idHash := fence.IDDigest(*id)
	if got := older.grantOf(olderHeld, "l", idHash[:], "old", nil, false); got != "live" {
		t.Errorf("held: %s", got)
	}
	if got := older.grantOf(olderMore, "l", idHash[:], "old", nil); got != "live" {
		t.Errorf("more: %s", got)
	}
	// The newer program finds it under the hold that the older one's locker has.
	by := fence.GrantRef{Acquire: one, Hold: one}
	held, err := w.Held(ctx, "l", by)
	if err != nil || held.Hold != one {
		t.Fatalf("%+v %v", held, err)
	}
	local := fence.Certificate{Lease: "l", Principal: "new", Holder: "new", Acquire: fence.DigestOf("new"), Hold: one, Local: true, TTL: 30e9, Floor: held.First()}
	g, err := w.Certify(ctx, local)
	if err != nil {
		t.Fatal(err)
	}
	if got := older.grantOf(olderEnd, "l", nil, nil, nil, true, "broken: by hand"); got != "broken: by hand" {
		t.Errorf("break: %s", got)
	}
	if _, err := w.End(ctx, "l", fence.GrantRef{ID: g.ID, Principal: "new"}, fence.Ending{Why: fence.EndReleased}); err != nil {
		t.Error(err)
	}
	if code, _ := older.certify("l", "3", g.First()); code != "accepted" {
		t.Errorf("certify: %s", code)
	}
	if got := older.grantOf(olderEnd, "l", nil, nil, one[:], false, "released"); !strings.Contains(got, "no rows") {
		t.Errorf("end of another: %s", got)
	}
	if newest, err = w.Newest(ctx, "l"); err != nil {
		t.Fatal(err)
	}
	if code, _ := older.certify("l", "4", newest.First()); code != "accepted" {
		t.Errorf("certify over one that has not ended: %s", code)
	}
	want := []string{"released old (released)", "granted old", "expired old", "granted new", "broken new (broken: by hand)", "granted old",
		"expired old", "granted old"}
	if got := describe(w.eventsAfter("", len(want))); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if from := w.text("SELECT compatible_from::text FROM fence.settings"); from != "7" {
		t.Errorf("compatible from version %s on", from)
	}
}

// connectAs connects as a role of the test's own that was given rights.
func connectAs(t *testing.T, url, rights string) *pgx.Conn {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	role := "fencegate_test_" + strings.ToLower(rand.Text())
	if _, err := admin.Exec(t.Context(), "CREATE ROLE "+role+"; "+fmt.Sprintf(rights, role)); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		conn.Close(ctx)
		if _, err := admin.Exec(ctx, "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
		admin.Close(ctx)
	})
	if _, err := conn.Exec(t.Context(), "SET SESSION AUTHORIZATION "+role); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Nobody but those who were given the right may certify or end grants, or write events: not the role of SQL writers, which may
// use the schema.
func TestNewFunctionsAreNotForEverybody(t *testing.T) {
	w := newWorld(t)
	conn := connectAs(t, w.url, "GRANT fence_writer TO %[1]s")
	for _, sql := range []string{
		"SELECT fence.certify('l', 0, 'a', 'p', 'h', 1000)", "SELECT fence.certify('l', 0, 'a', 'p', 'h', 1000, 'a', false, false, true)",
		"SELECT fence.end_grant('l', NULL, NULL, NULL, true, 'x')", "SELECT fence.end_grant('l', NULL, NULL, NULL, NULL, true, 'x', NULL, true)",
		"SELECT fence.more_tokens('l', NULL, NULL, 'a')", "SELECT fence.note_expiry('l', 1)", "SELECT fence.prune_events('0s', 1)",
		"SELECT fence.note_refusals('{l}', '{p}', '{h}', '{1}', '{r}', '{1}', '{c}')", "SELECT FROM fence.events", "INSERT INTO fence.events (kind, lease, principal) VALUES ('x', 'l', 'p')",
	} {
		if _, err := conn.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if callable := w.text(`SELECT string_agg(oid::regprocedure::text, ' ') FROM pg_proc WHERE pronamespace = 'fence'::regnamespace
		AND proname NOT IN ('admit', 'unadmitted', 'key_text', 'admitted', 'canonical', 'canonical_setting', 'note_created', 'undo', 'admitted_of', 'undo_batch', 'raised_now') AND has_function_privilege('fence_writer', oid, 'EXECUTE')`); callable != "<null>" {
		t.Errorf("SQL writers may call %s", callable)
	}
}
