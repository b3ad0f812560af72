package lease

import (
	"crypto/rand"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fence"
)

// Limits on a request. There is no lease without end: a TTL of 0 never means one.
const (
	MinTTL     = 100 * time.Millisecond
	MaxTTL     = 24 * time.Hour
	MaxWait    = time.Hour
	DefaultTTL = 30 * time.Second

	maxReason = 512
)

// complete checks a request and fills in its defaults. It reports whether the acquire id was made here: then no
// client can ever repeat the acquire.
func (r Request) complete() (full Request, generated bool, err error) {
	if err := checkName(r.Name); err != nil {
		return r, false, err
	}
	if r.Principal == "" {
		return r, false, invalid("principal", "a lease needs a principal")
	}
	if r.Holder == "" {
		r.Holder = holderOf(r.Principal)
	}
	if err := fence.CheckHolder(r.Holder); err != nil {
		return r, false, err
	}
	if len(r.AcquireID) > fence.MaxAcquireID {
		return r, false, invalid("acquire_id", "an acquire id has at most %d bytes, this one has %d", fence.MaxAcquireID, len(r.AcquireID))
	}
	if r.TTL == 0 {
		r.TTL = DefaultTTL
	}
	if err := checkTTL(r.TTL); err != nil {
		return r, false, err
	}
	// The ledger compares a repeated acquire's TTL with the one it keeps, in milliseconds.
	r.TTL = r.TTL.Truncate(time.Millisecond)
	if r.Wait < 0 || r.Wait > MaxWait {
		return r, false, invalid("wait", "a wait is 0s to %v, this one is %v", MaxWait, r.Wait)
	}
	if r.AcquireID == "" {
		r.AcquireID, generated = rand.Text(), true
	}
	return r, generated, nil
}

// holderOf makes a holder's name of a principal, which may be longer than one and hold any character.
func holderOf(principal string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(principal, "�"))
	for len(clean) > fence.MaxHolder {
		_, size := utf8.DecodeLastRuneInString(clean)
		clean = clean[:len(clean)-size]
	}
	return clean
}

func checkName(name string) error {
	err := fence.CheckLeaseName(name)
	var e *fence.Error
	if errors.As(err, &e) {
		e.Field = "name"
	}
	return err
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return invalid("ttl", "a ttl is %v to %v, this one is %v", MinTTL, MaxTTL, ttl)
	}
	return nil
}

func checkReason(reason string) error {
	if len(reason) > maxReason || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		return invalid("reason", "a reason is at most %d bytes of UTF-8 without control characters", maxReason)
	}
	return nil
}

func (r Ref) check() error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	// An empty id must not reach a fence.GrantRef, where it would let another property count.
	if r.ID == "" {
		return invalid("id", "the grant's id is missing")
	}
	return nil
}

func (r Ref) grant() fence.GrantRef { return fence.GrantRef{ID: r.ID, Principal: r.Principal} }

func invalid(field, format string, args ...any) error {
	return fence.Errorf(fence.CodeInvalidRequest, format, args...).In(field)
}
