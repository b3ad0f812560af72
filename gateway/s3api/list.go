package s3api

import (
	"encoding/base64"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3response"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// hiddenPages is how many pages of objects that the caller may not read a list looks through.
const hiddenPages = 20

// listed is a page of a list as both versions of it tell it.
type listed struct {
	objects []s3response.Object
	groups  []types.CommonPrefix
	last    string // key or group, not encoded
	more    bool
	encode  func(string) *string
	coding  types.EncodingType
}

func (c *call) listObjects(in *s3.ListObjectsInput) (s3response.ListObjectsResult, error) {
	p, err := c.list(*in.Bucket, deref(in.Prefix), deref(in.Delimiter), deref(in.Marker), *in.MaxKeys)
	if err != nil {
		return s3response.ListObjectsResult{}, err
	}
	answer := s3response.ListObjectsResult{
		Name: in.Bucket, Prefix: p.encode(deref(in.Prefix)), Marker: p.encode(deref(in.Marker)), MaxKeys: in.MaxKeys, Delimiter: text(deref(p.encode(deref(in.Delimiter)))),
		IsTruncated: &p.more, Contents: p.objects, CommonPrefixes: p.groups, EncodingType: p.coding,
	}
	if p.more {
		answer.NextMarker = p.encode(p.last)
	}
	return answer, nil
}

func (c *call) listObjectsV2(in *s3.ListObjectsV2Input) (s3response.ListObjectsV2Result, error) {
	after := deref(in.StartAfter)
	if token := deref(in.ContinuationToken); token != "" {
		last, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			return s3response.ListObjectsV2Result{}, fence.Errorf(fence.CodeInvalidRequest, "the continuation token is none of this gateway's").In("continuation-token")
		}
		after = string(last)
	}
	p, err := c.list(*in.Bucket, deref(in.Prefix), deref(in.Delimiter), after, *in.MaxKeys)
	if err != nil {
		return s3response.ListObjectsV2Result{}, err
	}
	answer := s3response.ListObjectsV2Result{
		Name: in.Bucket, Prefix: p.encode(deref(in.Prefix)), StartAfter: text(deref(p.encode(deref(in.StartAfter)))), ContinuationToken: text(deref(in.ContinuationToken)),
		MaxKeys: in.MaxKeys, KeyCount: ptr(int32(len(p.objects) + len(p.groups))), Delimiter: text(deref(p.encode(deref(in.Delimiter)))),
		IsTruncated: &p.more, Contents: p.objects, CommonPrefixes: p.groups, EncodingType: p.coding,
	}
	if p.more {
		answer.NextContinuationToken = ptr(base64.RawURLEncoding.EncodeToString([]byte(p.last)))
	}
	return answer, nil
}

// list reads a page of what the caller may read.
func (c *call) list(bucket, prefix, delimiter, after string, limit int32) (listed, error) {
	p := listed{encode: func(s string) *string { return &s }}
	switch coding := c.r.URL.Query().Get("encoding-type"); coding {
	case "":
	case "url":
		p.coding, p.encode = types.EncodingTypeUrl, func(s string) *string { return ptr(url.QueryEscape(s)) }
	default:
		return p, fence.Errorf(fence.CodeInvalidRequest, "an encoding type is url").In("encoding-type")
	}
	if err := c.beginList(bucket, prefix); err != nil {
		return p, err
	}
	if len(delimiter) > fence.MaxObjectKey || len(after) > fence.MaxObjectKey {
		return p, fence.Errorf(fence.CodeInvalidRequest, "a delimiter and the key to go on behind have at most %d bytes", fence.MaxObjectKey)
	}
	q := fence.ObjectQuery{Bucket: bucket, Prefix: prefix, Delimiter: delimiter, After: after, Limit: int(min(max(limit, 1), fence.MaxObjects))}
	page, err := c.readable(q)
	if err != nil || limit == 0 {
		return p, err
	}
	for _, e := range page.Entries {
		if p.last = e.Key; e.Group {
			p.groups = append(p.groups, types.CommonPrefix{Prefix: p.encode(e.Key)})
			continue
		}
		p.objects = append(p.objects, s3response.Object{
			Key: p.encode(e.Key), Size: ptr(e.Size), ETag: ptr(etagOf(e.ETag, e.SHA256, e.Version)), LastModified: ptr(e.ModifiedAt.UTC()),
			StorageClass: types.ObjectStorageClassStandard,
		})
	}
	p.more = page.More
	return p, nil
}

// readable reads a page of what the caller may read. Where a page goes on is one of its own entries: a key that the caller may not read is not
// told.
func (c *call) readable(q fence.ObjectQuery) (fence.ObjectPage, error) {
	for range hiddenPages {
		page, err := c.cfg.Objects.ListObjects(c.r.Context(), q)
		if err != nil {
			return page, err
		}
		shown := fence.ObjectPage{More: page.More}
		for _, e := range page.Entries {
			a := gateway.Action{Verb: gateway.VerbRead, Bucket: q.Bucket, Key: e.Key}
			if e.Group && c.caller.MayBelow(a) || !e.Group && c.caller.May(a) {
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
