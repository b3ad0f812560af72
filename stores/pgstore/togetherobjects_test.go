package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// TestObjectsTogetherAsAlone is TestTogetherAsAlone of objects: put, copied, deleted, with uploads that were given up, sources that are not there,
// and natural objects; beside writes of rows.
func TestObjectsTogetherAsAlone(t *testing.T) {
	p := newTwins(t, `SELECT fence.protect_bucket('reports', '', 'reports'); SELECT fence.protect_bucket('reports', 'kept/', 'reports');
		SELECT fence.set_options('reports', 'kept/', '{"keep":"1 day"}'); SELECT fence.protect('wallets', 'reports')`, "reports")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	token := tokenIn(p.alone, "SELECT first::text FROM fence.grants")
	for _, w := range []*world{p.together, p.alone} {
		put := objectWrite(fence.OpPut, token)
		put.Object.Key = "source"
		if _, err := w.PutObject(t.Context(), put, w.blob("source")); err != nil {
			t.Fatal(err)
		}
	}
	codes := make(map[string]int)
	wanted := []string{"accepted", "stale-token", "foreign-token", "precondition-failed", "not-found", "upload-expired"}
	for round := 0; round < 20 || round < 300 && missing(codes, wanted) != ""; round++ {
		var (
			said  []string
			calls []func(*world) answered
		)
		for range 1 + rng.IntN(10) {
			token++
			by := fence.Access{Principal: pick("p", "p", "p", "p", "p", "q"), Token: token}
			if rng.IntN(10) == 0 {
				by.Token -= 3
			}
			x := fence.ObjectWrite{Op: fence.Op(pick("put", "put", "copy", "delete")), Access: by, Natural: rng.IntN(8) == 0,
				Object: fence.ObjectName{Bucket: pick("reports", "reports", "reports", "reports", "other"), Key: pick("a", "b", "c/d", "kept/a", "kept/b", "ü e")},
				Header: fence.ObjectHeader{ContentType: pick("", "text/plain")}, KeepHeader: rng.IntN(2) == 0}
			x.From.Object = fence.ObjectName{Bucket: "reports", Key: pick("source", "source", "none")} // which no other write changes meanwhile
			switch rng.IntN(8) {
			case 0:
				x.If.Absent = true
			case 1:
				x.If.Exists = true
			case 2:
				x.If.Match = []fence.Token{0, token - 1}
			}
			body, givenUp := pick("one", "two", ""), rng.IntN(8) == 0
			said = append(said, fmt.Sprintf("%+v %s %t", x, body, givenUp))
			if rng.IntN(6) == 0 {
				row := patch("wallets", "42", fmt.Sprintf(`{"balance":%d}`, token), by.Token)
				calls = append(calls, func(w *world) answered {
					r, err := w.WriteRow(context.Background(), row)
					return answerOf(r, fence.Object{}, err)
				})
				continue
			}
			calls = append(calls, func(w *world) answered {
				ctx := context.Background()
				var (
					o   fence.Object
					err error
				)
				switch x.Op {
				case fence.OpPut:
					blob := w.blob(body)
					if givenUp {
						blob.ID = "00000000-0000-0000-0000-000000000000"
					}
					o, err = w.PutObject(ctx, x, blob)
				case fence.OpCopy:
					o, err = w.CopyObject(ctx, x)
				default:
					o, err = w.DeleteObject(ctx, x)
				}
				return answerOf(fence.Row{}, o, err)
			})
		}
		for _, a := range p.play(calls, func(i int) string { return said[i] }) {
			codes[a.Code]++
		}
	}
	t.Logf("%v, %+v", codes, p.together.Stats().Batches)
	if code := missing(codes, wanted); code != "" {
		t.Errorf("no write was %s", code)
	}
	p.same("SELECT string_agg(concat_ws(' ', bucket, key, size, encode(sha256, 'hex'), etag, header, deleted, token), ';' ORDER BY bucket, key) FROM fence.objects")
	p.same("SELECT coalesce(string_agg(concat_ws(' ', bucket, key, size, token, superseded_by), ';' ORDER BY bucket, key, token), '') FROM fence.versions")
	p.same("SELECT string_agg(concat_ws(' ', resource, token, lease, principal, encode(digest, 'hex'), created), ';' ORDER BY resource) FROM fence.marks")
	p.same("SELECT string_agg(concat_ws(' ', state, n), ';' ORDER BY state) FROM (SELECT state, count(*) AS n FROM fence.blobs WHERE state <> 'pending' GROUP BY state) s")
}
