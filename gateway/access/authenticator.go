package access

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

const (
	defaultBurst     = 10
	defaultEvery     = 6 * time.Second
	defaultAddresses = 10_000

	defaultJWTs        = 4096
	defaultKeysEvery   = 5 * time.Minute
	defaultKeysPause   = 10 * time.Second
	defaultKeysTimeout = 5 * time.Second
)

// Config says by what an Authenticator names callers, and how much guessing it bears.
type Config struct {
	// Policy is required.
	Policy *Policy
	// Burst is how many logins may fail from one address at once. Defaults to 10.
	Burst int
	// Every is the time after which one more login may fail. Defaults to 6 s.
	Every time.Duration
	// Addresses is of how many client addresses the failures are remembered, the least recently seen being forgotten.
	// Defaults to 10 000.
	Addresses int
	// Now is the clock of the limit, and of the times in JWTs. Defaults to time.Now.
	Now func() time.Time

	// JWTs is of how many JWTs it is remembered that their signature is right. Defaults to 4096.
	JWTs int
	// KeysEvery is the time between two fetches of an issuer's keys. Defaults to 5 min.
	KeysEvery time.Duration
	// KeysPause is the least time between them, when a JWT has a key that is not known. After a fetch that failed it is a
	// tenth, doubling up to three times this. Defaults to 10 s.
	KeysPause time.Duration
	// KeysTimeout is how long a fetch may take. Defaults to 5 s.
	KeysTimeout time.Duration
	// Transport fetches keys. Defaults to one of its own, through the proxy of the environment.
	Transport http.RoundTripper
	// Log hears once when keys cannot be fetched, and when they can again. Defaults to none.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Burst = cmp.Or(c.Burst, defaultBurst)
	c.Every = cmp.Or(c.Every, defaultEvery)
	c.Addresses = cmp.Or(c.Addresses, defaultAddresses)
	c.JWTs = cmp.Or(c.JWTs, defaultJWTs)
	c.KeysEvery = cmp.Or(c.KeysEvery, defaultKeysEvery)
	c.KeysPause = cmp.Or(c.KeysPause, defaultKeysPause)
	c.KeysTimeout = cmp.Or(c.KeysTimeout, defaultKeysTimeout)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Transport == nil {
		c.Transport = defaultTransport()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Policy == nil:
		return errors.New("access: Policy is required")
	case c.Burst < 0, c.Every < 0, c.Addresses < 0, c.JWTs < 0, c.KeysEvery < 0, c.KeysPause < 0, c.KeysTimeout < 0:
		return errors.New("access: a limit is negative")
	}
	return nil
}

// Authenticator names the caller of a request: by its bearer secret or JWT, or else by its client certificate. It is safe
// for concurrent use. Close ends its goroutines, of which it has one for each issuer whose keys are at a URL.
type Authenticator struct {
	cfg       Config
	policy    atomic.Pointer[Policy]
	jwts      atomic.Pointer[jwtChecker]
	addresses *lru.Cache[address, *visitor]

	// mu guards closed, and is held while jwts is exchanged.
	mu     sync.Mutex
	closed bool

	failed, limited atomic.Uint64
}

// New makes an Authenticator.
func New(cfg Config) (*Authenticator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	addresses, err := lru.New[address, *visitor](cfg.Addresses)
	if err != nil {
		return nil, fmt.Errorf("access: %w", err)
	}
	a := &Authenticator{cfg: cfg, addresses: addresses}
	a.policy.Store(cfg.Policy)
	a.jwts.Store(newJWTChecker(cfg, cfg.Policy, nil))
	return a, nil
}

// Close ends the fetching of keys, and waits for it. Whoever comes afterwards is named by what is known.
func (a *Authenticator) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.jwts.Load().Close()
}

// Replace puts another policy in force, for every request that is authenticated after it returns. Requests that are
// under way keep the rights they had. Keys at URLs that both policies have go on serving until they have been fetched anew, and
// that is at once.
func (a *Authenticator) Replace(p *Policy) {
	a.replaceJWTs(p)
	a.policy.Store(p)
	// Whoever read the old policy did so under its visitor's lock, after the visitor was put among the addresses: it is
	// found here, and what the old policy made it remember is tidied up.
	for _, v := range a.addresses.Values() {
		v.tidy(p)
	}
}

func (a *Authenticator) replaceJWTs(p *Policy) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	before := a.jwts.Load()
	a.jwts.Store(newJWTChecker(a.cfg, p, before))
	before.Close()
}

// Failed is how many requests were refused as unauthenticated so far.
func (a *Authenticator) Failed() uint64 { return a.failed.Load() }

// Limited is how many requests were refused so far because too many logins from their address had failed.
func (a *Authenticator) Limited() uint64 { return a.limited.Load() }

// Authenticate names the caller. Its errors are *fence.Error with fence.CodeUnauthenticated; with fence.CodeRateLimited and in
// Remaining the time until another try is looked at; with fence.CodeUnavailable when a JWT cannot be checked at present; with
// fence.CodeForbidden when it names a database role that is not allowed.
func (a *Authenticator) Authenticate(r *http.Request) (gateway.Caller, error) {
	p, err := a.authenticate(r)
	switch fence.CodeOf(err) {
	case fence.CodeAccepted:
		return p, nil
	case fence.CodeRateLimited:
		a.limited.Add(1)
	case fence.CodeUnauthenticated:
		a.failed.Add(1)
	}
	return nil, err
}

func (a *Authenticator) authenticate(r *http.Request) (*Principal, error) {
	lines := r.Header.Values("Authorization")
	if len(lines) == 0 {
		return a.byCertificate(r)
	}
	presented, err := bearer(lines)
	switch {
	case err != nil:
		return nil, err
	case a.jwts.Load().checks(presented):
		return a.byJWT(r, presented)
	case len(presented) > maxBearer:
		return nil, malformed()
	}
	return a.visitor(addressOf(r.RemoteAddr)).login(presented, a.cfg.Now())
}

// byJWT does without the visitor unless the JWT is wrong: nobody can guess a signature, so a right JWT is let in whatever
// else comes from its address.
func (a *Authenticator) byJWT(r *http.Request, presented string) (*Principal, error) {
	now := a.cfg.Now()
	for {
		jwts := a.jwts.Load()
		p, err := jwts.login(r.Context(), presented, now)
		switch {
		case err == nil:
			return p, nil
		case jwts != a.jwts.Load():
			// It may have waited for keys that nobody fetches any more.
		case fence.CodeOf(err) != fence.CodeUnauthenticated || errors.Is(err, errUntimely):
			return nil, err
		default:
			return nil, a.visitor(addressOf(r.RemoteAddr)).wrongJWT(sha256.Sum256([]byte(presented)), err, now)
		}
	}
}

// byCertificate does not count against the limit: the certificate was verified, so there is nothing to guess.
func (a *Authenticator) byCertificate(r *http.Request) (*Principal, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
		return nil, fence.Errorf(fence.CodeUnauthenticated, "this gateway needs credentials: Authorization: Bearer <secret>")
	}
	if ambiguous(r.TLS.VerifiedChains[0][0].Subject) {
		return nil, fence.Errorf(fence.CodeUnauthenticated, "the subject of the client certificate has two names of one kind")
	}
	subject := r.TLS.VerifiedChains[0][0].Subject.String()
	// An entry for the subject of an issuer is for whom the issuer says so.
	if p := a.policy.Load().Lookup(subject); p != nil && p.issuer == nil {
		return p, nil
	}
	// The subject is the caller's own, and whoever writes the file needs it in this very form.
	return nil, fence.Errorf(fence.CodeUnauthenticated, "the subject of the client certificate, %q, is no principal of this gateway", subject)
}

// ambiguous finds what pkix.Name has room for once: of two common names it keeps the last, so that two subjects would be
// one principal.
func ambiguous(subject pkix.Name) bool {
	single := map[string]int{"2.5.4.3": 0, "2.5.4.5": 0} // common name, serial number
	for _, a := range subject.Names {
		if n, is := single[a.Type.String()]; is {
			if n == 1 {
				return true
			}
			single[a.Type.String()]++
		}
	}
	return false
}

func (a *Authenticator) visitor(from address) *visitor {
	if v, known := a.addresses.Get(from); known {
		return v
	}
	fresh := newVisitor(&a.policy, a.cfg)
	if other, known, _ := a.addresses.PeekOrAdd(from, fresh); known {
		return other
	}
	return fresh
}
