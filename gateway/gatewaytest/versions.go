package gatewaytest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// former is a state of an object; without an object it was deleted.
type former struct {
	token fence.Token
	*object
}

// publish makes o the object, nil for a delete, and keeps what it was before.
func (m *Memory) publish(resource string, token fence.Token, o *object) {
	if o == nil {
		delete(m.objects, resource)
	} else {
		m.objects[resource] = o
	}
	m.history[resource] = append(slices.Clip(m.history[resource]), former{token, o})
}

// source is the body that a copy is made of.
func (m *Memory) source(s fence.ObjectSource) (*object, error) {
	resource, _ := objectNames(s.Object)
	o := m.objects[resource]
	if s.Version != 0 {
		o = nil
		for _, f := range m.history[resource] {
			if f.token == s.Version {
				o = f.object
			}
		}
	}
	if o == nil {
		return nil, fence.Errorf(fence.CodeNotFound, "there is no %s to copy", resource).In("from")
	}
	return o, nil
}

// Version reads a former state of an object; all are kept.
func (m *Memory) Version(_ context.Context, n fence.ObjectName, by fence.Access, version fence.Token) (fence.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource, name := objectNames(n)
	s := m.state(resource, name)
	if err := m.readable(s, by); err != nil {
		return fence.Object{}, err
	}
	o, err := m.source(fence.ObjectSource{Object: n, Version: version})
	if err != nil {
		return fence.Object{}, absent(s)
	}
	shown := o.shown(n, s)
	shown.Version = version
	return shown, nil
}

// History lists the states of an object, newest first.
func (m *Memory) History(_ context.Context, n fence.ObjectName, before fence.Token, limit int) ([]fence.ObjectVersion, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource, _ := objectNames(n)
	var list []fence.ObjectVersion
	for i, f := range slices.Backward(m.history[resource]) {
		if before != 0 && f.token >= before || len(list) == limit {
			continue
		}
		v := fence.ObjectVersion{Version: f.token, Deleted: f.object == nil, ModifiedAt: started}
		if f.object != nil {
			v.Size, v.SHA256, v.Header = f.size, f.sha256, f.header
		}
		if i < len(m.history[resource])-1 {
			v.SupersededAt, v.KeepUntil = started, started
		}
		list = append(list, v)
	}
	return list, nil
}

// ListObjects lists the objects of a bucket.
func (m *Memory) ListObjects(_ context.Context, q fence.ObjectQuery) (fence.ObjectPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page fence.ObjectPage
	last := ""
	for _, resource := range slices.Sorted(maps.Keys(m.objects)) {
		key, found := strings.CutPrefix(resource, "objects/"+q.Bucket+"/")
		rest, below := strings.CutPrefix(key, q.Prefix)
		if !found || !below {
			continue
		}
		o := m.objects[resource]
		e := fence.ObjectEntry{Key: key, Size: o.size, SHA256: o.sha256, ContentType: o.header.ContentType, Version: m.marks[resource].Token, ModifiedAt: started}
		if head, _, cut := strings.Cut(rest, q.Delimiter); q.Delimiter != "" && cut {
			e = fence.ObjectEntry{Key: q.Prefix + head + q.Delimiter, Group: true}
		}
		if e.Key <= q.After || e.Key == last {
			continue
		}
		if len(page.Entries) == q.Limit {
			page.More = true
			break
		}
		page.Entries, last = append(page.Entries, e), e.Key
	}
	return page, nil
}
