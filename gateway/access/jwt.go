package access

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/fencegate/fencegate/fence"
)

// maxJWT is the longest JWT in bytes. Its claims are sent with every statement.
const maxJWT = 8 << 10

// isJWT tells a JWT from a secret by its form alone: a credential is never tried as both.
func isJWT(presented string) bool { return strings.Count(presented, ".") == 2 }

var (
	// errUntimely is the cause when a JWT is right but for its time: its bearer has to be told, whatever others do there.
	errUntimely = errors.New("not at this time")
	errHeader   = errors.New("its header has crit, or a kid that is no string")
	errIssuer   = errors.New("its issuer is none of this gateway's")
	errNoEnd    = errors.New("it has no exp")
	errMethod   = errors.New("its issuer does not sign with this algorithm here")
)

// jwtChecker checks the JWTs of a policy's issuers. Its goroutines end with Close.
type jwtChecker struct {
	policy  *Policy
	sources map[string]*keySource // by issuer
	parser  *jwt.Parser
	results *lru.Cache[digest, *result]

	stop    context.CancelFunc
	running sync.WaitGroup
}

// result is what came of a JWT whose signature is right. It holds while the issuer's keys stay the same, between two times.
type result struct {
	principal   *Principal
	source      *keySource
	set         *keySet
	from, until time.Time
}

// newJWTChecker takes over the keys that earlier, which may be nil, has of the same URLs.
func newJWTChecker(cfg Config, policy *Policy, earlier *jwtChecker) *jwtChecker {
	results, _ := lru.New[digest, *result](cfg.JWTs) // fails at a size that Config does not have
	ctx, stop := context.WithCancel(context.Background())
	v := &jwtChecker{
		policy: policy, results: results, stop: stop, sources: make(map[string]*keySource),
		// Times and names are checked here, so that a result can be looked at again later.
		parser: jwt.NewParser(jwt.WithValidMethods(asymmetric()), jwt.WithJSONNumber(), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation()),
	}
	for i := range policy.Issuers() {
		var before *keySource
		if earlier != nil {
			before = earlier.sources[i.Name]
		}
		s := newKeySource(i, cfg, ctx.Done(), before)
		v.sources[i.Name] = s
		if i.KeysURL != "" {
			v.running.Go(func() { s.run(ctx) })
		}
	}
	return v
}

// Close ends the fetching of keys, and waits for it.
func (v *jwtChecker) Close() {
	v.stop()
	v.running.Wait()
}

// checks tells whether a credential is for it to check.
func (v *jwtChecker) checks(presented string) bool {
	return len(v.sources) > 0 && isJWT(presented)
}

// login returns whom a JWT names.
func (v *jwtChecker) login(ctx context.Context, presented string, now time.Time) (*Principal, error) {
	sum := sha256.Sum256([]byte(presented))
	r, known := v.results.Get(sum)
	if !known || r.source.set.Load() != r.set {
		var err error
		if r, err = v.check(ctx, presented); err != nil {
			v.results.Remove(sum)
			return nil, err
		}
		v.results.Add(sum, r)
	}
	switch {
	case now.Before(r.from):
		return nil, fence.Wrap(fence.CodeUnauthenticated, errUntimely, "the JWT is not valid yet")
	case !now.Before(r.until):
		return nil, fence.Wrap(fence.CodeUnauthenticated, errUntimely, "the JWT has expired")
	}
	return r.principal, nil
}

// check does everything but look at the time.
func (v *jwtChecker) check(ctx context.Context, presented string) (*result, error) {
	r, claims := &result{}, jwt.MapClaims{}
	_, err := v.parser.ParseWithClaims(presented, claims, func(t *jwt.Token) (any, error) {
		return v.key(ctx, r, t, claims)
	})
	var coded *fence.Error
	switch {
	case errors.As(err, &coded):
		return nil, coded
	case err != nil:
		return nil, invalid(err)
	}
	_, rest, _ := strings.Cut(presented, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err == nil {
		err = checkPayload(text)
	}
	if err == nil {
		err = r.times(claims)
	}
	if err != nil {
		return nil, invalid(err)
	}
	r.principal, err = v.subject(r.source.issuer, claims, string(text))
	return r, err
}

func invalid(cause error) error {
	return fence.Wrap(fence.CodeUnauthenticated, cause, "the JWT is not valid")
}

// key finds what a JWT's signature has to be checked with. Nothing of the JWT is trusted yet; it only chooses.
func (v *jwtChecker) key(ctx context.Context, r *result, t *jwt.Token, claims jwt.MapClaims) (any, error) {
	issuer, _ := claims["iss"].(string)
	r.source = v.sources[issuer]
	id, hasID := t.Header["kid"]
	kid, isText := id.(string)
	_, critical := t.Header["crit"]
	switch {
	case critical, hasID && !isText:
		return nil, errHeader
	case r.source == nil:
		return nil, errIssuer
	case !slices.Contains(r.source.issuer.Algorithms, t.Method.Alg()):
		return nil, errMethod
	}
	if r.set = r.source.set.Load(); r.set != nil {
		if found, err := r.set.find(kid, hasID, t.Method.Alg()); !errors.Is(err, errNoKey) {
			return found, err
		}
	}
	stale := r.source.fresh(ctx)
	if r.set = r.source.set.Load(); r.set != nil {
		// While the issuer cannot be asked, nobody knows whether it has such a key by now.
		if found, err := r.set.find(kid, hasID, t.Method.Alg()); stale == nil || err == nil {
			return found, err
		}
	}
	return nil, fence.Wrap(fence.CodeUnavailable, stale, "the keys of the JWT's issuer cannot be had at present")
}

// subject makes a principal of the claims.
func (v *jwtChecker) subject(i *Issuer, claims jwt.MapClaims, text string) (*Principal, error) {
	audience, err := claims.GetAudience()
	if err != nil || !slices.ContainsFunc(audience, func(a string) bool { return slices.Contains(i.Audience, a) }) {
		return nil, fence.Errorf(fence.CodeUnauthenticated, "the JWT is for another audience")
	}
	subject, _ := claims["sub"].(string)
	p := v.policy.Subject(i.Name + subjectMark + subject)
	if p == nil {
		return nil, fence.Errorf(fence.CodeUnauthenticated,
			"the JWT's claim sub names nobody: issuer and subject are a principal's name, at most %d bytes without control characters", maxName)
	}
	if i.RoleClaim != "" && p.identity.Role == "" {
		role, isText := claims[i.RoleClaim].(string)
		if !isText || !slices.Contains(i.Roles, role) {
			return nil, fence.Errorf(fence.CodeForbidden, "the JWT's claim %s names no database role that is allowed here", i.RoleClaim)
		}
		p.identity.Role = role
	}
	p.identity.Claims = text
	return p, nil
}

// times reads when the JWT is good. A JWT that never ends is refused.
func (r *result) times(claims jwt.MapClaims) error {
	until, hasEnd, err := numericDate(claims, "exp")
	if err == nil && !hasEnd {
		err = errNoEnd
	}
	if err != nil {
		return err
	}
	leeway := r.source.issuer.Leeway
	r.until = until.Add(leeway)
	for _, name := range []string{"nbf", "iat"} {
		from, given, err := numericDate(claims, name)
		if err != nil {
			return err
		}
		if from = from.Add(-leeway); given && from.After(r.from) {
			r.from = from
		}
	}
	return nil
}

// numericDate reads seconds since 1970 up to the year 9999.
func numericDate(claims jwt.MapClaims, name string) (at time.Time, given bool, err error) {
	value, given := claims[name]
	if !given {
		return time.Time{}, false, nil
	}
	const last = 253402300799
	number, _ := value.(json.Number)
	seconds, err := number.Float64()
	if err != nil || seconds < 0 || seconds > last {
		return time.Time{}, true, fmt.Errorf("%s is no time", name)
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true, nil
}
