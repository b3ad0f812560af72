package lease_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func TestRenew(t *testing.T) {
	r := newRig(t)
	h := r.acquire(lease.Request{Name: "renew", TTL: 10 * time.Second})
	got, err := r.Renew(t.Context(), ref(h), time.Minute)
	if err != nil || got.ID != h.ID || got.First() != h.First() || got.Remaining <= 50*time.Second || got.Remaining > time.Minute {
		t.Fatalf("renewed %+v, %v", got, err)
	}
	got, err = r.Renew(t.Context(), ref(h), 0)
	if err != nil || got.Remaining <= 5*time.Second || got.Remaining > 10*time.Second {
		t.Fatalf("renewed for the grant's own ttl: %+v, %v", got, err)
	}
	for _, ttl := range []time.Duration{-1, time.Millisecond, 25 * time.Hour} {
		_, err = r.Renew(t.Context(), ref(h), ttl)
		if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != "ttl" {
			t.Fatalf("field %q", e.Field)
		}
	}
	for name, wrong := range map[string]lease.Ref{
		"AnotherID":        {Name: "renew", Principal: "alice", ID: "x"},
		"AnotherPrincipal": {Name: "renew", Principal: "mallory", ID: h.ID},
		"AnotherLease":     {Name: "renew2", Principal: "alice", ID: h.ID},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Renew(t.Context(), wrong, 0)
			wantCode(t, err, fence.CodeLeaseLost)
			_, err = r.More(t.Context(), wrong)
			wantCode(t, err, fence.CodeLeaseLost)
			wantCode(t, r.Release(t.Context(), wrong), fence.CodeLeaseLost)
		})
	}
	_, err = r.Renew(t.Context(), lease.Ref{Name: "renew", Principal: "alice"}, 0)
	wantCode(t, err, fence.CodeInvalidRequest)
}

func TestRenewNeverTakesALostLease(t *testing.T) {
	r := newRig(t)
	h := r.acquire(lease.Request{Name: "lost", TTL: 100 * time.Millisecond})
	eventually(t, "expiry", func() bool { return r.free("lost") })
	_, err := r.Renew(t.Context(), ref(h), 0)
	if e := wantCode(t, err, fence.CodeLeaseLost); e.Lease != "lost" || e.First != h.First() {
		t.Fatalf("error %+v", e)
	}
	if !r.free("lost") {
		t.Fatal("renewing took the lease")
	}
	_, err = r.More(t.Context(), ref(h))
	wantCode(t, err, fence.CodeLeaseLost)
	if err := r.Verify(t.Context(), "lost", "alice", h.First()); err != nil {
		t.Fatalf("without a successor the token is good: %v", err)
	}
}

func TestRenewSeesASuccessorOnTheOtherSideOfASplit(t *testing.T) {
	r := newRig(t)
	h := r.acquire(lease.Request{Name: "split"})
	calls := 0
	r.ledger.held = func() {
		if calls++; calls == 2 {
			rival(t.Context(), t, r, fence.Certificate{Lease: "split", Holder: "b", TTL: time.Second})
		}
	}
	_, err := r.Renew(t.Context(), ref(h), 0)
	wantCode(t, err, fence.CodeLeaseLost)
	if calls != 2 || !r.free("split") {
		t.Fatalf("%d looks at the ledger; free: %v", calls, r.free("split"))
	}
}

func TestMoreTokens(t *testing.T) {
	r := newRig(t)
	h := r.acquire(lease.Request{Name: "more"})
	got, err := r.More(t.Context(), ref(h))
	if err != nil || got.ID != h.ID || got.First() != h.First() || got.Last() != h.Last()+fence.BlockSize || got.Remaining <= 20*time.Second {
		t.Fatalf("more: %+v, %v", got, err)
	}
	if err := r.Verify(t.Context(), "more", "alice", got.Last()); err != nil {
		t.Fatal(err)
	}
}

func TestRelease(t *testing.T) {
	r := newRig(t)
	h := r.acquire(lease.Request{Name: "release"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := r.Release(ctx, ref(h)); err != nil {
			t.Fatal(err)
		}
	}
	if g := r.newest("release"); g.Ended != fence.EndReleased || !r.free("release") {
		t.Fatalf("released: %+v", g)
	}
	wantCode(t, r.Verify(t.Context(), "release", "alice", h.First()), fence.CodeGrantEnded)
	next := r.acquire(lease.Request{Name: "release", Principal: "bob"})
	wantCode(t, r.Release(t.Context(), ref(h)), fence.CodeLeaseLost)
	if g := r.newest("release"); g.First() != next.First() || g.Ended != "" || r.free("release") {
		t.Fatalf("a late release hit the successor: %+v", g)
	}
}

func TestBreak(t *testing.T) {
	r := newRig(t)
	wantCode(t, r.Break(t.Context(), "break", "ops", "stuck"), fence.CodeNotFound)
	h := r.acquire(lease.Request{Name: "break"})
	e := wantCode(t, r.Break(t.Context(), "break", "ops", strings.Repeat("x", 513)), fence.CodeInvalidRequest)
	if e.Field != "reason" {
		t.Fatalf("field %q", e.Field)
	}
	if err := r.Break(t.Context(), "break", "ops", "stuck"); err != nil {
		t.Fatal(err)
	}
	if g := r.newest("break"); g.Ended != "broken: stuck" || !r.free("break") {
		t.Fatalf("broken: %+v", g)
	}
	_, err := r.Renew(t.Context(), ref(h), 0)
	wantCode(t, err, fence.CodeLeaseLost)
	wantCode(t, r.Verify(t.Context(), "break", "alice", h.First()), fence.CodeGrantEnded)
	r.acquire(lease.Request{Name: "break", Principal: "bob"})
}

func TestInspect(t *testing.T) {
	r := newRig(t)
	_, err := r.Inspect(t.Context(), "inspect")
	wantCode(t, err, fence.CodeNotFound)
	h := r.acquire(lease.Request{Name: "inspect", Holder: "worker-a"})
	got, err := r.Inspect(t.Context(), "inspect")
	if err != nil || got.ID != "" || got.First() != h.First() || got.Holder != "worker-a" || got.Remaining <= 20*time.Second {
		t.Fatalf("inspected %+v, %v", got, err)
	}
	if _, err := r.truth.End(t.Context(), "inspect", fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndBroken}); err != nil {
		t.Fatal(err)
	}
	got, err = r.Inspect(t.Context(), "inspect")
	if err != nil || len(got.Blocks) != 0 || got.Lease != "inspect" || got.Holder != "worker-a" || got.Principal != "" || got.Remaining <= 0 {
		t.Fatalf("a lease without a living grant: %+v, %v", got, err)
	}
}

func TestVerify(t *testing.T) {
	r := newRig(t)
	wantCode(t, r.Verify(t.Context(), "verify", "alice", 1000), fence.CodeUnissuedToken)
	a := r.acquire(lease.Request{Name: "verify", TTL: 100 * time.Millisecond})
	b := r.acquire(lease.Request{Name: "verify", Principal: "bob", Wait: 5 * time.Second})
	for name, tt := range map[string]struct {
		principal string
		token     fence.Token
		want      fence.Code
	}{
		"Good":       {"bob", b.First(), fence.CodeAccepted},
		"Superseded": {"alice", a.First(), fence.CodeStaleToken},
		"Forged":     {"bob", fence.MaxToken, fence.CodeUnissuedToken},
		"Foreign":    {"alice", b.Last(), fence.CodeForeignToken},
	} {
		t.Run(name, func(t *testing.T) {
			err := r.Verify(t.Context(), "verify", tt.principal, tt.token)
			if e := wantCode(t, err, tt.want); e != nil && (e.Lease != "verify" || e.First != b.First() || e.Holder != "bob" || e.Token != tt.token || e.Message == "") {
				t.Fatalf("error %+v", e)
			}
		})
	}
}

func TestManagerConfigIsChecked(t *testing.T) {
	r := newRig(t)
	for _, c := range []lease.Config{{CertifyTimeout: -1}, {CleanupTimeout: -1}, {MaxVoid: -1}, {PollMin: -1}, {PollMin: 2, PollMax: 1}, {MaxQueue: -1}, {MaxWaiting: -1}} {
		if _, err := lease.NewManager(r.locker, r.ledger, c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	if _, err := lease.NewManager(nil, r.ledger, lease.Config{}); err == nil {
		t.Error("no locker was accepted")
	}
}
