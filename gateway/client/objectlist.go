package client

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Objects tells the objects of a bucket whose keys begin with a prefix, in the order of the keys' bytes, page by page. It ends with the last
// one, or with an error. One that is written or deleted meanwhile may be told or missed.
func (c *Client) Objects(ctx context.Context, bucket, prefix string) iter.Seq2[fence.ObjectEntry, error] {
	return func(yield func(fence.ObjectEntry, error) bool) {
		q := fence.ObjectQuery{Bucket: bucket, Prefix: prefix, Limit: fence.MaxObjects}
		for {
			page, err := c.ListObjects(ctx, q)
			if err != nil {
				yield(fence.ObjectEntry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if !page.More {
				return
			}
			q.After = page.Entries[len(page.Entries)-1].Key
		}
	}
}

// ListObjects reads one page of a bucket: objects, and with a delimiter groups of keys. A limit of 0 is the gateway's own.
func (c *Client) ListObjects(ctx context.Context, q fence.ObjectQuery) (fence.ObjectPage, error) {
	v := url.Values{}
	for name, value := range map[string]string{"prefix": q.Prefix, "delimiter": q.Delimiter, "after": q.After} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Bucket == "" {
		return fence.ObjectPage{}, fence.Errorf(fence.CodeInvalidRequest, "the bucket's name is empty").In("bucket")
	}
	var page fence.ObjectPage
	r := &request{what: "objects.list", method: http.MethodGet, path: withQuery("/v1/objects/"+escape(q.Bucket), v), header: http.Header{}, limit: c.within}
	err := c.do(ctx, r, func(resp *http.Response) error {
		var told struct {
			Objects []entry  `json:"objects"`
			Groups  []string `json:"groups"`
			Next    string   `json:"next"`
		}
		if err := c.answer(resp, &told); err != nil {
			return err
		}
		if told.Objects == nil || told.Groups == nil {
			return errors.New("the answer is no list of objects")
		}
		page = fence.ObjectPage{Entries: merge(told.Objects, told.Groups), More: told.Next != ""}
		if n := len(page.Entries); page.More && (n == 0 || page.Entries[n-1].Key != told.Next || told.Next <= q.After) {
			return errors.New("the answer's next page does not begin behind its last entry")
		}
		return nil
	})
	return page, err
}

// entry is an object of a list as the gateway tells it.
type entry struct {
	Key         string      `json:"key"`
	Size        int64       `json:"size"`
	Token       fence.Token `json:"token"`
	ETag        string      `json:"etag"`
	SHA256      string      `json:"sha256"`
	ContentType string      `json:"content_type"`
	Natural     bool        `json:"natural"`
	ModifiedAt  time.Time   `json:"modified_at"`
}

// merge puts objects and groups, each in the order of their bytes, into one order.
func merge(objects []entry, groups []string) []fence.ObjectEntry {
	list := make([]fence.ObjectEntry, 0, len(objects)+len(groups))
	for len(objects) > 0 || len(groups) > 0 {
		if len(objects) == 0 || len(groups) > 0 && cmp.Less(groups[0], objects[0].Key) {
			list = append(list, fence.ObjectEntry{Key: groups[0], Group: true})
			groups = groups[1:]
			continue
		}
		o := objects[0]
		list = append(list, fence.ObjectEntry{
			Key: o.Key, Size: o.Size, SHA256: o.SHA256, ETag: strings.Trim(o.ETag, `"`), ContentType: o.ContentType, Version: o.Token, Natural: o.Natural,
			ModifiedAt: o.ModifiedAt,
		})
		objects = objects[1:]
	}
	return list
}

// ObjectVersions lists the states of an object that can be read or restored, newest first: the present one, and former ones for as long as
// the bucket keeps them; what was imported is fence.ImportedVersion. Before and limit choose a page: those older than a version (0: from the newest), and at most so many (0: the
// gateway's own).
func (c *Client) ObjectVersions(ctx context.Context, name fence.ObjectName, before fence.Token, limit int) (list []fence.ObjectVersion, more bool, err error) {
	v := url.Values{}
	if before != 0 {
		v.Set("before", before.String())
	}
	if limit != 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	path, err := objectPath("/v1/versions/", name)
	if err != nil {
		return nil, false, err
	}
	err = c.do(ctx, &request{what: "objects.versions", method: http.MethodGet, path: withQuery(path, v), header: http.Header{}, limit: c.within}, func(resp *http.Response) error {
		var told struct {
			Versions []version   `json:"versions"`
			Next     fence.Token `json:"next"`
		}
		if err := c.answer(resp, &told); err != nil {
			return err
		}
		if told.Versions == nil {
			return errors.New("the answer is no list of versions")
		}
		more = told.Next != 0
		for _, t := range told.Versions {
			if t.Token == 0 {
				t.Token = fence.ImportedVersion
			}
			list = append(list, fence.ObjectVersion{
				Version: t.Token, Deleted: t.Deleted, Size: t.Size, SHA256: t.SHA256, Header: fence.ObjectHeader{ContentType: t.ContentType},
				ModifiedAt: t.ModifiedAt, SupersededAt: t.SupersededAt, KeepUntil: t.KeepUntil,
			})
		}
		return nil
	})
	return list, more, err
}

// version is a state of an object as the gateway tells it.
type version struct {
	Token        fence.Token `json:"token"`
	Deleted      bool        `json:"deleted"`
	Size         int64       `json:"size"`
	SHA256       string      `json:"sha256"`
	ContentType  string      `json:"content_type"`
	ModifiedAt   time.Time   `json:"modified_at"`
	SupersededAt time.Time   `json:"superseded_at"`
	KeepUntil    time.Time   `json:"keep_until"`
}
