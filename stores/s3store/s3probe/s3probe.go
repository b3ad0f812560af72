// Package s3probe finds out what an S3 endpoint honours and what it gets wrong, by trying it: with small objects of its
// own in a bucket that exists, in seconds.
//
// A server that calls itself S3 may ignore a header that it does not know, and answer 200. So a probe makes a request
// that is right and one that is wrong in just the point in question, and only a store that tells them apart honours it.
package s3probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Config says what is probed.
type Config struct {
	// Client is a client of the endpoint. Required; it stays the caller's.
	Client *s3.Client
	// Bucket is a bucket that exists. Required.
	Bucket string
	// Prefix is what blobs are kept below, ending with a slash. The probe's objects are below
	// <Prefix>.fencegate-doctor/<random>/. Defaults to ".fencegate/".
	Prefix string
	// ProbeTimeout bounds each probe. Defaults to 5 s.
	ProbeTimeout time.Duration
	// Timeout bounds all probes together; what was not reached then is not measured. Defaults to 20 s.
	Timeout time.Duration
	// CleanupTimeout bounds the removal of the probe's objects, which begins when the probes are over or the context
	// ends. Defaults to 10 s.
	CleanupTimeout time.Duration
}

const defaultPrefix = ".fencegate/"

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, 5*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 20*time.Second)
	c.CleanupTimeout = cmp.Or(c.CleanupTimeout, 10*time.Second)
	return c
}

func (c Config) validate() error {
	switch {
	case c.Client == nil:
		return errors.New("probe S3: a client is needed")
	case c.Bucket == "":
		return errors.New("probe S3: a bucket is needed")
	case !strings.HasSuffix(c.Prefix, "/") || strings.HasPrefix(c.Prefix, "/"):
		return fmt.Errorf("probe S3: the prefix %q must not start with / and end with it", c.Prefix)
	case c.ProbeTimeout < 0 || c.Timeout < 0 || c.CleanupTimeout < 0:
		return errors.New("probe S3: timeouts must be positive")
	}
	return nil
}

// Outcome is what a store made of one thing that was tried.
type Outcome string

// Honours to NotMeasured are all outcomes.
const (
	// Honours: it does what S3 does.
	Honours Outcome = "honours"
	// Ignores: it answers as if it had not been asked.
	Ignores Outcome = "ignores"
	// Refuses: it says that it does not do this.
	Refuses Outcome = "refuses"
	// Wrong: it does something else than it says.
	Wrong Outcome = "wrong"
	// NotMeasured: it did not answer, or these credentials may not ask.
	NotMeasured Outcome = "not measured"
)

// Finding is the outcome of one probe.
type Finding struct {
	Name    string
	Outcome Outcome
	// Note is what was seen, in a few words; it may be empty.
	Note string
	// Needed: fencegate relies on this, so anything but Honours makes the store unsafe.
	Needed bool
	// Attend: fencegate is safe all the same, and somebody should change something.
	Attend bool
}

// Verdict is whether fencegate is safe on a store.
type Verdict string

const (
	// Safe: all that fencegate needs was seen to hold.
	Safe Verdict = "safe"
	// Unsafe: something that fencegate needs does not hold.
	Unsafe Verdict = "unsafe"
	// Unknown: nothing was seen to be wrong, and not all that is needed could be measured.
	Unknown Verdict = "unknown"
)

// Report is all that was found.
type Report struct {
	// Findings are in the same order each time.
	Findings []Finding
	Verdict  Verdict
	// Faults are the names of what is needed and does not hold; with Unknown, of what could not be measured.
	Faults []string
	// Advice is a sentence each.
	Advice []string
	// Took is how long it took, cleaning up included.
	Took time.Duration
}

// Finding returns the finding of a name.
func (r Report) Finding(name string) (Finding, bool) {
	for _, f := range r.Findings {
		if f.Name == name {
			return f, true
		}
	}
	return Finding{}, false
}

// Run probes the endpoint and removes what it made. Without an error the report is complete. The error is about a bucket
// that takes no object at all, and then nothing was probed; or that of the context, with what was found before it ended.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return Report{}, err
	}
	return run(ctx, cfg, probes())
}

func run(ctx context.Context, cfg Config, probes []probe) (Report, error) {
	began := time.Now()
	s := newSession(cfg)
	if err := s.first(ctx); err != nil {
		s.cleanUp(ctx)
		return Report{}, err
	}
	findings := s.tryAll(ctx, probes)
	findings = append(findings, s.cleanUp(ctx))
	r := Report{Findings: findings, Took: time.Since(began)}
	r.Verdict, r.Faults = judge(findings)
	r.Advice = advise(r, cfg.Prefix)
	return r, ctx.Err()
}

// judge returns the verdict, and the names of what speaks against Safe.
func judge(findings []Finding) (Verdict, []string) {
	var broken, open []string
	for _, f := range findings {
		switch {
		case !f.Needed || f.Outcome == Honours:
		case f.Outcome == NotMeasured:
			open = append(open, f.Name)
		default:
			broken = append(broken, f.Name)
		}
	}
	switch {
	case len(broken) > 0:
		return Unsafe, broken
	case len(open) > 0:
		return Unknown, open
	}
	return Safe, nil
}
