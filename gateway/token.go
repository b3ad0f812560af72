package gateway

import (
	"net/http"

	"github.com/fencegate/fencegate/fence"
)

const (
	headerToken    = "X-Fence-Token"
	headerLease    = "X-Fence-Lease"
	headerReplayed = "X-Fence-Replayed"
	headerLeaseID  = "X-Lease-Id"
)

// tokenOf reads the token of a request, 0 when it has none. Header.Get would take the first of two lines.
func tokenOf(h http.Header) (fence.Token, error) {
	lines := h[headerToken]
	switch len(lines) {
	case 0:
		return 0, nil
	case 1:
		return fence.ParseToken(lines[0])
	}
	return 0, fence.Errorf(fence.CodeInvalidToken, "one %s line is expected, got %d", headerToken, len(lines)).In(headerToken)
}

// access reads who sends the request and with which token, if any.
func access(r *http.Request) (fence.Access, error) {
	t, err := tokenOf(r.Header)
	by := fence.Access{Token: t}
	if c := callerOf(r.Context()); c != nil {
		by.Principal, by.As = c.Principal(), c.Identity()
	}
	return by, err
}

// writeAccess is access for a write, which needs a token.
func writeAccess(r *http.Request) (fence.Access, error) {
	a, err := access(r)
	if err == nil && a.Token == 0 {
		err = fence.Errorf(fence.CodeTokenRequired, "acquire the lease that protects this and send one of its tokens as %s", headerToken)
	}
	return a, err
}

// one reads a header that may be given once, empty when it is not given.
func one(h http.Header, name string) (string, error) {
	lines := h.Values(name)
	switch len(lines) {
	case 0:
		return "", nil
	case 1:
		return lines[0], nil
	}
	return "", fence.Errorf(fence.CodeInvalidRequest, "one %s line is expected, got %d", name, len(lines)).In(name)
}

// leaseID reads the grant's secret id. It is in no message.
func leaseID(h http.Header) (string, error) {
	id, err := one(h, headerLeaseID)
	if err == nil && id == "" {
		err = fence.Errorf(fence.CodeInvalidRequest, "send the grant's id as %s", headerLeaseID).In(headerLeaseID)
	}
	return id, err
}
