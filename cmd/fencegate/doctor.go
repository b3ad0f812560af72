package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fencegate/fencegate/gateway/access"
)

type doctorCmd struct {
	databaseFlag
	PgBouncer   bool          `name:"pgbouncer" help:"PostgreSQL is behind a pooler in transaction mode, as fencegate serve is told."`
	RedisURL    string        `secret:"" placeholder:"URL" help:"Redis that keeps the leases. Without it Redis is not checked."`
	RedisPrefix string        `placeholder:"PREFIX" help:"Prefix of the keys in Redis. Defaults to fencegate: and the id of the ledger."`
	AuthFile    string        `placeholder:"FILE" help:"YAML file of principals and rules. Without it none is checked."`
	TLSClientCA string        `name:"tls-client-ca" placeholder:"FILE" help:"Authorities of client certificates (PEM), as fencegate serve is told. Principals without a secret need it."`
	BlobDir     string        `placeholder:"DIR" help:"Directory that keeps the blobs, unless S3 does."`
	Timeout     time.Duration `env:"FENCEGATE_DOCTOR_TIMEOUT" default:"10s" help:"Longest time for each of PostgreSQL, what keeps the leases and every bucket."`
	lockerPlace
	s3Flags
}

// Help is shown below the flags of fencegate doctor.
func (doctorCmd) Help() string {
	return `Looks at a deployment with the settings of fencegate serve and prints a line for each check: ok, warn or FAIL, what was
looked at, and what was found. It changes nothing that stays: it takes a lease and stores a blob of its own, and removes
both. The exit code is 1 when a check fails; warnings do not count.`
}

// Run prints the findings.
func (c *doctorCmd) Run(std *streams, rc *runContext) error {
	switch {
	case c.Timeout < time.Millisecond:
		return errors.New("--timeout must be positive")
	case c.Locker == "etcd" && c.EtcdURL == "":
		return errors.New("--locker=etcd needs --etcd-url")
	}
	r := &report{out: std.out}
	var ledger ledgerFacts
	bounded := func(check func(context.Context)) {
		ctx, cancel := context.WithTimeout(rc, c.Timeout)
		defer cancel()
		check(ctx)
	}
	bounded(func(ctx context.Context) { ledger = checkPostgres(ctx, r, c.DatabaseURL, c.PgBouncer) })
	bounded(func(ctx context.Context) { c.checkLocker(ctx, r, ledger.id) })
	if err := c.s3Flags.check(c.BlobDir); err != nil {
		r.fail("blobs", "%v", err)
	} else {
		for _, bucket := range ledger.buckets {
			bounded(func(ctx context.Context) { checkBucket(ctx, r, c.s3Flags, c.BlobDir, bucket) })
		}
	}
	if c.AuthFile != "" {
		checkAuthFile(r, c.AuthFile, c.TLSClientCA != "")
	}
	if err := rc.Err(); err != nil {
		return err
	}
	if r.failed > 0 {
		return fmt.Errorf("%d of %d checks failed", r.failed, r.checks)
	}
	return nil
}

func checkAuthFile(r *report, path string, clientCA bool) {
	policy, err := access.Load(path)
	if err == nil {
		err = checkPolicy(policy, clientCA)
	}
	if err != nil {
		r.fail("auth file", "%v", err)
		return
	}
	r.ok("auth file", "%s can be read", path)
}

// report prints the findings as they are made.
type report struct {
	out            io.Writer
	checks, failed int
}

func (r *report) ok(what, format string, args ...any) { r.line("ok", what, format, args) }

// warn is about what works, and less well or less safely than it could.
func (r *report) warn(what, format string, args ...any) { r.line("warn", what, format, args) }

// fail is about what does not work, or breaks a promise.
func (r *report) fail(what, format string, args ...any) {
	r.failed++
	r.line("FAIL", what, format, args)
}

func (r *report) line(verdict, what, format string, args []any) {
	r.checks++
	fmt.Fprintf(r.out, "%-4s  %-24s  %s\n", verdict, what, fmt.Sprintf(format, args...))
}
