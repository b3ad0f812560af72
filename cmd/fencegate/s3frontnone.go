//go:build nos3

package main

import (
	"net/http"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/stores"
)

const hasS3Front = false

func newS3Front(*gateway.Gateway, *stores.Objects, *lease.Manager, s3Keys, limitFlags) (http.Handler, error) {
	return nil, errNoS3Front()
}
