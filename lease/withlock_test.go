package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

func TestWithLock(t *testing.T) {
	mine := errors.New("the work's own")
	keepTest(t, "OK", func(t *testing.T, f *keepFake) {
		err := f.keeper().WithLock(t.Context(), "job", func(ctx context.Context, l *Kept) error {
			time.Sleep(10 * keepTTL)
			if l.Token() != 1000 {
				t.Errorf("token %d", l.Token())
			}
			return ctx.Err()
		})
		if err != nil || f.releases() != 1 {
			t.Errorf("%v, %d releases", err, f.releases())
		}
	})
	keepTest(t, "ItsError", func(t *testing.T, f *keepFake) {
		err := f.keeper().WithLock(t.Context(), "job", func(context.Context, *Kept) error { return mine })
		if err != mine || f.releases() != 1 {
			t.Errorf("%v, %d releases", err, f.releases())
		}
	})
	keepTest(t, "NotAcquired", func(t *testing.T, f *keepFake) {
		f.acquire = func(context.Context) (*Held, error) { return nil, fence.Errorf(fence.CodeLeaseHeld, "another") }
		err := f.keeper().WithLock(t.Context(), "job", func(context.Context, *Kept) error {
			t.Error("it ran without the lease")
			return nil
		})
		if fence.CodeOf(err) != fence.CodeLeaseHeld {
			t.Errorf("got %v", err)
		}
	})
	keepTest(t, "Panics", func(t *testing.T, f *keepFake) {
		defer func() {
			if recover() != mine || f.releases() != 1 {
				t.Errorf("%d releases", f.releases())
			}
		}()
		_ = f.keeper().WithLock(t.Context(), "job", func(context.Context, *Kept) error { panic(mine) })
	})
	keepTest(t, "Cancelled", func(t *testing.T, f *keepFake) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := f.keeper().WithLock(ctx, "job", func(ctx context.Context, l *Kept) error {
			cancel(mine)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != mine || f.releases() != 1 {
			t.Errorf("%v, %d releases", err, f.releases())
		}
	})
	keepTest(t, "Lost", func(t *testing.T, f *keepFake) {
		f.renew = keepAway
		err := f.keeper().WithLock(t.Context(), "job", func(ctx context.Context, l *Kept) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if lost := lossOf(err); lost == nil || lost.Loss != LossUnknown || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	keepTest(t, "LostAndNothingSaid", func(t *testing.T, f *keepFake) {
		err := f.keeper().WithLock(t.Context(), "job", func(ctx context.Context, l *Kept) error {
			f.sleepFor(time.Hour)
			return nil
		})
		if lost := lossOf(err); lost == nil || lost.Loss != LossExpired {
			t.Errorf("got %v", err)
		}
	})
	keepTest(t, "LostAndTold", func(t *testing.T, f *keepFake) {
		err := f.keeper().WithLock(t.Context(), "job", func(ctx context.Context, l *Kept) error {
			f.sleepFor(time.Hour)
			return errors.Join(mine, l.Err())
		})
		if lossOf(err) == nil || !errors.Is(err, mine) {
			t.Errorf("got %v", err)
		}
	})
}
