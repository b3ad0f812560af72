package pgstore

import (
	"context"
	"sync"
	"time"
)

const (
	// spareAge is how long an intent may be kept in stock. It comes out of stores.UploadMargin: an intent is given up by its age.
	spareAge = 5 * time.Second
	// busyAfter is how many uploads of one owner, each within busyGap of the one before, let more of them be expected.
	busyAfter = 8
	busyGap   = 250 * time.Millisecond
	// leastSpares and mostSpares bound the stock of one owner.
	leastSpares, mostSpares = 8, 64
	// mostOwners bounds how many owners have a stock.
	mostOwners = 256
	// tidyEvery is the time between two looks for what was not needed.
	tidyEvery = time.Second
	// ledgerTime bounds a call to the ledger that nobody waits for but whoever closes the store.
	ledgerTime = 2 * time.Second
)

// owner is whom an intent is recorded for.
type owner struct{ bucket, principal string }

// intents keeps a stock of recorded intents for owners that store one blob after another. An intent is committed before the first byte of
// its blob leaves, and that commit is what a small upload would wait for most. Whoever uploads now and then has no stock.
type intents struct {
	record  func(ctx context.Context, o owner, n int) ([]string, error)
	discard func(ctx context.Context, ids []string) error

	mu      sync.Mutex // guards what follows
	stocks  map[owner]*stock
	tidying bool
	closed  bool

	running sync.WaitGroup // the goroutines that record and tidy
	over    chan struct{}  // closed with the store
}

// stock is what one owner has in advance.
type stock struct {
	spares []spare
	// size is how many there are to be. It grows when they did not suffice.
	size    int
	asked   time.Time // the last time
	inARow  int       // how often within busyGap
	filling bool
}

type spare struct {
	id   string
	made time.Time
}

func newIntents(record func(context.Context, owner, int) ([]string, error), discard func(context.Context, []string) error) *intents {
	return &intents{record: record, discard: discard, stocks: map[owner]*stock{}, over: make(chan struct{})}
}

// take returns an intent in stock, and sees to it that there are more; empty if there is none.
func (in *intents) take(o owner, now time.Time) (id string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return ""
	}
	s := in.stocks[o]
	if s == nil {
		if len(in.stocks) < mostOwners {
			in.stocks[o] = &stock{size: leastSpares, asked: now}
			in.tidy()
		}
		return ""
	}
	if s.inARow++; now.Sub(s.asked) >= busyGap {
		s.inARow = 0
	}
	s.asked = now
	// The newest is the last to be given up for its age. Those that are too old are for tidy.
	if n := len(s.spares); n > 0 && now.Sub(s.spares[n-1].made) < spareAge {
		id = s.spares[n-1].id
		s.spares = s.spares[:n-1]
	}
	if s.inARow >= busyAfter && !s.filling && len(s.spares) <= s.size/4 {
		if id == "" && s.size < mostSpares {
			s.size *= 2
		}
		in.fill(o, s, s.size-len(s.spares))
	}
	return id
}

// fill records n intents. in.mu is held.
func (in *intents) fill(o owner, s *stock, n int) {
	s.filling = true
	in.running.Go(func() {
		// Made before they are recorded, so that none is taken for younger than it is.
		made := time.Now()
		// Not cut off when the store is closed: what would be left is known to nobody.
		ctx, cancel := context.WithTimeout(context.Background(), ledgerTime)
		defer cancel()
		ids, err := in.record(ctx, o, n)
		in.mu.Lock()
		defer in.mu.Unlock()
		s.filling = false
		if err != nil {
			// Whoever needs one records it, and is told why he cannot. Another try comes after as many uploads as the first.
			s.inARow, s.size = 0, leastSpares
			return
		}
		for _, id := range ids {
			s.spares = append(s.spares, spare{id, made})
		}
	})
}

// tidy discards what gets too old, until there is nothing left. in.mu is held.
func (in *intents) tidy() {
	if in.tidying {
		return
	}
	in.tidying = true
	in.running.Go(func() {
		tick := time.NewTicker(tidyEvery)
		defer tick.Stop()
		for {
			select {
			case <-in.over:
				return
			case <-tick.C:
			}
			ids, left := in.old(time.Now())
			if len(ids) > 0 {
				in.drop(ids)
			}
			if !left {
				return
			}
		}
	})
}

// old takes what is too old out of the stocks, and forgets owners that have not asked for as long.
func (in *intents) old(now time.Time) (ids []string, left bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for o, s := range in.stocks {
		young := s.spares[:0]
		for _, x := range s.spares {
			if now.Sub(x.made) >= spareAge {
				ids = append(ids, x.id)
			} else {
				young = append(young, x)
			}
		}
		if s.spares = young; len(young) == 0 && !s.filling && now.Sub(s.asked) >= spareAge {
			delete(in.stocks, o)
		}
	}
	in.tidying = len(in.stocks) > 0
	return ids, in.tidying
}

// forget gives nothing out any more that is in stock: the ledger does not know an intent that was recorded in it.
func (in *intents) forget() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range in.stocks {
		for i := range s.spares {
			s.spares[i].made = time.Time{}
		}
	}
}

// close discards what is in stock.
func (in *intents) close() {
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		return
	}
	in.closed = true
	close(in.over)
	in.mu.Unlock()
	in.running.Wait()
	var ids []string
	for _, s := range in.stocks {
		for _, x := range s.spares {
			ids = append(ids, x.id)
		}
	}
	if len(ids) > 0 {
		in.drop(ids)
	}
}

func (in *intents) drop(ids []string) {
	ctx, cancel := context.WithTimeout(context.Background(), ledgerTime)
	defer cancel()
	_ = in.discard(ctx, ids) // what is not discarded is given up by the collector
}
