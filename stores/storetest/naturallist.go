package storetest

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// testList pages through more keys than one request lists, in pages of one key at its ends.
func testList(t *testing.T, s NaturalStore) {
	const n = 1001
	keys := make([]string, n)
	puts, ctx := errgroup.WithContext(t.Context())
	puts.SetLimit(8)
	for i := range keys {
		keys[i] = fmt.Sprintf("%c%d !'/+%c", "az "[i%3], i%10, rune('A'+i/10))
		puts.Go(func() error { return s.PutObject(ctx, keys[i], nil, fence.ObjectHeader{}) })
	}
	if err := puts.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) != n {
		t.Fatalf("%d different keys", len(keys))
	}
	after, at := "", 0
	for i := 0; at < n; i++ {
		limit := 1
		switch i {
		case 5:
			limit = n - 8
		case 6:
			limit = 1000
		}
		page, err := s.ListNatural(t.Context(), stores.NaturalQuery{Bucket: s.Bucket, After: after, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if want := min(limit, n-at); len(page.Objects) != want || page.More != (at+want < n) {
			t.Fatalf("page %d of %d from %d has %d keys, more: %t", i, limit, at, len(page.Objects), page.More)
		}
		for _, o := range page.Objects {
			if o.Key != keys[at] {
				t.Fatalf("key %d is %q, want %q", at, o.Key, keys[at])
			}
			after, at = o.Key, at+1
		}
	}
	for limit, more := range map[int]bool{1000: true, 999: true} {
		page, err := s.ListNatural(t.Context(), stores.NaturalQuery{Bucket: s.Bucket, Limit: limit})
		if err != nil || len(page.Objects) != limit || page.More != more {
			t.Errorf("a page of %d has %d, more: %t, %v", limit, len(page.Objects), page.More, err)
		}
	}
	page, err := s.ListNatural(t.Context(), stores.NaturalQuery{Bucket: s.Bucket, Limit: 1000, After: keys[0]})
	if err != nil || len(page.Objects) != 1000 || page.More {
		t.Errorf("the last 1000: %d, more: %t, %v", len(page.Objects), page.More, err)
	}
	for _, limit := range []int{0, -1, 1001} {
		if _, err := s.ListNatural(t.Context(), stores.NaturalQuery{Bucket: s.Bucket, Limit: limit}); fence.CodeOf(err) != fence.CodeInvalidRequest {
			t.Errorf("a page of %d: %v", limit, err)
		}
	}
}

func testGroups(t *testing.T, s NaturalStore) {
	for _, key := range []string{"A", "a-b/x", "a/1", "a/2", "a/b/1", "a0", "b/1", "b/2", "b/\U0010FFFF", "c"} {
		s.put(t, key, "")
	}
	for name, c := range map[string]struct {
		q    stores.NaturalQuery
		want string
	}{
		"All":                  {stores.NaturalQuery{}, "A a-b/| a/| a0 b/| c"},
		"Two":                  {stores.NaturalQuery{Limit: 2}, "A a-b/| ..."},
		"EndsWithAGroup":       {stores.NaturalQuery{Limit: 3}, "A a-b/| a/| ..."},
		"BehindAGroup":         {stores.NaturalQuery{After: "a/", Limit: 2}, "a0 b/| ..."},
		"BehindTheLastGroup":   {stores.NaturalQuery{After: "b/"}, "c"},
		"WithinAGroup":         {stores.NaturalQuery{After: "b/1"}, "b/| c"},
		"AtTheEndOfAGroup":     {stores.NaturalQuery{After: "a/b/1"}, "a0 b/| c"},
		"BehindAGroupInAGroup": {stores.NaturalQuery{After: "a/b/"}, "a0 b/| c"},
		"Below":                {stores.NaturalQuery{Prefix: "a/"}, "a/1 a/2 a/b/|"},
		"BelowBehind":          {stores.NaturalQuery{Prefix: "a/", After: "a/2"}, "a/b/|"},
		"BelowBehindItsName":   {stores.NaturalQuery{Prefix: "a/", After: "a/"}, "a/1 a/2 a/b/|"},
		"BelowBehindTheGroup":  {stores.NaturalQuery{Prefix: "a/", After: "a/b/"}, ""},
		"Begins":               {stores.NaturalQuery{Prefix: "a"}, "a-b/| a/| a0"},
		"BehindThePrefix":      {stores.NaturalQuery{Prefix: "a", After: "b"}, ""},
		"BeforeThePrefix":      {stores.NaturalQuery{Prefix: "b", After: "a"}, "b/|"},
		"OtherDelimiter":       {stores.NaturalQuery{Delimiter: "/b", Limit: 3}, "A a-b/x a/1 ..."},
		"BehindItsGroup":       {stores.NaturalQuery{Delimiter: "/b", After: "a/b", Limit: 2}, "a0 b/1 ..."},
		"NoSuchPrefix":         {stores.NaturalQuery{Prefix: "x/"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.q.Delimiter == "" {
				c.q.Delimiter = "/"
			}
			s.checkList(t, c.q, c.want)
		})
	}
	s.checkList(t, stores.NaturalQuery{After: "a/", Limit: 2}, "a/1 a/2 ...")
}
