package pglease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/pglease"
)

const (
	pool      = "fencegate locker"
	listening = "fencegate listen"
)

// handOver has b wait for a lease of a's and get it, with the signals that belong to it.
func handOver(t *testing.T, a, b *gateway, name string) {
	t.Helper()
	a.enter(name, "a")
	if s := b.enter(name, "b"); s.Place == 0 {
		t.Fatalf("it stands %+v, want a place", s)
	}
	a.hears(followed(name, "a"))
	if d := a.drop(name, "a"); d != (lease.Dropped{Had: true, Next: true}) {
		t.Fatalf("dropped %+v, want it had and another next", d)
	}
	b.hears(pushed(name, "b"))
	b.drop(name, "b")
}

// A session that listens and is cut off is made anew, and says that signals may be lost.
func TestListensAgain(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	db := database(t, url)
	a, b := join(t, pglease.Config{URL: url}), join(t, pglease.Config{URL: url})
	for i := range 3 {
		end(t, db, listening)
		a.hears(lease.Signal{Kind: lease.Resync})
		b.hears(lease.Signal{Kind: lease.Resync})
		handOver(t, a, b, fmt.Sprint("again/", i))
	}
}

// What the pool's sessions were cut off from is repeated on others, and nobody notices.
func TestCallsSurviveTheirSessions(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	db := database(t, url)
	l := open(t, pglease.Config{URL: url})
	for i := range 5 {
		if _, err := l.Enter(t.Context(), "survives", entry("a")); err != nil {
			t.Fatalf("after %d times: %v", i, err)
		}
		end(t, db, pool)
	}
}

// A gateway that is gone is passed over at once, with all its entries, and its session's lock tells it.
func TestGoneGatewayIsKnown(t *testing.T) {
	t.Parallel()
	config := pglease.Config{URL: ledger(t)}
	db := database(t, config.URL)
	a, gone, c := join(t, config), join(t, config), join(t, config)
	a.enter("gone", "a")
	gone.enter("gone", "b")
	gone.enter("gone", "b2")
	c.enter("gone", "c")
	gone.hangUp()
	eventually(t, "its session has ended", func() bool { return len(sessions(t, db, listening)) == 2 })
	a.drop("gone", "a")
	wantKept(t, db, "gone", "c")
}

// A session of the locker's own that lives on, unheard, is ended by the next.
func TestFormerSessionIsEnded(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	db, former := database(t, url), database(t, url)
	a := join(t, pglease.Config{URL: url})
	key := ask[int64](t, db, "SELECT classid::bigint << 32 | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND pid = $1", sessions(t, db, listening)[0])
	has := make(chan error, 1)
	go func() { _, err := former.Exec(context.Background(), "SELECT pg_advisory_lock($1)", key); has <- err }()
	eventually(t, "it waits for the lock", func() bool {
		return ask[bool](t, db, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)", former.PgConn().PID())
	})
	end(t, db, listening)
	if err := <-has; err != nil {
		t.Fatal(err)
	}
	a.hears(lease.Signal{Kind: lease.Resync})
	if err := former.Ping(t.Context()); err == nil {
		t.Error("the former session lives")
	}
	handOver(t, join(t, pglease.Config{URL: url}), a, "former")
}

// A session that does not answer is given up, though its connection stands.
func TestSilentSessionIsGivenUp(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	db := database(t, url)
	l := open(t, pglease.Config{URL: url, CallTimeout: time.Second})
	l.Hurry(50*time.Millisecond, time.Hour)
	a := listen(t, l)
	pid := sessions(t, db, listening)[0]
	if err := syscall.Kill(int(pid), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// As the former session it cannot be ended while it is stopped, and another waits.
	eventually(t, "another session", func() bool { return len(sessions(t, db, listening)) > 1 })
	if err := syscall.Kill(int(pid), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.hears(lease.Signal{Kind: lease.Resync})
	handOver(t, join(t, pglease.Config{URL: url}), a, "silent")
}

// Sweeping and being asked whether it lives does not disturb a session.
func TestQuietSessionStays(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	db := database(t, url)
	l := open(t, pglease.Config{URL: url})
	l.Hurry(10*time.Millisecond, 20*time.Millisecond)
	g := listen(t, l)
	before := sessions(t, db, listening)
	exec(t, db, "INSERT INTO fence.leases SELECT 'old', sha256(''), gen_random_uuid(), 0, 0, '', false, NULL, NULL, now() - interval '1 h'")
	eventually(t, "it is swept", func() bool { return len(leftovers(t, db, "old")) == 0 })
	if after := sessions(t, db, listening); len(before) != 1 || len(after) != 1 || before[0] != after[0] {
		t.Errorf("sessions %v, then %v", before, after)
	}
	if n := len(g.signals); n != 0 {
		t.Errorf("it was told %d signals", n)
	}
}

func TestCanNeverListen(t *testing.T) {
	t.Parallel()
	url, other := ledger(t), ledger(t)
	bouncer := testenv.PgBouncer(t, url, "transaction")
	ignoring := testenv.PgBouncer(t, url, "transaction", "default_transaction_isolation", "statement_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
	for name, c := range map[string]struct {
		config pglease.Config
		want   error
	}{
		"UnannouncedPooler":  {pglease.Config{URL: ignoring}, pglease.ErrPooler},
		"PoolerRefuses":      {pglease.Config{URL: bouncer}, pglease.ErrPooler},
		"ListensAtThePooler": {pglease.Config{URL: bouncer, Pooled: true, ListenURL: ignoring}, pglease.ErrPooler},
		"AnotherDatabase":    {pglease.Config{URL: bouncer, Pooled: true, ListenURL: other}, pglease.ErrElsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, c.config)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := l.Listen(ctx, func(s lease.Signal) { t.Errorf("it was told %+v", s) }); !errors.Is(err, c.want) {
				t.Errorf("listen: %v, want %v", err, c.want)
			}
			if c.config.Pooled {
				return
			}
			if _, err := l.Look(t.Context(), "x", 0); !errors.Is(err, pglease.ErrPooler) {
				t.Errorf("look: %v, want %v", err, pglease.ErrPooler)
			}
		})
	}
}

// Anybody in the database can send to a channel.
func TestForeignNotificationsArePassedOver(t *testing.T) {
	hex := strings.Repeat("ab", 32)
	for payload, ok := range map[string]bool{
		"": false, "p": false, "p" + hex: false, "p" + hex + "n": true, "f" + hex + "日本": true, "x" + hex + "n": false,
		"p" + strings.Repeat("zz", 32) + "n": false, "p" + hex[:63] + "日": false,
	} {
		if s, got := pglease.Parse(payload); got != ok || ok && (s.Value[0] != 0xab || s.Name == "") {
			t.Errorf("%q: %+v %v, want %v", payload, s, got, ok)
		}
	}
}
