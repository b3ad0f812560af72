package access_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/access"
)

const pair = "principals:\n  - {name: a, secret_sha256: %s}\n  - {name: b, secret_sha256: %s}\n"

// clock is set by the test.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

type login struct {
	*testing.T
	*access.Authenticator
}

// expect logs in and compares what comes of it: "ok" or a code.
func (l login) expect(want fence.Code, from, secret string) {
	l.Helper()
	_, err := l.Authenticate(request(from, "Bearer "+secret))
	if got := fence.CodeOf(err); got != want {
		l.Fatalf("%s from %s: %s, want %s", secret, from, got, want)
	}
}

func limited(t *testing.T) (login, *clock) {
	c := &clock{}
	p := policy(t, fmt.Sprintf(pair, sum("secret-a"), sum("secret-b")))
	return login{t, authenticator(t, access.Config{Policy: p, Now: c.now})}, c
}

const (
	ok      = fence.CodeAccepted
	wrong   = fence.CodeUnauthenticated
	tooMany = fence.CodeRateLimited
	here    = "192.0.2.1:1"
)

// guess uses up the failures of an address.
func (l login) guess(from string) {
	l.Helper()
	for i := range 10 {
		l.expect(wrong, from, fmt.Sprint("guess-", i))
	}
}

func TestLimit(t *testing.T) {
	t.Run("RefusesWithoutLooking", func(t *testing.T) {
		l, _ := limited(t)
		l.guess(here)
		l.expect(tooMany, here, "guess-10")
		l.expect(tooMany, here, "secret-a")
		if l.Failed() != 10 || l.Limited() != 2 {
			t.Errorf("%d failed, %d limited", l.Failed(), l.Limited())
		}
	})
	t.Run("SaysWhenToComeAgain", func(t *testing.T) {
		l, c := limited(t)
		l.guess(here)
		c.advance(2 * time.Second)
		_, err := l.Authenticate(request(here, "Bearer secret-a"))
		var e *fence.Error
		if !errors.As(err, &e) || (e.Remaining-4*time.Second).Abs() > time.Millisecond {
			t.Fatalf("%+v", e)
		}
		c.advance(e.Remaining + time.Millisecond)
		l.expect(ok, here, "secret-a")
	})
	t.Run("OneMoreGuessEvery6s", func(t *testing.T) {
		l, c := limited(t)
		l.guess(here)
		c.advance(6001 * time.Millisecond)
		l.expect(wrong, here, "guess-10")
		l.expect(tooMany, here, "guess-11")
	})
	t.Run("ServesWhoHasSucceeded", func(t *testing.T) {
		l, _ := limited(t)
		l.expect(ok, here, "secret-a")
		l.guess(here)
		l.expect(tooMany, here, "guess-10")
		l.expect(ok, here, "secret-a")
		l.expect(tooMany, here, "secret-b")
	})
	t.Run("SuccessUsesUpNothing", func(t *testing.T) {
		l, _ := limited(t)
		for range 30 {
			l.expect(ok, here, "secret-a")
		}
		l.guess(here)
	})
	t.Run("BrokenClientLeavesRoomForOthers", func(t *testing.T) {
		l, _ := limited(t)
		for range 10 {
			l.expect(wrong, here, "stale")
		}
		for range 100 {
			l.expect(tooMany, here, "stale")
		}
		l.expect(ok, here, "secret-b")
	})
	t.Run("OtherAddressesAreServed", func(t *testing.T) {
		l, _ := limited(t)
		l.guess(here)
		l.expect(ok, "192.0.2.2:1", "secret-a")
		l.expect(tooMany, "192.0.2.1:2", "secret-a")
		l.expect(tooMany, "[::ffff:192.0.2.1]:2", "secret-a")
	})
	t.Run("IPv6By64", func(t *testing.T) {
		l, _ := limited(t)
		l.guess("[2001:db8::1]:1")
		l.expect(tooMany, "[2001:db8::ffff:1]:1", "secret-a")
		l.expect(tooMany, "[2001:db8::2%eth0]:1", "secret-a")
		l.expect(ok, "[2001:db8:0:1::1]:1", "secret-a")
	})
	t.Run("NoCredentialsUseUpNothing", func(t *testing.T) {
		l, _ := limited(t)
		for range 30 {
			if _, err := l.Authenticate(request(here)); fence.CodeOf(err) != wrong {
				t.Fatal(err)
			}
			if _, err := l.Authenticate(request(here, "Basic x")); fence.CodeOf(err) != wrong {
				t.Fatal(err)
			}
		}
		l.guess(here)
	})
	t.Run("AddressesAreForgotten", func(t *testing.T) {
		p := policy(t, fmt.Sprintf(pair, sum("secret-a"), sum("secret-b")))
		l := login{t, authenticator(t, access.Config{Policy: p, Addresses: 2, Now: new(clock).now})}
		l.guess(here)
		l.expect(ok, "192.0.2.2:1", "secret-a")
		l.expect(tooMany, here, "secret-a")
		l.expect(ok, "192.0.2.3:1", "secret-a")
		l.expect(tooMany, here, "secret-a")
		l.expect(ok, "192.0.2.4:1", "secret-a")
		l.expect(ok, "192.0.2.5:1", "secret-a")
		l.expect(ok, here, "secret-a")
	})
}

// Of many guesses at once no more are looked at than of guesses one by one.
func TestLimitHoldsAtOnce(t *testing.T) {
	l, _ := limited(t)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() { _, _ = l.Authenticate(request(here, fmt.Sprint("Bearer guess-", i))) })
	}
	wg.Wait()
	if l.Failed() != 10 || l.Limited() != 90 {
		t.Errorf("%d failed, %d limited", l.Failed(), l.Limited())
	}
}

func TestReplace(t *testing.T) {
	file := func(a, b string) *access.Policy { return policy(t, fmt.Sprintf(pair, sum(a), sum(b))) }
	t.Run("OldSecretIsGone", func(t *testing.T) {
		l, _ := limited(t)
		l.expect(ok, here, "secret-a")
		l.Replace(file("new-a", "secret-b"))
		l.expect(wrong, here, "secret-a")
		l.expect(ok, here, "new-a")
	})
	t.Run("NewSecretHasNotSucceededYet", func(t *testing.T) {
		l, _ := limited(t)
		l.expect(ok, here, "secret-a")
		l.expect(ok, here, "secret-b")
		l.guess(here)
		l.Replace(file("new-a", "secret-b"))
		l.expect(tooMany, here, "new-a")
		l.expect(ok, here, "secret-b")
	})
	t.Run("WhoWasGoneHasToSucceedAgain", func(t *testing.T) {
		l, _ := limited(t)
		l.expect(ok, here, "secret-a")
		l.guess(here)
		l.Replace(file("new-a", "secret-b"))
		l.Replace(file("secret-a", "secret-b"))
		l.expect(tooMany, here, "secret-a")
	})
	t.Run("SecretOfAnotherHasToSucceedAgain", func(t *testing.T) {
		l, _ := limited(t)
		l.expect(ok, here, "secret-a")
		l.guess(here)
		l.Replace(file("secret-b", "secret-a"))
		l.expect(tooMany, here, "secret-a")
	})
	t.Run("WrongMayBecomeRight", func(t *testing.T) {
		l, _ := limited(t)
		l.expect(wrong, here, "new-a")
		l.expect(wrong, here, "new-a")
		l.Replace(file("new-a", "secret-b"))
		l.expect(ok, here, "new-a")
	})
}

// Under -race: whoever logs in while the policy changes is served by the old or the new one, and afterwards by the new one.
func TestReplaceUnderLoad(t *testing.T) {
	l, _ := limited(t)
	policies := []*access.Policy{
		policy(t, fmt.Sprintf(pair, sum("secret-a"), sum("secret-b"))),
		policy(t, fmt.Sprintf(pair, sum("secret-a"), sum("new-b"))),
	}
	for i := range 4 {
		l.expect(ok, fmt.Sprintf("192.0.2.%d:1", i), "secret-a")
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 300 {
				from := fmt.Sprintf("192.0.2.%d:1", (worker+i)%4)
				if _, err := l.Authenticate(request(from, "Bearer secret-a")); err != nil {
					t.Error(err)
				}
				_, _ = l.Authenticate(request(from, "Bearer secret-b"))
				_, _ = l.Authenticate(request(from, "Bearer new-b"))
			}
		})
	}
	for i := range 100 {
		l.Replace(policies[i%2])
	}
	l.Replace(policies[1])
	if _, err := l.Authenticate(request("192.0.2.1:1", "Bearer secret-b")); err == nil {
		t.Error("an old secret is good after Replace has returned")
	}
	wg.Wait()
}
