package access

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
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
	// Now is the clock of the limit. Defaults to time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	c.Burst = cmp.Or(c.Burst, defaultBurst)
	c.Every = cmp.Or(c.Every, defaultEvery)
	c.Addresses = cmp.Or(c.Addresses, defaultAddresses)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Policy == nil:
		return errors.New("access: Policy is required")
	case c.Burst < 0, c.Every < 0, c.Addresses < 0:
		return errors.New("access: a limit is negative")
	}
	return nil
}

// Authenticator names the caller of a request: by its bearer secret, or else by its client certificate. It is safe for
// concurrent use.
type Authenticator struct {
	cfg       Config
	policy    atomic.Pointer[Policy]
	addresses *lru.Cache[address, *visitor]

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
	return a, nil
}

// Replace puts another policy in force, for every request that is authenticated after it returns. Requests that are
// under way keep the rights they had.
func (a *Authenticator) Replace(p *Policy) {
	a.policy.Store(p)
	// Whoever read the old policy did so under its visitor's lock, after the visitor was put among the addresses: it is
	// found here, and what the old policy made it remember is tidied up.
	for _, v := range a.addresses.Values() {
		v.tidy(p)
	}
}

// Failed is how many requests were refused as unauthenticated so far.
func (a *Authenticator) Failed() uint64 { return a.failed.Load() }

// Limited is how many requests were refused so far because too many logins from their address had failed.
func (a *Authenticator) Limited() uint64 { return a.limited.Load() }

// Authenticate names the caller. Its errors are *fence.Error with fence.CodeUnauthenticated, or with
// fence.CodeRateLimited and in Remaining the time until another try is looked at.
func (a *Authenticator) Authenticate(r *http.Request) (gateway.Caller, error) {
	p, err := a.authenticate(r)
	switch fence.CodeOf(err) {
	case fence.CodeAccepted:
		return p, nil
	case fence.CodeRateLimited:
		a.limited.Add(1)
	default:
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
	if err != nil {
		return nil, err
	}
	return a.visitor(addressOf(r.RemoteAddr)).login(sha256.Sum256([]byte(presented)), isGenerated(presented), a.cfg.Now())
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
	if p := a.policy.Load().Lookup(subject); p != nil {
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
