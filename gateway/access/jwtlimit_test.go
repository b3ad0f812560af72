package access_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/fencegate/fencegate/gateway/access"
)

// Wrong tokens count as wrong secrets do, and keep nobody out who has a right one.
func TestLimitOfJWTs(t *testing.T) {
	key := edKey(t)
	p := newIDP(t, jwk(t, key, "1", ""))
	c := &clock{}
	c.at.Store(time.Now().UnixNano())
	start := func(t *testing.T) (login, *clock) {
		cfg, _ := impatient(t, issuerAt(p.URL, fmt.Sprintf(pair, sum("secret-a"), sum("secret-b"))))
		cfg.Burst, cfg.KeysEvery, cfg.KeysPause, cfg.Now = 0, time.Hour, time.Hour, c.now
		l := login{t, authenticator(t, cfg)}
		t.Cleanup(l.Close)
		return l, c
	}
	of := func(sub string, changes jwt.MapClaims) string {
		claims := claimsAt(c.now(), changes)
		claims["sub"] = sub
		return sign(t, key, "EdDSA", "1", claims)
	}
	forged := func(n int) string {
		return sign(t, edKey(t), "EdDSA", "1", claimsAt(c.now(), jwt.MapClaims{"n": n}))
	}
	good, expired := of("alice", nil), of("alice", jwt.MapClaims{"exp": c.now().Add(-time.Hour).Unix()})

	t.Run("RefusesWrongOnes", func(t *testing.T) {
		l, _ := start(t)
		for n := range 10 {
			l.expect(wrong, here, forged(n))
		}
		l.expect(tooMany, here, forged(10))
		l.expect(tooMany, here, "secret-a")
		l.expect(wrong, "192.0.2.9:1", forged(11))
		if l.Failed() != 11 || l.Limited() != 2 {
			t.Errorf("%d failed, %d limited", l.Failed(), l.Limited())
		}
	})
	t.Run("ServesRightOnes", func(t *testing.T) {
		l, _ := start(t)
		l.guess(here)
		l.expect(tooMany, here, "secret-a")
		l.expect(ok, here, good)
		l.expect(ok, here, of("bob", nil))
		l.expect(tooMany, here, forged(0))
	})
	t.Run("TellsWhenATokenEnds", func(t *testing.T) {
		l, _ := start(t)
		l.guess(here)
		for range 30 {
			l.expect(wrong, here, expired)
		}
		l.expect(ok, here, good)
	})
	t.Run("ExpiredOnesUseUpNothing", func(t *testing.T) {
		l, _ := start(t)
		for range 30 {
			l.expect(wrong, here, expired)
		}
		l.expect(ok, here, "secret-a")
		l.guess(here)
	})
	t.Run("EndsWhileItIsRemembered", func(t *testing.T) {
		l, c := start(t)
		token := of("alice", jwt.MapClaims{"exp": c.now().Add(10 * time.Second).Unix()})
		l.expect(ok, here, token)
		c.advance(41 * time.Second)
		l.expect(wrong, here, token)
		c.advance(-41 * time.Second)
		l.expect(ok, here, token)
	})
	t.Run("BrokenClientLeavesRoomForOthers", func(t *testing.T) {
		l, _ := start(t)
		token := of("alice", jwt.MapClaims{"aud": "another"})
		for range 10 {
			l.expect(wrong, here, token)
		}
		for range 20 {
			l.expect(tooMany, here, token)
		}
		l.expect(ok, here, "secret-b")
	})
	t.Run("AtOnce", func(t *testing.T) {
		l, _ := start(t)
		l.expect(ok, here, good)
		var tokens []string
		for n := range 60 {
			tokens = append(tokens, forged(n))
		}
		var wg sync.WaitGroup
		for _, token := range tokens {
			wg.Go(func() { _, _ = l.Authenticate(request(here, "Bearer "+token)) })
		}
		wg.Wait()
		if l.Failed() != 10 || l.Limited() != 50 {
			t.Errorf("%d failed, %d limited", l.Failed(), l.Limited())
		}
	})
}

// Under -race: whoever comes with a right token while the policy changes is let in.
func TestReplaceUnderLoadOfJWTs(t *testing.T) {
	key := edKey(t)
	p := newIDP(t, jwk(t, key, "1", ""))
	file := issuerAt(p.URL, "")
	cfg, _ := impatient(t, file)
	a := authenticator(t, cfg)
	t.Cleanup(a.Close)
	policies := []*access.Policy{policy(t, file), policy(t, issuerAt(p.URL, "    leeway: 1s\n"))}
	var wg sync.WaitGroup
	for worker := range 4 {
		token := sign(t, key, "EdDSA", "1", claimsAt(time.Now(), jwt.MapClaims{"n": worker}))
		wg.Go(func() {
			for range 200 {
				if got := codeOf(a, token); got != ok {
					t.Error(got)
				}
			}
		})
	}
	for i := range 20 {
		a.Replace(policies[i%2])
	}
	wg.Wait()
}
