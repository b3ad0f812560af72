package gateway

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// postObject points an object to a body that is there: that of another object (copy, rename) or a former one of its own (restore).
func (g *Gateway) postObject(w http.ResponseWriter, r *http.Request, name fence.ObjectName) error {
	write := fence.ObjectWrite{Op: fence.OpCopy, Object: name}
	var err error
	if write.Access, err = writeAccess(r); err != nil {
		return err
	}
	if write.If, err = writeConditions(r.Header); err != nil {
		return err
	}
	f, err := g.readFields(w, r, "copy", "rename", "restore", "version", "header")
	if err != nil {
		return err
	}
	rename, err := g.readSource(r, f, &write)
	if err != nil {
		return err
	}
	ctx, cancel := detached(r, g.cfg.UploadLimit+g.cfg.WriteTimeout) // a store may have to copy bytes
	defer cancel()
	var o fence.Object
	if rename {
		o, err = g.rename(ctx, write)
	} else {
		o, err = g.cfg.Objects.WriteObject(ctx, write)
	}
	if err != nil {
		return settled(err)
	}
	respondObject(w, r, o)
	return nil
}

// readSource reads what is copied, and asks whether the caller may. rename tells that the source is to go.
func (g *Gateway) readSource(r *http.Request, f fields, write *fence.ObjectWrite) (rename bool, err error) {
	var ways []string
	for _, way := range []string{"copy", "rename", "restore"} {
		if _, given := f[way]; given {
			ways = append(ways, way)
		}
	}
	if len(ways) != 1 {
		return false, fence.Errorf(fence.CodeInvalidRequest,
			`say one of {"copy":"objects/{bucket}/{key}"}, {"rename":"objects/{bucket}/{key}"} and {"restore":<token of the version>}`).In("copy")
	}
	write.From.Object = write.Object
	switch way := ways[0]; way {
	case "restore":
		write.From.Version, err = versionField(f, way)
	default:
		write.From.Object, err = sourceField(f, way)
	}
	if err != nil {
		return false, err
	}
	rename = ways[0] == "rename"
	if _, given := f["version"]; given {
		if ways[0] != "copy" {
			return false, fence.Errorf(fence.CodeInvalidRequest, "version goes with copy").In("version")
		}
		if write.From.Version, err = versionField(f, "version"); err != nil {
			return false, err
		}
	}
	if rename && write.From.Object == write.Object {
		return false, fence.Errorf(fence.CodeInvalidRequest, "an object cannot be renamed to itself").In("rename")
	}
	if err := allowed(r, aboutObject(write.From.Object).with(VerbRead)); err != nil {
		return false, err
	}
	if rename {
		if err := allowed(r, aboutObject(write.From.Object).with(VerbWrite)); err != nil {
			return false, err
		}
	}
	write.KeepHeader = true
	if raw, given := f["header"]; given {
		write.KeepHeader = false
		err = g.headerField(raw, &write.Header)
	}
	return rename, err
}

// versionField reads a member that is a version.
func versionField(f fields, name string) (fence.Token, error) {
	var n json.Number
	if raw := f[name]; raw[0] == '"' || json.Unmarshal(raw, &n) != nil {
		return 0, fence.Errorf(fence.CodeInvalidRequest, "%s is the token under which the version was published", name).In(name)
	}
	t, err := fence.ParseVersion(n.String())
	return t, withField(err, name)
}

// sourceField reads a member that names an object, as answers write it: the key stands raw.
func sourceField(f fields, name string) (fence.ObjectName, error) {
	text, _, err := f.text(name)
	if err != nil {
		return fence.ObjectName{}, err
	}
	return objectResource(text, name)
}

// objectResource reads the name of an object's resource.
func objectResource(text, field string) (fence.ObjectName, error) {
	rest, found := strings.CutPrefix(text, "objects/")
	bucket, key, slash := strings.Cut(rest, "/")
	if !found || !slash || bucket == "" {
		return fence.ObjectName{}, fence.Errorf(fence.CodeInvalidRequest, "an object is objects/{bucket}/{key}").In(field)
	}
	if err := fence.CheckObjectKey(key); err != nil {
		return fence.ObjectName{}, withField(err, field)
	}
	return fence.ObjectName{Bucket: bucket, Key: key}, nil
}

// headerField reads the headers that a copy gets in place of its source's.
func (g *Gateway) headerField(raw json.RawMessage, into *fence.ObjectHeader) error {
	malformed := fence.Errorf(fence.CodeInvalidRequest, "header is an object of content_type, content_encoding, content_disposition, cache_control and meta").In("header")
	if _, err := scanObject(raw, g.cfg.MaxDepth); err != nil {
		return withField(err, "header")
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.DisallowUnknownFields()
	var said fence.ObjectHeader
	if err := dec.Decode(&said); err != nil {
		return malformed
	}
	h := http.Header{}
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set("Content-Type", said.ContentType)
	set("Content-Encoding", said.ContentEncoding)
	set("Content-Disposition", said.ContentDisposition)
	set("Cache-Control", said.CacheControl)
	for name, value := range said.Meta {
		if !IsHeaderName(name) {
			return malformed
		}
		h.Set(metaPrefix+name, value)
	}
	kept, err := g.objectHeader(h)
	*into = kept
	return err
}

// IsHeaderName tells whether a name can be that of a header (RFC 9110, section 5.6.2): what cannot could be kept, and not be sent back.
func IsHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
	})
}
