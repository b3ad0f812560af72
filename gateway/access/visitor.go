package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/fencegate/fencegate/fence"
)

// maxWrong is how many wrong credentials of one address are remembered.
const maxWrong = 16

// visitor is one client address and the limit of its failed logins.
//
// Once the failures are used up, a credential that has not succeeded from this address is refused without being looked
// at: right or wrong, the answer is the same, and a guess learns nothing. A credential that has succeeded from here
// stays served, because many clients may share an address (a proxy, a NAT), and one of them with a stale secret must
// not lock out the others. Nor must somebody who guesses there keep out those who come for the first time, after a
// restart say: what has the form of a generated secret is looked at beyond the limit too, since nobody can guess one (256
// random bits), and the limit is for secrets that somebody chose. For the same reason a wrong credential that comes again does not use up failures: it teaches
// nothing new, and a client that repeats it for ever would take every chance from those who have not logged in yet. It
// has a limit of its own, so that it meets rate-limited like everybody.
//
// Whoever has more addresses than are remembered has as many failures anyway.
type visitor struct {
	policy *atomic.Pointer[Policy]
	every  time.Duration

	// mu guards what follows, and is held while the policy is read, for Replace.
	mu sync.Mutex
	// guesses counts the failures, repeats those with a wrong credential that was wrong before.
	guesses, repeats *rate.Limiter
	// seen are the credentials that have succeeded. The hash is part of each: another secret of the same principal has
	// to succeed on its own.
	seen []login
	// wrong are hashes of credentials that have failed under the policy in force, the newest last.
	wrong []digest
}

type login struct {
	sum  digest
	name string
}

func newVisitor(policy *atomic.Pointer[Policy], cfg Config) *visitor {
	return &visitor{
		policy: policy, every: cfg.Every,
		guesses: rate.NewLimiter(rate.Every(cfg.Every), cfg.Burst),
		// The first failure of a credential counts as a guess.
		repeats: rate.NewLimiter(rate.Every(cfg.Every), cfg.Burst-1),
	}
}

// login returns whose secret it is, which has at most maxBearer bytes.
func (v *visitor) login(secret string, now time.Time) (*Principal, error) {
	var room [maxBearer]byte
	sum := sha256.Sum256(room[:copy(room[:], secret)])
	if v.hasSeen(sum) {
		if p := v.policy.Load().bySum(sum); p != nil {
			return p, nil
		}
	}
	return v.firstLogin(sum, isGenerated(secret), now)
}

// firstLogin is login for a hash that has not succeeded; generated tells that the secret has the form of a generated one. It holds the
// lock throughout: of several guesses at once, each must meet the failures of the others.
func (v *visitor) firstLogin(sum digest, generated bool, now time.Time) (*Principal, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	limit := v.guesses
	known := contains(v.wrong, sum)
	if known {
		limit = v.repeats
	}
	over := limit.TokensAt(now) < 1
	if over && (known || !generated) {
		return nil, tooMany(limit, v.every, now)
	}
	if !known {
		if p := v.policy.Load().bySum(sum); p != nil {
			v.see(login{sum: sum, name: p.name})
			return p, nil
		}
		if over {
			return nil, tooMany(limit, v.every, now)
		}
		v.remember(sum)
	}
	limit.AllowN(now, 1)
	return nil, fence.Errorf(fence.CodeUnauthenticated, "the credentials are not valid")
}

// wrongJWT counts a JWT that was wrong, and returns its error or, above the limit, that of the limit. Nothing is
// guessed by one, but whoever floods the gateway with them is met like everybody. The verdict itself is not remembered: an
// issuer's keys change.
func (v *visitor) wrongJWT(sum digest, wrong error, now time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	limit := v.guesses
	if contains(v.wrong, sum) {
		limit = v.repeats
	} else if limit.TokensAt(now) >= 1 {
		v.remember(sum)
	}
	if !limit.AllowN(now, 1) {
		return tooMany(limit, v.every, now)
	}
	return wrong
}

// tidy forgets what is not true under another policy: logins of principals that are gone or have another secret now,
// and which credentials are wrong.
func (v *visitor) tidy(p *Policy) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wrong = nil
	v.seen = slices.DeleteFunc(v.seen, func(l login) bool {
		owner := p.bySum(l.sum)
		return owner == nil || owner.name != l.name
	})
}

func (v *visitor) hasSeen(sum digest) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sees(sum)
}

func (v *visitor) sees(sum digest) bool {
	found := 0
	for i := range v.seen {
		found |= subtle.ConstantTimeCompare(v.seen[i].sum[:], sum[:])
	}
	return found == 1
}

// see remembers a login once, though several requests may bring it for the first time together.
func (v *visitor) see(l login) {
	if !v.sees(l.sum) {
		v.seen = append(v.seen, l)
	}
}

func (v *visitor) remember(sum digest) {
	if len(v.wrong) == maxWrong {
		v.wrong = slices.Delete(v.wrong, 0, 1)
	}
	v.wrong = append(v.wrong, sum)
}

// contains takes the same time for every hash: a wrong credential may be a right one elsewhere.
func contains(sums []digest, sum digest) bool {
	found := 0
	for i := range sums {
		found |= subtle.ConstantTimeCompare(sums[i][:], sum[:])
	}
	return found == 1
}

func tooMany(limit *rate.Limiter, every time.Duration, now time.Time) error {
	e := fence.Errorf(fence.CodeRateLimited, "too many failed logins from this address")
	e.Remaining = time.Duration((1 - limit.TokensAt(now)) * float64(every))
	return e
}
