package etcdlease_test

import (
	"testing"
	"time"

	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
	"github.com/fencegate/fencegate/lease/leasetest"
)

// slack is for what a busy machine takes. Whoever looks at a lease finds it ended in time.
const slack = 500 * time.Millisecond

func TestConformance(t *testing.T) {
	t.Parallel()
	// Ten thousand entries of one gateway that leaves make the server hold its breath.
	config := patient(prefix(t))
	server := newServer(t)
	leasetest.Run(t, leasetest.Backend{
		Open:      func(t *testing.T) lease.Locker { return open(t, server.URL(), config) },
		Slack:     slack,
		Fill:      etcdlease.Fill,
		Leftovers: func(t *testing.T, name string) []string { return etcdlease.Leftovers(t, server.URL(), config, name) },
		Restart:   func(t *testing.T) { server.Kill(); server.start(t) },
	})
}
