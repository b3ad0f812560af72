package stores

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	// UploadMargin is for the steps of a write that come after its upload.
	UploadMargin = 30 * time.Second
	// sweepPage is how many blobs the ledger is asked for at once.
	sweepPage = 100
)

// CollectorConfig tunes a Collector.
type CollectorConfig struct {
	// Interval is the mean time between two passes. Defaults to 1 min.
	Interval time.Duration
	// Grace is how long a blob is kept after the last thing that referred to it is gone. It must be longer than
	// UploadLimit and DownloadLimit. Defaults to 24 h.
	Grace time.Duration
	// UploadLimit is the longest time that any gateway of this ledger gives to an upload. Defaults to 1 h.
	UploadLimit time.Duration
	// DownloadLimit is the longest time for which any gateway, or a URL it signed, gives a blob to a reader.
	// Defaults to 1 h.
	DownloadLimit time.Duration
	// Observe is told what each of Run's passes did, and the error that ended it. Defaults to nobody.
	Observe func(Swept, error)
	// Log receives the errors of Run's passes. Defaults to slog.Default().
	Log *slog.Logger
}

func (c CollectorConfig) withDefaults() CollectorConfig {
	c.Interval = cmp.Or(c.Interval, time.Minute)
	c.Grace = cmp.Or(c.Grace, 24*time.Hour)
	c.UploadLimit = cmp.Or(c.UploadLimit, defaultUploadLimit)
	c.DownloadLimit = cmp.Or(c.DownloadLimit, defaultDownloadLimit)
	if c.Observe == nil {
		c.Observe = func(Swept, error) {}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

func (c CollectorConfig) validate() error {
	if c.Interval < 0 || c.UploadLimit < 0 || c.DownloadLimit < 0 {
		return fmt.Errorf("collector: times must be positive: interval %v, upload limit %v, download limit %v", c.Interval, c.UploadLimit, c.DownloadLimit)
	}
	if c.Grace <= c.UploadLimit || c.Grace <= c.DownloadLimit {
		return fmt.Errorf("collector: the grace period of %v must be longer than the limits on uploads (%v) and downloads (%v)", c.Grace, c.UploadLimit, c.DownloadLimit)
	}
	return nil
}

// Swept is what one pass did.
type Swept struct {
	// Aborted counts the intents given up, Expired the versions that are kept no longer, Deleted the blobs whose bytes were deleted.
	Aborted, Expired, Deleted int
}

// Collector deletes the blobs that nothing refers to. What is garbage is decided by the ledger alone, never from a
// listing of the store: a blob that the ledger does not know may be about to be published.
type Collector struct {
	dump  Dump
	blobs Blobs
	cfg   CollectorConfig
}

// NewCollector returns a Collector of the ledger's garbage in a blob store. Several gateways may run one each.
func NewCollector(d Dump, b Blobs, cfg CollectorConfig) (*Collector, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Collector{dump: d, blobs: b, cfg: cfg}, nil
}

// Run sweeps at intervals until the context ends, and returns its error. A pass that fails is logged, and the next
// one goes on.
func (c *Collector) Run(ctx context.Context) error {
	for {
		// Half to one and a half intervals: gateways that were started together do not sweep together.
		wait := time.NewTimer(c.cfg.Interval/2 + rand.N(c.cfg.Interval))
		select {
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		case <-wait.C:
		}
		swept, err := c.Sweep(ctx)
		if ctx.Err() != nil {
			continue
		}
		c.cfg.Observe(swept, err)
		if err != nil {
			c.cfg.Log.WarnContext(ctx, "collecting blobs stopped", "error", err, "aborted", swept.Aborted, "deleted", swept.Deleted)
		}
	}
}

// Sweep makes one pass: it gives up the intents of writes that must be dead, forgets versions that are kept no longer, then deletes what
// has been garbage for the grace period. It stops at the first error and tells what it did until then.
func (c *Collector) Sweep(ctx context.Context) (Swept, error) {
	var done Swept
	for {
		n, err := c.dump.AbortStale(ctx, c.cfg.UploadLimit+UploadMargin, sweepPage)
		if err != nil {
			return done, fmt.Errorf("abort stale blobs: %w", err)
		}
		done.Aborted += n
		if n < sweepPage {
			break
		}
	}
	for {
		n, err := c.dump.ExpireVersions(ctx, sweepPage)
		if err != nil {
			return done, fmt.Errorf("expire versions: %w", err)
		}
		done.Expired += n
		if n < sweepPage {
			break
		}
	}
	for {
		page, err := c.dump.Collectable(ctx, c.cfg.Grace, sweepPage)
		if err != nil {
			return done, fmt.Errorf("find collectable blobs: %w", err)
		}
		for _, g := range page {
			if err := c.delete(ctx, g); err != nil {
				return done, fmt.Errorf("delete blob %s of bucket %s: %w", g.ID, g.Bucket, err)
			}
			if err := c.dump.Collected(ctx, g); err != nil {
				return done, fmt.Errorf("record the deletion of blob %s: %w", g.ID, err)
			}
			done.Deleted++
		}
		if len(page) < sweepPage {
			return done, nil
		}
	}
}

// delete removes a blob's bytes, and the parts of one that was not joined.
func (c *Collector) delete(ctx context.Context, g fence.Garbage) error {
	if a, ok := c.blobs.(Assembler); ok && g.Upload != "" {
		if err := a.DropParts(ctx, g.Bucket, g.ID, g.Upload); err != nil {
			return err
		}
	}
	return c.blobs.Delete(ctx, g.Bucket, g.ID)
}
