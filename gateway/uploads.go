package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// uploadEndpoint stores the body of an object that a commit publishes. The parameter key says for which: whoever may write
// some keys of a bucket only names it.
func (g *Gateway) uploadEndpoint(rest string) (endpoint, error) {
	if g.cfg.Commits == nil {
		return endpoint{}, fence.Errorf(fence.CodeNotFound, "this gateway takes no commits")
	}
	bucket, err := unescape("bucket", rest)
	if err != nil {
		return endpoint{}, err
	}
	if bucket == "" || strings.Contains(rest, "/") {
		return endpoint{}, fence.Errorf(fence.CodeNotFound, "an upload is POST /v1/uploads/{bucket}")
	}
	post := on(http.MethodPost, "upload", VerbWrite, g.upload)
	post.query = true
	return endpoint{about: Action{Bucket: bucket}, piecewise: true, target: bucket, methods: []method{post}}, nil
}

func (g *Gateway) upload(w http.ResponseWriter, r *http.Request, bucket string) error {
	raw, presign := cutFlag(r.URL.RawQuery, "presign")
	q, err := readQuery(raw, "key")
	if err != nil {
		return err
	}
	name := fence.ObjectName{Bucket: bucket, Key: q["key"]}
	if err := allowed(r, aboutObject(name).with(VerbWrite)); err != nil {
		return err
	}
	if _, given := q["key"]; given {
		if err := fence.CheckObjectKey(name.Key); err != nil {
			return err
		}
	}
	if r.Header.Get(headerToken) != "" {
		return fence.Errorf(fence.CodeInvalidRequest, "an upload publishes nothing: send the token with the commit").In(headerToken)
	}
	write := fence.ObjectWrite{Object: name}
	if write.Access, err = access(r); err != nil {
		return err
	}
	if presign {
		return g.signUpload(w, r, write)
	}
	if err := g.readObjectHeader(r, &write); err != nil {
		return err
	}
	defer g.transfer()()
	ctx, cancel := detached(r, g.cfg.UploadLimit+g.cfg.WriteTimeout)
	defer cancel()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.cfg.UploadLimit))
	write.Body = &upload{body: r.Body, left: g.cfg.MaxObject, most: g.cfg.MaxObject}
	up, err := g.cfg.Objects.Upload(ctx, write)
	if err != nil {
		return err
	}
	respondJSON(w, http.StatusCreated, struct {
		Blob   string `json:"blob"`
		Bucket string `json:"bucket"`
		Size   int64  `json:"size"`
		SHA256 string `json:"sha256"`
	}{up.ID, up.Bucket, up.Size, up.SHA256})
	return nil
}
