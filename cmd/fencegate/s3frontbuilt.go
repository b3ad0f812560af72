//go:build !nos3

package main

import (
	"net/http"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/s3api"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/stores"
)

const hasS3Front = true

var (
	_ s3api.Objects = (*stores.Objects)(nil)
	_ s3api.Leases  = (*lease.Manager)(nil)
	_ s3api.Shared  = gateway.Front{}
)

// newS3Front makes the front for S3's clients.
func newS3Front(g *gateway.Gateway, objects *stores.Objects, leases *lease.Manager, keys s3Keys, limits limitFlags) (http.Handler, error) {
	return s3api.New(s3api.Config{
		Objects: objects, Leases: leases, Keys: keys, Shared: g.Front(), UploadLimit: limits.UploadLimit, DownloadLimit: limits.DownloadLimit,
		MaxMeta: limits.MaxMeta,
	})
}
