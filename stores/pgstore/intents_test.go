package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shelf is a ledger that only counts.
type shelf struct {
	mu        sync.Mutex
	made      int
	tries     int
	recorded  []int // how many at once
	discarded []string
	err       error
}

func (s *shelf) record(_ context.Context, o owner, n int) (ids []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tries++; s.err != nil {
		return nil, s.err
	}
	s.recorded = append(s.recorded, n)
	for range n {
		s.made++
		ids = append(ids, fmt.Sprint(o.bucket, "/", o.principal, "/", s.made))
	}
	return ids, nil
}

func (s *shelf) discard(_ context.Context, ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discarded = append(s.discarded, ids...)
	return s.err
}

// warm is how many uploads in a row come before there is a stock.
const warm = busyAfter + 1

// upload takes an intent, or would record one, and returns which.
func upload(in *intents, o owner) string {
	id := in.take(o, time.Now())
	time.Sleep(time.Millisecond)
	synctest.Wait()
	return id
}

func TestIntentsInStock(t *testing.T) {
	o := owner{"reports", "p"}
	each := func(name string, do func(t *testing.T, in *intents, s *shelf)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &shelf{}
				in := newIntents(s.record, s.discard)
				defer in.close()
				do(t, in, s)
			})
		})
	}
	each("NowAndThen", func(t *testing.T, in *intents, s *shelf) {
		for range 20 {
			if id := upload(in, o); id != "" || s.made > 0 {
				t.Fatalf("got %q, %d made", id, s.made)
			}
			time.Sleep(busyGap)
		}
	})
	each("OneAfterTheOther", func(t *testing.T, in *intents, s *shelf) {
		var got []string
		for range 100 {
			if id := upload(in, o); id != "" {
				got = append(got, id)
			}
		}
		if len(got) != 100-warm || len(s.recorded) > 15 {
			t.Errorf("%d in stock of %d, recorded %v", len(got), 100-warm, s.recorded)
		}
		if slices.Sort(got); len(slices.Compact(got)) != 100-warm {
			t.Error("one was given out twice")
		}
	})
	each("ToEachHisOwn", func(t *testing.T, in *intents, _ *shelf) {
		for i := range 3 * warm {
			for _, o := range []owner{o, {"reports", "q"}, {"other", "p"}} {
				if id := upload(in, o); i >= warm && id[:len(o.bucket)+len(o.principal)+1] != o.bucket+"/"+o.principal {
					t.Fatalf("%+v got %q", o, id)
				}
			}
		}
	})
	each("Unneeded", func(t *testing.T, in *intents, s *shelf) {
		for range warm + 8 {
			upload(in, o)
		}
		time.Sleep(spareAge + 2*tidyEvery)
		synctest.Wait()
		if len(s.discarded) != s.made-8 || len(in.stocks) != 0 || in.tidying {
			t.Errorf("%d of %d discarded, stocks %v", len(s.discarded), s.made, in.stocks)
		}
	})
	each("TooOld", func(t *testing.T, in *intents, s *shelf) {
		for range warm {
			upload(in, o)
		}
		time.Sleep(spareAge - 10*time.Millisecond)
		if upload(in, o) == "" {
			t.Error("there was one")
		}
		time.Sleep(10 * time.Millisecond)
		if id := in.take(o, time.Now()); id != "" {
			t.Errorf("%q is %v old", id, spareAge)
		}
	})
	each("LedgerThatFails", func(t *testing.T, in *intents, s *shelf) {
		s.err = errors.New("down")
		for range 10 * warm {
			if id := upload(in, o); id != "" {
				t.Fatal(id)
			}
		}
		if s.tries > 12 {
			t.Errorf("%d tries for %d uploads", s.tries, 10*warm)
		}
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		for range warm {
			upload(in, o)
		}
		if upload(in, o) == "" {
			t.Error("no stock once it is back")
		}
	})
	each("Forgotten", func(t *testing.T, in *intents, _ *shelf) {
		for range warm {
			upload(in, o)
		}
		in.forget()
		if id := in.take(o, time.Now()); id != "" {
			t.Errorf("got %q", id)
		}
	})
	each("ManyOwners", func(t *testing.T, in *intents, _ *shelf) {
		for i := range 2 * mostOwners {
			upload(in, owner{"reports", fmt.Sprint(i)})
		}
		if len(in.stocks) > mostOwners {
			t.Errorf("%d stocks", len(in.stocks))
		}
	})
	each("Closed", func(t *testing.T, in *intents, s *shelf) {
		for range warm + 2 {
			upload(in, o)
		}
		in.close()
		if len(s.discarded) != s.made-2 {
			t.Errorf("%d of %d discarded", len(s.discarded), s.made)
		}
		if id := in.take(o, time.Now()); id != "" {
			t.Errorf("got %q", id)
		}
	})
}
