package localservers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"
)

// Config says where the servers of a development gateway keep their data.
type Config struct {
	// Dir is the folder for all of them. It is made if absent. Required.
	Dir string
	// Ephemeral gives durability up for speed: for tests that throw the folder away. Defaults to false.
	Ephemeral bool
	// Log hears what is started and where. Defaults to nothing.
	Log *slog.Logger
}

// Servers are a PostgreSQL and a Redis that run. One that ends by itself is started again on its folder, with the same
// address; its clients reconnect.
type Servers struct {
	databaseURL, redisURL string
	log                   *slog.Logger
	stopping              context.Context
	stop                  context.CancelFunc
	done                  chan struct{} // closed when one of them cannot be started again, or Close was called
	err                   error         // guarded by once
	once                  sync.Once
	watchers              sync.WaitGroup

	mu       sync.Mutex
	postgres interface{ Stop() error } // guarded by mu
	redis    interface{ Stop() error } // guarded by mu
}

const (
	// restarts is how often in a row a server is started, in vain or for a short while, before it is given up, and
	// restartPause the unit of the pauses in between, which double.
	restarts     = 6
	restartPause = 250 * time.Millisecond
	// soon is how early a server must have ended after its start for the start to count as failed.
	soon = 10 * time.Second
)

// Start starts a PostgreSQL with a database fencegate and a redis-server below a folder and returns when both answer.
// Where there is no redis-server, a Redis in process takes its place. The context bounds the start only; Close ends
// the servers.
func Start(ctx context.Context, c Config) (*Servers, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	// Other users may pass through: PostgreSQL's may be another than this program's.
	dir, err := makeFolder(c.Dir, 0o711)
	if err != nil {
		return nil, err
	}
	s := &Servers{log: c.Log, done: make(chan struct{})}
	s.stopping, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	postgres := PostgresConfig{Dir: filepath.Join(dir, "postgres"), Ephemeral: c.Ephemeral, Log: c.Log}
	p, err := StartPostgres(ctx, postgres)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.databaseURL, s.postgres = p.URL(""), p
	s.watch("PostgreSQL", p.Process, func(ctx context.Context) (*Process, error) {
		p, err := StartPostgres(ctx, postgres)
		if err != nil {
			return nil, err
		}
		s.set(&s.postgres, p)
		return p.Process, nil
	})
	if err := s.startRedis(ctx, RedisConfig{Dir: filepath.Join(dir, "redis"), Persist: !c.Ephemeral, Log: c.Log}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Servers) startRedis(ctx context.Context, c RedisConfig) error {
	r, err := StartRedis(ctx, c)
	var missing *MissingError
	if errors.As(err, &missing) {
		s.log.Warn("redis-server is not installed: leases are kept in this process and end with it")
		m, err := StartMiniredis()
		if err != nil {
			return err
		}
		s.redisURL = m.URL()
		s.set(&s.redis, m)
		return nil
	}
	if err != nil {
		return err
	}
	s.redisURL = r.URL()
	s.set(&s.redis, r)
	s.watch("Redis", r.Process, func(ctx context.Context) (*Process, error) {
		r, err := StartRedis(ctx, c)
		if err != nil {
			return nil, err
		}
		s.set(&s.redis, r)
		return r.Process, nil
	})
	return nil
}

func (s *Servers) set(field *interface{ Stop() error }, server interface{ Stop() error }) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*field = server
}

// watch starts a server again when it ends by itself, until Close or until it cannot be started any more.
func (s *Servers) watch(name string, p *Process, restart func(context.Context) (*Process, error)) {
	s.watchers.Go(func() {
		began, early := time.Now(), 0
		for {
			select {
			case <-s.stopping.Done():
				return
			case <-p.Done():
			}
			if s.stopping.Err() != nil {
				return
			}
			if early++; time.Since(began) > soon {
				early = 0
			}
			if early >= restarts {
				s.end(fmt.Errorf("%s keeps ending: %w", name, p.Err()))
				return
			}
			s.log.Error(name+" has ended and is started again", "cause", p.Err())
			if early > 0 && !s.pause(restartPause<<early) {
				return
			}
			var err error
			if p, err = s.restarted(restart); err != nil {
				if s.stopping.Err() == nil {
					s.end(fmt.Errorf("%s cannot be started again: %w", name, err))
				}
				return
			}
			began = time.Now()
		}
	})
}

func (s *Servers) restarted(restart func(context.Context) (*Process, error)) (p *Process, err error) {
	for i := range restarts {
		if i > 0 && !s.pause(restartPause<<i) {
			return nil, err
		}
		if p, err = restart(s.stopping); err == nil {
			return p, nil
		}
	}
	return nil, err
}

// pause waits, and reports false when Close was called meanwhile.
func (s *Servers) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stopping.Done():
		return false
	case <-timer.C:
		return true
	}
}

// end keeps the first reason only.
func (s *Servers) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
	})
}

// DatabaseURL returns the URL of the database fencegate, for pgx and libpq alike.
func (s *Servers) DatabaseURL() string { return s.databaseURL }

// RedisURL returns the URL of the Redis as go-redis reads it.
func (s *Servers) RedisURL() string { return s.redisURL }

// Done is closed when a server has ended for good, by itself or by Close.
func (s *Servers) Done() <-chan struct{} { return s.done }

// Err tells which server ended by itself and could not be started again. It is nil before Done is closed and after
// Close.
func (s *Servers) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close ends the servers in order and waits for them. It is called once.
func (s *Servers) Close() error {
	s.stop()
	s.watchers.Wait()
	s.end(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, server := range []interface{ Stop() error }{s.redis, s.postgres} {
		if server != nil {
			errs = append(errs, server.Stop())
		}
	}
	return errors.Join(errs...)
}
