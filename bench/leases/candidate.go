package main

import (
	"context"
	"errors"
	"time"
)

// ttl is how long a lease runs unless it is given back: longer than any part of a run.
const ttl = 30 * time.Second

// acquire waits for a lease until ctx is over, and returns what gives it back.
type acquire func(ctx context.Context, name string) (release func(context.Context) error, err error)

// candidate is one way to keep leases.
type candidate struct {
	name string
	// clients are what acquires: worker i uses client i modulo their number.
	clients []acquire
	// calls counts the requests that were sent to the server so far; nil where they are not counted.
	calls func(context.Context) (int64, error)
	// contends says that it takes part where many want one lease, alone that it takes part where nobody shares one.
	contends, alone bool
}

func (c candidate) client(worker int) acquire { return c.clients[worker%len(c.clients)] }

// closers are ended in the reverse order in which they were begun.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

func (c closers) close() error {
	var err error
	for i := len(c) - 1; i >= 0; i-- {
		err = errors.Join(err, c[i]())
	}
	return err
}
