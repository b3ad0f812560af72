package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Config tunes a Manager.
type Config struct {
	// CertifyTimeout bounds what an acquire does once it has taken the lease, without regard to its caller.
	// Defaults to 12 s: longer than the ledger waits for a lock, twice.
	CertifyTimeout time.Duration
	// CleanupTimeout bounds a release, and what is undone after an acquire that failed. Defaults to 12 s.
	CleanupTimeout time.Duration
	// MaxVoid is how many void certificates make an acquire give up. Defaults to 10.
	MaxVoid int
	// PollMin and PollMax bound the pauses between two tries of what has failed. Default to 10 ms and 250 ms.
	PollMin, PollMax time.Duration
	// MaxQueue is how many acquires may wait for one lease here, MaxWaiting for all together. Default to 1000 and 10000.
	MaxQueue, MaxWaiting int
}

func (c Config) withDefaults() Config {
	c.CertifyTimeout = cmp.Or(c.CertifyTimeout, 12*time.Second)
	c.CleanupTimeout = cmp.Or(c.CleanupTimeout, 12*time.Second)
	c.MaxVoid = cmp.Or(c.MaxVoid, 10)
	c.MaxQueue = cmp.Or(c.MaxQueue, 1000)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 10_000)
	c.PollMin = cmp.Or(c.PollMin, 10*time.Millisecond)
	c.PollMax = cmp.Or(c.PollMax, max(250*time.Millisecond, c.PollMin))
	return c
}

func (c Config) validate() error {
	switch {
	case c.CertifyTimeout < 0, c.CleanupTimeout < 0, c.MaxVoid < 0, c.PollMin < 0, c.MaxQueue < 0, c.MaxWaiting < 0:
		return errors.New("lease: a timeout, pause or limit is negative")
	case c.PollMax < c.PollMin:
		return fmt.Errorf("lease: PollMax %v is below PollMin %v", c.PollMax, c.PollMin)
	}
	return nil
}

// Manager acquires and keeps leases. Any number of Managers may share one ledger, and those that share a locker's server share
// its leases and queues. It is safe for concurrent use.
type Manager struct {
	locker Locker
	ledger Ledger
	config Config
	turns  *turns
	void   atomic.Uint64
}

// NewManager makes a Manager. The locker is its own: no other Manager may use the same Locker value. Close it when it is no
// longer needed.
func NewManager(locker Locker, ledger Ledger, config Config) (*Manager, error) {
	if locker == nil || ledger == nil {
		return nil, errors.New("lease: a Manager needs a Locker and a Ledger")
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Manager{locker: locker, ledger: ledger, config: config, turns: newTurns(locker, ledger, config)}, nil
}

// Close ends the acquires that wait, which are CodeUnavailable, and what runs in the background. Leases that are held stay,
// and can be renewed and released through any other Manager. Call it before the locker's client is closed.
func (m *Manager) Close() error {
	m.turns.close()
	return nil
}

// cleanup returns a context that outlives the caller's, for what must be done even when the caller has gone.
func (m *Manager) cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), m.config.CleanupTimeout)
}

// end ends a grant, repeating while the ledger cannot say whether it did: ending is idempotent.
func (m *Manager) end(ctx context.Context, name string, by fence.GrantRef, e fence.Ending) (*fence.Grant, error) {
	var g *fence.Grant
	err := m.settle(ctx, func() (err error) {
		g, err = m.ledger.End(ctx, name, by, e)
		return unknownIfCut(err)
	})
	return g, err
}

// settle repeats an idempotent call while its outcome is unknown, a bounded number of times.
func (m *Manager) settle(ctx context.Context, call func() error) error {
	const tries = 5
	b := m.backoff()
	var unknown error
	for try := 1; ; try++ {
		err := call()
		switch fence.CodeOf(err) {
		case fence.CodeOutcomeUnknown:
			unknown = err
		case fence.CodeUnavailable, fence.CodeOverloaded:
			// Of this try, it says. An earlier one may have taken effect.
			if unknown == nil {
				return err
			}
			err = unknown
		default:
			return err
		}
		if try == tries || sleep(ctx, b.next()) != nil {
			return err
		}
	}
}

func (m *Manager) backoff() *backoff { return m.turns.backoff() }
