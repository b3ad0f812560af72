package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// draw takes n tokens and checks that they ascend from the one before.
func draw(t *testing.T, tokens *Tokens, n int, last fence.Token) fence.Token {
	t.Helper()
	for range n {
		token, err := tokens.Next(t.Context())
		if err != nil {
			t.Fatalf("behind %d: %v", last, err)
		}
		if token <= last {
			t.Fatalf("%d comes behind %d", token, last)
		}
		last = token
	}
	return last
}

func TestTokens(t *testing.T) {
	keepTest(t, "EachOnceAcrossBlocks", func(t *testing.T, f *keepFake) {
		k := f.kept()
		defer k.Close()
		// The first is Token's; the blocks of the fake are adjacent.
		if last := draw(t, k.Tokens(), 5000, k.Token()); last != 6000 {
			t.Errorf("the last is %d", last)
		}
	})
	keepTest(t, "BlocksAreNoRange", func(t *testing.T, f *keepFake) {
		tokens := NewTokens(f, &Held{Grant: fence.Grant{Blocks: []fence.Block{{First: 1000, Last: 1001}, {First: 7000, Last: 7999}}}})
		defer tokens.Close()
		var got []fence.Token
		for range 4 {
			token, err := tokens.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, token)
		}
		if got[0] != 1000 || got[1] != 1001 || got[2] != 7000 || got[3] != 7001 {
			t.Errorf("got %v", got)
		}
	})
	keepTest(t, "MoreAreAskedForBeforeTheyRunOut", func(t *testing.T, f *keepFake) {
		asked := 0
		f.more = func(context.Context) error { asked++; return nil }
		k := f.kept()
		defer k.Close()
		last := draw(t, k.Tokens(), 899, 1000)
		if synctest.Wait(); asked != 0 {
			t.Errorf("asked %d times with 100 left", asked)
		}
		draw(t, k.Tokens(), 1, last)
		if synctest.Wait(); asked != 1 {
			t.Errorf("asked %d times with 99 left", asked)
		}
	})
	keepTest(t, "NobodyWaitsWhileSomeAreLeft", func(t *testing.T, f *keepFake) {
		asked := 0
		f.more = func(ctx context.Context) error { asked++; <-ctx.Done(); return ctx.Err() }
		k := f.kept()
		defer k.Close()
		if draw(t, k.Tokens(), 999, 1000); f.at() != 0 {
			t.Errorf("it took %v", f.at())
		}
		if synctest.Wait(); asked != 1 {
			t.Errorf("%d requests for more at once", asked)
		}
		if _, err := k.Tokens().Next(t.Context()); !errors.Is(err, context.DeadlineExceeded) || f.at() != moreFor {
			t.Errorf("with none left: %v after %v", err, f.at())
		}
	})
	keepTest(t, "ARefusalIsTold", func(t *testing.T, f *keepFake) {
		f.more = func(context.Context) error { return fence.Errorf(fence.CodeLeaseLost, "gone") }
		k := f.kept()
		defer k.Close()
		draw(t, k.Tokens(), 999, 1000)
		if _, err := k.Tokens().Next(t.Context()); fence.CodeOf(err) != fence.CodeLeaseLost {
			t.Errorf("got %v", err)
		}
	})
	keepTest(t, "WaitsForASlowService", func(t *testing.T, f *keepFake) {
		tries := 0
		f.more = func(context.Context) error {
			if tries++; tries < 4 {
				return fence.Errorf(fence.CodeOverloaded, "busy")
			}
			time.Sleep(time.Second)
			return nil
		}
		k := f.kept()
		defer k.Close()
		draw(t, k.Tokens(), 1500, 1000)
	})
	keepTest(t, "TheWaitIsTheCallers", func(t *testing.T, f *keepFake) {
		f.more = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		k := f.kept()
		draw(t, k.Tokens(), 999, 1000)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := k.Tokens().Next(ctx); !errors.Is(err, context.DeadlineExceeded) || f.at() != time.Second {
			t.Errorf("got %v after %v", err, f.at())
		}
		if k.Close(); f.at() != time.Second {
			t.Errorf("closing took until %v", f.at())
		}
		if _, err := k.Tokens().Next(t.Context()); !errors.Is(err, ErrReleased) {
			t.Errorf("after it was closed: %v", err)
		}
	})
	keepTest(t, "ALossEndsTheWait", func(t *testing.T, f *keepFake) {
		f.renew = keepAway
		f.more = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		k := f.kept()
		defer k.Close()
		time.Sleep(22 * time.Second)
		draw(t, k.Tokens(), 999, 1000)
		if _, err := k.Tokens().Next(t.Context()); lossOf(err) == nil || f.at() >= keepTTL {
			t.Errorf("got %v after %v", err, f.at())
		}
	})
}

func TestTokensAreNeverHandedOutTwice(t *testing.T) {
	t.Parallel()
	f := newKeepFake(t)
	f.more = func(context.Context) error { time.Sleep(time.Millisecond); return nil }
	tokens := NewTokens(f, f.grant())
	defer tokens.Close()
	var all sync.WaitGroup
	var seen sync.Map
	for range 16 {
		all.Go(func() {
			for range 1000 {
				token, err := tokens.Next(t.Context())
				if _, twice := seen.LoadOrStore(token, true); twice || err != nil {
					t.Errorf("token %d, twice: %v, %v", token, twice, err)
					return
				}
				if token%50 == 0 {
					tokens.add(f.grant().Blocks) // as each renewal does
				}
			}
		})
	}
	all.Wait()
}
