package pgstore_test

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/fence"
)

// TestRule holds fence.Decide and fence.admit_resource together: random sequences of grants, blocks, ends and writes
// get the same verdicts from both, and leave the same mark. rapid prints the seed and a shrunken sequence.
func TestRule(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		lease, resource := fmt.Sprintf("l%d", run), fmt.Sprintf("rows/public.r/%d", run)
		var (
			grant *fence.Grant
			mark  fence.Mark
			seen  = []fence.Token{1, fence.MaxToken}
			n     int
		)
		certify := func(t *rapid.T) {
			if grant != nil && rapid.IntRange(0, 4).Draw(t, "keep") > 0 {
				return // mostly writes of one grant, so that marks are met
			}
			n++
			var floor fence.Token
			if grant != nil {
				floor = grant.First()
			}
			g, err := w.Certify(ctx, fence.Certificate{Lease: lease, Principal: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "principal"), Holder: "h",
				Acquire: fence.DigestOf(fmt.Sprint(run, n)), TTL: 1e9, Floor: floor})
			if err != nil {
				t.Fatal(err)
			}
			grant = g
			seen = append(seen, g.First(), g.First()+1, g.Last(), g.First()-1, g.Last()+1)
		}
		write := func(t *rapid.T) {
			principals := []string{"p", "q"}
			if grant != nil {
				principals = append(principals, grant.Principal, grant.Principal)
			}
			x := fence.Write{
				Token:     rapid.OneOf(rapid.SampledFrom(seen), rapid.SampledFrom([]fence.Token{mark.Token - 1, mark.Token, mark.Token + 1, mark.Token + 2})).Draw(t, "token"),
				Principal: rapid.SampledFrom(principals).Draw(t, "principal"),
				Digest:    fence.DigestOf(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "digest")),
			}
			if rapid.IntRange(0, 3).Draw(t, "match") == 0 {
				x.If.Match = []fence.Token{rapid.SampledFrom([]fence.Token{0, mark.Token, 7}).Draw(t, "if-match")}
			}
			if rapid.IntRange(0, 3).Draw(t, "none-match") == 0 {
				x.If.NoneMatch = []fence.Token{rapid.SampledFrom([]fence.Token{0, mark.Token, 7}).Draw(t, "if-none-match")}
			}
			if !x.Token.Valid() {
				return
			}
			want := fence.Decide(grant, mark, x)
			var got string
			var gotMark int64
			err := w.db.QueryRow(ctx, "SELECT code, mark FROM fence.admit_resource($1, $2, $3, $4, $5, $6, $7)", resource, lease, int64(x.Token),
				x.Principal, x.Digest[:], tokens(x.If.Match), tokens(x.If.NoneMatch)).Scan(&got, &gotMark)
			if err != nil {
				t.Fatal(err)
			}
			if want == fence.CodeAccepted {
				if x.Token <= mark.Token {
					t.Fatalf("I1: accepted %d after %d", x.Token, mark.Token)
				}
				mark = fence.Mark{Token: x.Token, Principal: x.Principal, Digest: x.Digest}
			}
			if got != string(want) || gotMark != int64(mark.Token) {
				t.Fatalf("the ledger says %s with mark %d, Decide %s with mark %d: %+v, grant %+v", got, gotMark, want, mark.Token, x, grant)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"certify": certify,
			"more": func(t *rapid.T) {
				if grant == nil || grant.Ended != "" {
					return
				}
				g, err := w.More(ctx, lease, fence.GrantRef{Acquire: grant.Acquire})
				if err != nil {
					t.Fatal(err)
				}
				grant = g
				seen = append(seen, g.Last(), g.Last()+1)
			},
			"end": func(t *rapid.T) {
				if grant == nil || rapid.IntRange(0, 9).Draw(t, "keep") > 0 {
					return
				}
				g, err := w.End(ctx, lease, fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndReleased})
				if err != nil {
					t.Fatal(err)
				}
				grant = g
			},
			"write":  write,
			"write2": write,
			"write3": write,
		})
	})
}

func tokens(list []fence.Token) []int64 {
	var out []int64
	for _, t := range list {
		out = append(out, int64(t))
	}
	return out
}
