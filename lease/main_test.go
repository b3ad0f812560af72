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

// openLocker returns a locker on the server at url, in a space of its own.
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
	return m
}

// rig is a manager on a real Redis and the reference ledger, with its calls open to faults.
type rig struct {
	*lease.Manager
	t      *testing.T
	locker *faultyLocker
	ledger *faultyLedger
	truth  *leasetest.Ledger
}

func newRig(t *testing.T) *rig { return newRigAt(t, testenv.Redis(t)) }

func newRigAt(t *testing.T, url string) *rig {
	t.Helper()
	r := &rig{t: t, truth: leasetest.NewLedger()}
	r.locker = &faultyLocker{Locker: openLocker(t, url)}
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

// free tells whether nobody holds the lease in the locker.
func (r *rig) free(name string) bool {
	r.t.Helper()
	h, err := r.locker.Locker.Look(context.WithoutCancel(r.t.Context()), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return h == lease.Holding{}
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
	take func(context.Context, string, lease.Holding) (lease.Holding, error)
	drop func() error
}

func (l *faultyLocker) Take(ctx context.Context, name string, h lease.Holding) (lease.Holding, error) {
	if l.take != nil {
		return l.take(ctx, name, h)
	}
	return l.Locker.Take(ctx, name, h)
}

func (l *faultyLocker) Drop(ctx context.Context, name string, value fence.Digest) (bool, error) {
	if l.drop != nil {
		if err := l.drop(); err != nil {
			return false, err
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
