package pgstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// attempts bounds how often a transaction is tried that lost a deadlock or a serialization conflict, or that met a
// session whose isolation had been altered.
const attempts = 5

// retry repeats f while it loses to another transaction: nothing was committed, so the same token may be tried
// again. A lock that was not free in time is not waited for once more.
func (s *Store) retry(ctx context.Context, f func(context.Context) error) error {
	for i := 1; ; i++ {
		err := f(ctx)
		if i == attempts || !slices.Contains([]string{stateSerialization, stateDeadlock, stateIsolation}, sqlState(err)) {
			return err
		}
		pause := time.NewTimer(time.Duration(1+rand.IntN(10*i)) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}
