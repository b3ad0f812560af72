package etcdlease

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxSightings is for how many leases a locker remembers when it first saw their records. One that is forgotten is seen for
// the first time again, and so runs longer for those that wait here, but no longer than its etcd lease.
const maxSightings = 65_536

// sightings are when a locker first saw the records of leases.
type sightings struct {
	mu sync.Mutex
	of *simplelru.LRU[string, sighting] // guarded by mu
}

// sighting is a record's stamp, and when it ends at the latest.
type sighting struct {
	stamp int64
	ends  time.Time
}

func newSightings() (*sightings, error) {
	of, err := simplelru.NewLRU[string, sighting](maxSightings, nil)
	return &sightings{of: of}, err
}

// left is how long a record still runs at most, if it was seen before.
func (s *sightings) left(name string, stamp int64) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.of.Get(name); ok && seen.stamp == stamp {
		return time.Until(seen.ends), true
	}
	return 0, false
}

// add remembers that a record runs no longer than for a while from now, and returns for how long at most. What was known
// already is not made longer.
func (s *sightings) add(name string, stamp int64, left time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := time.Now().Add(left)
	if seen, ok := s.of.Peek(name); ok && seen.stamp == stamp && seen.ends.Before(ends) {
		ends = seen.ends
	}
	s.of.Add(name, sighting{stamp, ends})
	return time.Until(ends)
}

func (s *sightings) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.Remove(name)
}
