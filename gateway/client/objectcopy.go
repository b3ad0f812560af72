package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/fencegate/fencegate/fence"
)

// CopyObject points an object to the body of another one, headers included, without moving a byte. It is fenced where it is written: the
// token is one of the lease of to.
func (c *Client) CopyObject(ctx context.Context, from, to fence.ObjectName, token fence.Token) (fence.Object, error) {
	return c.WriteObject(ctx, fence.ObjectWrite{
		Op: fence.OpCopy, Object: to, Access: fence.Access{Token: token}, From: fence.ObjectSource{Object: from}, KeepHeader: true,
	})
}

// RestoreObject writes a former state of an object, which is kept, again. The version is the token that it was published under, as
// ObjectVersions tells it.
func (c *Client) RestoreObject(ctx context.Context, name fence.ObjectName, version, token fence.Token) (fence.Object, error) {
	if version == 0 {
		return fence.Object{}, fence.Errorf(fence.CodeInvalidRequest, "what was imported is version %d here: 0 is the present one", fence.ImportedVersion).In("version")
	}
	return c.WriteObject(ctx, fence.ObjectWrite{
		Op: fence.OpCopy, Object: name, Access: fence.Access{Token: token}, From: fence.ObjectSource{Object: name, Version: version}, KeepHeader: true,
	})
}

// RenameObject moves an object to another key, in one commit. The token must be one of the lease of both keys, else it is
// fence.CodeInvalidRequest.
func (c *Client) RenameObject(ctx context.Context, from, to fence.ObjectName, token fence.Token) (fence.Object, error) {
	w := fence.ObjectWrite{Op: fence.OpCopy, Object: to, Access: fence.Access{Token: token}, From: fence.ObjectSource{Object: from}, KeepHeader: true}
	return c.pointObject(ctx, w, "objects.rename", map[string]any{"rename": resource(from)})
}

// copyObject copies as the write says.
func (c *Client) copyObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	body := map[string]any{}
	switch {
	case w.From.Object == w.Object && w.From.Version != 0:
		body["restore"] = json.Number(fence.VersionText(w.From.Version))
	default:
		body["copy"] = resource(w.From.Object)
		if w.From.Version != 0 {
			body["version"] = json.Number(fence.VersionText(w.From.Version))
		}
	}
	if !w.KeepHeader {
		body["header"] = w.Header
	}
	return c.pointObject(ctx, w, "objects.copy", body)
}

// resource is how a body names an object: the key stands raw.
func resource(name fence.ObjectName) string { return "objects/" + name.Bucket + "/" + name.Key }

// pointObject sends a write whose body is there already.
func (c *Client) pointObject(ctx context.Context, w fence.ObjectWrite, what string, body map[string]any) (fence.Object, error) {
	if err := fence.CheckObjectKey(w.From.Object.Key); err != nil {
		return fence.Object{}, err
	}
	path, err := objectPath("/v1/objects/", w.Object)
	if err != nil {
		return fence.Object{}, err
	}
	text := marshal(body)
	r := &request{
		what: what, kind: fenced, method: http.MethodPost, path: path, header: tokenHeader(w.Token), limit: c.transfer, token: w.Token,
		body: func() []byte { return text },
	}
	if err := setCondition(r.header, w.If); err != nil {
		return fence.Object{}, err
	}
	o := fence.Object{ObjectName: w.Object}
	if !w.KeepHeader {
		o.Header = w.Header
	}
	err = c.do(ctx, r, c.takeObject(&o))
	return o, err
}

// takeObject reads the answer to a put or a copy.
func (c *Client) takeObject(o *fence.Object) reply {
	return func(resp *http.Response) error {
		s, err := state(resp.Header)
		if err != nil {
			return err
		}
		o.State, o.Created, o.Replayed = s, resp.StatusCode == http.StatusCreated, resp.Header.Get(headerReplayed) != ""
		var told struct {
			Size   int64  `json:"size"`
			SHA256 string `json:"sha256"`
		}
		err = c.answer(resp, &told)
		o.Size, o.SHA256 = told.Size, told.SHA256
		return err
	}
}
