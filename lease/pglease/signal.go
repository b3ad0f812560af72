package pglease

import (
	"encoding/hex"
	"strings"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// channel is where fence.tell_gateway tells a gateway.
func channel(gateway string) string { return "fencegate_" + strings.ReplaceAll(gateway, "-", "") }

// parse reads what fence.tell_gateway sends: one letter, the value in hex, the lease. Anybody in the database can send to
// any channel: what is none of ours is passed over, and a signal is never more than a reason to look.
func parse(payload string) (lease.Signal, bool) {
	const value = 1 + 2*len(fence.Digest{})
	if len(payload) <= value {
		return lease.Signal{}, false
	}
	raw, err := hex.DecodeString(payload[1:value])
	if err != nil {
		return lease.Signal{}, false
	}
	return signal(payload[:1], payload[value:], fence.Digest(raw))
}

func signal(kind, name string, value fence.Digest) (lease.Signal, bool) {
	s := lease.Signal{Name: name, Value: value}
	switch kind {
	case "p":
		s.Kind = lease.Pushed
	case "f":
		s.Kind = lease.Followed
	}
	return s, s.Kind != 0
}
