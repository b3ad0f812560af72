package ratelimit

import (
	"sync"
	"time"
)

// blowsAfter is how many calls in a row have no answer before Redis is left alone: a single slow answer is none.
const blowsAfter = 3

// fuse leaves a Redis alone that does not answer. After a rest one call tries whether it does again.
type fuse struct {
	rest time.Duration

	mu     sync.Mutex // guards what follows
	failed int        // calls in a row without an answer
	until  time.Time  // when the rest is over
	trying bool       // a call is trying
}

// mayAsk reports whether Redis may be asked. Whoever asks tells by note what came of it.
func (f *fuse) mayAsk(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed < blowsAfter {
		return true
	}
	if f.trying || now.Before(f.until) {
		return false
	}
	f.trying = true
	return true
}

// note tells what came of a call, and returns whether the fuse has blown, or holds again, by that.
func (f *fuse) note(answered bool, now time.Time) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.failed >= blowsAfter
	f.trying = false
	if answered {
		f.failed = 0
		return was
	}
	f.failed = min(f.failed+1, blowsAfter)
	if f.failed == blowsAfter {
		f.until = now.Add(f.rest)
	}
	return !was && f.failed == blowsAfter
}
