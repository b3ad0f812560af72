package pgstore

import (
	"context"
	"time"
)

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

// RowName is rowName for a table with these key columns.
func RowName(name string, columns, types []string, template string, key []string) (resource, lease string, ok bool) {
	return rowName(&table{name: name, key: columns, keyTypes: types, template: template}, key)
}

// HoldLane makes writes queue up in a store of one lane until land is called, of whatever company they are.
func (s *Store) HoldLane() (land func()) {
	l := s.lanes[0]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit, l.patient, l.apart = time.Hour, time.Hour, false
	f := &flight{began: time.Now()}
	l.flights = append(l.flights, f)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.goOn(f)
	}
}

// QueuedWrites is how many writes wait in a store of one lane.
func (s *Store) QueuedWrites() int {
	s.lanes[0].mu.Lock()
	defer s.lanes[0].mu.Unlock()
	n := 0
	for _, e := range s.lanes[0].queue {
		if !e.taken {
			n++
		}
	}
	return n
}

// Writing is how many resources are being written by a store of one lane.
func (s *Store) Writing() int {
	s.lanes[0].mu.Lock()
	defer s.lanes[0].mu.Unlock()
	return len(s.lanes[0].writing)
}

// Setting is what a setting is in one of the store's sessions.
func (s *Store) Setting(ctx context.Context, name string) (value string, err error) {
	err = s.read(ctx, "SELECT current_setting($1)", []any{name}, &value)
	return value, err
}
