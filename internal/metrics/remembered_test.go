package metrics

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// Whoever asks for the same labels gets the same series, however many ask at once, and it is looked for once.
func TestRemembered(t *testing.T) {
	var (
		r      remembered[string, *int]
		mu     sync.Mutex
		looked = map[string]int{}
		got    = map[string]map[*int]bool{}
		asking sync.WaitGroup
	)
	find := func(labels string) *int {
		for range 100 {
			runtime.Gosched() // so that the others come to ask, too
		}
		mu.Lock()
		defer mu.Unlock()
		looked[labels]++
		return new(int)
	}
	for range 8 {
		asking.Go(func() {
			for i := range 200 {
				labels := fmt.Sprint(i % 7)
				series := r.get(labels, find)
				mu.Lock()
				if got[labels] == nil {
					got[labels] = map[*int]bool{}
				}
				got[labels][series] = true
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	for labels, series := range got {
		if len(series) != 1 || looked[labels] != 1 {
			t.Errorf("%s: %d series, looked for %d times", labels, len(series), looked[labels])
		}
	}
	if len(got) != 7 {
		t.Errorf("%d labels", len(got))
	}
}
