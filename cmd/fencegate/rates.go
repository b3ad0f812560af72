package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/internal/ratelimit"
	"github.com/fencegate/fencegate/lease/redislease"
)

// prepareTimeout bounds the wait for Redis at the start.
const prepareTimeout = time.Second

// rateFlags bound how many requests one principal may make, over all gateways.
type rateFlags struct {
	RateReads            rate   `placeholder:"N/TIME" help:"How many reads one principal may make in a time, over all gateways, such as 600/1m; further ones are told 429. Any number by default."`
	RateWrites           rate   `placeholder:"N/TIME" help:"How many writes of rows and objects."`
	RateLeases           rate   `placeholder:"N/TIME" help:"How many acquires, renewals, calls for more tokens and breaks. Releases are not counted."`
	RateLimitUnavailable string `enum:"allow,deny" default:"allow" help:"What becomes of reads and calls about leases that Redis cannot count within 20 ms: allow or deny (503). Writes and releases go through either way."`
}

// rate is a limit as a flag; nothing is none.
type rate struct{ ratelimit.Limit }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *rate) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*r = rate{}
		return nil
	}
	r.Limit, err = ratelimit.ParseLimit(string(text))
	return err
}

func (f rateFlags) limits() map[string]ratelimit.Limit {
	limits := map[string]ratelimit.Limit{}
	for class, r := range map[string]rate{gateway.ClassReads: f.RateReads, gateway.ClassWrites: f.RateWrites, gateway.ClassLeases: f.RateLeases} {
		if r != (rate{}) {
			limits[class] = r.Limit
		}
	}
	return limits
}

// limit makes a gateway count requests, if that is wanted. It does so on connections of its own: requests must not keep leases
// waiting for one.
func (a *assembly) limit(ctx context.Context, cfg *gateway.Config, p parts) error {
	limits := p.rates.limits()
	if len(limits) == 0 {
		return nil
	}
	if p.redisURL == "" {
		return errors.New("--rate-reads, --rate-writes and --rate-leases are counted in Redis: they need --redis-url")
	}
	client, err := redislease.Open(p.redisURL, redislease.Config{})
	if err != nil {
		return err
	}
	a.closers = append(a.closers, client.Close)
	limiter, err := ratelimit.New(client, ratelimit.Config{Prefix: a.prefix, Limits: limits, Changed: tellCounting(p.log, p.rates.RateLimitUnavailable)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	// Without it the first requests may be too slow to be counted.
	if err := limiter.Prepare(ctx); err != nil {
		p.log.WarnContext(ctx, "requests cannot be counted yet", "error", err)
	}
	cfg.Limiter, cfg.DenyUncounted = limiter, p.rates.RateLimitUnavailable == "deny"
	return nil
}

func tellCounting(log *slog.Logger, unavailable string) func(cause error) {
	return func(cause error) {
		if cause != nil {
			log.LogAttrs(context.Background(), slog.LevelWarn, "requests cannot be counted",
				slog.String("rate-limit-unavailable", unavailable), slog.String("error", cause.Error()))
			return
		}
		log.Info("requests are counted again")
	}
}
