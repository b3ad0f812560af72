package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// remembered are series by their labels: to find them in a vector costs more than to count. There are as few as there are labels.
type remembered[K comparable, V any] struct {
	known atomic.Pointer[map[K]V] // a map is never changed, but exchanged
	mu    sync.Mutex              // held by whoever exchanges it
}

// get returns what find made of the labels when they were asked for the first time.
func (r *remembered[K, V]) get(labels K, find func(K) V) V {
	if known := r.known.Load(); known != nil {
		if found, ok := (*known)[labels]; ok {
			return found
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	more := map[K]V{}
	if known := r.known.Load(); known != nil {
		if found, ok := (*known)[labels]; ok {
			return found // somebody else was faster
		}
		maps.Copy(more, *known)
	}
	found := find(labels)
	more[labels] = found
	r.known.Store(&more)
	return found
}
