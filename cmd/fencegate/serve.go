package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease/redislease"
	"github.com/fencegate/fencegate/stores/pgstore"
)

type serveCmd struct {
	Listen string `default:"127.0.0.1:8080" help:"Address to listen on; port 0 takes a free one. Beyond loopback only with --auth-file."`
	databaseFlag
	Migrate      bool          `help:"Bring the ledger up to date before serving. Several gateways may do so at once."`
	RedisURL     string        `secret:"" placeholder:"URL" help:"Redis that keeps the leases and counts requests: redis:// or rediss://, unix://, redis+sentinel://HOST:PORT?master_name=NAME, redis+cluster://HOST:PORT."`
	BlobDir      string        `placeholder:"DIR" help:"Keep blobs in this directory. Gateways that share a ledger must share it."`
	StartTimeout time.Duration `default:"30s" help:"How long to wait for PostgreSQL at the start."`
	s3Flags
	s3FrontFlags
	accessFlags
	adminFlags
	drainFlags
	backendFlags
	lockerFlags
	limitFlags
	eventFlags
	rateFlags
	collectFlags
	logFlags
}

// Help is shown below the flags of fencegate serve.
func (serveCmd) Help() string {
	return `Serves a deployment. The ledger must have been migrated (fencegate migrate up, or --migrate), and what is to be served
protected (fencegate protect). SIGHUP reads the auth file and the certificates anew; SIGTERM drains.

Blobs of objects are kept in S3 (--s3-endpoint, which is aws for AWS itself) or in a directory (--blob-dir).`
}

func (c *serveCmd) validate() error {
	return errors.Join(c.s3Flags.check(c.BlobDir), atLeast("--start-timeout", c.StartTimeout, time.Millisecond),
		c.backendFlags.validate(), c.lockerFlags.validate(c.RedisURL), c.limitFlags.validate(), c.eventFlags.validate(), c.collectFlags.validate(), c.drainFlags.validate())
}

// Run serves until it is told to stop.
func (c *serveCmd) Run(std *streams, rc *runContext, k *kong.Context) error {
	if err := c.validate(); err != nil {
		return err
	}
	log := c.logger(std)
	// From here on to the end: by default a SIGHUP ends the program, and one may come at any time.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	guard, err := newGuard(c.accessFlags, log)
	if err != nil {
		return err
	}
	defer guard.Close()
	tell, err := startTelemetry(rc, c.adminFlags, log)
	if err != nil {
		return err
	}
	defer tell.Close()
	tell.watchCertificate(guard.certificateEnds)
	guard.reloaded = tell.reloaded
	stopReloading := guard.reloadOn(hangup)
	defer stopReloading()
	l, err := c.listen(rc, guard)
	if err != nil {
		return err
	}
	defer l.Close()
	s3Listener, s3Keys, err := c.s3FrontFlags.listen(rc, guard)
	if err != nil {
		return err
	}
	if s3Listener != nil {
		defer s3Listener.Close()
	}
	// A URL that is refused is not shown: its secret may stand where none is looked for.
	if c.RedisURL != "" {
		if _, err := redislease.Open(c.RedisURL, redislease.Config{}); err != nil {
			return fmt.Errorf("--redis-url: %w", err)
		}
	}
	log.LogAttrs(rc, slog.LevelInfo, "configuration", effective(k)...)
	if err := c.prepareLedger(rc, log); err != nil {
		return err
	}
	p := parts{
		databaseURL: c.DatabaseURL, redisURL: c.RedisURL, blobDir: c.BlobDir,
		s3: c.s3Flags, backends: c.backendFlags, locker: c.lockerFlags, limits: c.limitFlags, events: c.eventFlags, rates: c.rateFlags, collect: c.collectFlags, log: log,
		s3Keys: s3Keys,
	}
	guard.protect(&p)
	p.telemetry = tell
	a, err := assemble(rc, p)
	if err != nil {
		return err
	}
	defer func() {
		if err := a.Close(); err != nil {
			log.Warn("close", "error", err)
		}
	}()
	log.Info("leases", "locker", c.Locker, "redis-prefix", a.prefix)
	if err := a.pingLocker(rc); err != nil {
		log.Warn(lockerName(c.Locker)+" does not answer: leases cannot be had until it does; writes go on", "error", err)
	}
	guard.changed(a.AccessChanged)
	admin, err := c.adminFlags.serve(rc, a, tell, log)
	if err != nil {
		return err
	}
	defer admin.Close()

	s := newServer(a, l, c.limitFlags, c.drainFlags)
	s.scheme = guard.scheme()
	s.handler = tell.around(s.handler)
	s.openToS3(s3Listener, tell)
	s.keepEvents(c.EventRetention)
	if task := tell.background(a, c.GCInterval); task != nil {
		s.background["metrics"] = task
	}
	return s.run(rc, func(url string) {
		fmt.Fprintf(std.out, "fencegate is ready on %s\n", url)
		log.Info("ready", "url", url)
		if s3Listener != nil {
			fmt.Fprintf(std.out, "its S3 front is ready on %s\n", s.s3URL())
			log.Info("S3 front", "url", s.s3URL())
		}
	})
}

// listen listens where the flags say, on loopback only when nobody is asked who he is.
func (c *serveCmd) listen(ctx context.Context, g *guard) (net.Listener, error) {
	if !g.authenticates() {
		return listenLoopback(ctx, "--listen", c.Listen)
	}
	l, err := listen(ctx, "--listen", c.Listen)
	if err != nil {
		return nil, err
	}
	return g.listener(l), nil
}

// prepareLedger waits for PostgreSQL and makes sure that the ledger is one that this program can work with.
func (c *serveCmd) prepareLedger(ctx context.Context, log *slog.Logger) error {
	err := c.checkSchema(ctx, log)
	if !c.Migrate || !errors.Is(err, pgstore.ErrNoLedger) && !errors.Is(err, pgstore.ErrSchemaOld) {
		return err
	}
	done, err := pgstore.Migrate(ctx, c.DatabaseURL)
	for _, m := range done {
		log.Info("applied", "migration", m.Name)
	}
	if err != nil {
		return err
	}
	return c.checkSchema(ctx, log)
}

// checkSchema looks at the ledger, again and again while PostgreSQL is not there.
func (c *serveCmd) checkSchema(ctx context.Context, log *slog.Logger) error {
	const attempt = 3 * time.Second
	waiting, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	for told := false; ; told = true {
		once, done := context.WithTimeout(waiting, attempt)
		err := pgstore.CheckSchema(once, c.DatabaseURL)
		done()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if fence.CodeOf(err) != fence.CodeUnavailable || waiting.Err() != nil {
			return err
		}
		if !told {
			log.Warn("waiting for PostgreSQL", "error", err)
		}
		select {
		case <-waiting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}
