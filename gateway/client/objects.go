package client

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

const metaPrefix = "X-Meta-"

// PutObject writes an object. A body that is an io.Seeker (a file, a bytes.Reader) is sent with its length and can be sent
// again; any other is sent once.
func (c *Client) PutObject(ctx context.Context, name fence.ObjectName, token fence.Token, body io.Reader) (fence.Object, error) {
	return c.WriteObject(ctx, fence.ObjectWrite{Op: fence.OpPut, Object: name, Access: fence.Access{Token: token}, Body: body, Size: -1})
}

// DeleteObject deletes an object. Its mark stays.
func (c *Client) DeleteObject(ctx context.Context, name fence.ObjectName, token fence.Token) (fence.Object, error) {
	return c.WriteObject(ctx, fence.ObjectWrite{Op: fence.OpDelete, Object: name, Access: fence.Access{Token: token}})
}

// WriteObject writes an object under a token. The principal is ignored: the gateway knows it. The body is read from where
// it stands; one that is an io.Seeker can be sent again, so that an unknown outcome is settled. Size is the body's length,
// 0 or -1 when it is to be found out or is not known; a body of another length publishes nothing. A Read of the body that hangs
// is waited for beyond ctx: closing what it reads from ends it. A copy has no body, but a source.
func (c *Client) WriteObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	o := fence.Object{ObjectName: w.Object}
	path, err := objectPath("/v1/objects/", w.Object)
	if err != nil {
		return o, err
	}
	if w.Op == fence.OpCopy {
		return c.copyObject(ctx, w)
	}
	r := &request{kind: fenced, path: path, header: tokenHeader(w.Token), limit: c.within, token: w.Token}
	if r.what, r.method, err = writing("objects", w.Op); err != nil {
		return o, err
	}
	if err := setCondition(r.header, w.If); err != nil {
		return o, err
	}
	switch w.Op {
	case fence.OpPatch, fence.OpInsert:
		return o, fence.Errorf(fence.CodeInvalidRequest, "an object is put, copied or deleted").In("op")
	case fence.OpPut:
		if err := c.describe(r, w); err != nil {
			return o, err
		}
	case fence.OpDelete:
	}
	take := c.takeObject(&o)
	if w.Op == fence.OpDelete {
		take = func(resp *http.Response) (err error) {
			o.Replayed = resp.Header.Get(headerReplayed) != ""
			o.State, err = state(resp.Header)
			return err
		}
	} else {
		o.Header = w.Header
	}
	err = c.do(ctx, r, take)
	return o, err
}

// describe adds the body, and what is kept beside it, to the request of a put.
func (c *Client) describe(r *request, w fence.ObjectWrite) (err error) {
	if w.Body == nil {
		w.Body = strings.NewReader("")
	}
	if w.Size == 0 {
		w.Size = -1 // said, or not said
	}
	r.limit = c.transfer
	r.upload = newUpload(w.Body, w.Size)
	if w.Size < 0 {
		if err := r.upload.sized(); err != nil {
			return fence.Wrap(fence.CodeInvalidRequest, err, "the body cannot be read").In("body")
		}
	}
	set := func(name, value string) {
		if value != "" {
			r.header.Set(name, value)
		}
	}
	set("Content-Type", w.Header.ContentType)
	set("Content-Encoding", w.Header.ContentEncoding)
	set("Content-Disposition", w.Header.ContentDisposition)
	set("Cache-Control", w.Header.CacheControl)
	for name, value := range w.Header.Meta {
		r.header.Set(metaPrefix+name, value)
	}
	if w.SHA256 != nil {
		r.header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(w.SHA256)+":")
	}
	for name, sum := range map[string][]byte{"Content-MD5": w.MD5, "X-Amz-Checksum-Crc32c": w.CRC32C, "X-Amz-Checksum-Crc64nvme": w.CRC64NVME} {
		if sum != nil {
			r.header.Set(name, base64.StdEncoding.EncodeToString(sum))
		}
	}
	return nil
}
