package lease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
	"github.com/fencegate/fencegate/lease/redislease"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// prefixes makes prefixes unique within the test binary's shared server.
var prefixes atomic.Int64

// openLocker returns a locker on the Redis at url, in a space of its own.
func openLocker(t testing.TB, url string) *redislease.Locker {
	t.Helper()
	c := redislease.Config{Prefix: fmt.Sprintf("test-%d-%d", os.Getpid(), prefixes.Add(1))}
	client, err := redislease.Open(url, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	l, err := redislease.New(client, c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newManager(t testing.TB, locker lease.Locker, ledger lease.Ledger, c lease.Config) *lease.Manager {
	t.Helper()
	m, err := lease.NewManager(locker, ledger, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// rig is a manager on a locker in memory and the reference ledger, with its calls open to faults.
type rig struct {
	*lease.Manager
	t      *testing.T
	space  *leasetest.Space
	locker *faultyLocker
	ledger *faultyLedger
	truth  *leasetest.Ledger
}

func newRig(t *testing.T) *rig {
	space := leasetest.NewSpace()
	r := newRigOn(t, space.Locker())
	r.space = space
	return r
}

// newRigAt is a rig on the Redis at url.
func newRigAt(t *testing.T, url string) *rig { return newRigOn(t, openLocker(t, url)) }

func newRigOn(t *testing.T, locker lease.Locker) *rig {
	t.Helper()
	r := &rig{t: t, truth: leasetest.NewLedger()}
	r.locker = &faultyLocker{Locker: locker}
	r.ledger = &faultyLedger{Ledger: r.truth}
	r.Manager = newManager(t, r.locker, r.ledger, lease.Config{CertifyTimeout: 2 * time.Second})
	return r
}

func (r *rig) acquire(q lease.Request) *lease.Held {
	r.t.Helper()
	if q.Principal == "" {
		q.Principal = "alice"
	}
	h, err := r.Acquire(r.t.Context(), q)
	if err != nil {
		r.t.Fatalf("acquire %s: %v", q.Name, err)
	}
	return h
}

func (r *rig) look(name string) lease.Standing {
	r.t.Helper()
	st, err := r.locker.Locker.Look(context.WithoutCancel(r.t.Context()), name, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// free tells whether nobody holds the lease in the locker.
func (r *rig) free(name string) bool {
	r.t.Helper()
	return r.look(name).Value == fence.Digest{}
}

// takenBy has another gateway take the lease, without a grant.
func (r *rig) takenBy(name, who string) fence.Digest {
	r.t.Helper()
	e := lease.Entry{Value: fence.DigestOf(who), Holder: who, TTL: time.Minute}
	st, err := r.space.Locker().Enter(r.t.Context(), name, e)
	if err != nil || st.Value != e.Value {
		r.t.Errorf("%s took %s: %+v, %v", who, name, st, err)
	}
	return e.Value
}

func (r *rig) newest(name string) *fence.Grant {
	r.t.Helper()
	g, err := r.truth.Newest(context.WithoutCancel(r.t.Context()), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

func ref(h *lease.Held) lease.Ref { return lease.Ref{Name: h.Lease, Principal: h.Principal, ID: h.ID} }

func wantCode(t testing.TB, err error, want fence.Code) *fence.Error {
	t.Helper()
	if fence.CodeOf(err) != want {
		t.Fatalf("%v, want %s", err, want)
	}
	var e *fence.Error
	errors.As(err, &e)
	return e
}

// eventually polls until ok, for at most a generous while.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// faultyLocker and faultyLedger let a test stand between the manager and a call. A nil function is no fault.
type faultyLocker struct {
	lease.Locker
	enter  func(context.Context, string, lease.Entry) (lease.Standing, error)
	extend func(lease.Extension)      // is called before the locker is
	lost   func(lease.Extension) bool // whether its answer is lost
	drop   func() error
}

func (l *faultyLocker) Extend(ctx context.Context, name string, x lease.Extension) (lease.Standing, error) {
	if l.extend != nil {
		l.extend(x)
	}
	st, err := l.Locker.Extend(ctx, name, x)
	if l.lost != nil && l.lost(x) {
		return lease.Standing{}, fence.Errorf(fence.CodeUnavailable, "the answer is lost")
	}
	return st, err
}

func (l *faultyLocker) Enter(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	if l.enter != nil {
		return l.enter(ctx, name, e)
	}
	return l.Locker.Enter(ctx, name, e)
}

func (l *faultyLocker) Drop(ctx context.Context, name string, value fence.Digest) (lease.Dropped, error) {
	if l.drop != nil {
		if err := l.drop(); err != nil {
			return lease.Dropped{}, err
		}
	}
	return l.Locker.Drop(ctx, name, value)
}

type faultyLedger struct {
	lease.Ledger
	certify func(context.Context, fence.Certificate) (*fence.Grant, error)
	end     func(why string) error
	held    func()
}

func (l *faultyLedger) Certify(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
	if l.certify != nil {
		return l.certify(ctx, c)
	}
	return l.Ledger.Certify(ctx, c)
}

func (l *faultyLedger) End(ctx context.Context, name string, by fence.GrantRef, e fence.Ending) (*fence.Grant, error) {
	if l.end != nil {
		if err := l.end(e.Why); err != nil {
			return nil, err
		}
	}
	return l.Ledger.End(ctx, name, by, e)
}

func (l *faultyLedger) Held(ctx context.Context, name string, by fence.GrantRef) (*fence.Grant, error) {
	if l.held != nil {
		l.held()
	}
	return l.Ledger.Held(ctx, name, by)
}
