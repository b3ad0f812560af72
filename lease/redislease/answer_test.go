package redislease

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func TestAnswerIsReadOrRefused(t *testing.T) {
	value, tenant := fence.DigestOf("value"), fence.DigestOf("tenant")
	reply := func(change ...any) []any {
		r := []any{value.String(), int64(1), "holder", int64(1500), tenant.String(), int64(-20), int64(3), "1764449155123457", int64(1), int64(7)}
		for i := 0; i+1 < len(change); i += 2 {
			r[change[i].(int)] = change[i+1]
		}
		return r
	}
	a := answer{reply: reply()}
	want := lease.Standing{
		Value: value, Reserved: true, Holder: "holder", Remaining: 1500 * time.Millisecond, Tenant: tenant, Renewed: -20 * time.Millisecond, Behind: 3,
		Place: 1764449155123457, Followed: true, Entries: 7,
	}
	got := a.standing("name")
	if err := a.end(); err != nil || got.Queue != nil || !equal(got, want) {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}
	for name, broken := range map[string][]any{
		"Empty":         {},
		"TooShort":      reply()[:9],
		"TooLong":       append(reply(), "x"),
		"TextForNumber": reply(1, "1"),
		"NumberForText": reply(2, int64(1)),
		"Nil":           reply(0, nil),
		"NoPlace":       reply(7, "1.7e15"),
	} {
		a := answer{reply: broken}
		a.standing("name")
		if err := a.end(); fence.CodeOf(err) != fence.CodeInternal {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
}

func equal(a, b lease.Standing) bool {
	a.Queue, b.Queue = nil, nil
	return a.Value == b.Value && a.Reserved == b.Reserved && a.Holder == b.Holder && a.Remaining == b.Remaining && a.Tenant == b.Tenant &&
		a.Renewed == b.Renewed && a.Behind == b.Behind && a.Place == b.Place && a.Followed == b.Followed && a.Entries == b.Entries
}

func FuzzParseSignal(f *testing.F) {
	value := fence.DigestOf("value")
	name := base64.RawURLEncoding.EncodeToString([]byte("a lease"))
	for kind, want := range map[string]lease.SignalKind{"pushed": lease.Pushed, "followed": lease.Followed} {
		got, err := parseSignal(kind + " " + name + " " + value.String())
		if err != nil || got != (lease.Signal{Kind: want, Name: "a lease", Value: value}) {
			f.Fatalf("%s: %+v, %v", kind, got, err)
		}
		f.Add(kind + " " + name + " " + value.String())
	}
	for _, s := range []string{"", "pushed", "pushed  ", "resync x y", "pushed a*b " + value.String(), "pushed " + name + " ", "pushed " + name} {
		if got, err := parseSignal(s); err == nil {
			f.Fatalf("%q is %+v", s, got)
		}
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseSignal(s)
		if err != nil {
			if got != (lease.Signal{}) {
				t.Fatalf("%q: %+v with %v", s, got, err)
			}
			return
		}
		if got.Kind == 0 || got.Kind == lease.Resync || got.Value == (fence.Digest{}) || !strings.Contains(s, " ") {
			t.Fatalf("%q is %+v", s, got)
		}
	})
}
