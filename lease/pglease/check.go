package pglease

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func checkEntry(name string, e lease.Entry) error {
	if err := checkName(name, e.Value); err != nil {
		return err
	}
	if err := checkText("holder", e.Holder, fence.MaxHolder); err != nil {
		return err
	}
	if err := checkText("note", e.Note, lease.MaxNote); err != nil {
		return err
	}
	if e.Waiters < 0 || e.Waiters > math.MaxInt32 || e.Place < 0 {
		return fence.Errorf(fence.CodeInvalidRequest, "an entry has no negative number of waiters, nor a negative place")
	}
	return nil
}

func checkExtension(name string, x lease.Extension) error {
	if err := checkName(name, x.Value); err != nil {
		return err
	}
	return checkText("holder", x.Holder, fence.MaxHolder)
}

func checkName(name string, value fence.Digest) error {
	if value == (fence.Digest{}) {
		return fence.Errorf(fence.CodeInvalidRequest, "the value of a lease is not zero")
	}
	return fence.CheckLeaseName(name)
}

// checkText refuses what PostgreSQL would.
func checkText(field, s string, most int) error {
	if len(s) > most || !utf8.ValidString(s) || strings.Contains(s, "\x00") {
		return fence.Errorf(fence.CodeInvalidRequest, "a %s has at most %d bytes of UTF-8 without NUL", field, most).In(field)
	}
	return nil
}

// millis is a time to live as the functions take it: positive, and no longer than a lease may be.
func millis(d time.Duration) int64 {
	return max(1, min(d, lease.MaxTTL).Milliseconds())
}
