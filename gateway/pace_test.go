package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

func TestPace(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	t.Run("RefusalsAreNoDraws", func(t *testing.T) {
		p, err := newPace(1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.check("ann", start); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := p.check("ann", start); fence.CodeOf(err) != fence.CodeRateLimited {
				t.Fatal(err)
			}
		}
		if err := p.check("ann", start.Add(time.Second)); err != nil {
			t.Error("whoever was refused often waits longer:", err)
		}
	})
	t.Run("BurstOfTenSeconds", func(t *testing.T) {
		p, err := newPace(0.25, 0)
		if err != nil {
			t.Fatal(err)
		}
		let := 0
		for p.check("ann", start) == nil {
			let++
		}
		if let != 3 {
			t.Errorf("%d at once, want 2.5 rounded up", let)
		}
	})
	t.Run("PrincipalsAreForgotten", func(t *testing.T) {
		p, err := newPace(1, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range maxPaced + 100 {
			if err := p.check(fmt.Sprint(i), start); err != nil {
				t.Fatal(err)
			}
			if i >= maxPaced/2 && fence.CodeOf(p.check("busy", start)) != fence.CodeRateLimited && i > maxPaced/2 {
				t.Fatalf("whoever is busy was forgotten after %d others", i)
			}
		}
		if n := p.paced.Len(); n > maxPaced {
			t.Errorf("%d principals are remembered", n)
		}
	})
}
