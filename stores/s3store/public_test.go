package s3store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/s3store"
)

// What is signed for clients is to where they reach the store.
func TestPublicEndpoint(t *testing.T) {
	store := open(t, s3store.Config{Endpoint: "http://127.0.0.1:1", PublicEndpoint: "https://s3.example.com", AccessKey: "a", SecretKey: "b", PathStyle: true})
	put, err := store.SignPut(t.Context(), "reports", id, 3, [32]byte{}, time.Minute)
	if err != nil || !strings.HasPrefix(put.URL, "https://s3.example.com/reports/.fencegate/staging/") {
		t.Errorf("%s, %v", put.URL, err)
	}
	get, err := store.SignGet(t.Context(), "reports", id, fence.ObjectHeader{}, time.Minute)
	if err != nil || !strings.HasPrefix(get.URL, "https://s3.example.com/reports/.fencegate/blobs/") {
		t.Errorf("%s, %v", get.URL, err)
	}
	for _, bad := range []string{"s3.example.com", "ftp://s3.example.com", "https://u:p@s3.example.com", "https://s3.example.com/?x=1"} {
		if _, err := s3store.New(s3store.Config{PublicEndpoint: bad}); err == nil || !strings.Contains(err.Error(), "public endpoint") || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
