package fence_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func TestParseToken(t *testing.T) {
	for s, want := range map[string]fence.Token{"1": 1, "1000": 1000, "999999999999999": fence.MaxToken} {
		if got, err := fence.ParseToken(s); err != nil || got != want || got.String() != s {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "0", "007", "+7", "-7", "7,8", "7 ", " 7", "1e3", "7.0", "0x7", "٧", "1000000000000000", strings.Repeat("7", 20_000)} {
		_, err := fence.ParseToken(s)
		if fence.CodeOf(err) != fence.CodeInvalidToken || len(err.Error()) > 200 {
			t.Errorf("%.20q: %v", s, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	for _, s := range []string{"1", "999999999999999", "007", "+1", "1e3", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token, err := fence.ParseToken(s)
		if err == nil && (!token.Valid() || token.String() != s) {
			t.Errorf("%q was read as %d: one number has one spelling", s, token)
		}
		if err != nil && token != 0 {
			t.Errorf("%q: %d and %v", s, token, err)
		}
	})
}

func TestBlock(t *testing.T) {
	b := fence.Block{First: 1000, Last: 1999}
	text, err := json.Marshal([]fence.Block{b})
	if err != nil || string(text) != "[[1000,1999]]" {
		t.Errorf("%s %v", text, err)
	}
	var back []fence.Block
	if err := json.Unmarshal(text, &back); err != nil || back[0] != b {
		t.Errorf("%v %v", back, err)
	}
	if err := json.Unmarshal([]byte(`["x"]`), &back); err == nil {
		t.Error("a string was read as a block")
	}
	for token, want := range map[fence.Token]bool{999: false, 1000: true, 1999: true, 2000: false} {
		if b.Has(token) != want {
			t.Errorf("%d: %v", token, !want)
		}
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		check func(string) error
		good  []string
		bad   []string
	}{
		{fence.CheckLeaseName, []string{"a", "}x", "wallet:42", "a/b", "日本", long[:2048]}, []string{"", long[:2049], "a\nb", "a\x7f", "\u0085", "\xff", "a\x00"}},
		{fence.CheckHolder, []string{"worker-a", long[:256]}, []string{"", long[:257], "a\tb"}},
		{fence.CheckObjectKey, []string{"a//b", "/", "..", "a\nb", "+%2F ", long[:1024]}, []string{"", long[:1025], "a\x00", "\xff"}},
	} {
		for _, s := range c.good {
			if err := c.check(s); err != nil {
				t.Errorf("%.20q: %v", s, err)
			}
		}
		for _, s := range c.bad {
			if fence.CodeOf(c.check(s)) != fence.CodeInvalidRequest {
				t.Errorf("%.20q was let through", s)
			}
		}
	}
}

func TestDigestOf(t *testing.T) {
	seen := map[fence.Digest]string{}
	for _, fields := range [][]string{{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""}, {"b", "a"}} {
		d := fence.DigestOf(fields...)
		name := fmt.Sprintf("%q", fields)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s run together", name, other)
		}
		seen[d] = name
	}
	if fence.AcquireDigest("p", "qr") == fence.AcquireDigest("pq", "r") {
		t.Error("a principal can be taken for another one")
	}
}
