package pgstore

import "time"

// HoldFlight makes calls of Certify and End queue up until land is called, and leaves one flight after that.
func (s *Store) HoldFlight() (land func()) {
	s.gather.limit = time.Hour
	f := s.fill(time.Now())
	return func() { s.gather.land(f) }
}

// StickFlights makes flights that never end.
func (s *Store) StickFlights() { s.fill(time.Now()) }

// fill makes as many flights as there may be, and returns the first.
func (s *Store) fill(began time.Time) *flight {
	s.gather.mu.Lock()
	defer s.gather.mu.Unlock()
	s.gather.flights = nil
	for range s.gather.slots {
		s.gather.flights = append(s.gather.flights, &flight{began: began})
	}
	return s.gather.flights[0]
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
