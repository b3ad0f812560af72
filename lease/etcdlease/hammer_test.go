package etcdlease_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
)

// Many take turns at few leases: one holds a lease at a time, and everybody is served.
func TestManyTakeTurns(t *testing.T) {
	t.Parallel()
	url := testenv.Etcd(t)
	config := patient(prefix(t))
	const gateways, workers, rounds = 3, 4, 4
	var holders [2]atomic.Int64
	var turns atomic.Int64
	var working sync.WaitGroup
	for g := range gateways {
		l := listen(t, open(t, url, config))
		for w := range workers {
			working.Go(func() {
				for round := range rounds {
					n := (w + round) % len(holders)
					v := fence.DigestOf("turn", fmt.Sprint(g, w, round))
					if takeTurn(t, l, fmt.Sprint("turn", n), v, &holders[n]) {
						turns.Add(1)
					}
				}
			})
		}
	}
	working.Wait()
	if got := turns.Load(); got != gateways*workers*rounds {
		t.Errorf("%d turns, want %d", got, gateways*workers*rounds)
	}
	for n := range holders {
		name := fmt.Sprint("turn", n)
		if got := look(t, open(t, url, config), name); got.Remaining > 0 || got.Entries > 0 {
			t.Errorf("%s stands %+v, want it free", name, got)
		}
	}
}

// takeTurn waits for a lease, holds it for a moment, and drops it.
func takeTurn(t *testing.T, l *gateway, name string, v fence.Digest, holders *atomic.Int64) bool {
	e := lease.Entry{Value: v, Holder: "worker", TTL: time.Hour, Waiters: 1}
	for deadline := time.Now().Add(time.Minute); ; {
		st, err := l.Enter(t.Context(), name, e)
		if err == nil && st.Value == v && st.Reserved {
			st, err = l.Extend(t.Context(), name, lease.Extension{Value: v, TTL: time.Hour})
		}
		if err != nil || time.Now().After(deadline) {
			t.Errorf("%s stands %+v, %v", name, st, err)
			return false
		}
		if st.Value == v && !st.Reserved {
			break
		}
		e.Place = max(e.Place, st.Place)
		pushed := lease.Signal{Kind: lease.Pushed, Name: name, Value: v}
		for waits := time.Now().Add(time.Second); l.count(pushed) == 0 && time.Now().Before(waits); {
			<-time.After(time.Millisecond)
		}
	}
	if n := holders.Add(1); n != 1 {
		t.Errorf("%d hold %s", n, name)
	}
	<-time.After(time.Millisecond)
	holders.Add(-1)
	if got, err := l.Drop(t.Context(), name, v); err != nil || !got.Had {
		t.Errorf("dropped %+v, %v", got, err)
		return false
	}
	return true
}
