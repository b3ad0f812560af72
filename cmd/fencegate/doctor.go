package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fencegate/fencegate/gateway/access"
)

type doctorCmd struct {
	DatabaseURL string        `env:"FENCEGATE_DATABASE_URL" secret:"" placeholder:"URL" help:"PostgreSQL URL of the database that holds the ledger and the protected tables. Required, but for --s3-bucket."`
	PgBouncer   bool          `name:"pgbouncer" help:"PostgreSQL is behind a pooler in transaction mode, as fencegate serve is told."`
	RedisURL    string        `secret:"" placeholder:"URL" help:"Redis that keeps the leases. Without it Redis is not checked."`
	RedisPrefix string        `placeholder:"PREFIX" help:"Prefix of the keys in Redis. Defaults to fencegate: and the id of the ledger."`
	AuthFile    string        `placeholder:"FILE" help:"YAML file of principals and rules. Without it none is checked."`
	TLSClientCA string        `name:"tls-client-ca" placeholder:"FILE" help:"Authorities of client certificates (PEM), as fencegate serve is told. Principals without a secret need it."`
	BlobDir     string        `placeholder:"DIR" help:"Directory that keeps the blobs, unless S3 does."`
	S3Bucket    string        `name:"s3-bucket" env:"FENCEGATE_DOCTOR_S3_BUCKET" placeholder:"NAME" help:"Judge the S3 at --s3-endpoint by this bucket, without a database, and look at nothing else."`
	Verbose     bool          `env:"FENCEGATE_DOCTOR_VERBOSE" help:"Tell all that the S3 was found to do, not only what is wrong."`
	Timeout     time.Duration `env:"FENCEGATE_DOCTOR_TIMEOUT" default:"10s" help:"Longest time for each of PostgreSQL, what keeps the leases and every bucket; the probes of a bucket's S3 take up to twice that."`
	lockerPlace
	s3Flags
}

// Help is shown below the flags of fencegate doctor.
func (doctorCmd) Help() string {
	return `Looks at a deployment with the settings of fencegate serve and prints a line for each check: ok, warn or FAIL, what was
looked at, and what was found. It changes nothing that stays: it takes a lease and stores objects of its own, and removes
them. With --s3-bucket it tells whether fencegate is safe on an S3, before anything is installed. The exit code is 1 when
a check fails; warnings do not count.`
}

// Validate asks for a database unless only an S3 is judged.
func (c doctorCmd) Validate() error {
	switch {
	case c.S3Bucket != "":
		return nil
	case c.DatabaseURL == "":
		return errors.New("missing flags: --database-url=URL, or --s3-bucket=NAME to judge an S3 only")
	}
	return databaseFlag{c.DatabaseURL}.Validate()
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
	look := c.deployment
	if c.S3Bucket != "" {
		look = c.probeOnly
	}
	if err := look(rc, r); err != nil {
		return err
	}
	if err := rc.Err(); err != nil {
		return err
	}
	if r.failed > 0 {
		return fmt.Errorf("%d of %d checks failed", r.failed, r.checks)
	}
	return nil
}

// deployment looks at all that a gateway with these settings depends on.
func (c *doctorCmd) deployment(outer context.Context, r *report) error {
	var ledger ledgerFacts
	bounded := func(check func(context.Context)) {
		ctx, cancel := context.WithTimeout(outer, c.Timeout)
		defer cancel()
		check(ctx)
	}
	bounded(func(ctx context.Context) { ledger = checkPostgres(ctx, r, c.DatabaseURL, c.PgBouncer) })
	bounded(func(ctx context.Context) { c.checkLocker(ctx, r, ledger.id) })
	if err := c.s3Flags.check(c.BlobDir); err != nil {
		r.fail("blobs", "%v", err)
	} else {
		for _, bucket := range ledger.buckets {
			works := false
			bounded(func(ctx context.Context) { works = checkBucket(ctx, r, c.s3Flags, c.BlobDir, bucket) })
			if works && c.BlobDir == "" {
				c.probeBucket(outer, r, cmp.Or(c.S3BlobBucket, bucket)) // where the blobs are
			}
		}
	}
	if c.AuthFile != "" {
		checkAuthFile(r, c.AuthFile, c.TLSClientCA != "")
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
