package gateway

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// getObject does not use http.ServeContent: that one leaves Content-Length out of an encoded body, and without it a
// body that breaks off looks whole (I6).
func (g *Gateway) getObject(w http.ResponseWriter, r *http.Request, name fence.ObjectName) error {
	by, err := access(r)
	if err != nil {
		return err
	}
	o, err := g.readObject(r, name, by)
	if err != nil {
		return err
	}
	verdict, err := judgeRead(r.Header, o.validator, o.ModifiedAt)
	switch {
	case err != nil:
		return err
	case verdict == readFails:
		return preconditionFailed(o.State)
	case verdict == readNotModified:
		setObjectHeader(w.Header(), o)
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	part, partial := span{0, o.Size}, false
	if r.Method == http.MethodGet && rangeStands(r.Header, o.validator) {
		if part, partial, err = rangeOf(r.Header.Values("Range"), o.Size); err != nil {
			w.Header().Set("Content-Range", "bytes */"+strconv.FormatInt(o.Size, 10))
			return withState(err, o.State)
		}
	}
	if sent, err := g.redirect(w, r, o); sent || err != nil {
		return err
	}
	return g.sendObject(w, r, o, part, partial)
}

// foundObject is an object that is read, and what preconditions are held against.
type foundObject struct {
	fence.Object
	validator
}

// readObject reads the object as it is, or a version that is kept.
func (g *Gateway) readObject(r *http.Request, name fence.ObjectName, by fence.Access) (foundObject, error) {
	q, err := readQuery(r.URL.RawQuery, "token")
	if err != nil {
		return foundObject{}, err
	}
	text, given := q["token"]
	if !given {
		o, err := g.cfg.Objects.Object(r.Context(), name, by)
		v := validator{mark: o.Mark}
		if o.Natural {
			v.tag = o.ETag
		}
		return foundObject{o, v}, err
	}
	version, err := fence.ParseVersion(text)
	if err != nil {
		return foundObject{}, withField(err, "token")
	}
	o, err := g.cfg.Objects.Version(r.Context(), name, by, version)
	return foundObject{o, validator{mark: max(version, 0)}}, err
}

func withState(err error, s fence.State) error {
	var e *fence.Error
	if errors.As(err, &e) {
		e.State = &s
	}
	return err
}

// sendObject opens the body before it promises one.
func (g *Gateway) sendObject(w http.ResponseWriter, r *http.Request, o foundObject, part span, partial bool) error {
	defer g.transfer()()
	ctx, cancel := context.WithTimeout(r.Context(), g.cfg.DownloadLimit)
	defer cancel()
	var body io.ReadCloser = http.NoBody
	if r.Method == http.MethodGet && part.length > 0 {
		var err error
		if body, err = g.cfg.Objects.Open(ctx, o.Object, part.offset, part.length); err != nil {
			return withState(err, o.State)
		}
	}
	defer body.Close()
	h, status := w.Header(), http.StatusOK
	setObjectHeader(h, o)
	h.Set("Content-Length", strconv.FormatInt(part.length, 10))
	if partial {
		status = http.StatusPartialContent
		h.Set("Content-Range", part.contentRange(o.Size))
	}
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(g.cfg.DownloadLimit))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	src := &download{body: body}
	n, err := io.CopyN(w, src, part.length)
	if err != nil {
		g.cutOff(r, o.Object, n, part.length, src.err)
	}
	// Flushed within the deadline; the next answer on this connection must not inherit it.
	_ = rc.Flush()
	_ = rc.SetWriteDeadline(time.Time{})
	return nil
}

// cutOff breaks the connection, so that nobody takes what was sent for the whole body (I6).
func (g *Gateway) cutOff(r *http.Request, o fence.Object, sent, of int64, cause error) {
	ctx := r.Context()
	if cause == nil || ctx.Err() != nil {
		g.cfg.Log.InfoContext(ctx, "client left", "resource", o.Resource, "sent", sent, "of", of, "trace_id", traceID(ctx))
	} else {
		g.cfg.Log.ErrorContext(ctx, "body cut off", "resource", o.Resource, "sent", sent, "of", of, "trace_id", traceID(ctx), "cause", cause)
	}
	panic(http.ErrAbortHandler)
}

// download remembers the error of the store's side: io.Copy tells not which side failed.
type download struct {
	body io.Reader
	err  error
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.body.Read(p)
	if err != nil {
		d.err = err
	}
	return n, err
}

// setObjectHeader tells what is kept beside the object, and that a browser must neither guess its type nor run it.
func setObjectHeader(h http.Header, o foundObject) {
	setState(h, o.State)
	h.Set("ETag", o.validator.entityTag())
	text := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	for name, value := range o.Header.Meta {
		h.Set(metaPrefix+name, value)
	}
	h.Set("Content-Type", cmp.Or(o.Header.ContentType, defaultContentType))
	text("Content-Encoding", o.Header.ContentEncoding)
	text("Content-Disposition", o.Header.ContentDisposition)
	text("Cache-Control", o.Header.CacheControl)
	if !o.ModifiedAt.IsZero() {
		h.Set("Last-Modified", o.ModifiedAt.UTC().Format(http.TimeFormat))
	}
	h.Set("Accept-Ranges", "bytes")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
}
