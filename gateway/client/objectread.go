package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// ObjectRead is a read of an object, or of a part of one.
type ObjectRead struct {
	Object fence.ObjectName
	// Token, if any, has the read refused once the token's grant is no longer good.
	Token fence.Token
	// Version, if any, is the one to read, in place of the present one: the token that it was published under, or fence.ImportedVersion.
	Version fence.Token
	// Offset and Length choose a part. Length 0 means the rest.
	Offset, Length int64
}

// GetObject reads a whole object. The body must be closed.
func (c *Client) GetObject(ctx context.Context, name fence.ObjectName) (fence.Object, io.ReadCloser, error) {
	return c.ReadObject(ctx, ObjectRead{Object: name})
}

// ReadObject opens an object. Size is that of the body that follows, which must be closed; it ends with an error, and not
// with io.EOF, when it is cut short. The state's Resource and the checksum are not told.
func (c *Client) ReadObject(ctx context.Context, o ObjectRead) (fence.Object, io.ReadCloser, error) {
	header := tokenHeader(o.Token)
	switch {
	case o.Offset < 0 || o.Length < 0:
		return fence.Object{}, nil, fence.Errorf(fence.CodeInvalidRequest, "a part of an object begins and ends within it").In("range")
	case o.Length > 0:
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", o.Offset, o.Offset+o.Length-1))
	case o.Offset > 0:
		header.Set("Range", fmt.Sprintf("bytes=%d-", o.Offset))
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TransferTimeout)
	var (
		found fence.Object
		body  io.ReadCloser
	)
	r := &request{what: "objects.get", method: http.MethodGet, header: header, limit: c.within, stream: true}
	err := c.object(ctx, r, o.Object, o.Version, func(resp *http.Response) (err error) {
		if found, err = objectOf(o.Object, resp); err != nil {
			return err
		}
		if header.Get("Range") != "" && resp.StatusCode != http.StatusPartialContent {
			return fence.Errorf(fence.CodeInternal, "a part of the object was asked for, and the whole was answered")
		}
		body, resp.Body = resp.Body, http.NoBody
		return nil
	})
	if err != nil {
		cancel()
		return fence.Object{}, nil, err
	}
	return found, &download{body, cancel}, nil
}

// HeadObject reads what is kept beside an object's bytes, and their number.
func (c *Client) HeadObject(ctx context.Context, name fence.ObjectName) (fence.Object, error) {
	var found fence.Object
	r := &request{what: "objects.head", method: http.MethodHead, header: http.Header{}, limit: c.within}
	err := c.object(ctx, r, name, 0, func(resp *http.Response) (err error) {
		found, err = objectOf(name, resp)
		return err
	})
	if err == nil || fence.CodeOf(err) == fence.CodeUnavailable {
		return found, err
	}
	// The answer to a HEAD does not tell why it is a refusal.
	got, body, getErr := c.ReadObject(ctx, ObjectRead{Object: name})
	if getErr != nil {
		return fence.Object{}, getErr
	}
	return got, body.Close()
}

// object sends a request about an object, or a version of it, that changes nothing.
func (c *Client) object(ctx context.Context, r *request, name fence.ObjectName, version fence.Token, take reply) (err error) {
	if r.path, err = objectPath("/v1/objects/", name); err != nil {
		return err
	}
	if version != 0 {
		r.path = withQuery(r.path, url.Values{"token": {fence.VersionText(version)}})
	}
	return c.do(ctx, r, take)
}

// objectOf reads the header of an object.
func objectOf(name fence.ObjectName, resp *http.Response) (fence.Object, error) {
	o := fence.Object{ObjectName: name, Size: resp.ContentLength}
	if o.Size < 0 {
		return o, errors.New("the answer does not say how long the object is")
	}
	var err error
	if o.State, err = state(resp.Header); err != nil {
		return o, err
	}
	h := resp.Header
	o.Header = fence.ObjectHeader{
		ContentType: h.Get("Content-Type"), ContentEncoding: h.Get("Content-Encoding"),
		ContentDisposition: h.Get("Content-Disposition"), CacheControl: h.Get("Cache-Control"),
	}
	for line := range h {
		if short, found := strings.CutPrefix(line, metaPrefix); found {
			if o.Header.Meta == nil {
				o.Header.Meta = map[string]string{}
			}
			o.Header.Meta[strings.ToLower(short)] = h.Get(line)
		}
	}
	// A date that cannot be read is none.
	o.ModifiedAt, _ = http.ParseTime(h.Get("Last-Modified"))
	return o, nil
}

// ObjectMark reads the mark of an object and the lease that protects it, whether the object exists or not.
func (c *Client) ObjectMark(ctx context.Context, name fence.ObjectName) (fence.State, error) {
	path, err := objectPath("/v1/marks/objects/", name)
	if err != nil {
		return fence.State{}, err
	}
	return c.mark(ctx, path)
}

// download is a body whose context ends with it.
type download struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (d *download) Close() error {
	defer d.cancel()
	return d.ReadCloser.Close()
}

// transfer is the limit of a try that sends an object.
func (c *Client) transfer() time.Duration { return c.cfg.TransferTimeout }
