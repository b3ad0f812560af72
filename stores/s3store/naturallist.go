package s3store

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

const (
	// maxKeys is how many keys S3 lists at once, and maxKey how many bytes one has.
	maxKeys = 1000
	maxKey  = 1024
)

// ListNatural implements stores.Naturals.
func (s *Store) ListNatural(ctx context.Context, q stores.NaturalQuery) (stores.NaturalPage, error) {
	if err := checkBucket(q.Bucket); err != nil {
		return stores.NaturalPage{}, err
	}
	if q.Limit < 1 || q.Limit > maxKeys {
		return stores.NaturalPage{}, fence.Errorf(fence.CodeInvalidRequest, "a page has 1 to %d entries, not %d", maxKeys, q.Limit).In("limit")
	}
	if s.Reserved(q.Prefix) {
		return stores.NaturalPage{}, nil
	}
	api, err := s.client(ctx)
	if err != nil {
		return stores.NaturalPage{}, err
	}
	w := &walk{store: s, api: api, q: q, most: q.Limit + 1}
	if err := w.run(ctx); err != nil {
		return stores.NaturalPage{}, err
	}
	page := stores.NaturalPage{More: len(w.found) > q.Limit}
	for _, i := range w.found[:min(q.Limit, len(w.found))] {
		if i.group {
			page.Groups = append(page.Groups, i.Key)
		} else {
			page.Objects = append(page.Objects, i.Natural)
		}
	}
	return page, nil
}

// listItem is an object, or a group.
type listItem struct {
	stores.Natural
	group bool
}

// walk collects what one query asks for. It pages by keys alone: a place in a list is a key, whoever answers it.
type walk struct {
	store *Store
	api   *s3.Client
	q     stores.NaturalQuery
	most  int
	found []listItem
}

func (w *walk) run(ctx context.Context) error {
	after := w.q.After
	// In the middle of a group, S3 names the group once more if there are keys left in it, and others do not.
	if g := w.groupOf(after); g != "" && g != after {
		left, err := w.store.holds(ctx, w.api, w.q.Bucket, g, w.behind(after))
		if err != nil {
			return err
		}
		if left {
			w.add(listItem{Natural: stores.Natural{Key: g}, group: true})
		}
		after = g
	}
	start := w.behind(after)
	for len(w.found) < w.most {
		page, err := w.store.listPage(ctx, w.api, listQuery{
			bucket: w.q.Bucket, prefix: w.q.Prefix, delimiter: w.q.Delimiter, after: start, most: w.most - len(w.found),
		})
		if err != nil {
			return err
		}
		for _, i := range page.items {
			if err := w.take(ctx, i, after); err != nil {
				return err
			}
		}
		if !page.more {
			return nil
		}
		if len(page.items) == 0 {
			return errStuck()
		}
		after = page.items[len(page.items)-1].Key
		next := w.behind(after)
		if next <= start {
			return errStuck()
		}
		start = next
	}
	return nil
}

// take adds an item of S3's list, unless it is one that is not to be seen, or that the list was to begin behind.
func (w *walk) take(ctx context.Context, i listItem, after string) error {
	switch {
	case i.Key <= after || w.groupOf(after) == after && after != "" && strings.HasPrefix(i.Key, after), w.store.Reserved(i.Key):
		return nil
	case i.group && strings.HasPrefix(w.store.cfg.Prefix, i.Key):
		// There may be nothing in the group but the reserved keys.
		other, err := w.store.holds(ctx, w.api, w.q.Bucket, i.Key, "")
		if err != nil || !other {
			return err
		}
	}
	w.add(i)
	return nil
}

func (w *walk) add(i listItem) {
	if len(w.found) < w.most {
		w.found = append(w.found, i)
	}
}

// groupOf returns the group that a key is listed as, if it is.
func (w *walk) groupOf(key string) string {
	rest, ok := strings.CutPrefix(key, w.q.Prefix)
	if !ok || w.q.Delimiter == "" {
		return ""
	}
	if at := strings.Index(rest, w.q.Delimiter); at >= 0 {
		return key[:len(w.q.Prefix)+at+len(w.q.Delimiter)]
	}
	return ""
}

// behind returns the key behind which a list goes on after this one: behind all of its group, if it is one, and behind all of the
// reserved prefix.
func (w *walk) behind(after string) string {
	switch g := w.groupOf(after); {
	case w.store.Reserved(after):
		return max(after, last(w.store.cfg.Prefix))
	case g != "" && strings.HasSuffix(after, w.q.Delimiter):
		return last(after)
	}
	return after
}

// last returns a key behind all that begin with prefix, but for some that end in characters nobody uses.
func last(prefix string) string {
	switch room := maxKey - len(prefix); {
	case room >= 4:
		return prefix + "\U0010FFFD"
	case room == 3:
		return prefix + "\uFFFD"
	case room == 2:
		return prefix + "\u07FF"
	case room == 1:
		return prefix + "~"
	}
	return prefix
}

// holds tells whether a natural object's key begins with prefix and comes behind after.
func (s *Store) holds(ctx context.Context, api *s3.Client, bucket, prefix, after string) (bool, error) {
	w := &walk{store: s, api: api, q: stores.NaturalQuery{Bucket: bucket, Prefix: prefix, After: after}, most: 1}
	err := w.run(ctx)
	return len(w.found) > 0, err
}

// listQuery is one request for a list.
type listQuery struct {
	bucket, prefix, delimiter, after string
	most                             int
}

type listAnswer struct {
	items []listItem
	more  bool
}

// listPage asks for objects and groups and returns them in one order.
func (s *Store) listPage(ctx context.Context, api *s3.Client, q listQuery) (listAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	in := &s3.ListObjectsV2Input{
		Bucket: &q.bucket, Prefix: optional(q.prefix), Delimiter: optional(q.delimiter), StartAfter: optional(q.after),
		MaxKeys: aws.Int32(int32(min(q.most, maxKeys))), EncodingType: types.EncodingTypeUrl,
	}
	out, err := api.ListObjectsV2(ctx, in)
	if err != nil {
		return listAnswer{}, naturalFailure(err, "list", q.bucket)
	}
	answer := listAnswer{more: aws.ToBool(out.IsTruncated)}
	// An S3 that did not encode does not say that it did.
	decode := func(s string) (string, error) { return s, nil }
	if out.EncodingType == types.EncodingTypeUrl {
		decode = url.QueryUnescape
	}
	for _, o := range out.Contents {
		key, err := decode(aws.ToString(o.Key))
		if err != nil {
			return listAnswer{}, fence.Wrap(fence.CodeStoreUnavailable, err, "decode a key that the S3 listed")
		}
		answer.items = append(answer.items, listItem{Natural: stores.Natural{
			Key: key, Size: aws.ToInt64(o.Size), ETag: unquote(o.ETag), ModifiedAt: aws.ToTime(o.LastModified),
		}})
	}
	for _, p := range out.CommonPrefixes {
		key, err := decode(aws.ToString(p.Prefix))
		if err != nil {
			return listAnswer{}, fence.Wrap(fence.CodeStoreUnavailable, err, "decode a prefix that the S3 listed")
		}
		answer.items = append(answer.items, listItem{Natural: stores.Natural{Key: key}, group: true})
	}
	slices.SortFunc(answer.items, func(a, b listItem) int { return cmp.Compare(a.Key, b.Key) })
	return answer, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func errStuck() error {
	return fence.Errorf(fence.CodeStoreUnavailable, "the S3's list does not go on")
}
