package gateway

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"
)

const (
	defaultReadHeaderTimeout = 10 * time.Second
	defaultIdleTimeout       = 2 * time.Minute
	defaultMaxHeader         = 64 << 10
)

// ServerConfig bounds what a connection may cost before a handler runs.
type ServerConfig struct {
	// ReadHeaderTimeout bounds the reading of a request's header. Defaults to 10 s.
	ReadHeaderTimeout time.Duration
	// IdleTimeout is how long a connection is kept between requests. Defaults to 2 min.
	IdleTimeout time.Duration
	// MaxHeader is the largest header in bytes. Defaults to 64 KiB: enough for an absurd token to be refused by
	// name instead of by a dropped connection.
	MaxHeader int
	// Log takes what net/http has to say. Defaults to slog.Default().
	Log *slog.Logger
}

func (c ServerConfig) withDefaults() ServerConfig {
	c.ReadHeaderTimeout = cmp.Or(c.ReadHeaderTimeout, defaultReadHeaderTimeout)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, defaultIdleTimeout)
	c.MaxHeader = cmp.Or(c.MaxHeader, defaultMaxHeader)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// NewServer makes a server for h. It has no WriteTimeout: that one would cut off an acquire that waits and the
// answer to a write that was accepted. The gateway sets deadlines per request instead.
func NewServer(h http.Handler, cfg ServerConfig) *http.Server {
	cfg = cfg.withDefaults()
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: cfg.ReadHeaderTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.MaxHeader,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelWarn),
	}
}
