package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// patience bounds how much longer than planned a slice may take before its candidate has failed.
const patience = 3 * time.Second

// goAlone runs a slice in which each of n workers acquires and releases a lease of its own, again and again.
func goAlone(ctx context.Context, c candidate, n int, length time.Duration) (figures, error) {
	runtime.GC()
	ctx, cancel := context.WithTimeout(ctx, length+patience)
	defer cancel()
	start := time.Now()
	turns, errs := make([]int, n), make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			name := fmt.Sprintf("%s, lease %d of %d", c.name, i, n)
			for take := c.client(i); time.Since(start) < length; turns[i]++ {
				release, err := take(ctx, name)
				if err == nil {
					err = release(ctx)
				}
				if err != nil {
					errs[i] = err
					cancel()
					return
				}
			}
		})
	}
	running.Wait()
	took := time.Since(start)
	total := 0
	for i, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
		total += turns[i]
	}
	return figures{rate(n): float64(total) / took.Seconds()}, nil
}
