package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/stores/pgstore"
)

type devCmd struct {
	Listen      string `default:"127.0.0.1:8080" help:"Loopback address to listen on; port 0 takes a free one."`
	Data        string `default:"./.fencegate" help:"Folder of everything: PostgreSQL, Redis, blobs and the file env."`
	DatabaseURL string `env:"FENCEGATE_DEV_DATABASE_URL" placeholder:"URL" help:"Use this PostgreSQL instead of a private one. It is migrated; nothing else is created beside the schema fence and the role fence_writer."`
	RedisURL    string `env:"FENCEGATE_DEV_REDIS_URL" placeholder:"URL" help:"Use this Redis instead of a private one."`
	s3Flags
	s3FrontFlag
	backendFlags
	limitFlags
	eventFlags
	collectFlags
	logFlags
}

// Help is shown below the flags of fencegate dev.
func (devCmd) Help() string {
	return `Starts a private PostgreSQL (which must be installed) and redis-server, and a gateway in front of them. Without a
redis-server leases are kept in process and end with it; their tokens stay unique and in order. On an empty folder it
creates and protects the table public.wallets with row 42 (lease wallet:{id}) and the bucket reports (lease report:{key}).
Everything else survives a restart.

To try it, in another terminal:

  . ./.fencegate/env
  curl -s --json '{"ttl":"30s"}' $FENCEGATE_URL/v1/leases/wallet:42
  curl -s -X PATCH --json '{"balance":90}' -H 'X-Fence-Token: <token>' $FENCEGATE_URL/v1/rows/wallets/42

It listens on loopback only and asks nobody for a password.`
}

// Run serves until it is told to stop.
func (c *devCmd) Run(std *streams, rc *runContext) error {
	if err := errors.Join(c.backendFlags.validate(), c.limitFlags.validate(), c.eventFlags.validate(), c.collectFlags.validate()); err != nil {
		return err
	}
	l, err := listenLoopback(rc, "--listen", c.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	front, err := c.openS3Front(rc)
	if err != nil {
		return err
	}
	defer front.close()
	env, err := startDev(rc, c, front, c.logger(std))
	if err != nil {
		return err
	}
	defer env.Close()
	ctx, cancel := context.WithCancelCause(rc)
	defer cancel(nil)
	env.watch(func(err error) { cancel(fmt.Errorf("a private server has ended: %w", err)) })
	s := newServer(env.assembly, l, c.limitFlags, atOnce())
	s.openToS3(front.listener, &telemetry{})
	s.keepEvents(c.EventRetention)
	return s.run(ctx, func(url string) {
		settings := append([]setting{{"FENCEGATE_URL", url}, {"FENCEGATE_DATABASE_URL", env.databaseURL}, {"FENCEGATE_REDIS_URL", env.redisURL}}, front.settings(s)...)
		if err := writeEnv(c.Data, settings); err != nil {
			cancel(err)
			return
		}
		fmt.Fprintf(std.out, "fencegate is ready on %s\n", url)
		if front.listener != nil {
			fmt.Fprintf(std.out, "  for S3's clients: %s\n", s.s3URL())
		}
		fmt.Fprintf(std.out, "  settings for your shell: . %s\n", filepath.Join(c.Data, "env"))
		fmt.Fprintf(std.out, "  without authentication, for this machine only; stop it with Ctrl-C\n")
	})
}

// devEnvironment is a gateway with servers of its own.
type devEnvironment struct {
	*assembly
	servers               *localservers.Servers // nil when both servers are somebody else's
	databaseURL, redisURL string
	watchers              sync.WaitGroup
	release               func() // of the folder
}

// startDev starts what the flags do not name, migrates the ledger and wires a gateway.
func startDev(ctx context.Context, c *devCmd, front devFront, log *slog.Logger) (_ *devEnvironment, err error) {
	env := &devEnvironment{databaseURL: c.DatabaseURL, redisURL: c.RedisURL}
	defer func() {
		if err != nil {
			err = errors.Join(err, env.Close())
		}
	}()
	if (c.DatabaseURL == "") != (c.RedisURL == "") {
		return nil, errors.New("--database-url and --redis-url go together: both or neither")
	}
	if env.release, err = localservers.Hold(ctx, c.Data); err != nil {
		return nil, err
	}
	if c.DatabaseURL == "" {
		env.servers, err = localservers.Start(ctx, localservers.Config{Dir: c.Data, Log: log})
		if err != nil {
			return nil, err
		}
		env.databaseURL, env.redisURL = env.servers.DatabaseURL(), env.servers.RedisURL()
	}
	if _, err := pgstore.Migrate(ctx, env.databaseURL); err != nil {
		return nil, err
	}
	if env.servers != nil {
		if err := seed(ctx, env.databaseURL); err != nil {
			return nil, err
		}
	}
	env.assembly, err = assemble(ctx, parts{
		databaseURL: env.databaseURL, redisURL: env.redisURL, blobDir: filepath.Join(c.Data, "blobs"),
		s3: c.s3Flags, backends: c.backendFlags, limits: c.limitFlags, events: c.eventFlags, collect: c.collectFlags, log: log,
		loopbackOnly: true, s3Keys: front.keys(),
	})
	return env, err
}

// watch calls ended when a private server has ended for good.
func (e *devEnvironment) watch(ended func(error)) {
	if e.servers == nil {
		return
	}
	e.watchers.Go(func() {
		<-e.servers.Done() // closed by Close at the latest
		if err := e.servers.Err(); err != nil {
			ended(err)
		}
	})
}

// Close closes the gateway's connections, then the servers.
func (e *devEnvironment) Close() error {
	var errs []error
	if e.assembly != nil {
		errs = append(errs, e.assembly.Close())
	}
	if e.servers != nil {
		errs = append(errs, e.servers.Close())
		e.watchers.Wait()
	}
	if e.release != nil {
		e.release()
	}
	return errors.Join(errs...)
}
