package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func TestLeases(t *testing.T) {
	r := serve(t, nil)
	name := "wallets:a/b ?%ü"
	h, err := r.Acquire(t.Context(), lease.Request{Name: name, Holder: "worker-a", TTL: time.Minute, Wait: time.Second, Principal: "ignored"})
	if err != nil || h.Lease != name || h.Holder != "worker-a" || h.Principal != "anonymous" || h.ID == "" || h.First() != 1000 || h.Last() != 1999 || h.TTL != time.Minute {
		t.Fatalf("acquired %+v, %v", h, err)
	}
	if h.Remaining <= 50*time.Second || h.Remaining > time.Minute {
		t.Errorf("remaining %v", h.Remaining)
	}
	got, err := r.Renew(t.Context(), ref(h), 90*time.Second)
	if err != nil || got.TTL != 90*time.Second || got.ID != h.ID {
		t.Errorf("renewed %+v, %v", got, err)
	}
	if got, err = r.Renew(t.Context(), ref(h), 0); err != nil || got.TTL != 90*time.Second {
		t.Errorf("renewed %+v, %v", got, err)
	}
	if got, err = r.More(t.Context(), ref(h)); err != nil || len(got.Blocks) != 2 || got.Last() != 2999 {
		t.Errorf("more %+v, %v", got, err)
	}
	if err := r.Verify(t.Context(), name, "", 1500); err != nil {
		t.Errorf("verified: %v", err)
	}
	wantCode(t, r.Verify(t.Context(), name, "bob", 1500), fence.CodeForeignToken)
	v, err := r.Inspect(t.Context(), name)
	if err != nil || v.Holder != "worker-a" || v.ID != "" || v.First() != 1000 || v.GrantedAt.IsZero() {
		t.Errorf("inspected %+v, %v", v, err)
	}
	if err := r.Release(t.Context(), ref(h)); err != nil {
		t.Error(err)
	}
	_, err = r.Inspect(t.Context(), name)
	wantCode(t, err, fence.CodeNotFound)
	if told := r.hooks.all(); !strings.HasPrefix(told, "leases.acquire accepted, leases.renew accepted, leases.renew accepted, leases.tokens accepted, leases.verify accepted, leases.verify foreign-token, leases.inspect accepted, leases.release accepted, ") {
		t.Errorf("the hooks were told %s", told)
	}
}

func TestLeaseRefusals(t *testing.T) {
	r := serve(t, nil)
	h := r.acquire("job")
	_, err := r.Acquire(t.Context(), lease.Request{Name: "job"})
	if e := wantCode(t, err, fence.CodeLeaseHeld); e.Holder != "anonymous" || e.Remaining != 29500*time.Millisecond || e.Lease != "job" {
		t.Errorf("held: %+v", e)
	}
	if err := r.Break(t.Context(), "job", "stuck"); err != nil {
		t.Fatal(err)
	}
	_, err = r.Renew(t.Context(), ref(h), 0)
	wantCode(t, err, fence.CodeLeaseLost)
	for name, call := range map[string]func() error{
		"NoName":   func() error { _, err := r.Acquire(t.Context(), lease.Request{}); return err },
		"Control":  func() error { _, err := r.Acquire(t.Context(), lease.Request{Name: "a\nb"}); return err },
		"NoID":     func() error { return r.Release(t.Context(), lease.Ref{Name: "job"}) },
		"ShortTTL": func() error { _, err := r.Acquire(t.Context(), lease.Request{Name: "x", TTL: 1}); return err },
		"LongWait": func() error {
			_, err := r.Acquire(t.Context(), lease.Request{Name: "x", Wait: 2 * time.Hour})
			return err
		},
		"MinusWait": func() error { _, err := r.Acquire(t.Context(), lease.Request{Name: "x", Wait: -1}); return err },
		"Limit":     func() error { _, err := r.List(t.Context(), lease.Listing{Limit: 5000}); return err },
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, call(), fence.CodeInvalidRequest) })
	}
	if err := r.Release(t.Context(), lease.Ref{Name: "job", ID: "a\r\nX: b"}); err == nil || strings.Contains(err.Error(), "X: b") {
		t.Errorf("an id with a line break: %v", err)
	}
}

func TestList(t *testing.T) {
	r := serve(t, nil)
	for _, name := range []string{"a/1", "a/2", "a/3 &=+", "b"} {
		r.acquire(name)
	}
	var names []string
	for l := (lease.Listing{Prefix: "a/", Limit: 2}); ; {
		page, err := r.List(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Leases {
			names = append(names, v.Lease)
		}
		if l.After = page.Next; page.Next == "" {
			break
		}
	}
	if !slices.Equal(names, []string{"a/1", "a/2", "a/3 &=+"}) {
		t.Errorf("listed %q", names)
	}
	r.put(answering(1, 200, "application/json", `{"name":"job","holder":"a","blocks":[[1000,1999]],"remaining_ms":5000,
		"queue":{"length":3,"waiting":[{"holder":"b","waiting_ms":1500}]}}`))
	if v, err := r.Inspect(t.Context(), "job"); err != nil || v.Queued != 3 || len(v.Waiting) != 1 || v.Waiting[0] != (lease.Waiting{Holder: "b", For: 1500 * time.Millisecond}) {
		t.Errorf("inspected %+v, %v", v, err)
	}
}

func TestLostRepliesOfLeases(t *testing.T) {
	r := serve(t, nil)
	r.put(losing(2))
	h := r.acquire("job")
	if h.First() != 1000 || r.asked() != 3 {
		t.Errorf("acquired %+v with %d requests", h, r.asked())
	}
	r.put(losing(1))
	if got, err := r.Renew(t.Context(), ref(h), time.Minute); err != nil || got.TTL != time.Minute {
		t.Errorf("renewed %+v, %v", got, err)
	}
	r.put(losing(1))
	if got, err := r.More(t.Context(), ref(h)); err != nil || got.Last() != 3999 {
		t.Errorf("more %+v, %v", got, err)
	}
	r.put(losing(1))
	if err := r.Release(t.Context(), ref(h)); err != nil {
		t.Errorf("released: %v", err)
	}
}

// A break that is repeated would end the next holder's grant.
func TestBreakIsSentOnce(t *testing.T) {
	r := serve(t, nil)
	r.acquire("job")
	r.put(losing(1))
	wantCode(t, r.Break(t.Context(), "job", "stuck"), fence.CodeOutcomeUnknown)
	r.put(refusing(1, 503, fence.CodeUnavailable))
	wantCode(t, r.Break(t.Context(), "job", "stuck"), fence.CodeUnavailable)
	if r.asked() != 1 {
		t.Errorf("%d requests", r.asked())
	}
}

func TestAcquireThatIsGivenUpLeavesNothing(t *testing.T) {
	free := func(r *rig) bool {
		_, err := r.memory.Inspect(context.Background(), "job")
		return fence.CodeOf(err) == fence.CodeNotFound
	}
	t.Run("Cancelled", func(t *testing.T) {
		r := serve(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
			if n > 1 {
				next.ServeHTTP(w, req)
				return
			}
			next.ServeHTTP(httptest.NewRecorder(), req)
			cancel()
			<-req.Context().Done()
			hang()
		})
		_, err := r.Acquire(ctx, lease.Request{Name: "job", Wait: time.Minute})
		if wantCode(t, err, fence.CodeUnavailable); !errors.Is(err, context.Canceled) || !free(r) {
			t.Errorf("%v; free: %v", err, free(r))
		}
	})
	t.Run("NoReply", func(t *testing.T) {
		r := serve(t, nil)
		r.put(losing(5))
		_, err := r.Acquire(t.Context(), lease.Request{Name: "job"})
		if wantCode(t, err, fence.CodeUnavailable); !free(r) {
			t.Error("the lease is held")
		}
	})
	t.Run("Unavailable", func(t *testing.T) {
		r := serve(t, nil)
		r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
			if n == 1 {
				next.ServeHTTP(httptest.NewRecorder(), req)
			}
			refusing(5, 503, fence.CodeUnavailable)(w, req, n, next)
		})
		_, err := r.Acquire(t.Context(), lease.Request{Name: "job"})
		if wantCode(t, err, fence.CodeUnavailable); !free(r) {
			t.Error("the lease is held")
		}
	})
	t.Run("ItsOwnersID", func(t *testing.T) {
		r := serve(t, nil)
		r.put(losing(5))
		_, err := r.Acquire(t.Context(), lease.Request{Name: "job", AcquireID: "mine"})
		wantCode(t, err, fence.CodeOutcomeUnknown)
		h, err := r.Acquire(t.Context(), lease.Request{Name: "job", AcquireID: "mine"})
		if err != nil || h.First() != 1000 {
			t.Errorf("repeated: %+v, %v", h, err)
		}
	})
	t.Run("SomebodyElseHasIt", func(t *testing.T) {
		r := serve(t, nil)
		h := r.acquire("job")
		r.put(dropping(6))
		_, err := r.Acquire(t.Context(), lease.Request{Name: "job"})
		wantCode(t, err, fence.CodeUnavailable)
		if _, err := r.Renew(t.Context(), ref(h), 0); err != nil {
			t.Errorf("the holder's renewal: %v", err)
		}
	})
}

// The wait of a repetition is what is left of the whole.
func TestAcquireWaitsOnce(t *testing.T) {
	r := serve(t, nil)
	var waits []string
	r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
		body := make([]byte, 500)
		read, _ := req.Body.Read(body)
		_, rest, _ := strings.Cut(string(body[:read]), `"wait":"`)
		wait, _, _ := strings.Cut(rest, `"`)
		waits = append(waits, wait)
		time.Sleep(30 * time.Millisecond)
		refusing(2, 503, fence.CodeUnavailable)(w, req, n, answer201())
	})
	if _, err := r.Acquire(t.Context(), lease.Request{Name: "job", Wait: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	first, _ := time.ParseDuration(waits[0])
	last, err := time.ParseDuration(waits[2])
	if err != nil || first > 10*time.Second || last > first-60*time.Millisecond {
		t.Errorf("waits %q", waits)
	}
}

func answer201() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answering(1<<30, 201, "application/json", `{"name":"job","id":"x","blocks":[[1000,1999]],"ttl_ms":30000,"remaining_ms":30000}`)(w, r, 1, nil)
	})
}

func TestRemainingCountsFromTheRequest(t *testing.T) {
	r := serve(t, nil)
	r.put(func(w http.ResponseWriter, req *http.Request, n int, _ http.Handler) {
		time.Sleep(50 * time.Millisecond)
		answer201().ServeHTTP(w, req)
	})
	if h := r.acquire("job"); h.Remaining > 29950*time.Millisecond || h.Remaining < 25*time.Second {
		t.Errorf("remaining %v", h.Remaining)
	}
}

func TestKeepOverHTTP(t *testing.T) {
	r := serve(t, nil)
	keeper := lease.Keeper{Leases: r.Client, TTL: 200 * time.Millisecond}
	k, err := keeper.Keep(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	time.Sleep(300 * time.Millisecond)
	if k.Err() != nil {
		t.Fatal(k.Err())
	}
	for last := k.Token(); last < 3500; {
		token, err := k.Tokens().Next(t.Context())
		if err != nil || token <= last {
			t.Fatalf("token %d behind %d, %v", token, last, err)
		}
		last = token
	}
	if err := r.Break(t.Context(), "job", "stuck"); err != nil {
		t.Fatal(err)
	}
	<-k.Context().Done()
	var lost *lease.LostError
	if !errors.As(context.Cause(k.Context()), &lost) {
		t.Errorf("lost: %v", context.Cause(k.Context()))
	}
}

// What the gateway tells of a lease that is lost becomes the cause.
func TestLossesOverHTTP(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       lease.LostError
	}{
		{"Taken", `"first_token":7000,"holder":"bob"`, lease.LostError{Loss: lease.LossTaken, Holder: "bob"}},
		{"Ended", `"first_token":1000,"holder":"me","ended":"broken: stuck","ended_by":"root"`, lease.LostError{Loss: lease.LossEnded, Why: "broken: stuck", By: "root"}},
		{"Expired", `"first_token":1000,"holder":"me"`, lease.LostError{Loss: lease.LossExpired}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := serve(t, nil)
			k, err := lease.Keeper{Leases: r.Client, TTL: 150 * time.Millisecond}.Keep(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			r.put(answering(1, 409, "application/problem+json", `{"code":"lease-lost","detail":"lost",`+c.body+`}`))
			<-k.Context().Done()
			var lost *lease.LostError
			if !errors.As(k.Err(), &lost) || lost.Loss != c.want.Loss || lost.Holder != c.want.Holder || lost.Why != c.want.Why || lost.By != c.want.By {
				t.Errorf("lost: %+v", lost)
			}
		})
	}
}
