package stores_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// ledger keeps pointers in memory and lets fence.Decide decide.
type ledger struct {
	stores.Ledger // what is not faked

	mu      sync.Mutex // guards everything below
	grant   *fence.Grant
	marks   map[fence.ObjectName]fence.Mark
	objects map[fence.ObjectName]fence.Object
	blobs   map[string]*intent
	// failFlip, when not nil, is the outcome that PutObject tells after it flipped the pointer.
	failFlip error
	// asked has the blobs that AbortBlob was called for.
	asked []string
	// failCollected is the error of Collected.
	failCollected error
	// onCollected, when not nil, is called for each deletion that was recorded.
	onCollected func()
}

// intent is a blob's row. Its age counts since its state changed last.
type intent struct {
	bucket, state string
	age           time.Duration
	deletions     int
}

var (
	_ stores.Ledger = (*ledger)(nil)
	_ stores.Dump   = (*ledger)(nil)
)

func newLedger() *ledger {
	return &ledger{
		grant:   &fence.Grant{Lease: "lease", Principal: "worker", Blocks: []fence.Block{{First: 1000, Last: 1999}}},
		marks:   map[fence.ObjectName]fence.Mark{},
		objects: map[fence.ObjectName]fence.Object{},
		blobs:   map[string]*intent{},
	}
}

// seal makes another's grant the newest.
func (l *ledger) seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grant = &fence.Grant{Lease: "lease", Principal: "other", Blocks: []fence.Block{{First: 2000, Last: 2999}}}
}

func (l *ledger) state(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blobs[id].state
}

// intents lists the ids of all blobs in a state.
func (l *ledger) intents(state string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(l.blobs)) {
		if l.blobs[id].state == state {
			ids = append(ids, id)
		}
	}
	return ids
}

func (l *ledger) Object(_ context.Context, name fence.ObjectName, _ fence.Access) (fence.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok := l.objects[name]
	if !ok {
		return fence.Object{}, fence.Errorf(fence.CodeNotFound, "no such object")
	}
	return o, nil
}

func (l *ledger) ObjectMark(_ context.Context, name fence.ObjectName) (fence.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fence.State{Mark: l.marks[name].Token}, nil
}

func (l *ledger) CheckWrite(_ context.Context, w fence.ObjectWrite) (fence.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.marks[w.Object]
	if w.Token == m.Token {
		return l.objects[w.Object], nil
	}
	return l.objects[w.Object], refusal(fence.Decide(l.grant, m, fence.Write{Token: w.Token, Principal: w.Principal, If: w.If}))
}

func (l *ledger) ExpireVersions(context.Context, int) (int, error) { return 0, nil }

func refusal(c fence.Code) error {
	if c == fence.CodeAccepted {
		return nil
	}
	return fence.Errorf(c, "refused")
}

func (l *ledger) BeginBlob(_ context.Context, bucket, _ string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := fmt.Sprintf("blob-%d", len(l.blobs))
	l.blobs[id] = &intent{bucket: bucket, state: "pending"}
	return id, nil
}

func (l *ledger) PutObject(_ context.Context, w fence.ObjectWrite, blob fence.Blob) (fence.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mark := fence.Mark{Token: w.Token, Principal: w.Principal, Digest: fence.DigestOf(w.Object.Key, hex.EncodeToString(blob.SHA256[:]))}
	switch code := fence.Decide(l.grant, l.marks[w.Object], fence.Write{Token: w.Token, Principal: w.Principal, Digest: mark.Digest, If: w.If}); code {
	case fence.CodeAccepted:
	case fence.CodeReplayed:
		o := l.objects[w.Object]
		o.Replayed = true
		return o, nil
	default:
		return fence.Object{}, refusal(code)
	}
	b := l.blobs[blob.ID]
	if b == nil || b.state != "pending" {
		return fence.Object{}, fence.Errorf(fence.CodeUploadExpired, "the blob is not pending")
	}
	old, existed := l.objects[w.Object]
	if existed {
		l.blobs[old.Blob].state = "garbage"
	}
	b.state = "committed"
	l.marks[w.Object] = mark
	o := fence.Object{
		State: fence.State{Mark: w.Token}, ObjectName: w.Object, Blob: blob.ID, BlobBucket: w.Object.Bucket, Written: true, Size: blob.Size,
		SHA256: hex.EncodeToString(blob.SHA256[:]), Created: !existed,
	}
	l.objects[w.Object] = o
	return o, l.failFlip
}

func (l *ledger) DeleteObject(_ context.Context, w fence.ObjectWrite) (fence.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := refusal(fence.Decide(l.grant, l.marks[w.Object], fence.Write{Token: w.Token, Principal: w.Principal})); err != nil {
		return fence.Object{}, err
	}
	l.blobs[l.objects[w.Object].Blob].state = "garbage"
	delete(l.objects, w.Object)
	l.marks[w.Object] = fence.Mark{Token: w.Token, Principal: w.Principal}
	return fence.Object{State: fence.State{Mark: w.Token}, ObjectName: w.Object}, nil
}

func (l *ledger) CheckBucket(context.Context, string) error { return nil }

func (l *ledger) KeepBlob(_ context.Context, blob fence.Blob, _ fence.ObjectHeader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blobs[blob.ID].state != "pending" {
		return fence.Errorf(fence.CodeUploadExpired, "the upload was given up")
	}
	return nil
}

func (l *ledger) AbortBlob(ctx context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, id)
	if ctx.Err() == nil && l.blobs[id].state == "pending" {
		l.blobs[id].state = "aborted"
	}
	return ctx.Err()
}

func (l *ledger) AbortStale(_ context.Context, age time.Duration, limit int) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, b := range l.blobs {
		if n < limit && b.state == "pending" && b.age > age {
			b.state, b.age = "aborted", 0
			n++
		}
	}
	return n, nil
}

func (l *ledger) Collectable(_ context.Context, grace time.Duration, limit int) ([]fence.Garbage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var page []fence.Garbage
	for _, id := range slices.Sorted(maps.Keys(l.blobs)) {
		b := l.blobs[id]
		if len(page) < limit && (b.state == "garbage" || b.state == "aborted") && b.age > grace {
			page = append(page, fence.Garbage{ID: id, Bucket: b.bucket, Deletions: b.deletions})
		}
	}
	return page, nil
}

func (l *ledger) Collected(_ context.Context, g fence.Garbage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failCollected != nil {
		return l.failCollected
	}
	if l.onCollected != nil {
		l.onCollected()
	}
	b := l.blobs[g.ID]
	if b == nil || b.deletions != g.Deletions {
		return nil
	}
	b.age = 0
	if b.deletions++; b.deletions == 2 {
		delete(l.blobs, g.ID)
	}
	return nil
}

// memory is a blob store in memory.
type memory struct {
	mu      sync.Mutex
	bodies  map[string][]byte // guarded by mu
	deleted []string          // guarded by mu
	// take, when not nil, is what Put does instead of reading the body to its end.
	take func(ctx context.Context, body io.Reader) error
	// failDelete is the error of Delete, by blob.
	failDelete map[string]error
}

var _ stores.Blobs = (*memory)(nil)

func newMemory() *memory { return &memory{bodies: map[string][]byte{}} }

func (m *memory) Put(ctx context.Context, _, id string, body io.Reader, _ int64) error {
	if m.take != nil {
		return m.take(ctx, body)
	}
	p, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("read body: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bodies[id] = p
	return nil
}

func (m *memory) Open(_ context.Context, _, id string, offset, length int64) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.bodies[id]
	if !ok {
		return nil, stores.ErrMissing
	}
	return io.NopCloser(io.NewSectionReader(bytes.NewReader(p), offset, length)), nil
}

func (m *memory) Delete(_ context.Context, _, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failDelete[id]; err != nil {
		return err
	}
	m.deleted = append(m.deleted, id)
	delete(m.bodies, id)
	return nil
}
