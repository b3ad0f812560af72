package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// transferOf is a commit that moves money between two wallets under their own leases, and leaves a receipt.
func transferOf(from, to holding, token int, blob string) string {
	return fmt.Sprintf(`{"writes":[{"op":"patch","resource":"rows/public.wallets/21","token":%d,"body":{"balance":90}},
		{"op":"patch","resource":"rows/wallets/22","token":%d,"body":{"balance":110}},
		{"op":"put","resource":"objects/reports/transfer","blob":%q}]}`, from.Token+int64(token), to.Token+int64(token), blob)
}

func uploadOf(w *wire, body string) string {
	w.t.Helper()
	var up struct{ Blob string }
	r := w.want(201, "POST", "/v1/uploads/reports", body, "Content-Type: text/plain")
	if err := json.Unmarshal([]byte(r.body), &up); err != nil || up.Blob == "" {
		w.t.Fatalf("%v: %v", r, err)
	}
	return up.Blob
}

// TestCommit (I5, I7): rows and objects under several leases, all or nothing, exactly once whatever is lost, and sealed on each lease.
func TestCommit(t *testing.T) {
	direct, s := shared(t)
	c, w := cutHTTP(t, direct)
	from, to, report := w.acquire("wallet:21"), w.acquire("wallet:22"), w.acquire("report:transfer")
	w.want(200, "PUT", "/v1/rows/wallets/21", `{"balance":100}`, from.token(0))
	w.want(200, "PUT", "/v1/rows/wallets/22", `{"balance":100}`, to.token(0))

	// One token is too old: nothing of it happens, and the upload can be used again.
	blob := uploadOf(w, "100 moved")
	old := strings.Replace(transferOf(from, to, 1, blob), fmt.Sprint(to.Token+1), fmt.Sprint(to.Token-1), 1)
	p := w.refused(412, "stale-token", "POST", "/v1/commit", old, report.token(0))
	if fmt.Sprint(p["write"]) != "1" || p["resource"] != "rows/public.wallets/22" || p["lease"] != "wallet:22" {
		t.Errorf("%v", p)
	}
	w.refused(404, "not-found", "GET", "/v1/objects/reports/transfer", "")

	lose(t, c, w, "POST", "/v1/commit", transferOf(from, to, 1, blob), report.token(0))
	r := w.want(200, "POST", "/v1/commit", transferOf(from, to, 1, blob), report.token(0))
	var told struct {
		Results []struct {
			Op, Resource, Lease, SHA256 string
			Token, Size                 int64
			Created                     bool
			Row                         map[string]any
		}
	}
	if err := json.Unmarshal([]byte(r.body), &told); err != nil || !r.replayed() || len(told.Results) != 3 {
		t.Fatalf("%v: %v", r, err)
	}
	if a, b := told.Results[0], told.Results[2]; a.Resource != "rows/public.wallets/21" || a.Token != from.Token+1 || a.Row["balance"] != 90.0 || !b.Created || b.Size != 9 || b.Token != report.Token {
		t.Errorf("%+v", told)
	}
	if got := w.want(200, "GET", "/v1/objects/reports/transfer", ""); got.body != "100 moved" || got.header.Get("Content-Type") != "text/plain" {
		t.Errorf("%v", got)
	}
	if got := queryText(t, s.database, "SELECT string_agg(id || ':' || n, ' ' ORDER BY id) FROM (SELECT id, count(*) AS n FROM changes WHERE id IN (21, 22) GROUP BY id) c"); got != "21:2 22:2" {
		t.Errorf("changes: %s", got)
	}
	// What was published cannot be published again, nor by somebody else's object.
	w.refused(409, "upload-expired", "POST", "/v1/commit", `{"writes":[{"op":"put","resource":"objects/reports/transfer","blob":"`+blob+`"}]}`, report.token(1))

	// The holder of one of the leases has been succeeded: sealed, before the successor's first write.
	w.release(to)
	next := w.acquire("wallet:22")
	p = w.refused(412, "stale-token", "POST", "/v1/commit", fmt.Sprintf(`{"writes":[{"op":"patch","resource":"rows/wallets/21","token":%d,"body":{"balance":1}},
		{"op":"delete","resource":"rows/wallets/22","token":%d}]}`, from.Token+2, to.Token+2))
	if fmt.Sprint(p["write"]) != "1" || fmt.Sprint(p["first_token"]) != fmt.Sprint(next.Token) {
		t.Errorf("%v", p)
	}
	w.want(200, "PATCH", "/v1/rows/wallets/21", `{"balance":80}`, from.token(2))
}
