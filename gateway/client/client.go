// Package client speaks to a gateway over HTTP: leases (a Client is a lease.Leases, so that lease.Keeper works over it),
// rows, objects, marks and events.
//
// # Outcomes
//
// Every refusal is a *fence.Error with the gateway's code and what it tells: the mark, the lease, the holder, why a grant
// ended. Unless its code is CodeOutcomeUnknown the call changed nothing.
//
// # Repetition
//
// A call is repeated where the outcome is unknown (with the same token and the same body, which settles it), and after
// contention, overload and unavailability, with a growing pause or the one that the gateway asks for. A refusal is never
// repeated. A write whose body cannot be read again (no io.Seeker) is not repeated once it was begun. The context and
// Config bound it all; a call that ends without an answer that settles it is CodeOutcomeUnknown.
//
// Nothing is logged, and no error holds the bearer token or the id of a grant.
package client

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fencegate/fencegate/lease"
)

// Config says where the gateway is and how long to insist.
type Config struct {
	// URL is where the gateway listens: http:// or https://, with a path if a proxy serves it below one. Required.
	URL string
	// AuthToken is sent as a bearer token. Defaults to none.
	AuthToken string
	// TLS is for https URLs, and for client certificates. Defaults to the system's authorities.
	TLS *tls.Config
	// HTTP sends the requests, in place of a client of its own; its redirects are not followed. Excludes TLS.
	HTTP *http.Client

	// Timeout bounds one try of a call that moves no object; of an acquire, what exceeds its wait. Longer than the gateway
	// takes to say that it does not know. Defaults to 20 s.
	Timeout time.Duration
	// TransferTimeout bounds one try to write or read an object. Defaults to 1 h.
	TransferTimeout time.Duration
	// MaxTries is how often a call is tried. Defaults to 5.
	MaxTries int
	// MinPause and MaxPause bound the pause between two tries. A gateway that asks for a longer one is not asked again.
	// Default to 50 ms and 5 s.
	MinPause, MaxPause time.Duration
	// CleanupTimeout bounds what is undone after an acquire that was given up. Defaults to 5 s.
	CleanupTimeout time.Duration
	// MaxAnswer is the longest answer in bytes, bodies of objects aside. Defaults to 16 MiB.
	MaxAnswer int64
	// Hooks are told of each request. Defaults to nobody.
	Hooks lease.Hooks
}

const (
	headerToken    = "X-Fence-Token"
	headerLease    = "X-Fence-Lease"
	headerReplayed = "X-Fence-Replayed"
	headerLeaseID  = "X-Lease-Id"
)

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, 20*time.Second)
	c.TransferTimeout = cmp.Or(c.TransferTimeout, time.Hour)
	c.MaxTries = cmp.Or(c.MaxTries, 5)
	c.MinPause = cmp.Or(c.MinPause, 50*time.Millisecond)
	c.MaxPause = cmp.Or(c.MaxPause, max(5*time.Second, c.MinPause))
	c.CleanupTimeout = cmp.Or(c.CleanupTimeout, 5*time.Second)
	c.MaxAnswer = cmp.Or(c.MaxAnswer, 16<<20)
	if c.Hooks == nil {
		c.Hooks = lease.NoHooks{}
	}
	return c
}

func (c Config) validate() error {
	// Neither this nor what the parser says may quote a URL with a password.
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("client: the gateway's URL is http://HOST:PORT or https://HOST:PORT")
	case u.User != nil:
		return errors.New("client: credentials are no part of the gateway's URL: use AuthToken")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("client: the gateway's URL has no query and no fragment")
	case c.HTTP != nil && c.TLS != nil:
		return errors.New("client: give TLS or HTTP, not both")
	case strings.ContainsAny(c.AuthToken, "\r\n\x00"):
		return errors.New("client: the bearer token has a line break")
	case c.Timeout < 0, c.TransferTimeout < 0, c.MaxTries < 0, c.MinPause < 0, c.CleanupTimeout < 0, c.MaxAnswer < 0:
		return errors.New("client: a time or limit is negative")
	case c.MaxPause < c.MinPause:
		return fmt.Errorf("client: MaxPause %v is below MinPause %v", c.MaxPause, c.MinPause)
	}
	return nil
}

// Client is one gateway's. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base string
	http *http.Client
	// own is the transport that was made here.
	own *http.Transport
}

var _ lease.Leases = (*Client)(nil)

// New makes a client. It connects to nothing yet.
func New(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, base: strings.TrimRight(cfg.URL, "/")}
	var h http.Client
	if cfg.HTTP != nil {
		h = *cfg.HTTP
	} else {
		c.own = transport(cfg.TLS)
		h.Transport = c.own
	}
	// Go would send a grant's id along to wherever it is redirected.
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &h
	return c, nil
}

func transport(t *tls.Config) *http.Transport {
	dial := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial.DialContext, TLSClientConfig: t.Clone(), ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
		ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: 1 << 20,
	}
}

// Close closes idle connections, unless they are those of the caller's own HTTP client.
func (c *Client) Close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}
