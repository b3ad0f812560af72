package pgstore

import "time"

// HoldFlight makes calls of Certify and End queue up until land is called.
func (s *Store) HoldFlight() (land func()) {
	s.gather.mu.Lock()
	defer s.gather.mu.Unlock()
	f := &flight{began: time.Now().Add(time.Hour)}
	s.gather.flight = f
	return func() { s.gather.land(f) }
}

// StickFlight is HoldFlight with a flight that began just now and never ends.
func (s *Store) StickFlight() {
	s.gather.mu.Lock()
	defer s.gather.mu.Unlock()
	s.gather.flight = &flight{began: time.Now()}
}

// Queued is how many calls wait in the queue.
func (s *Store) Queued() int {
	s.gather.mu.Lock()
	defer s.gather.mu.Unlock()
	n := 0
	for _, c := range s.gather.queue {
		if !c.gone {
			n++
		}
	}
	return n
}

// Ungroup makes every call go alone.
func (s *Store) Ungroup() { s.gather.limit = 0 }
