package gatewaytest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/fencegate/fencegate/fence"
)

// upload is a body that was stored for a commit.
type upload struct {
	header fence.ObjectHeader
	body   []byte
	by     string
}

// Upload stores a body.
func (m *Memory) Upload(_ context.Context, w fence.ObjectWrite) (fence.Upload, error) {
	body, err := io.ReadAll(w.Body)
	if err != nil {
		return fence.Upload{}, fmt.Errorf("store: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := fmt.Sprintf("upload-%d", len(m.uploads)+1)
	m.uploads[id] = upload{w.Header, body, w.Principal}
	sum := sha256.Sum256(body)
	return fence.Upload{ID: id, Bucket: w.Object.Bucket, Size: int64(len(body)), SHA256: hex.EncodeToString(sum[:])}, nil
}

// Commit carries all writes out, or none.
func (m *Memory) Commit(_ context.Context, c fence.Commit) (fence.Committed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	digest := fence.DigestOf("commit", fmt.Sprintf("%+v", named(c)))
	marks, rows, objects, history := maps.Clone(m.marks), maps.Clone(m.rows), maps.Clone(m.objects), maps.Clone(m.history)
	done := fence.Committed{Results: make([]fence.CommitResult, len(c.Writes))}
	for i, w := range c.Writes {
		replayed, err := m.commitOne(w, digest, &done.Results[i])
		if err != nil {
			m.marks, m.rows, m.objects, m.history = marks, rows, objects, history
			var e *fence.Error
			if errors.As(err, &e) {
				e.Write = i + 1
			}
			return fence.Committed{}, err
		}
		done.Replayed = done.Replayed || replayed
	}
	return done, nil
}

func (m *Memory) commitOne(w fence.CommitWrite, digest fence.Digest, into *fence.CommitResult) (bool, error) {
	if w.Row != nil {
		row, err := m.writeRow(*w.Row, digest)
		into.Row = &row
		return row.Replayed, err
	}
	up, known := m.uploads[w.Blob]
	if w.Object.Op == fence.OpPut && (!known || up.by != w.Object.Principal) {
		return false, fence.Errorf(fence.CodeUploadExpired, "there is no such upload")
	}
	write := *w.Object
	if write.Op == fence.OpPut {
		write.Header = up.header
	}
	o, err := m.writeObject(write, up.body, digest)
	into.Object = &o
	return o.Replayed, err
}

// named is what of a commit makes it the same one.
func named(c fence.Commit) []string {
	var names []string
	for _, w := range c.Writes {
		if w.Row != nil {
			names = append(names, fmt.Sprint(w.Row.Op, w.Row.Row, w.Row.Token, w.Row.If, string(w.Row.Body)))
		} else {
			names = append(names, fmt.Sprint(w.Object.Op, w.Object.Object, w.Object.Token, w.Object.If, w.Object.From, w.Blob))
		}
	}
	return names
}
