package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/lease"
)

type listing struct {
	Leases []struct {
		Name, Holder string
		ID           *string
		Queue        *struct{ Length int }
	}
	Next string
}

func (l listing) names() (names []string) {
	for _, v := range l.Leases {
		names = append(names, v.Name)
	}
	return names
}

// list reads a page.
func (a *api) list(query string, headers ...string) listing {
	a.t.Helper()
	var l listing
	if err := json.Unmarshal([]byte(a.want(200, "GET", "/v1/leases"+query, "", headers...).text), &l); err != nil {
		a.t.Fatal(err)
	}
	return l
}

// pages reads all pages.
func (a *api) pages(query string, headers ...string) (names []string) {
	a.t.Helper()
	after := ""
	for range 100 {
		l := a.list(query+"&after="+url.QueryEscape(after), headers...)
		names = append(names, l.names()...)
		if l.Next == "" {
			return names
		}
		if l.Next <= after {
			a.t.Fatalf("the list goes from %q to %q", after, l.Next)
		}
		after = l.Next
	}
	a.t.Fatal("the list has no end")
	return nil
}

func TestListOfLeases(t *testing.T) {
	a := serve(t, nil)
	if got := a.want(200, "GET", "/v1/leases", ""); got.text != `{"leases":[]}`+"\n" {
		t.Fatal(got.text)
	}
	names := []string{"a b/c", "w:1", "w:2", "w:3", "w%:4", "x"}
	for _, n := range names {
		a.acquire(url.PathEscape(n))
	}
	a.memory.Wait("w:2", lease.Waiting{Holder: "b", For: time.Second})
	slices.Sort(names)
	for _, limit := range []int{1, 2, 6, 1000} {
		if got := a.pages(fmt.Sprintf("?limit=%d", limit)); !slices.Equal(got, names) {
			t.Errorf("%d at a time: %q", limit, got)
		}
	}
	if got := a.list("?prefix=w:&limit=2"); !slices.Equal(got.names(), []string{"w:1", "w:2"}) || got.Next != "w:2" {
		t.Errorf("%+v", got)
	}
	if got := a.list("?prefix=w%25"); !slices.Equal(got.names(), []string{"w%:4"}) {
		t.Errorf("%+v", got)
	}
	if got := a.list("?prefix=a+b%2F"); !slices.Equal(got.names(), []string{"a b/c"}) {
		t.Errorf("%+v", got)
	}
	for _, v := range a.list("").Leases {
		if v.ID != nil || (v.Queue != nil) != (v.Name == "w:2") {
			t.Errorf("%+v", v)
		}
	}
	if got := a.want(200, "HEAD", "/v1/leases", ""); got.text != "" {
		t.Error(got.text)
	}
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=": "limit", "limit=x": "limit", "prefix=a&prefix=b": "prefix", "prefix=%ff": "prefix", "Prefix=a": "Prefix",
		"offset=1": "offset", "after": "after",
	} {
		if p := a.refused(400, "invalid-request", "GET", "/v1/leases?"+query, ""); p.Field != field {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// Nothing of a list tells the name of a lease that the caller may not read, and least its next.
func TestListShowsWhatTheCallerMayRead(t *testing.T) {
	a := serve(t, func(c *gateway.Config) {
		c.Authenticate = func(r *http.Request) (gateway.Caller, error) {
			return caller{name: "ann", may: func(a gateway.Action) bool {
				return a.Verb == gateway.VerbLease || r.Header.Get("X-User") == "" || a.Verb == gateway.VerbRead && strings.HasPrefix(a.Lease, "mine")
			}}, nil
		}
	})
	var mine []string
	for i := range 30 {
		a.acquire(fmt.Sprintf("his:%02d", i))
		a.acquire(fmt.Sprintf("other:%02d", i))
		if i%3 == 0 {
			mine = append(mine, fmt.Sprintf("mine:%02d", i))
			a.acquire(mine[len(mine)-1])
		}
	}
	for _, limit := range []int{1, 4, 7, 29, 30, 31, 70} {
		var got []string
		for next := range pagesOf(a, limit, &got) {
			if next != "" && !strings.HasPrefix(next, "mine") {
				t.Errorf("%d at a time: next is %q", limit, next)
			}
		}
		if !slices.Equal(got, mine) {
			t.Errorf("%d at a time: %q", limit, got)
		}
	}
}

// pagesOf yields each page's next, and gathers the names.
func pagesOf(a *api, limit int, names *[]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		after := ""
		for range 100 {
			l := a.list(fmt.Sprintf("?limit=%d&after=%s", limit, after), "X-User: ann")
			if len(l.Leases) > limit {
				a.t.Errorf("%d leases on a page of %d", len(l.Leases), limit)
			}
			*names = append(*names, l.names()...)
			if after = l.Next; !yield(after) || after == "" {
				return
			}
		}
		a.t.Error("the list has no end")
	}
}

func TestListGivesUpOnWhatIsHidden(t *testing.T) {
	a := serve(t, func(c *gateway.Config) {
		c.Authenticate = func(*http.Request) (gateway.Caller, error) {
			return caller{name: "ann", may: func(a gateway.Action) bool { return a.Verb != gateway.VerbRead || a.Lease == "z" }}, nil
		}
	})
	for i := range 2200 {
		if _, err := a.memory.Acquire(t.Context(), lease.Request{Name: fmt.Sprintf("l:%04d", i), Principal: "bob"}); err != nil {
			t.Fatal(err)
		}
	}
	a.acquire("z")
	p := a.refused(400, "invalid-request", "GET", "/v1/leases", "")
	if p.Field != "prefix" || strings.Contains(p.Detail, "l:") {
		t.Errorf("%+v", p)
	}
	if got := a.list("?prefix=z"); !slices.Equal(got.names(), []string{"z"}) {
		t.Error(got)
	}
}

func TestInspectShowsTheQueue(t *testing.T) {
	a := serve(t, nil)
	a.acquire("a")
	a.memory.Wait("a", lease.Waiting{Holder: "b", For: 1200 * time.Millisecond})
	a.memory.Wait("a", lease.Waiting{Holder: "c"})
	if got := a.want(200, "GET", "/v1/leases/a", ""); !strings.HasSuffix(got.text, `,"queue":{"length":2,"waiting":[{"holder":"b","waiting_ms":1200},{"holder":"c","waiting_ms":0}]}}`+"\n") {
		t.Error(got.text)
	}
}
