package pgstore_test

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/fence"
)

// ruled is a lease of TestBatchRule and a resource that it protects, as the test knows them.
type ruled struct {
	lease, resource string
	grant           *fence.Grant
	mark            fence.Mark
	seen            []fence.Token
}

// TestBatchRule holds fence.Decide and fence.admit_batch together: random batches of writes get the verdicts that each of their writes
// would get alone, and leave the marks that it would leave.
func TestBatchRule(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	run, batches := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		all := make([]*ruled, 5)
		for i := range all {
			all[i] = &ruled{lease: fmt.Sprintf("b%d/%d", run, i/2), resource: fmt.Sprintf("rows/public.wallets/%d-%d", run, i), seen: []fence.Token{1, fence.MaxToken}}
		}
		grants := make(map[string]*fence.Grant)
		certify := func(t *rapid.T) {
			r := rapid.SampledFrom(all).Draw(t, "of")
			var floor fence.Token
			if g := grants[r.lease]; g != nil {
				floor = g.First()
			}
			g, err := w.Certify(ctx, fence.Certificate{Lease: r.lease, Principal: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "principal"), Holder: "h",
				Acquire: fence.DigestOf(fmt.Sprint(run, floor)), TTL: 1e9, Floor: floor})
			if err != nil {
				t.Fatal(err)
			}
			grants[r.lease] = g
			for _, other := range all {
				if other.lease == r.lease {
					other.grant, other.seen = g, append(other.seen, g.First(), g.First()+1, g.Last(), g.First()-1, g.Last()+1)
				}
			}
		}
		send := func(t *rapid.T) {
			var (
				batch  batchArgs
				wants  []fence.Code
				chosen []*ruled
				writes []fence.Write
			)
			for _, r := range all {
				if rapid.IntRange(0, 2).Draw(t, "leave out") == 0 {
					continue
				}
				x := drawWrite(t, r)
				if !x.Token.Valid() {
					continue
				}
				batch.add(r.resource, r.lease, x)
				wants, chosen, writes = append(wants, fence.Decide(r.grant, r.mark, x)), append(chosen, r), append(writes, x)
			}
			if len(wants) == 0 {
				return
			}
			batches++
			got, err := batch.admit(w)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range wants {
				r, x := chosen[i], writes[i]
				if want == fence.CodeAccepted {
					r.mark = fence.Mark{Token: x.Token, Principal: x.Principal, Digest: x.Digest}
				}
				v, named := got[i+1]
				if !named {
					v.code, v.mark = string(fence.CodeAccepted), int64(x.Token)
				}
				if v.code != string(want) || v.mark != int64(r.mark.Token) {
					t.Fatalf("write %d of %d: the ledger says %s with mark %d, Decide %s with mark %d: %+v, grant %+v", i+1, len(wants), v.code, v.mark, want, r.mark.Token, x, r.grant)
				}
				if stored := w.text("SELECT coalesce((SELECT m.token || ' ' || m.principal FROM fence.marks m WHERE m.resource = $1), '0')", r.resource); stored != markText(r.mark) {
					t.Fatalf("the mark is %s, want %s", stored, markText(r.mark))
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"certify": certify,
			"end": func(t *rapid.T) {
				r := rapid.SampledFrom(all).Draw(t, "of")
				if r.grant == nil || rapid.IntRange(0, 4).Draw(t, "keep") > 0 {
					return
				}
				g, err := w.End(ctx, r.lease, fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndReleased})
				if err != nil {
					t.Fatal(err)
				}
				for _, other := range all {
					if other.lease == r.lease {
						other.grant = g
					}
				}
			},
			"send": send, "send2": send, "send3": send,
		})
	})
	t.Logf("%d batches", batches)
}

func markText(m fence.Mark) string {
	if m.Token == 0 {
		return "0"
	}
	return fmt.Sprint(m.Token, " ", m.Principal)
}

func drawWrite(t *rapid.T, r *ruled) fence.Write {
	principals := []string{"p", "q"}
	if r.grant != nil {
		principals = append(principals, r.grant.Principal, r.grant.Principal)
	}
	x := fence.Write{
		Token:     rapid.OneOf(rapid.SampledFrom(r.seen), rapid.SampledFrom([]fence.Token{r.mark.Token - 1, r.mark.Token, r.mark.Token + 1, r.mark.Token + 2})).Draw(t, "token"),
		Principal: rapid.SampledFrom(principals).Draw(t, "principal"),
		Digest:    fence.DigestOf(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "digest")),
	}
	if rapid.IntRange(0, 5).Draw(t, "match") == 0 {
		x.If.Match = []fence.Token{rapid.SampledFrom([]fence.Token{0, r.mark.Token, 7}).Draw(t, "if-match")}
	}
	if rapid.IntRange(0, 5).Draw(t, "none-match") == 0 {
		x.If.NoneMatch = []fence.Token{rapid.SampledFrom([]fence.Token{0, r.mark.Token, 7}).Draw(t, "if-none-match")}
	}
	return x
}

// batchArgs are the arguments of fence.admit_batch about writes of the table wallets.
type batchArgs struct {
	of                   []int32
	resources, leases    []string
	tokens               []int64
	principals           []string
	digests              [][]byte
	matches, noneMatches []*string
}

func (b *batchArgs) add(resource, lease string, x fence.Write) {
	b.of, b.resources, b.leases = append(b.of, 1), append(b.resources, resource), append(b.leases, lease)
	b.tokens, b.principals, b.digests = append(b.tokens, int64(x.Token)), append(b.principals, x.Principal), append(b.digests, x.Digest[:])
	b.matches, b.noneMatches = append(b.matches, arrayText(x.If.Match)), append(b.noneMatches, arrayText(x.If.NoneMatch))
}

func arrayText(tokens []fence.Token) *string {
	if tokens == nil {
		return nil
	}
	text := fmt.Sprintf("{%d}", tokens[0])
	return &text
}

type batchVerdict struct {
	code string
	mark int64
}

// admit calls fence.admit_batch and returns what it says of writes, by their places.
func (b *batchArgs) admit(w *world) (map[int]batchVerdict, error) {
	rows, err := w.db.Query(context.Background(), `SELECT a.item, coalesce((a.verdict).code, ''), coalesce((a.verdict).mark, 0) FROM
		(SELECT p.version, c.oid, c.xmin::text AS shape FROM fence.protected p JOIN pg_class c ON c.oid = p.name::regclass WHERE p.name = 'public.wallets') t,
		LATERAL fence.admit_batch('{rows/public.wallets}', ARRAY[t.version], ARRAY[t.oid], ARRAY[t.shape], 250, true, $1, $2, $3, $4, $5, $6, $7, $8) a`,
		b.of, b.resources, b.leases, b.tokens, b.principals, b.digests, b.matches, b.noneMatches)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	got := make(map[int]batchVerdict)
	for rows.Next() {
		var (
			item int
			v    batchVerdict
		)
		if err := rows.Scan(&item, &v.code, &v.mark); err != nil {
			return nil, err
		}
		if item > 0 {
			got[item] = v
		}
	}
	return got, rows.Err()
}
