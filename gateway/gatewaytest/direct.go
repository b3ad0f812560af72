package gatewaytest

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// SignUpload signs nothing: the request is to a host that does not exist.
func (m *Memory) SignUpload(_ context.Context, w fence.ObjectWrite, valid time.Duration) (fence.Upload, fence.SignedRequest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := fmt.Sprintf("upload-%d", len(m.uploads)+1)
	m.uploads[id] = upload{w.Header, nil, w.Principal}
	signed := fence.SignedRequest{
		Method: "PUT", URL: "https://store.invalid/" + w.Object.Bucket + "/staging/" + id, Header: map[string][]string{"Content-Length": {fmt.Sprint(w.Size)}}, ExpiresAt: started.Add(valid),
	}
	return fence.Upload{ID: id, Bucket: w.Object.Bucket, Size: w.Size, SHA256: hex.EncodeToString(w.SHA256)}, signed, nil
}

// SignRead signs nothing either.
func (m *Memory) SignRead(_ context.Context, o fence.Object, valid time.Duration) (fence.SignedRequest, bool, error) {
	return fence.SignedRequest{Method: "GET", URL: "https://store.invalid/" + o.Bucket + "/" + o.Key, ExpiresAt: started.Add(valid)}, true, nil
}
