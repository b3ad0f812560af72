package lease

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff yields pauses that double up to a limit, each cut by chance to between its half and its whole, so that
// waiters that came together do not stay together.
type backoff struct {
	pause, most time.Duration
}

func (b *backoff) next() time.Duration {
	d := b.pause/2 + rand.N(b.pause/2+1)
	b.pause = min(2*b.pause, b.most)
	return d
}

// sleep waits for d, or returns the context's error as soon as it is over.
func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
