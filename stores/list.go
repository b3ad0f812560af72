package stores

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// Buckets names the buckets that something protects, in the order of their bytes.
func (o *Objects) Buckets(ctx context.Context) ([]string, error) { return o.ledger.Buckets(ctx) }

// ListObjects returns a page of a bucket's objects: those of the ledger, and those that lie in the bucket under keys which the ledger does
// not know. Page and page are of two snapshots.
func (o *Objects) ListObjects(ctx context.Context, q fence.ObjectQuery) (fence.ObjectPage, error) {
	if q.Limit < 1 || q.Limit > fence.MaxObjects {
		return fence.ObjectPage{}, fence.Errorf(fence.CodeInvalidRequest, "limit is a number from 1 to %d", fence.MaxObjects).In("limit")
	}
	bindings, err := o.ledger.Bindings(ctx, q.Bucket)
	if err != nil {
		return fence.ObjectPage{}, err
	}
	l := &listing{Objects: o, q: q, bindings: bindings}
	for _, prefix := range l.protected() {
		if len(l.found) > q.Limit {
			break
		}
		if err := l.addBelow(ctx, prefix); err != nil {
			return fence.ObjectPage{}, err
		}
	}
	page := fence.ObjectPage{Entries: l.found}
	if len(l.found) > q.Limit {
		page.Entries, page.More = l.found[:q.Limit], true
	}
	return page, nil
}

// listing is a page that is being made. It looks for one entry more than the page has.
type listing struct {
	*Objects
	q        fence.ObjectQuery
	bindings []fence.BucketBinding
	found    []fence.ObjectEntry
}

// protected are the prefixes below which everything that the query asks for is protected, in order, none below another.
func (l *listing) protected() []string {
	var prefixes []string
	for _, b := range l.bindings {
		if strings.HasPrefix(l.q.Prefix, b.Prefix) {
			return []string{l.q.Prefix}
		}
		if strings.HasPrefix(b.Prefix, l.q.Prefix) && (len(prefixes) == 0 || !strings.HasPrefix(b.Prefix, prefixes[len(prefixes)-1])) {
			prefixes = append(prefixes, b.Prefix)
		}
	}
	return prefixes
}

// existing tells whether a natural object under a key counts: it does by the options of the longest prefix.
func (l *listing) existing(key string) bool {
	longest := fence.BucketBinding{}
	for _, b := range l.bindings {
		if strings.HasPrefix(key, b.Prefix) && len(b.Prefix) >= len(longest.Prefix) {
			longest = b
		}
	}
	return l.naturals != nil && longest.Options.Existing
}

// existingBelow tells whether natural objects count below a protected prefix: for some keys, and for all.
func (l *listing) existingBelow(prefix string) (some, all bool) {
	some = l.existing(prefix)
	all = some
	for _, b := range l.bindings {
		if strings.HasPrefix(b.Prefix, prefix) {
			some, all = some || b.Options.Existing, all && b.Options.Existing
		}
	}
	return some && l.naturals != nil, all && l.naturals != nil
}

// addBelow adds what is below a protected prefix.
func (l *listing) addBelow(ctx context.Context, prefix string) error {
	if group := l.groupOf(prefix); group != "" { // all of it is in this one
		any, err := l.any(ctx, prefix)
		if any {
			l.add(fence.ObjectEntry{Key: group})
		}
		return err
	}
	delimiter := l.q.Delimiter
	if len(delimiter) > 1 && prefix != l.q.Prefix {
		delimiter = "" // it may begin in the prefix
	}
	for after, more := l.q.After, true; more && len(l.found) <= l.q.Limit; {
		var err error
		if after, more, err = l.addPage(ctx, prefix, delimiter, after); err != nil {
			return err
		}
	}
	return nil
}

// add adds an entry, or the group that it is in.
func (l *listing) add(e fence.ObjectEntry) {
	if group := l.groupOf(e.Key); group != "" {
		e = fence.ObjectEntry{Key: group, Group: true}
		if group <= l.q.After || len(l.found) > 0 && l.found[len(l.found)-1].Key == group {
			return
		}
	}
	l.found = append(l.found, e)
}

// groupOf is the group that a prefix lies in, empty when the delimiter is still to come.
func (l *listing) groupOf(prefix string) string {
	if l.q.Delimiter == "" {
		return ""
	}
	at := strings.Index(prefix[len(l.q.Prefix):], l.q.Delimiter)
	if at < 0 {
		return ""
	}
	return prefix[:len(l.q.Prefix)+at+len(l.q.Delimiter)]
}

// addPage adds what comes behind a key, as far as both sides were read, and returns where that ends and whether there may be more.
func (l *listing) addPage(ctx context.Context, prefix, delimiter, after string) (end string, more bool, err error) {
	limit := min(l.q.Limit+1-len(l.found), fence.MaxObjects)
	q := fence.ObjectQuery{Bucket: l.q.Bucket, Prefix: prefix, Delimiter: delimiter, After: after, Limit: limit}
	ours, err := l.ledger.ListObjects(ctx, q)
	if err != nil {
		return "", false, err
	}
	entries, bounded := ours.Entries, ours.More
	if bounded {
		end = entries[len(entries)-1].Key
	}
	if some, _ := l.existingBelow(prefix); some {
		theirs, err := l.naturals.ListNatural(ctx, NaturalQuery{Bucket: q.Bucket, Prefix: prefix, Delimiter: q.Delimiter, After: after, Limit: limit})
		if err != nil {
			return "", false, err
		}
		if last := theirs.last(); theirs.More && (!bounded || last < end) {
			bounded, end = true, last
		}
		if entries, err = l.merge(ctx, entries, theirs, bounded, end); err != nil {
			return "", false, err
		}
	}
	for _, e := range entries {
		l.add(e)
	}
	return end, bounded, nil
}

// last is the key or group with which a page ends.
func (p NaturalPage) last() string {
	last := ""
	if n := len(p.Objects); n > 0 {
		last = p.Objects[n-1].Key
	}
	if n := len(p.Groups); n > 0 {
		last = max(last, p.Groups[n-1])
	}
	return last
}

// merge joins the ledger's entries and the store's, up to the end that both were read to.
func (l *listing) merge(ctx context.Context, ours []fence.ObjectEntry, theirs NaturalPage, bounded bool, end string) ([]fence.ObjectEntry, error) {
	within := func(key string) bool { return !bounded || key <= end }
	var merged []fence.ObjectEntry
	groups := map[string]bool{}
	for _, e := range ours {
		if within(e.Key) {
			merged = append(merged, e)
			groups[e.Key] = e.Group
		}
	}
	unknown, err := l.unknown(ctx, theirs.Objects)
	if err != nil {
		return nil, err
	}
	for _, n := range unknown {
		if within(n.Key) {
			merged = append(merged, fence.ObjectEntry{Key: n.Key, Natural: true, Size: n.Size, ETag: n.ETag, ModifiedAt: n.ModifiedAt})
		}
	}
	for _, g := range theirs.Groups {
		if !within(g) || groups[g] {
			continue
		}
		stands, err := l.groupStands(ctx, g)
		if err != nil {
			return nil, err
		}
		if stands {
			merged = append(merged, fence.ObjectEntry{Key: g, Group: true})
		}
	}
	slices.SortFunc(merged, func(a, b fence.ObjectEntry) int { return cmp.Compare(a.Key, b.Key) })
	return merged, nil
}

// unknown returns the natural objects that count: those that the ledger does not know.
func (l *listing) unknown(ctx context.Context, objects []Natural) ([]Natural, error) {
	keys := make([]string, 0, len(objects))
	for _, n := range objects {
		if l.existing(n.Key) {
			keys = append(keys, n.Key)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	known, err := l.ledger.KnownKeys(ctx, l.q.Bucket, keys)
	if err != nil {
		return nil, err
	}
	hidden := make(map[string]bool, len(known))
	for _, k := range known {
		hidden[k] = true
	}
	return slices.DeleteFunc(slices.Clone(objects), func(n Natural) bool { return hidden[n.Key] || !l.existing(n.Key) }), nil
}

// groupStands tells whether a group of natural objects has one that counts. It has, unless some were deleted through the gateway, or
// do not count.
func (l *listing) groupStands(ctx context.Context, group string) (bool, error) {
	if _, all := l.existingBelow(group); all {
		deleted, err := l.ledger.AnyDeleted(ctx, l.q.Bucket, group)
		if err != nil || !deleted {
			return !deleted, err
		}
	}
	return l.any(ctx, group)
}

// any tells whether there is an object below a protected prefix.
func (l *listing) any(ctx context.Context, prefix string) (bool, error) {
	ours, err := l.ledger.ListObjects(ctx, fence.ObjectQuery{Bucket: l.q.Bucket, Prefix: prefix, Limit: 1})
	if err != nil || len(ours.Entries) > 0 {
		return err == nil, err
	}
	if some, _ := l.existingBelow(prefix); !some {
		return false, nil
	}
	for q := (NaturalQuery{Bucket: l.q.Bucket, Prefix: prefix, Limit: fence.MaxObjects}); ; {
		page, err := l.naturals.ListNatural(ctx, q)
		if err != nil {
			return false, err
		}
		unknown, err := l.unknown(ctx, page.Objects)
		if err != nil || len(unknown) > 0 || !page.More {
			return len(unknown) > 0, err
		}
		q.After = page.last()
	}
}
