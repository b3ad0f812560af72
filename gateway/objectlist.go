package gateway

import (
	"cmp"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// hiddenObjectPages is how many pages of objects that the caller may not read a list looks through.
const hiddenObjectPages = 20

func (g *Gateway) objectListEndpoint(rest string) (endpoint, error) {
	bucket, err := unescape("bucket", rest)
	if err != nil {
		return endpoint{}, err
	}
	if bucket == "" {
		return endpoint{}, fence.Errorf(fence.CodeNotFound, "a list is /v1/objects/{bucket}")
	}
	list := on(http.MethodGet, "list", VerbRead, g.listObjects)
	list.query = true
	return endpoint{about: Action{Bucket: bucket}, piecewise: true, target: bucket, methods: []method{list}}, nil
}

// listObjects answers a page of a bucket: what the caller may read of it.
func (g *Gateway) listObjects(w http.ResponseWriter, r *http.Request, bucket string) error {
	q, err := readQuery(r.URL.RawQuery, "prefix", "delimiter", "limit", "after")
	if err != nil {
		return err
	}
	limit, err := q.number("limit", 1, fence.MaxObjects)
	if err != nil {
		return err
	}
	for _, name := range []string{"prefix", "delimiter", "after"} {
		if len(q[name]) > fence.MaxObjectKey {
			return fence.Errorf(fence.CodeInvalidRequest, "%s has at most %d bytes", name, fence.MaxObjectKey).In(name)
		}
	}
	if r.Header.Get(headerToken) != "" {
		return fence.Errorf(fence.CodeInvalidRequest, "a list takes no token: its objects are of no one lease").In(headerToken)
	}
	if err := mayBelow(r, Action{Verb: VerbRead, Bucket: bucket, Key: q["prefix"]}); err != nil {
		return err
	}
	page, err := g.readableObjects(r, fence.ObjectQuery{
		Bucket: bucket, Prefix: q["prefix"], Delimiter: q["delimiter"], After: q["after"], Limit: cmp.Or(limit, defaultPage),
	})
	if err != nil {
		return err
	}
	respondJSON(w, http.StatusOK, objectPageJSON(page))
	return nil
}

// readableObjects reads a page of what the caller may read. Where a page goes on is one of its own entries: a key that the caller
// may not read is not told.
func (g *Gateway) readableObjects(r *http.Request, q fence.ObjectQuery) (fence.ObjectPage, error) {
	for range hiddenObjectPages {
		page, err := g.cfg.Objects.ListObjects(r.Context(), q)
		if err != nil {
			return page, err
		}
		shown := fence.ObjectPage{More: page.More}
		for _, e := range page.Entries {
			a := Action{Verb: VerbRead, Bucket: q.Bucket, Key: e.Key}
			if e.Group && mayBelow(r, a) == nil || !e.Group && allowed(r, a) == nil {
				shown.Entries = append(shown.Entries, e)
			}
		}
		if len(shown.Entries) > 0 || !page.More {
			return shown, nil
		}
		q.After = page.Entries[len(page.Entries)-1].Key
	}
	return fence.ObjectPage{}, fence.Errorf(fence.CodeInvalidRequest,
		"too many objects that this principal may not read lie before the next one that it may: give a longer prefix").In("prefix")
}

// mayBelow refuses an action that the caller may do with no key that begins like this.
func mayBelow(r *http.Request, a Action) error {
	if caller := callerOf(r.Context()); caller == nil || !caller.MayBelow(a) {
		return fence.Errorf(fence.CodeForbidden, "this principal may not %s anything in %s below %q", a.words(), a.Bucket, clip(a.Key, maxField))
	}
	return nil
}

// objectView is an object of a list.
type objectView struct {
	Key         string      `json:"key"`
	Size        int64       `json:"size"`
	Token       fence.Token `json:"token"`
	ETag        string      `json:"etag"`
	SHA256      string      `json:"sha256,omitempty"`
	ContentType string      `json:"content_type,omitempty"`
	Natural     bool        `json:"natural,omitempty"`
	ModifiedAt  time.Time   `json:"modified_at"`
}

type objectPage struct {
	Objects []objectView `json:"objects"`
	Groups  []string     `json:"groups"`
	Next    string       `json:"next,omitempty"`
}

func objectPageJSON(page fence.ObjectPage) objectPage {
	answer := objectPage{Objects: []objectView{}, Groups: []string{}}
	for _, e := range page.Entries {
		if e.Group {
			answer.Groups = append(answer.Groups, e.Key)
			continue
		}
		answer.Objects = append(answer.Objects, objectView{
			Key: e.Key, Size: e.Size, Token: e.Version, ETag: objectTag(e.Natural, e.ETag, e.Version), SHA256: e.SHA256, ContentType: e.ContentType,
			Natural: e.Natural, ModifiedAt: e.ModifiedAt.UTC(),
		})
	}
	if n := len(page.Entries); page.More && n > 0 {
		answer.Next = page.Entries[n-1].Key
	}
	return answer
}

// objectTag is an object's entity tag: the mark, or what the store says of one that was never written through the gateway.
func objectTag(natural bool, tag string, mark fence.Token) string {
	if natural && tag != "" {
		return `"` + tag + `"`
	}
	return `"` + mark.String() + `"`
}
