package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fence"
)

func (g *Gateway) objectEndpoint(rest string) (endpoint, error) {
	if !strings.Contains(rest, "/") {
		return g.objectListEndpoint(rest)
	}
	name, err := objectPath(rest)
	if err != nil {
		return endpoint{}, err
	}
	get := on(http.MethodGet, "get", VerbRead, stated(g.cfg.Objects.ObjectMark, g.getObject))
	get.query = true
	return endpoint{about: aboutObject(name), target: name, methods: []method{
		get,
		on(http.MethodPut, "put", VerbWrite, stated(g.cfg.Objects.ObjectMark, g.putObject)),
		on(http.MethodPost, "copy", VerbWrite, stated(g.cfg.Objects.ObjectMark, g.postObject)),
		on(http.MethodDelete, "delete", VerbWrite, stated(g.cfg.Objects.ObjectMark, g.deleteObject)),
	}}, nil
}

func aboutObject(name fence.ObjectName) Action { return Action{Bucket: name.Bucket, Key: name.Key} }

func (g *Gateway) putObject(w http.ResponseWriter, r *http.Request, name fence.ObjectName) error {
	write, err := g.objectWrite(r, name)
	if err != nil {
		return err
	}
	defer g.transfer()()
	ctx, cancel := detached(r, g.cfg.UploadLimit+g.cfg.WriteTimeout)
	defer cancel()
	// Asked before the first byte is read: a client that sent Expect: 100-continue then keeps its body.
	if write, err = g.cfg.Objects.CheckWrite(ctx, write); err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.cfg.UploadLimit))
	write.Body = &upload{body: r.Body, left: g.cfg.MaxObject, most: g.cfg.MaxObject}
	o, err := g.cfg.Objects.WriteObject(ctx, write)
	if err != nil {
		return settled(err)
	}
	respondObject(w, r, o)
	return nil
}

// respondObject answers a write that published a body.
func respondObject(w http.ResponseWriter, r *http.Request, o fence.Object) {
	setObjectState(w.Header(), o)
	if prefersMinimal(r.Header) {
		respondMinimal(w)
		return
	}
	respondJSON(w, statusOfWrite(o.Created), struct {
		Bucket string      `json:"bucket"`
		Key    string      `json:"key"`
		Size   int64       `json:"size"`
		Token  fence.Token `json:"token"`
		SHA256 string      `json:"sha256,omitempty"`
	}{o.Bucket, o.Key, o.Size, o.Mark, o.SHA256})
}

// objectWrite reads everything about a put but its body.
func (g *Gateway) objectWrite(r *http.Request, name fence.ObjectName) (fence.ObjectWrite, error) {
	none := fence.ObjectWrite{}
	write := fence.ObjectWrite{Op: fence.OpPut, Object: name}
	var err error
	if write.Access, err = writeAccess(r); err != nil {
		return none, err
	}
	if write.If, err = writeConditions(r.Header); err != nil {
		return none, err
	}
	return write, g.readObjectHeader(r, &write)
}

// readObjectHeader reads what is kept beside a body, and what is said of it.
func (g *Gateway) readObjectHeader(r *http.Request, write *fence.ObjectWrite) (err error) {
	if r.Header.Get("Content-Range") != "" {
		return fence.Errorf(fence.CodeInvalidRequest, "a part of an object cannot be written").In("Content-Range")
	}
	if write.Header, err = g.objectHeader(r.Header); err != nil {
		return err
	}
	if write.MD5, err = contentMD5(r.Header); err != nil {
		return err
	}
	if write.SHA256, err = sha256Digest(r.Header); err != nil {
		return err
	}
	if write.CRC32C, err = checksumHeader(r.Header, "X-Amz-Checksum-Crc32c", 4); err != nil {
		return err
	}
	if write.CRC64NVME, err = checksumHeader(r.Header, "X-Amz-Checksum-Crc64nvme", 8); err != nil {
		return err
	}
	if write.Size = r.ContentLength; write.Size > g.cfg.MaxObject {
		return objectTooLarge(g.cfg.MaxObject)
	}
	return nil
}

func (g *Gateway) deleteObject(w http.ResponseWriter, r *http.Request, name fence.ObjectName) error {
	write := fence.ObjectWrite{Op: fence.OpDelete, Object: name}
	var err error
	if write.Access, err = writeAccess(r); err != nil {
		return err
	}
	if write.If, err = writeConditions(r.Header); err != nil {
		return err
	}
	ctx, cancel := detached(r, g.cfg.WriteTimeout)
	defer cancel()
	o, err := g.cfg.Objects.WriteObject(ctx, write)
	if err != nil {
		return settled(err)
	}
	setObjectState(w.Header(), o)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func setObjectState(h http.Header, o fence.Object) {
	setState(h, o.State)
	if o.Replayed {
		h.Set(headerReplayed, "true")
	}
}

func objectTooLarge(most int64) error {
	return fence.Errorf(fence.CodeTooLarge, "an object has at most %d bytes", most)
}
