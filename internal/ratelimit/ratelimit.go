// Package ratelimit counts requests in Redis: one counter for each principal, class and window of fixed length, which all
// gateways of a deployment share. A counter expires with its window, so nothing is left behind.
//
// A request never waits longer than Config.Timeout for its number. After a few calls without an answer the Limiter asks no more
// for a while, so that a Redis that hangs does not cost every request its timeout.
package ratelimit

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
)

//go:embed take.lua
var takeScript string

const (
	defaultTimeout = 20 * time.Millisecond
	defaultRest    = 500 * time.Millisecond
	maxWindow      = 24 * time.Hour
	maxCount       = 1e9
)

// Limit is how many requests a principal may make in a window, which begins with the first of them.
type Limit struct {
	Count  int64
	Window time.Duration
}

// ParseLimit reads a count and a window, such as 600/1m.
func ParseLimit(s string) (Limit, error) {
	count, window, found := strings.Cut(s, "/")
	n, countErr := strconv.ParseInt(count, 10, 64)
	d, windowErr := time.ParseDuration(window)
	if !found || countErr != nil || windowErr != nil || count[0] == '+' {
		return Limit{}, errors.New("a limit is a number of requests and a time, such as 600/1m")
	}
	l := Limit{n, d}
	return l, l.validate()
}

// String is the form that ParseLimit reads.
func (l Limit) String() string {
	if l == (Limit{}) {
		return ""
	}
	return fmt.Sprintf("%d/%v", l.Count, l.Window)
}

func (l Limit) validate() error {
	switch {
	case l.Count < 1 || l.Count > maxCount:
		return fmt.Errorf("a limit is 1 to %d requests", int64(maxCount))
	case l.Window < time.Second || l.Window > maxWindow:
		return fmt.Errorf("the window of a limit is 1s to %v", maxWindow)
	}
	return nil
}

// Config tunes a Limiter.
type Config struct {
	// Prefix stands before every key. Defaults to "fencegate".
	Prefix string
	// Limits are the limits by class. A class without one is not counted.
	Limits map[string]Limit
	// Timeout bounds each call, whatever Redis does. Defaults to 20 ms.
	Timeout time.Duration
	// Rest is how long Redis is not asked after calls without an answer. Defaults to 500 ms.
	Rest time.Duration
	// Changed is told when Redis stops answering, with the cause, and when it answers again, with nil. It must not block. Defaults to
	// nobody.
	Changed func(cause error)
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "fencegate")
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Rest = cmp.Or(c.Rest, defaultRest)
	if c.Changed == nil {
		c.Changed = func(error) {}
	}
	return c
}

func (c Config) validate() error {
	if c.Timeout < 0 || c.Rest < 0 {
		return errors.New("ratelimit: a time is negative")
	}
	for class, l := range c.Limits {
		if err := l.validate(); err != nil {
			return fmt.Errorf("ratelimit: %s: %w", class, err)
		}
	}
	return nil
}

// Limiter counts requests. It is safe for concurrent use.
type Limiter struct {
	client redis.UniversalClient
	config Config
	take   *redis.Script
	fuse   fuse
}

// New makes a Limiter. The client stays the caller's to close; it must have ContextTimeoutEnabled, and is best one of the
// Limiter's own, so that requests do not keep leases waiting for connections.
func New(client redis.UniversalClient, config Config) (*Limiter, error) {
	if client == nil {
		return nil, errors.New("ratelimit: a Limiter needs a client")
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Limiter{client: client, config: config, take: redis.NewScript(takeScript), fuse: fuse{rest: config.Rest}}, nil
}

// Prepare opens a connection and makes Redis know the script, so that the first request is as quick as the others. An error says
// that it is not.
func (l *Limiter) Prepare(ctx context.Context) error {
	if err := l.take.Load(ctx, l.client).Err(); err != nil {
		return fmt.Errorf("load the script that counts requests: %w", err)
	}
	return nil
}

// Take counts a request of a principal, and returns how long the window still lasts if it is one too many, else 0. An error says
// that Redis did not answer in time, or was not asked because it had not answered before.
func (l *Limiter) Take(ctx context.Context, class, principal string) (time.Duration, error) {
	limit, limited := l.config.Limits[class]
	if !limited {
		return 0, nil
	}
	if !l.fuse.mayAsk(time.Now()) {
		return 0, errResting
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()
	counted, err := l.take.Run(ctx, l.client, []string{l.key(class, principal, limit)}, limit.Window.Milliseconds()).Int64Slice()
	if err == nil && len(counted) != 2 {
		err = fmt.Errorf("redis answers with %d numbers", len(counted))
	}
	// An error that Redis answers with is an answer: nobody was kept waiting for it.
	var refused redis.Error
	if l.fuse.note(err == nil || errors.As(err, &refused), time.Now()) {
		l.config.Changed(err)
	}
	if err != nil {
		return 0, fmt.Errorf("count a request: %w", err)
	}
	if counted[0] <= limit.Count {
		return 0, nil
	}
	return max(time.Millisecond, time.Duration(counted[1])*time.Millisecond), nil
}

var errResting = errors.New("count a request: redis has not answered lately and is not asked")

// key names nobody: principals can be long, and are not for everyone who may look into Redis. A window of another length is
// another counter.
func (l *Limiter) key(class, principal string, limit Limit) string {
	return fmt.Sprintf("%s:rate:%s:%d:%s", l.config.Prefix, class, limit.Window.Milliseconds(), fence.DigestOf("rate", principal))
}
