package pgstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// catalogueHealth is how often a session that hears nothing is asked whether it is still there.
	catalogueHealth = 5 * time.Second
	// leastCataloguePause and mostCataloguePause bound the pause before listening anew.
	leastCataloguePause, mostCataloguePause = 50 * time.Millisecond, 5 * time.Second
)

// WatchCatalogue forgets what is known of tables whenever the ledger tells that a table, or its protection, was changed, until the
// context ends. It keeps one connection beside the pool. Without it, and behind a pooler, which has nobody listen, a description is believed
// for Config.TableTTL, or until a statement fails for its age.
func (s *Store) WatchCatalogue(ctx context.Context) error {
	if s.cfg.Pooled {
		<-ctx.Done()
		return ctx.Err()
	}
	for failures := 0; ; failures++ {
		if s.hearCatalogue(ctx) {
			failures = 0
		}
		d := min(leastCataloguePause<<min(failures, 10), mostCataloguePause)
		pause := time.NewTimer(d/2 + rand.N(d/2))
		select {
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		case <-pause.C:
		}
	}
}

// hearCatalogue listens in one session until it ends, and reports whether it ever listened.
func (s *Store) hearCatalogue(ctx context.Context) bool {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return false
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // it may be broken
	}()
	if _, err := conn.Exec(ctx, "LISTEN fencegate_catalogue"); err != nil {
		return false
	}
	for {
		// Once before the first notification: what changed until now was told to nobody.
		s.tables.forget()
		if err := nextNotification(ctx, conn); err != nil {
			return true
		}
	}
}

// nextNotification returns when there is one, and fails once the session is dead.
func nextNotification(ctx context.Context, conn *pgx.Conn) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, catalogueHealth)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, catalogueHealth)
		err = conn.Ping(asking)
		cancel()
		if err != nil {
			return err
		}
	}
}
