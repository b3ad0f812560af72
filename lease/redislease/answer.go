package redislease

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// unknownHolder is who holds a lease whose value is none of ours.
const unknownHolder = "unknown"

// answer reads a script's reply. The first value that is not as it should be makes it an error.
type answer struct {
	reply []any
	err   error
}

func (a *answer) next() any {
	if len(a.reply) == 0 {
		a.fail("it ends too soon")
		return nil
	}
	v := a.reply[0]
	a.reply = a.reply[1:]
	return v
}

func (a *answer) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fence.Errorf(fence.CodeInternal, "a script's answer cannot be read: "+format, args...)
	}
}

func (a *answer) number() int64 {
	v := a.next()
	n, ok := v.(int64)
	if !ok {
		a.fail("%T is no number", v)
	}
	return n
}

func (a *answer) text() string {
	v := a.next()
	s, ok := v.(string)
	if !ok {
		a.fail("%T is no text", v)
	}
	return s
}

func (a *answer) millis() time.Duration { return time.Duration(a.number()) * time.Millisecond }

func (a *answer) more() bool { return a.err == nil && len(a.reply) > 0 }

func (a *answer) end() error {
	if len(a.reply) > 0 {
		a.fail("%d values are left", len(a.reply))
	}
	return a.err
}

func (a *answer) place() int64 {
	s := a.text()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		a.fail("%q is no place", s)
	}
	return n
}

func (a *answer) digest() fence.Digest { return parseDigest(a.text()) }

func (a *answer) standing(name string) lease.Standing {
	value := a.text()
	st := lease.Standing{
		Reserved:  a.number() == 1,
		Holder:    a.text(),
		Remaining: a.millis(),
		Tenant:    a.digest(),
		Renewed:   a.millis(),
		Behind:    int(a.number()),
		Place:     a.place(),
		Followed:  a.number() == 1,
		Entries:   int(a.number()),
	}
	if st.Value = parseDigest(value); value != "" && st.Value.String() != value {
		st.Value, st.Holder = fence.DigestOf("foreign", name), unknownHolder
	}
	return st
}

func (a *answer) queued() lease.Queued {
	return lease.Queued{Value: a.digest(), Waiters: int(a.number()), Note: a.text()}
}

// parseDigest reads a digest, zero for none. What is none of ours is one that nobody made.
func parseDigest(s string) fence.Digest {
	if s == "" {
		return fence.Digest{}
	}
	if raw, err := hex.DecodeString(s); err == nil && len(raw) == len(fence.Digest{}) && hex.EncodeToString(raw) == s {
		return fence.Digest(raw)
	}
	return fence.DigestOf("foreign", s)
}
