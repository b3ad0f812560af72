package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// outcome is what a call of Certify or End returned.
type outcome struct {
	grant *fence.Grant
	err   error
}

// certifying begins a first certificate of a lease.
func (w *world) certifying(ctx context.Context, lease, who string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		g, err := w.Certify(ctx, fence.Certificate{Lease: lease, Principal: who, Holder: who, Acquire: fence.AcquireDigest(who, "1"), TTL: 30e9})
		done <- outcome{g, err}
	}()
	return done
}

func (w *world) ending(lease string, by fence.GrantRef, e fence.Ending) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		g, err := w.End(context.Background(), lease, by, e)
		done <- outcome{g, err}
	}()
	return done
}

// awaitQueue returns once so many calls wait in the queue.
func (w *world) awaitQueue(n int) {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); w.Queued() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%d calls wait, want %d", w.Queued(), n)
		}
	}
}

// commits returns in how many transactions the newest states of the leases were written.
func (w *world) commits(prefix string) string {
	return w.text("SELECT count(DISTINCT xmin::text)::text FROM fence.grants WHERE starts_with(lease, $1)", prefix)
}

// Calls that come while another is committed are one transaction, and each gets its own answer.
func TestGroup(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	const many = 12
	ended, lost := w.grant("ended", "p", "1"), w.grant("lost", "p", "1")
	w.grant("lost", "q", "1")
	repeated := w.grant("repeated", "p", "1")
	spent, pair := w.grant("spent", "p", "1"), w.grant("pair", "p", "1")
	if _, err := w.End(ctx, "spent", fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndReleased}); err != nil {
		t.Fatal(err)
	}

	land := w.HoldFlight()
	var granted []<-chan outcome
	for i := range many {
		granted = append(granted, w.certifying(ctx, fmt.Sprint("group/", i), fmt.Sprint("p", i)))
	}
	done := map[string]<-chan outcome{
		"ended":    w.ending("ended", fence.GrantRef{ID: ended.ID, Principal: "p"}, fence.Ending{Why: fence.EndBroken + ": stuck", By: "admin"}),
		"lost":     w.ending("lost", fence.GrantRef{ID: lost.ID, Principal: "p"}, fence.Ending{Why: fence.EndReleased}),
		"again":    w.ending("spent", fence.GrantRef{Acquire: spent.Acquire, Hold: spent.Acquire}, fence.Ending{Why: fence.EndAbandoned}),
		"repeated": w.certifying(ctx, "repeated", "p"),
		"void":     w.certifying(ctx, "lost/not", "p"),
	}
	w.awaitQueue(many + len(done))
	// The queue is asked in the order of arrival, so that this one finds the first of its lease.
	second := w.certifying(ctx, "group/0", "late")
	w.awaitQueue(many + len(done) + 1)
	broken := w.ending("pair", fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndBroken})
	w.awaitQueue(many + len(done) + 2)
	successor := make(chan error, 1)
	go func() {
		_, err := w.Certify(ctx, fence.Certificate{Lease: "pair", Principal: "q", Holder: "q", Acquire: fence.AcquireDigest("q", "1"), TTL: 30e9, Floor: pair.First()})
		successor <- err
	}()
	w.awaitQueue(many + len(done) + 3)
	land()

	firsts := map[fence.Token]bool{}
	for i, c := range granted {
		got := <-c
		who := fmt.Sprint("p", i)
		if got.err != nil || got.grant.ID == "" || got.grant.Principal != who || got.grant.Lease != fmt.Sprint("group/", i) || got.grant.Acquire != fence.AcquireDigest(who, "1") {
			t.Fatalf("call %d: %+v %v", i, got.grant, got.err)
		}
		firsts[got.grant.First()] = true
		if held, err := w.Held(ctx, got.grant.Lease, fence.GrantRef{ID: got.grant.ID, Principal: who}); err != nil || held.First() != got.grant.First() {
			t.Errorf("call %d: its id names %+v, %v", i, held, err)
		}
	}
	if len(firsts) != many {
		t.Errorf("I4: %d blocks for %d grants", len(firsts), many)
	}
	if n := w.commits("group/"); n != "1" {
		t.Errorf("%s commits", n)
	}
	if got := <-second; !errors.Is(got.err, fence.ErrVoid) {
		t.Errorf("a second certificate of a lease: %+v %v", got.grant, got.err)
	}
	if got := <-done["ended"]; got.err != nil || got.grant.Ended != "broken: stuck" || got.grant.EndedBy != "admin" || got.grant.ID != "" {
		t.Errorf("ended: %+v %v", got.grant, got.err)
	}
	wantCode(t, (<-done["lost"]).err, fence.CodeLeaseLost)
	if got := <-done["again"]; got.err != nil || got.grant.Ended != fence.EndReleased {
		t.Errorf("ended again: %+v %v", got.grant, got.err)
	}
	if got := <-done["repeated"]; got.err != nil || got.grant.ID != repeated.ID || got.grant.First() != repeated.First() {
		t.Errorf("repeated: %+v %v, want %+v", got.grant, got.err, repeated)
	}
	wantCode(t, (<-done["void"]).err, fence.CodeAccepted)
	wantCode(t, (<-broken).err, fence.CodeAccepted)
	wantCode(t, <-successor, fence.CodeAccepted)
	if n := w.text("SELECT count(DISTINCT xid)::text FROM fence.events WHERE lease = 'pair'"); n != "3" {
		t.Errorf("a grant, its end and the next one were %s commits", n)
	}
	if n := w.Queued(); n != 0 {
		t.Errorf("%d calls wait for nothing", n)
	}
}

// Whoever finds nobody under way goes at once, and alone.
func TestNoGroupOfOne(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.grant(fmt.Sprint("alone/", i), "p", "1")
	}
	if n := w.commits("alone/"); n != "3" {
		t.Errorf("%s commits", n)
	}
}

// A SQL writer that is paused keeps the next grant of its own lease waiting, and nobody else, however many want that lease.
func TestPausedWriterDelaysItsOwnLeaseOnly(t *testing.T) {
	w := newWorld(t)
	s, err := pgstore.Open(pgstore.Config{URL: w.url, LockTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w.Store = s
	ctx := context.Background()
	g := w.grant("wallet:42", "p", "1")
	tx, err := w.connect().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "SELECT fence.admit('wallets', '42', $1)", int64(g.First())); err != nil {
		t.Fatal(err)
	}
	var waiting []<-chan outcome
	certify := func(who string) {
		done := make(chan outcome, 1)
		go func() {
			g, err := w.Certify(ctx, fence.Certificate{Lease: "wallet:42", Principal: who, Holder: who, Acquire: fence.AcquireDigest(who, "1"), TTL: 30e9, Floor: g.First()})
			done <- outcome{g, err}
		}()
		waiting = append(waiting, done)
	}
	certify("alone")
	w.waitForLock()
	land := w.HoldFlight()
	for i := range 6 {
		certify(fmt.Sprint("q", i))
	}
	other := w.certifying(ctx, "other", "p")
	w.awaitQueue(7)
	land()
	began := time.Now()
	wantCode(t, (<-other).err, fence.CodeAccepted)
	for i := range 20 {
		w.grant(fmt.Sprint("beside/", i), "p", "1")
	}
	if took := time.Since(began); took > 4*time.Second { // each of them, if it waited for a stuck flight
		t.Errorf("others were kept waiting for %v", took)
	}
	for _, c := range waiting {
		select {
		case got := <-c:
			t.Fatalf("I2: certified beside a write: %+v %v", got.grant, got.err)
		default:
		}
	}
	if _, err := tx.Exec(ctx, "UPDATE wallets SET balance = 5 WHERE id = 42"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	won := 0
	for _, c := range waiting {
		switch got := <-c; {
		case got.err == nil:
			won++
		case !errors.Is(got.err, fence.ErrVoid):
			t.Error(got.err)
		}
	}
	if won != 1 {
		t.Errorf("%d grants of one floor", won)
	}
}

// A commit that fails for one call fails for no other.
func TestGroupThatFails(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.lease LIKE '%/bad' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON fence.grants FOR EACH ROW EXECUTE FUNCTION refuse()`)
	land := w.HoldFlight()
	bad := w.certifying(t.Context(), "fails/bad", "p")
	var good []<-chan outcome
	for i := range 5 {
		good = append(good, w.certifying(t.Context(), fmt.Sprint("fails/", i), "p"))
	}
	w.awaitQueue(6)
	land()
	for _, c := range good {
		wantCode(t, (<-c).err, fence.CodeAccepted)
	}
	if e := wantCode(t, (<-bad).err, fence.CodeConstraintViolation); !strings.Contains(e.Message, "not this one") {
		t.Error(e)
	}
}

// Nobody knows what became of a commit whose session was ended, and each caller is told in an error of its own.
func TestGroupOfUnknownOutcome(t *testing.T) {
	w := newWorld(t)
	w.slowGrants()
	land := w.HoldFlight()
	calls := []<-chan outcome{w.certifying(t.Context(), "a/slow", "p"), w.certifying(t.Context(), "b", "p")}
	w.awaitQueue(2)
	land()
	w.awaitSleep()
	w.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'")
	var errs []error
	for _, c := range calls {
		got := <-c
		errs = append(errs, wantCode(t, got.err, fence.CodeOutcomeUnknown))
	}
	if errs[0] == errs[1] {
		t.Error("two callers share an error")
	}
}

// slowGrants makes the grants of leases whose names end in "/slow" take half a second.
func (w *world) slowGrants() {
	w.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.lease LIKE '%/slow' THEN PERFORM pg_sleep(0.5); END IF; RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON fence.grants FOR EACH ROW EXECUTE FUNCTION slow()`)
}

func (w *world) awaitSleep() {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); w.text("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'") == "0"; {
		if time.Now().After(end) {
			w.t.Fatal("nobody sleeps")
		}
	}
}

// A caller that gives up in the queue has changed nothing; one that was sent does not know, and its group goes on.
func TestCallerOfAGroupGivesUp(t *testing.T) {
	w := newWorld(t)
	w.slowGrants()
	land := w.HoldFlight()
	early, giveUp := context.WithCancel(t.Context())
	late, giveUpLate := context.WithCancel(t.Context())
	defer giveUpLate()
	unsure := w.certifying(late, "unsure/slow", "p")
	w.awaitQueue(1) // the first of its group
	withdrawn := w.certifying(early, "withdrawn", "p")
	stays := w.certifying(t.Context(), "stays", "p")
	w.awaitQueue(3)
	giveUp()
	wantCode(t, (<-withdrawn).err, fence.CodeUnavailable)
	land()
	w.awaitSleep()
	giveUpLate()
	wantCode(t, (<-unsure).err, fence.CodeOutcomeUnknown)
	wantCode(t, (<-stays).err, fence.CodeAccepted)
	if leases := w.text("SELECT string_agg(lease, ' ' ORDER BY lease) FROM fence.grants"); leases != "stays unsure/slow" {
		t.Errorf("granted: %s", leases)
	}
}

// A transaction that does not end, for whatever reason, is not waited for.
func TestStuckFlightIsPassedBy(t *testing.T) {
	w := newWorld(t)
	w.StickFlights()
	began := time.Now()
	var calls []<-chan outcome
	for i := range 20 {
		calls = append(calls, w.certifying(t.Context(), fmt.Sprint("stuck/", i), "p"))
	}
	for _, c := range calls {
		wantCode(t, (<-c).err, fence.CodeAccepted)
	}
	if took := time.Since(began); took < 200*time.Millisecond || took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestQueueThatIsTooSlow(t *testing.T) {
	w := newWorld(t)
	s, err := pgstore.Open(pgstore.Config{URL: w.url, ConnectTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	land := s.HoldFlight()
	_, err = s.Certify(t.Context(), fence.Certificate{Lease: "l", Principal: "p", Holder: "p", Acquire: fence.DigestOf("x"), TTL: 1e9})
	wantCode(t, err, fence.CodeOverloaded)
	land()
	if g, err := w.Newest(t.Context(), "l"); g != nil || err != nil {
		t.Errorf("%+v %v", g, err)
	}
}

// Close waits for what is under way, of which every caller may have given up, and for what has queued up behind it.
func TestCloseWaitsForAGroup(t *testing.T) {
	w := newWorld(t)
	w.slowGrants()
	s, err := pgstore.Open(pgstore.Config{URL: w.url})
	if err != nil {
		t.Fatal(err)
	}
	both := &world{Store: s, t: t}
	ctx, giveUp := context.WithCancel(t.Context())
	land := s.HoldFlight()
	calls := []<-chan outcome{both.certifying(ctx, "a/slow", "p"), both.certifying(ctx, "b", "p")}
	both.awaitQueue(2)
	land()
	w.awaitSleep()
	giveUp()
	for _, c := range calls {
		wantCode(t, (<-c).err, fence.CodeOutcomeUnknown)
	}
	behind := both.certifying(t.Context(), "c", "p")
	both.awaitQueue(1)
	s.Close()
	wantCode(t, (<-behind).err, fence.CodeAccepted)
	if n := w.text("SELECT count(*)::text FROM fence.grants WHERE lease IN ('a/slow', 'b')"); n != "2" {
		t.Errorf("%s grants when the store was closed", n)
	}
}

// However many there are, a transaction has its limit, and those behind it follow in their order.
func TestGroupsAreBounded(t *testing.T) {
	w := newWorld(t)
	const many = 150
	land := w.HoldFlight()
	var calls []<-chan outcome
	for i := range many {
		calls = append(calls, w.certifying(t.Context(), fmt.Sprintf("many/%03d", i), "p"))
		w.awaitQueue(i + 1)
	}
	land()
	for _, c := range calls {
		wantCode(t, (<-c).err, fence.CodeAccepted)
	}
	var sizes []string
	rows, err := w.db.Query(t.Context(), "SELECT count(*) || ':' || min(lease) FROM fence.grants WHERE starts_with(lease, 'many/') GROUP BY xmin ORDER BY min(lease)")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, s)
	}
	if want := []string{"64:many/000", "64:many/064", "22:many/128"}; !slices.Equal(sizes, want) {
		t.Errorf("groups %q, want %q", sizes, want)
	}
}
