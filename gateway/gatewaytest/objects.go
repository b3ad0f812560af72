package gatewaytest

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

type object struct {
	header fence.ObjectHeader
	blob   string
	sha256 string
	size   int64
}

func objectNames(n fence.ObjectName) (resource, lease string) {
	key := n.Key
	if strings.HasPrefix(key, "shared/") {
		key = "shared"
	}
	return "objects/" + n.Bucket + "/" + n.Key, "report:" + key
}

// Object reads an object's pointer.
func (m *Memory) Object(_ context.Context, n fence.ObjectName, by fence.Access) (fence.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource, name := objectNames(n)
	s := m.state(resource, name)
	if err := m.readable(s, by); err != nil {
		return fence.Object{}, err
	}
	o := m.objects[resource]
	if o == nil {
		return fence.Object{}, absent(s)
	}
	return o.shown(n, s), nil
}

func (o *object) shown(n fence.ObjectName, s fence.State) fence.Object {
	return fence.Object{State: s, ObjectName: n, Blob: o.blob, Size: o.size, SHA256: o.sha256, Header: o.header, Version: s.Mark, Written: true, ModifiedAt: started}
}

// ObjectMark reads an object's mark.
func (m *Memory) ObjectMark(_ context.Context, n fence.ObjectName) (fence.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource, name := objectNames(n)
	return m.state(resource, name), nil
}

// Open reads a part of a body.
func (m *Memory) Open(_ context.Context, o fence.Object, offset, length int64) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return io.NopCloser(bytes.NewReader(m.bodies[o.Blob][offset : offset+length])), nil
}

// CheckWrite refuses what would be refused anyway.
func (m *Memory) CheckWrite(_ context.Context, w fence.ObjectWrite) (fence.ObjectWrite, error) {
	return w, m.checkWrite(w)
}

func (m *Memory) checkWrite(w fence.ObjectWrite) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource, name := objectNames(w.Object)
	s := m.state(resource, name)
	if s.Mark == w.Token {
		return nil
	}
	code := fence.DecideGrant(m.grants[name], w.Principal, w.Token)
	if code == fence.CodeAccepted && w.Token < s.Mark {
		code = fence.CodeStaleToken
	}
	return m.refusal(code, name, w.Token, &s)
}

// WriteObject publishes or deletes an object.
func (m *Memory) WriteObject(_ context.Context, w fence.ObjectWrite) (fence.Object, error) {
	resource, _ := objectNames(w.Object)
	var body []byte
	if w.Op == fence.OpPut {
		var err error
		if body, err = io.ReadAll(w.Body); err != nil {
			return fence.Object{}, fmt.Errorf("store %s: %w", resource, err)
		}
	}
	sum, weak := sha256.Sum256(body), md5.Sum(body)
	if w.SHA256 != nil && !bytes.Equal(w.SHA256, sum[:]) || w.MD5 != nil && !bytes.Equal(w.MD5, weak[:]) {
		return fence.Object{}, fence.Errorf(fence.CodeChecksumMismatch, "the body's checksum is another")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writeObject(w, body, fence.DigestOf(string(w.Op), resource, fmt.Sprint(w.If, w.Header, w.From), string(body)))
}

func (m *Memory) writeObject(w fence.ObjectWrite, body []byte, digest fence.Digest) (fence.Object, error) {
	resource, name := objectNames(w.Object)
	sum := sha256.Sum256(body)
	old := m.objects[resource]
	before := m.marks[resource]
	s, replayed, err := m.admit(resource, name, w.Access, w.If, digest, old != nil)
	switch {
	case err != nil:
		return fence.Object{}, err
	case replayed && old == nil:
		return fence.Object{State: s, ObjectName: w.Object, Replayed: true}, nil
	case replayed:
		o := old.shown(w.Object, s)
		o.Created, o.Replayed = before.created, true
		return o, nil
	case w.Op == fence.OpDelete && old == nil:
		m.undo(resource, before)
		return fence.Object{}, absent(m.state(resource, name))
	case w.Op == fence.OpDelete:
		m.publish(resource, w.Token, nil)
		return fence.Object{State: s, ObjectName: w.Object}, nil
	}
	if w.Op == fence.OpCopy {
		from, err := m.source(w.From)
		if err != nil {
			m.undo(resource, before)
			return fence.Object{}, err
		}
		if body, sum = m.bodies[from.blob], sha256.Sum256(m.bodies[from.blob]); w.KeepHeader {
			w.Header = from.header
		}
	}
	o := &object{header: w.Header, blob: fmt.Sprintf("%s@%d", resource, w.Token), sha256: hex.EncodeToString(sum[:]), size: int64(len(body))}
	m.bodies[o.blob] = body
	m.publish(resource, w.Token, o)
	out := o.shown(w.Object, s)
	out.Created = old == nil
	return out, nil
}
