package pglease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/lease"
)

const (
	healthInterval = 5 * time.Second
	sweepInterval  = time.Minute
	// sweepLimit is how much of each table is swept in one transaction, sweepTimes how many there are in a row.
	sweepLimit, sweepTimes = 1000, 100
	// leastPause and mostPause bound the pause before connecting anew.
	leastPause, mostPause = 20 * time.Millisecond, 2 * time.Second
)

// ErrElsewhere is a Config.ListenURL that leads to another database than Config.URL.
var ErrElsewhere = errors.New("the URL for listening leads to another database than the one that keeps the leases")

// Listen implements lease.Locker. Its error is ErrPooler or ErrElsewhere.
func (l *Locker) Listen(ctx context.Context, f func(lease.Signal)) error {
	if l.listen == nil {
		l.poll(ctx, f)
		return nil
	}
	for failures := 0; ; failures++ {
		connected, err := l.hear(ctx, f)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrPooler) || errors.Is(err, ErrElsewhere):
			return fmt.Errorf("postgres listen: %w", err)
		case connected:
			failures = 0
		}
		if !pause(ctx, failures) {
			return nil
		}
	}
}

// pause waits longer after each failure, half of it at random, and reports whether ctx is not over.
func pause(ctx context.Context, failures int) bool {
	d := min(leastPause<<min(failures, 10), mostPause)
	return sleep(ctx, d/2+rand.N(d/2))
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// hear listens in one session until it ends, and reports whether it ever listened.
func (l *Locker) hear(ctx context.Context, f func(lease.Signal)) (connected bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, l.listen)
	if err != nil {
		return false, explain(err)
	}
	defer l.hangUp(ctx, conn)
	if err := l.subscribe(ctx, conn); err != nil {
		return false, err
	}
	f(lease.Signal{Kind: lease.Resync})
	swept := time.Now()
	for {
		n, err := l.next(ctx, conn)
		switch {
		case err != nil:
			return true, err
		case n != nil:
			if s, ok := parse(n.Payload); ok {
				f(s)
			}
		}
		if time.Since(swept) >= l.sweep {
			err := sweepAll(func(n *int64) error { return l.askFor(ctx, conn, n, "SELECT fence.sweep_leases($1::int)", sweepLimit) })
			if cutOff(err) {
				return true, err
			}
			swept = time.Now()
		}
	}
}

// sweepAll sweeps as long as there may be more.
func sweepAll(sweep func(*int64) error) error {
	for range sweepTimes {
		var n int64
		if err := sweep(&n); err != nil || n < sweepLimit {
			return err
		}
	}
	return nil
}

func (l *Locker) hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.config.CallTimeout)
	defer cancel()
	_ = conn.Close(ctx) // it may be broken
}

// next returns the next notification; nil when there was none for a while and the session lives.
func (l *Locker) next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, l.health)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	if err == nil || waiting.Err() == nil || conn.IsClosed() {
		return n, err
	}
	return nil, l.ask(ctx, conn, "SELECT 1")
}

// ask runs a statement in the session that listens, for at most the CallTimeout.
func (l *Locker) ask(ctx context.Context, conn *pgx.Conn, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, sql, args...)
	return err
}

// askFor is ask for one value.
func (l *Locker) askFor(ctx context.Context, conn *pgx.Conn, dest any, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	return conn.QueryRow(ctx, sql, args...).Scan(dest)
}

// subscribe listens first, and only then takes the lock by which others see that somebody does.
func (l *Locker) subscribe(ctx context.Context, conn *pgx.Conn) error {
	if err := refusePooler(ctx, conn); err != nil {
		return err
	}
	if err := l.ask(ctx, conn, "LISTEN "+pgx.Identifier{channel(l.gateway)}.Sanitize()); err != nil {
		return err
	}
	// A former session of ours may live on where nobody hears it, until the server notices.
	if err := l.ask(ctx, conn, "SELECT fence.end_former_sessions($1::uuid)", l.gateway); cutOff(err) {
		return err
	}
	if err := l.ask(ctx, conn, "SELECT pg_advisory_lock(fence.gateway_lock($1::uuid))", l.gateway); err != nil {
		return err
	}
	if l.config.ListenURL == l.config.URL {
		return nil
	}
	var gone bool
	if err := l.call(ctx, "SELECT fence.gateway_gone($1::uuid, 0)", []any{l.gateway}, &gone); err != nil {
		return err
	}
	if err := l.ask(ctx, conn, "SELECT 1"); err != nil || !gone {
		return err
	}
	return ErrElsewhere
}
