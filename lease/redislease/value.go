package redislease

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// unknownHolder is who holds a lease whose value is none of ours.
const unknownHolder = "unknown"

// render makes a lease's value: digest and holder. The scripts compare the digest alone.
func render(h lease.Holding) string { return h.Value.String() + ":" + h.Holder }

// parse reads the answer of take and look.
func parse(reply []any) (lease.Holding, error) {
	if len(reply) != 2 {
		return lease.Holding{}, fence.Errorf(fence.CodeInternal, "a script answered with %d values", len(reply))
	}
	value, isText := reply[0].(string)
	left, isNumber := reply[1].(int64)
	if !isText || !isNumber {
		return lease.Holding{}, fence.Errorf(fence.CodeInternal, "a script answered with %T and %T", reply[0], reply[1])
	}
	h := parseValue(value)
	h.Remaining = time.Duration(left) * time.Millisecond
	return h, nil
}

// parseValue reads a lease's value. A foreign one holds the lease too: it gets a digest that no acquire has.
func parseValue(s string) lease.Holding {
	digest, holder, ok := strings.Cut(s, ":")
	if raw, err := hex.DecodeString(digest); ok && err == nil && len(raw) == len(fence.Digest{}) {
		if d := fence.Digest(raw); d.String() == digest {
			return lease.Holding{Value: d, Holder: holder}
		}
	}
	return lease.Holding{Value: fence.DigestOf("foreign", s), Holder: unknownHolder}
}
