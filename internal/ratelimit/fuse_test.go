package ratelimit

import (
	"testing"
	"time"
)

func TestFuse(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := fuse{rest: time.Second}
	fails := func(want bool) {
		t.Helper()
		if !f.mayAsk(now) {
			t.Fatal("Redis is not asked")
		}
		if changed := f.note(false, now); changed != want {
			t.Fatalf("blown: %t", changed)
		}
	}
	fails(false)
	fails(false)
	if f.mayAsk(now); f.note(true, now) {
		t.Fatal("it had not blown")
	}
	// Only failures in a row count.
	fails(false)
	fails(false)
	fails(true)
	now = now.Add(999 * time.Millisecond)
	if f.mayAsk(now) {
		t.Fatal("asked during the rest")
	}
	now = now.Add(time.Millisecond)
	if !f.mayAsk(now) || f.mayAsk(now) {
		t.Fatal("after the rest one call tries")
	}
	if f.note(false, now) || f.mayAsk(now) {
		t.Fatal("no answer: it rests again")
	}
	now = now.Add(time.Second)
	if !f.mayAsk(now) || !f.note(true, now) || !f.mayAsk(now) || !f.mayAsk(now) {
		t.Fatal("an answer: all ask again")
	}
}
