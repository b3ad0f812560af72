package gateway

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

type valueKey struct{}

func TestDeadlinesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		d := deadlines{limit: limit}
		left, leave := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "kept"))
		first := d.detached(httptest.NewRequest("PATCH", "/", nil).WithContext(left))
		leave()
		time.Sleep(limit / deadlineSlots / 2)
		second := d.detached(httptest.NewRequest("PATCH", "/", nil))
		time.Sleep(limit / deadlineSlots)
		third := d.detached(httptest.NewRequest("PATCH", "/", nil))
		if first.Done() != second.Done() || second.Done() == third.Done() {
			t.Error("a deadline is shared by others than those that begin within a slot")
		}
		if first.Err() != nil || first.Value(valueKey{}) != "kept" || second.Value(valueKey{}) != nil {
			t.Errorf("%v, %v: the client left, and its values are its own", first.Err(), first.Value(valueKey{}))
		}
		for _, ctx := range []context.Context{second, third} {
			began := time.Now()
			at, ok := ctx.Deadline()
			if !ok || at.Sub(began) < limit-2*limit/deadlineSlots || at.Sub(began) > limit+limit/deadlineSlots {
				t.Errorf("the deadline is %v away", at.Sub(began))
			}
		}
		// What is bound to it ends with it, and by itself before.
		bound, release := context.WithCancel(second)
		ended, end := context.WithCancel(first)
		end()
		if second.Err() != nil || !errors.Is(ended.Err(), context.Canceled) {
			t.Error("one that ends, ends the others")
		}
		defer release()
		<-bound.Done()
		if !errors.Is(second.Err(), context.DeadlineExceeded) || !errors.Is(bound.Err(), context.DeadlineExceeded) || third.Err() != nil {
			t.Errorf("at the deadline: %v, %v, %v", second.Err(), bound.Err(), third.Err())
		}
		<-third.Done()
	})
}

// A write has no less than the limit, whenever in its slot it begins.
func TestDeadlineIsNoShorterThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deadlines{limit: time.Minute}
		for range 50 {
			began := time.Now()
			ctx := d.detached(httptest.NewRequest("PATCH", "/", nil))
			if at, _ := ctx.Deadline(); at.Sub(began) < d.limit {
				t.Fatalf("it is %v away", at.Sub(began))
			}
			time.Sleep(70 * time.Millisecond)
		}
		time.Sleep(2 * d.limit)
	})
}
