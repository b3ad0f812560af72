package stores_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// bucket is a ledger and a store that list what is in memory, the simple way.
type bucket struct {
	stores.Ledger
	stores.Blobs
	stores.Naturals
	bindings []fence.BucketBinding
	ours     map[string]bool // whether a key that the ledger knows has an object
	theirs   map[string]bool
}

// pageOf lists keys the simple way.
func pageOf(keys map[string]bool, prefix, delimiter, after string, limit int) (entries []fence.ObjectEntry, more bool) {
	groups := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		rest, below := strings.CutPrefix(key, prefix)
		if !below || !keys[key] {
			continue
		}
		e := fence.ObjectEntry{Key: key}
		if head, _, found := strings.Cut(rest, delimiter); delimiter != "" && found {
			e = fence.ObjectEntry{Key: prefix + head + delimiter, Group: true}
		}
		if e.Key <= after || groups[e.Key] {
			continue
		}
		groups[e.Key] = e.Group
		if len(entries) == limit {
			return entries, true
		}
		entries = append(entries, e)
	}
	return entries, false
}

func (b *bucket) Bindings(context.Context, string) ([]fence.BucketBinding, error) {
	return b.bindings, nil
}

func (b *bucket) ListObjects(_ context.Context, q fence.ObjectQuery) (fence.ObjectPage, error) {
	entries, more := pageOf(b.ours, q.Prefix, q.Delimiter, q.After, q.Limit)
	return fence.ObjectPage{Entries: entries, More: more}, nil
}

func (b *bucket) ListNatural(_ context.Context, q stores.NaturalQuery) (stores.NaturalPage, error) {
	entries, more := pageOf(b.theirs, q.Prefix, q.Delimiter, q.After, q.Limit)
	page := stores.NaturalPage{More: more}
	for _, e := range entries {
		if e.Group {
			page.Groups = append(page.Groups, e.Key)
		} else {
			page.Objects = append(page.Objects, stores.Natural{Key: e.Key})
		}
	}
	return page, nil
}

func (b *bucket) KnownKeys(_ context.Context, _ string, keys []string) ([]string, error) {
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { _, known := b.ours[k]; return !known }), nil
}

func (b *bucket) AnyDeleted(_ context.Context, _, prefix string) (bool, error) {
	for key, live := range b.ours {
		if !live && strings.HasPrefix(key, prefix) {
			return true, nil
		}
	}
	return false, nil
}

// binding is the longest protected prefix of a key.
func (b *bucket) binding(key string) (longest fence.BucketBinding, found bool) {
	for _, binding := range b.bindings {
		if strings.HasPrefix(key, binding.Prefix) && (!found || len(binding.Prefix) > len(longest.Prefix)) {
			longest, found = binding, true
		}
	}
	return longest, found
}

// visible are the keys that a client sees, one by one.
func (b *bucket) visible() map[string]bool {
	seen := map[string]bool{}
	for key, live := range b.ours {
		if _, protected := b.binding(key); protected {
			seen[key] = live
		}
	}
	for key := range b.theirs {
		binding, protected := b.binding(key)
		if _, known := b.ours[key]; !known && protected && binding.Options.Existing {
			seen[key] = true
		}
	}
	return seen
}

// Page by page a list has what its keys have one by one, whoever put them there, whatever is protected.
func TestListMergesBothWorlds(t *testing.T) {
	key := rapid.StringOfN(rapid.SampledFrom([]rune("ab/é")), 1, 5, -1)
	rapid.Check(t, func(t *rapid.T) {
		b := &bucket{ours: rapid.MapOfN(key, rapid.Bool(), 0, 25).Draw(t, "ours"), theirs: map[string]bool{}}
		for _, k := range rapid.SliceOfN(key, 0, 25).Draw(t, "theirs") {
			b.theirs[k] = true
		}
		prefix := rapid.SampledFrom([]string{"", "a", "b/", "a/b", "a/b/", "é"})
		for _, p := range rapid.SliceOfNDistinct(prefix, 1, 4, rapid.ID[string]).Draw(t, "protected") {
			b.bindings = append(b.bindings, fence.BucketBinding{Prefix: p, Options: fence.BucketOptions{Existing: rapid.IntRange(0, 3).Draw(t, "existing") > 0}})
		}
		slices.SortFunc(b.bindings, func(x, y fence.BucketBinding) int { return strings.Compare(x.Prefix, y.Prefix) })
		o, err := stores.NewObjects(b, b, stores.ObjectsConfig{})
		if err != nil {
			t.Fatal(err)
		}
		q := fence.ObjectQuery{Bucket: "reports", Prefix: prefix.Draw(t, "prefix"), Delimiter: rapid.SampledFrom([]string{"", "/", "b/", "a"}).Draw(t, "delimiter"), Limit: rapid.IntRange(1, 5).Draw(t, "limit")}
		want, _ := pageOf(b.visible(), q.Prefix, q.Delimiter, "", 1000)
		var got []fence.ObjectEntry
		for {
			page, err := o.ListObjects(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				got = append(got, fence.ObjectEntry{Key: e.Key, Group: e.Group})
			}
			if !page.More {
				break
			}
			if len(page.Entries) != q.Limit || len(got) > 100 {
				t.Fatalf("a page of %d entries, and more", len(page.Entries))
			}
			q.After = got[len(got)-1].Key
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\nwant %v", got, want)
		}
	})
}
