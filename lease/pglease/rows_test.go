package pglease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/pglease"
)

func TestRows(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	for name, test := range map[string]func(*testing.T, string){
		"BadInputChangesNothing": testBadInput, "TTLIsBounded": testTTL, "ClockWentBack": testClock, "ReservationIsTheWindow": testWindow,
		"ForgottenEntry": testForgotten,
	} {
		t.Run(name, func(t *testing.T) { test(t, url) })
	}
}

func testBadInput(t *testing.T, url string) {
	db := database(t, url)
	l := open(t, pglease.Config{URL: url})
	bad := "\xff\xfe"
	with := func(f func(*lease.Entry)) lease.Entry { e := entry("a"); f(&e); return e }
	for what, e := range map[string]lease.Entry{
		"NoteWithNUL":     with(func(e *lease.Entry) { e.Note = "a\x00b" }),
		"NoteNotUTF8":     with(func(e *lease.Entry) { e.Note = bad }),
		"NoteTooLong":     with(func(e *lease.Entry) { e.Note = strings.Repeat("n", lease.MaxNote+1) }),
		"HolderWithNUL":   with(func(e *lease.Entry) { e.Holder = "\x00" }),
		"HolderNotUTF8":   with(func(e *lease.Entry) { e.Holder = bad }),
		"HolderTooLong":   with(func(e *lease.Entry) { e.Holder = strings.Repeat("n", fence.MaxHolder+1) }),
		"NegativeWaiters": with(func(e *lease.Entry) { e.Waiters = -1 }),
		"HugeWaiters":     with(func(e *lease.Entry) { e.Waiters = 1 << 40 }),
		"NegativePlace":   with(func(e *lease.Entry) { e.Place = -1 }),
		"NoValue":         with(func(e *lease.Entry) { e.Value = fence.Digest{} }),
	} {
		_, err := l.Enter(t.Context(), "bad", e)
		if fence.CodeOf(err) != fence.CodeInvalidRequest {
			t.Errorf("enter with %s: %v", what, err)
		}
		if _, err = l.Stay(t.Context(), "bad", e); fence.CodeOf(err) != fence.CodeInvalidRequest {
			t.Errorf("stay with %s: %v", what, err)
		}
	}
	for _, name := range []string{"", bad, "a\x00", "a\nb", strings.Repeat("n", fence.MaxLeaseName+1)} {
		_, looked := l.Look(t.Context(), name, 1)
		_, entered := l.Enter(t.Context(), name, entry("a"))
		_, extended := l.Extend(t.Context(), name, lease.Extension{Value: value("a"), TTL: time.Minute})
		_, dropped := l.Drop(t.Context(), name, value("a"))
		for what, err := range map[string]error{"look": looked, "enter": entered, "extend": extended, "drop": dropped} {
			if fence.CodeOf(err) != fence.CodeInvalidRequest {
				t.Errorf("%s %.20q: %v", what, name, err)
			}
		}
	}
	if _, err := l.Extend(t.Context(), "bad", lease.Extension{Value: value("a"), Holder: bad}); fence.CodeOf(err) != fence.CodeInvalidRequest {
		t.Errorf("extend: %v", err)
	}
	if left := leftovers(t, db, "bad"); len(left) != 0 {
		t.Errorf("something is kept: %q", left)
	}
}

// A TTL is never none, and never longer than a lease may be.
func testTTL(t *testing.T, url string) {
	l := open(t, pglease.Config{URL: url})
	for name, ttl := range map[string]time.Duration{"zero": 0, "negative": -time.Hour, "huge": 1 << 62} {
		e := entry("a")
		e.TTL = ttl
		s, err := l.Enter(t.Context(), name, e)
		if err != nil || s.Value != value("a") || s.Remaining > lease.MaxTTL || ttl <= 0 && s.Remaining > time.Millisecond {
			t.Errorf("%s: it stands %+v, %v", name, s, err)
		}
	}
}

// The database's clock went back: nothing runs longer than it could have been given.
func testClock(t *testing.T, url string) {
	db := database(t, url)
	a, b := join(t, pglease.Config{URL: url}), join(t, pglease.Config{URL: url})
	a.enter("clock", "a")
	exec(t, db, "UPDATE fence.leases SET ends_at = ends_at + interval '30 days'")
	for range 2 {
		if s := b.look("clock"); s.Remaining > lease.MaxTTL || s.Remaining < lease.MaxTTL-time.Minute {
			t.Fatalf("it stands %+v", s)
		}
	}
	b.enter("clock", "b")
	a.drop("clock", "a")
	exec(t, db, "UPDATE fence.leases SET ends_at = ends_at + interval '1 day'")
	if s := a.look("clock"); !s.Reserved || s.Remaining > lease.Window {
		t.Fatalf("it stands %+v, want a reservation of at most %v", s, lease.Window)
	}
	// One that stands at a place to come does not keep others from standing behind it.
	exec(t, db, "DELETE FROM fence.leases")
	a.enter("clock", "a")
	e := entry("ahead")
	e.Place = time.Now().Add(time.Hour).UnixMicro()
	if s, err := a.Enter(t.Context(), "clock", e); err != nil || s.Place != e.Place {
		t.Fatalf("%+v, %v", s, err)
	}
	if s := b.enter("clock", "later"); s.Place <= e.Place {
		t.Fatalf("it stands %+v, want a place behind %d", s, e.Place)
	}
}

func testWindow(t *testing.T, url string) {
	if d := ask[time.Duration](t, database(t, url), "SELECT fence.reservation(0)"); d != lease.Window {
		t.Errorf("%v, want %v", d, lease.Window)
	}
}

// What means nothing any more goes, what does stays, and nobody waits for it.
func TestSweep(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	db, other := database(t, url), database(t, url)
	exec(t, db, `INSERT INTO fence.leases SELECT 'ended ' || n, sha256(''), gen_random_uuid(), 0, 0, '', false, NULL, NULL, now() - interval '2 min' FROM generate_series(1, 5) n;
		INSERT INTO fence.leases SELECT 'just ended', sha256(''), gen_random_uuid(), 0, 0, '', false, NULL, NULL, now() - interval '1 s';
		INSERT INTO fence.leases SELECT 'held', sha256(''), gen_random_uuid(), 0, 0, '', false, NULL, NULL, now() + interval '1 min';
		INSERT INTO fence.lease_queue SELECT 'held', n, sha256(''), gen_random_uuid(), 0, 1, '', '', now() + (n - 1.5) * interval '1 h' FROM generate_series(1, 2) n;
		INSERT INTO fence.lease_signals (gateway, kind, name, value, sent_at) SELECT gen_random_uuid(), 'p', 'held', sha256(''), now() - n * interval '50 s' FROM generate_series(0, 2) n`)
	left := func() string {
		return ask[string](t, db, "SELECT (SELECT count(*) FROM fence.leases) || ' ' || (SELECT count(*) FROM fence.lease_queue) || ' ' || (SELECT count(*) FROM fence.lease_signals)")
	}
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM fence.leases WHERE name = 'ended 1' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		swept int64
		left  string
	}{{4, "5 1 2"}, {2, "3 1 2"}, {0, "3 1 2"}} {
		if n := ask[int64](t, db, "SELECT fence.sweep_leases(2)"); n != want.swept || left() != want.left {
			t.Errorf("%d were swept and %s are left, want %+v", n, left(), want)
		}
	}
	if _, err := tx.Exec(t.Context(), "SELECT fence.sweep_leases(2)"); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "UPDATE fence.leases SET ends_at = ends_at - interval '1 h' WHERE name = 'just ended'")
	if n := ask[int64](t, db, "SELECT fence.sweep_leases(2)"); n != 0 {
		t.Errorf("a second sweeps %d at the same time", n)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := ask[int64](t, db, "SELECT fence.sweep_leases(2)"); n != 1 || left() != "1 1 2" {
		t.Errorf("%d were swept and %s are left", n, left())
	}
}

// An entry that nobody has renewed for long is not served.
func testForgotten(t *testing.T, url string) {
	db := database(t, url)
	a, b := join(t, pglease.Config{URL: url}), join(t, pglease.Config{URL: url})
	a.enter("forgotten", "a")
	b.enter("forgotten", "b")
	b.enter("forgotten", "b2")
	forgotten := value("b")
	exec(t, db, "UPDATE fence.lease_queue SET forget_at = now() WHERE value = $1", forgotten[:])
	a.drop("forgotten", "a")
	wantKept(t, db, "forgotten", "b2")
}

// A gateway's role has what docs/operations.md grants, and no right to a table of the locker's; others have nothing.
func (o *ownServer) testRights(t *testing.T) {
	admin := o.URL("")
	as := func(role string) string { return strings.Replace(admin, "postgres@", role+"@", 1) }
	db := database(t, admin)
	exec(t, db, "CREATE ROLE owner LOGIN; CREATE ROLE gateway LOGIN; CREATE ROLE stranger LOGIN; GRANT CREATE ON DATABASE fencegate TO owner")
	migrate(t, as("owner"))
	exec(t, db, `GRANT USAGE ON SCHEMA fence TO gateway, stranger; GRANT SELECT ON ALL TABLES IN SCHEMA fence TO gateway;
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fence TO gateway`)
	config := pglease.Config{URL: as("gateway")}
	polled := pglease.Config{URL: testenv.PgBouncer(t, as("gateway"), "transaction"), Pooled: true}
	a, b, c := join(t, config), join(t, config), join(t, polled)
	handOver(t, a, b, "direct")
	handOver(t, a, c, "polled")
	end(t, db, listening)
	a.hears(lease.Signal{Kind: lease.Resync})
	gateway := database(t, as("gateway"))
	if n := ask[int64](t, gateway, "SELECT fence.sweep_leases(1)"); n != 0 {
		t.Errorf("%d were swept", n)
	}
	for _, sql := range []string{"DELETE FROM fence.leases", "UPDATE fence.lease_queue SET place = 1", "DELETE FROM fence.lease_signals", "SELECT fence.pass_lease('x', jsonb_populate_record(NULL::fence.leases, '{\"name\":\"x\"}'))"} {
		if _, err := gateway.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for what, call := range calls(t, open(t, pglease.Config{URL: as("stranger")})) {
		err := call()
		if wantCode(t, err, fence.CodeUnavailable); !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s as a stranger: %v", what, err)
		}
	}
}
