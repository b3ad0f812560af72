package gateway_test

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// rights are what callers may do, changed while a gateway runs.
type rights struct {
	may  atomic.Pointer[func(user string, a gateway.Action) bool]
	lost atomic.Bool // nobody is let in
}

func (r *rights) change(may func(user string, a gateway.Action) bool) { r.may.Store(&may) }

func (r *rights) authenticate(req *http.Request) (gateway.Caller, error) {
	if r.lost.Load() {
		return nil, fence.Errorf(fence.CodeUnauthenticated, "the secret is of nobody")
	}
	name, may := cmp.Or(req.Header.Get("X-User"), "ann"), *r.may.Load()
	return caller{name: name, may: func(a gateway.Action) bool { return may(name, a) }}, nil
}

// guarded serves a gateway where everybody may do everything but read, which may decides.
func guarded(t *testing.T, may func(user string, a gateway.Action) bool) (*api, *rights) {
	t.Helper()
	r := &rights{}
	r.change(func(user string, a gateway.Action) bool { return a.Verb != gateway.VerbRead || may(user, a) })
	return running(t, func(c *gateway.Config) { c.Authenticate = r.authenticate }), r
}

func TestEventsShowWhatTheCallerMayRead(t *testing.T) {
	a, _ := guarded(t, func(user string, a gateway.Action) bool {
		switch user {
		case "leases":
			return a.Lease == "t:1" || a.Lease == "report:x"
		case "rows":
			return a.Lease == "t:1" || a.Table == "t" && a.Schema == "public"
		case "objects":
			return a.Lease == "report:x" || a.Bucket == "b" && a.Key == "x"
		}
		return false
	})
	a.acquire("secret")
	a.acquire("t:1")
	a.acquire("report:x")
	a.refused(403, "unissued-token", "PUT", "/v1/rows/t/1", `{"n":1}`, "X-Fence-Token: 999999")
	a.refused(403, "unissued-token", "PUT", "/v1/objects/b/x", "body", "X-Fence-Token: 999999")
	within(t, "the refusals are recorded", func() bool { return a.gateway.Stats().RefusalsNoted == 2 })
	for user, want := range map[string][]string{
		"leases":  {"granted t:1 ", "granted report:x ", "refused t:1 ", "refused report:x "},
		"rows":    {"granted t:1 ", "refused t:1 rows/public.t/1"},
		"objects": {"granted report:x ", "refused report:x objects/b/x"},
		"nobody":  nil,
	} {
		t.Run(user, func(t *testing.T) {
			a := a.in(t)
			var got []string
			s := a.stream("?from=oldest", "X-User: "+user)
			a.acquire("mark-" + user)
			s.leave()
			for _, e := range s.ends() {
				got = append(got, fmt.Sprintf("%s %s %s", e.Kind, e.Lease, e.Resource))
			}
			// Leaving may be quicker than the last of them; none that is not wanted may come, and the next test sees that all do.
			if len(got) > len(want) || strings.Join(got, "\n") != strings.Join(want[:len(got)], "\n") {
				t.Errorf("got %q, want %q", got, want)
			}
			s = a.stream("?from=oldest", "X-User: "+user)
			for _, w := range want {
				if e := s.next(); fmt.Sprintf("%s %s %s", e.Kind, e.Lease, e.Resource) != w {
					t.Errorf("got %+v, want %s", e, w)
				}
			}
		})
	}
}

func TestStreamFollowsTheRights(t *testing.T) {
	for name, notice := range map[string]func(*api){
		"Periodically": func(a *api) {},
		"AtOnce":       func(a *api) { a.gateway.AccessChanged() },
	} {
		t.Run(name, func(t *testing.T) {
			times := gateway.StreamTimes{Recheck: time.Hour}
			if name == "Periodically" {
				times.Recheck = 10 * time.Millisecond
			}
			a, r := guarded(t, func(string, gateway.Action) bool { return true })
			a.gateway.HurryStreams(times)
			s := a.stream("?from=oldest")
			a.acquire("one")
			s.want("granted one")
			r.change(func(_ string, a gateway.Action) bool { return a.Verb != gateway.VerbRead || a.Lease != "two" })
			notice(a)
			time.Sleep(50 * time.Millisecond) // the change is seen at any time from now on
			a.acquire("two")
			a.acquire("three")
			s.want("granted three")
			r.lost.Store(true)
			notice(a)
			if last := s.ends(); len(last) != 0 {
				t.Errorf("%+v", last)
			}
			within(t, "the line in the log", func() bool { return strings.Contains(a.log.String(), "not let in any more") })
		})
	}
	t.Run("AnotherPrincipal", func(t *testing.T) {
		var renamed atomic.Bool
		a := hurried(t, func(c *gateway.Config) {
			c.Authenticate = func(*http.Request) (gateway.Caller, error) {
				if renamed.Load() {
					return caller{name: "bob"}, nil
				}
				return caller{name: "ann"}, nil
			}
		})
		s := a.stream("")
		renamed.Store(true)
		a.gateway.AccessChanged()
		s.ends()
	})
}

func TestStreamsAreBounded(t *testing.T) {
	a := hurried(t, func(c *gateway.Config) { c.MaxStreams, c.MaxStreamsEach = 3, 2 })
	first := a.stream("", "X-User: ann")
	a.stream("", "X-User: ann")
	got := a.want(429, "GET", "/v1/events", "", "X-User: ann")
	if p := got.problem(t); p.Code != "rate-limited" || !p.Retryable || got.Header.Get("Retry-After") != "1" {
		t.Error(got.text)
	}
	a.stream("", "X-User: bob")
	a.refused(429, "rate-limited", "GET", "/v1/events", "", "X-User: carl")
	if n := a.gateway.Stats().Streams; n != 3 {
		t.Errorf("%d streams", n)
	}
	first.leave()
	within(t, "the place is free", func() bool { return a.gateway.Stats().Streams == 2 })
	a.stream("", "X-User: carl")
	a.want(200, "HEAD", "/v1/events", "", "X-User: dora")
}
