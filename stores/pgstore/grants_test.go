package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func TestCertify(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c := fence.Certificate{Lease: "}x/日本", Principal: "p", Holder: "h", Acquire: fence.AcquireDigest("p", "1"), TTL: 3e10}
	g, err := w.Certify(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.ID) != 64 || g.Last()-g.First() != 999 || g.First()%1000 != 0 || g.Holder != "h" || g.TTL != c.TTL {
		t.Errorf("grant %+v", g)
	}
	t.Run("RepeatedGivesTheSameGrant", func(t *testing.T) {
		again, err := w.Certify(ctx, c) // the floor is old by now
		if err != nil || again.ID != g.ID || again.First() != g.First() {
			t.Errorf("%+v %v", again, err)
		}
	})
	t.Run("OtherHolderOrTTL", func(t *testing.T) {
		other := c
		other.Holder = "x"
		_, err := w.Certify(ctx, other)
		wantCode(t, err, fence.CodeInvalidRequest)
		other = c
		other.TTL = 1e9
		_, err = w.Certify(ctx, other)
		wantCode(t, err, fence.CodeInvalidRequest)
	})
	t.Run("VoidOnAnOldFloor", func(t *testing.T) {
		late := c
		late.Acquire = fence.AcquireDigest("q", "1")
		if _, err := w.Certify(ctx, late); !errors.Is(err, fence.ErrVoid) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("HeldByTheIDOnly", func(t *testing.T) {
		if _, err := w.Held(ctx, c.Lease, fence.GrantRef{ID: g.ID, Principal: "p"}); err != nil {
			t.Error(err)
		}
		_, err := w.Held(ctx, c.Lease, fence.GrantRef{ID: g.ID, Principal: "q"})
		wantCode(t, err, fence.CodeLeaseLost)
		_, err = w.Held(ctx, c.Lease, fence.GrantRef{ID: "x", Principal: "p"})
		wantCode(t, err, fence.CodeLeaseLost)
		_, err = w.Held(ctx, c.Lease, fence.GrantRef{})
		wantCode(t, err, fence.CodeLeaseLost)
	})
	t.Run("EndedOnce", func(t *testing.T) {
		ref := fence.GrantRef{ID: g.ID, Principal: "p"}
		_, err := w.End(ctx, c.Lease, fence.GrantRef{ID: "x", Principal: "p"}, fence.Ending{Why: fence.EndReleased})
		wantCode(t, err, fence.CodeLeaseLost)
		for _, why := range []string{fence.EndReleased, fence.EndBroken} {
			ended, err := w.End(ctx, c.Lease, ref, fence.Ending{Why: why})
			if err != nil || ended.Ended != fence.EndReleased || ended.Acquire != c.Acquire {
				t.Errorf("%+v %v", ended, err)
			}
		}
		_, err = w.More(ctx, c.Lease, ref)
		wantCode(t, err, fence.CodeLeaseLost)
		_, err = w.Held(ctx, c.Lease, ref)
		wantCode(t, err, fence.CodeLeaseLost)
		_, err = w.Certify(ctx, c)
		wantCode(t, err, fence.CodeGrantEnded)
	})
	if n, err := w.Newest(ctx, "never"); n != nil || err != nil {
		t.Errorf("%+v %v", n, err)
	}
}

// A second block for A, drawn after B's grant, would let A spend B's tokens: it is refused (I4).
func TestMoreTokens(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a := w.grant("wallet:42", "a", "1")
	w.grant("other", "b", "1")
	more, err := w.More(ctx, "wallet:42", fence.GrantRef{ID: a.ID, Principal: "a"})
	if err != nil || len(more.Blocks) != 2 || more.First() != a.First() {
		t.Fatalf("%+v %v", more, err)
	}
	between := patch("wallets", "42", `{"balance": 1}`, a.Last()+1) // the other lease's block
	between.Principal = "a"
	_, err = w.WriteRow(ctx, between)
	wantCode(t, err, fence.CodeUnissuedToken)
	between.Token = more.Last()
	_, err = w.WriteRow(ctx, between)
	wantCode(t, err, fence.CodeAccepted)
	b := w.grant("wallet:42", "b", "1")
	_, err = w.More(ctx, "wallet:42", fence.GrantRef{ID: a.ID, Principal: "a"})
	wantCode(t, err, fence.CodeLeaseLost)
	between.Token = b.First()
	_, err = w.WriteRow(ctx, between)
	wantCode(t, err, fence.CodeForeignToken)
}

func TestConcurrentBlocksNeverOverlap(t *testing.T) {
	w := newWorld(t)
	var (
		mu     sync.Mutex // guards blocks
		blocks []fence.Block
		wg     sync.WaitGroup
	)
	for i := range 8 {
		wg.Go(func() {
			for j := range 25 {
				lease := fmt.Sprintf("l%d", (i+j)%16)
				g, err := func() (*fence.Grant, error) {
					floor := fence.Token(0)
					if newest, err := w.Newest(context.Background(), lease); err != nil {
						return nil, err
					} else if newest != nil {
						floor = newest.First()
					}
					return w.Certify(context.Background(), fence.Certificate{Lease: lease, Principal: "p", Holder: "h",
						Acquire: fence.DigestOf(fmt.Sprint(i, j)), TTL: 1e9, Floor: floor})
				}()
				if errors.Is(err, fence.ErrVoid) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				all := g.Blocks
				if m, err := w.More(context.Background(), lease, fence.GrantRef{Acquire: g.Acquire}); err == nil {
					all = m.Blocks
				}
				mu.Lock()
				blocks = append(blocks, all...)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	sort.Slice(blocks, func(i, j int) bool { return blocks[i].First < blocks[j].First })
	for i := 1; i < len(blocks); i++ {
		if blocks[i].First <= blocks[i-1].Last {
			t.Fatalf("I4: blocks %v and %v overlap", blocks[i-1], blocks[i])
		}
	}
	if len(blocks) < 100 {
		t.Errorf("only %d blocks", len(blocks))
	}
}

func TestMigrate(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	if done, err := pgstore.Migrate(ctx, w.url); err != nil || len(done) != 0 {
		t.Errorf("applied again: %v %v", done, err)
	}
	list, err := pgstore.MigrationStatus(ctx, w.url)
	if err != nil || len(list) == 0 || !list[len(list)-1].Applied {
		t.Errorf("%v %v", list, err)
	}
}
