package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// The tests here and in rowoutcomes_test.go and objectoutcomes_test.go are written from the published API: which answer each
// outcome gets, on rows, objects and leases.

const rowPath1, objectPathA = "/v1/rows/wallets/1", "/v1/objects/reports/a"

// TestTokenHeader (I3): a token has one spelling, and one that nobody issued changes nothing, least of all a mark.
func TestTokenHeader(t *testing.T) {
	w, _ := shared(t)
	row, object := w.acquire("wallet:1"), w.acquire("report:a")
	w.want(200, "PATCH", rowPath1, `{"balance":1}`, row.token(0))
	w.want(201, "PUT", objectPathA, "x", object.token(0))
	for name, tt := range map[string]struct {
		status int
		code   string
		lines  []string
	}{
		"None":          {428, "token-required", nil},
		"TwoLines":      {400, "invalid-token", []string{row.token(1), row.token(1)}},
		"Empty":         {400, "invalid-token", []string{"X-Fence-Token: "}},
		"Plus":          {400, "invalid-token", []string{"X-Fence-Token: +7"}},
		"Minus":         {400, "invalid-token", []string{"X-Fence-Token: -7"}},
		"Zero":          {400, "invalid-token", []string{"X-Fence-Token: 0"}},
		"LeadingZeros":  {400, "invalid-token", []string{"X-Fence-Token: 007"}},
		"List":          {400, "invalid-token", []string{"X-Fence-Token: 7,8"}},
		"Exponent":      {400, "invalid-token", []string{"X-Fence-Token: 1e3"}},
		"Hex":           {400, "invalid-token", []string{"X-Fence-Token: 0x10"}},
		"Fraction":      {400, "invalid-token", []string{"X-Fence-Token: 1.0"}},
		"ArabicDigits":  {400, "invalid-token", []string{"X-Fence-Token: ١٢"}},
		"SixteenDigits": {400, "invalid-token", []string{"X-Fence-Token: 1000000000000000"}},
		"TwentyKB":      {400, "invalid-token", []string{"X-Fence-Token: " + strings.Repeat("9", 20<<10)}},
		"Forged":        {403, "unissued-token", []string{"X-Fence-Token: 999999999999999"}},
		"BeyondBlock":   {403, "unissued-token", []string{fmt.Sprintf("X-Fence-Token: %d", object.TokenLast+1)}},
		"Ancient":       {412, "stale-token", []string{"X-Fence-Token: 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			for _, write := range []struct{ method, path, body string }{
				{"PATCH", rowPath1, `{"balance":-1}`}, {"PUT", rowPath1, `{"balance":-1}`}, {"DELETE", rowPath1, ""},
				{"PUT", objectPathA, "late"}, {"DELETE", objectPathA, ""},
			} {
				p := w.refused(tt.status, tt.code, write.method, write.path, write.body, tt.lines...)
				if tt.status == 403 || tt.status == 412 {
					if p["first_token"] == nil || p["holder"] != "anonymous" {
						t.Errorf("%s %s: the newest grant is not told: %v", write.method, write.path, p)
					}
				}
			}
			if w.mark(rowPath1) != row.Token || w.mark(objectPathA) != object.Token {
				t.Fatal("a refusal moved a mark")
			}
		})
	}
	if got := w.want(200, "GET", objectPathA, "").body; got != "x" {
		t.Fatalf("a refusal changed the object: %s", got)
	}
	if got := w.want(200, "GET", rowPath1, "").body; !strings.Contains(got, `"balance":1}`) {
		t.Fatalf("a refusal changed the row: %s", got)
	}
	// What was refused did not use the tokens up.
	w.want(200, "PATCH", rowPath1, `{"balance":2}`, row.token(1))
}

// TestGrantOutcomes (I2, I3): each refusal that the rule knows, on rows and objects alike.
func TestGrantOutcomes(t *testing.T) {
	w, _ := shared(t)
	for method, at := range map[string]struct{ path, lease string }{"PATCH": {rowPath1, "wallet:1"}, "PUT": {objectPathA, "report:a"}} {
		t.Run(method, func(t *testing.T) {
			w := w.in(t)
			body := func(n int) string { return fmt.Sprintf(`{"balance":%d}`, n) }
			p := w.refusedWith(0, 403, "unissued-token", method, at.path, body(1), "X-Fence-Token: 1000")
			if p["token"] != json.Number("1000") || p["first_token"] != nil {
				t.Errorf("before any grant: %v", p)
			}
			g := w.acquire(at.lease, `"holder":"worker-a"`)
			if r := w.do(method, at.path, body(1), g.token(5)); !r.ok() || r.header.Get("X-Fence-Token") != fmt.Sprint(g.Token+5) {
				t.Fatalf("got %v", r)
			}
			if r := w.do(method, at.path, body(1), g.token(5)); !r.ok() || !r.replayed() {
				t.Fatalf("not replayed: %v", r)
			}
			p = w.refusedWith(g.Token+5, 412, "spent-token", method, at.path, body(2), g.token(5))
			if p["holder"] != "worker-a" || p["first_token"] != json.Number(fmt.Sprint(g.Token)) || p["token"] != json.Number(fmt.Sprint(g.Token+5)) || p["lease"] != at.lease {
				t.Errorf("got %v", p)
			}
			w.refusedWith(g.Token+5, 412, "stale-token", method, at.path, body(2), g.token(4))
			for _, header := range []string{`If-Match: "1"`, `If-Match: W/"` + fmt.Sprint(g.Token+5) + `"`, fmt.Sprintf(`If-None-Match: "%d"`, g.Token+5), "If-None-Match: *"} {
				if method == "PATCH" && header == "If-None-Match: *" {
					continue
				}
				w.refusedWith(g.Token+5, 412, "precondition-failed", method, at.path, body(2), g.token(6), header)
			}
			w.refused(400, "invalid-request", method, at.path, body(2), g.token(6), "If-Match: 1")
			w.refused(400, "invalid-request", method, at.path, body(2), g.token(6), "If-Unmodified-Since: Fri, 02 Jan 2026 03:04:05 GMT")
			w.release(g)
			w.refusedWith(g.Token+5, 412, "grant-ended", method, at.path, body(2), g.token(6))
			next := w.acquire(at.lease)
			p = w.refusedWith(g.Token+5, 412, "stale-token", method, at.path, body(2), g.token(6))
			if p["first_token"] != json.Number(fmt.Sprint(next.Token)) {
				t.Errorf("got %v", p)
			}
			if r := w.do(method, at.path, body(3), next.token(0), fmt.Sprintf(`If-Match: "1", "%d"`, g.Token+5)); !r.ok() {
				t.Fatalf("got %v", r)
			}
		})
	}
}

// TestReadWithToken: a worker learns early that it lost; the mark is not compared.
func TestReadWithToken(t *testing.T) {
	w, _ := shared(t)
	for path, lease := range map[string]string{rowPath1: "wallet:1", objectPathA: "report:a"} {
		g := w.acquire(lease)
		if path == objectPathA {
			w.want(201, "PUT", path, "x", g.token(5))
		}
		mark := w.mark(path)
		w.want(200, "GET", path, "", g.token(2))
		w.want(200, "HEAD", path, "", g.token(2))
		w.refusedWith(mark, 403, "unissued-token", "GET", path, "", "X-Fence-Token: 999999999999999")
		w.refused(400, "invalid-token", "GET", path, "", "X-Fence-Token: +7")
		w.release(g)
		w.refusedWith(mark, 412, "grant-ended", "GET", path, "", g.token(2))
		w.acquire(lease)
		w.refusedWith(mark, 412, "stale-token", "GET", path, "", g.token(2))
		if r := w.do("HEAD", path, "", g.token(2)); r.status != 412 {
			t.Fatalf("got %v", r)
		}
	}
}

// TestLeaseOutcomes: what acquire, renew, more tokens, release, inspect and verify answer.
func TestLeaseOutcomes(t *testing.T) {
	w, _ := shared(t)
	const path = "/v1/leases/wallet:1"
	w.refused(404, "not-found", "GET", path, "")
	g := w.acquire("wallet:1", `"holder":"worker-a"`, `"ttl":"20s"`)
	if g.Holder != "worker-a" || g.TokenLast != g.Token+999 || !slices.Equal(g.Blocks, [][2]int64{{g.Token, g.TokenLast}}) {
		t.Fatalf("got %+v", g)
	}
	r := w.do("POST", path, `{"holder":"worker-b"}`)
	p := r.refusal(t, 409, "lease-held")
	remaining, err := p["remaining_ms"].(json.Number).Int64()
	if p["holder"] != "worker-a" || p["lease"] != "wallet:1" || err != nil || remaining <= 15000 || remaining > 20000 || r.header.Get("Retry-After") != "20" {
		t.Errorf("got %v", r)
	}
	begun := time.Now()
	w.refused(409, "lease-held", "POST", path, `{"wait":"300ms"}`)
	if waited := time.Since(begun); waited < 300*time.Millisecond {
		t.Errorf("waited %v only", waited)
	}
	shown := w.want(200, "GET", path, "")
	if strings.Contains(shown.body, g.ID) || strings.Contains(shown.body, `"id"`) || !strings.Contains(shown.body, fmt.Sprintf(`"token":%d,`, g.Token)) {
		t.Errorf("got %v", shown)
	}
	for what, answer := range map[string]response{
		"renew":   w.do("PUT", path, ""),
		"tokens":  w.do("POST", path+"/tokens", ""),
		"release": w.do("DELETE", path, ""),
		"two ids": w.do("DELETE", path, "", g.id(), g.id()),
	} {
		if p := answer.refusal(t, 400, "invalid-request"); p["field"] != "X-Lease-Id" {
			t.Errorf("%s without an id: %v", what, answer)
		}
	}
	for _, method := range []string{"PUT", "DELETE"} {
		w.refused(409, "lease-lost", method, path, "", "X-Lease-Id: guessed")
	}
	for field, bodies := range map[string][]string{
		"ttl":        {`{"ttl":"0s"}`, `{"ttl":"99ms"}`, `{"ttl":"24h1s"}`, `{"ttl":30}`, `{"ttl":"-1s"}`, `{"ttl":"x"}`, `{"ttl":null}`},
		"wait":       {`{"wait":"-1s"}`, `{"wait":1}`},
		"holder":     {`{"holder":""}`, `{"holder":"a\nb"}`, `{"holder":"` + strings.Repeat("h", 257) + `"}`},
		"acquire_id": {`{"acquire_id":"` + strings.Repeat("a", 129) + `"}`, `{"acquire_id":7}`},
		"tll":        {`{"tll":"1s"}`},
	} {
		for _, body := range bodies {
			if p := w.refused(400, "invalid-request", "POST", "/v1/leases/other", body); p["field"] != field {
				t.Errorf("%s: field %v", body, p["field"])
			}
		}
	}
	w.refused(400, "invalid-request", "POST", "/v1/leases/other", `{"ttl":"1s","ttl":"2s"}`)
	w.refused(400, "invalid-request", "POST", "/v1/leases/a/b", "")
	w.refused(400, "invalid-request", "POST", "/v1/leases/a%0Ab", "")
	w.refused(400, "invalid-request", "POST", "/v1/leases/"+strings.Repeat("x", 2049), "")
	w.refused(415, "unsupported-media-type", "POST", path, `{}`, "Content-Type: application/x-www-form-urlencoded")
	renewed := holdingOf(t, w.want(200, "PUT", path, `{"ttl":"40s"}`, g.id()))
	if renewed.Token != g.Token {
		t.Errorf("got %+v", renewed)
	}
	w.release(g)
	w.release(g)
	w.refused(409, "lease-lost", "PUT", path, "", g.id())
	w.refused(409, "lease-lost", "POST", path+"/tokens", "", g.id())
	w.refused(404, "not-found", "GET", path, "")

	// A lease that has run out can be taken, and is not renewed.
	short := w.acquire("wallet:9", `"ttl":"100ms"`)
	next := w.acquire("wallet:9", `"wait":"10s"`)
	if next.Token <= short.Token {
		t.Errorf("%d after %d", next.Token, short.Token)
	}
	w.refused(409, "lease-lost", "PUT", leasePath("wallet:9"), "", short.id())
	w.refused(409, "lease-lost", "DELETE", leasePath("wallet:9"), "", short.id())
}

// TestLeaseNames: any name goes, and one name is one lease.
func TestLeaseNames(t *testing.T) {
	w, _ := shared(t)
	for _, path := range []string{"}x", "{", "%7B%7D", "a%2Fb", "a%2Fverify", "%E2%82%AC%20%C3%BC", "+", "%25", "*", "a:b:c", "%3F", ".", "..", "a%2F%2Fb", strings.Repeat("n", 2048)} {
		full := "/v1/leases/" + path
		g := holdingOf(t, w.want(201, "POST", full, ""))
		w.refused(409, "lease-held", "POST", full, "")
		if got := leasePath(g.Name); got != full && path != "}x" && path != "{" && path != "a:b:c" && path != "*" && path != "+" {
			t.Errorf("%s is lease %q", path, g.Name)
		}
		w.want(200, "POST", full+"/verify", fmt.Sprintf(`{"token":%d}`, g.Token))
		w.want(204, "DELETE", full, "", g.id())
	}
}

// TestVerify: the refusal that a write would get, and nothing changes.
func TestVerify(t *testing.T) {
	w, _ := shared(t)
	const path = "/v1/leases/wallet:1/verify"
	w.refused(403, "unissued-token", "POST", path, `{"token":1000}`)
	g := w.acquire("wallet:1")
	good := fmt.Sprintf(`{"token":%d}`, g.Token+3)
	if got := w.want(200, "POST", path, good).body; got != fmt.Sprintf(`{"lease":"wallet:1","token":%d,"principal":"anonymous"}`+"\n", g.Token+3) {
		t.Errorf("got %s", got)
	}
	w.refused(403, "foreign-token", "POST", path, fmt.Sprintf(`{"token":%d,"principal":"somebody"}`, g.Token))
	w.refused(403, "unissued-token", "POST", path, `{"token":999999999999999}`)
	for _, token := range []string{`"1000"`, "1000.0", "1e3", "-1", "0", "1000000000000000", "null", "[1000]"} {
		w.refused(400, "invalid-token", "POST", path, `{"token":`+token+`}`)
	}
	w.refused(400, "invalid-request", "POST", path, `{}`)
	w.release(g)
	w.refused(412, "grant-ended", "POST", path, good)
	next := w.acquire("wallet:1")
	if p := w.refused(412, "stale-token", "POST", path, good); p["first_token"] != json.Number(fmt.Sprint(next.Token)) || p["lease"] != "wallet:1" {
		t.Errorf("got %v", p)
	}
}

// TestRequestOutcomes: what is refused before anything is looked at.
func TestRequestOutcomes(t *testing.T) {
	w, _ := shared(t)
	g := w.acquire("wallet:1")
	w.refused(404, "not-found", "GET", "/v1/nothing", "")
	w.refused(404, "not-found", "GET", "/v1/rows/unprotected/1", "")
	w.refused(404, "not-found", "PUT", "/v1/objects/unprotected/a", "x", g.token(0))
	w.refused(404, "not-found", "GET", "/v1/marks/rows/unprotected/1", "")
	w.refused(400, "invalid-request", "GET", rowPath1+"?id=eq.2", "")
	w.refused(400, "invalid-request", "DELETE", rowPath1+"?dry=1", "", g.token(0))
	r := w.do("POST", rowPath1, "{}", g.token(0))
	r.refusal(t, 405, "method-not-allowed")
	if r.header.Get("Allow") != "GET, HEAD, PATCH, PUT, DELETE" {
		t.Errorf("Allow: %s", r.header.Get("Allow"))
	}
	for _, kind := range []string{"application/x-www-form-urlencoded", "text/plain", "application/json; charset=latin1"} {
		w.refused(415, "unsupported-media-type", "PATCH", rowPath1, `{"balance":1}`, g.token(0), "Content-Type: "+kind)
	}
	for range 20 {
		// The answer must not be lost to a client that is still sending.
		w.refused(413, "too-large", "PATCH", rowPath1, `{"owner":"`+strings.Repeat("x", 1<<20)+`"}`, g.token(0))
	}
	for _, body := range []string{"", "[]", "{}", "{", `{"balance":1}x`, `{"balance":1,"balance":2}`, `{"owner":"\u0000"}`, `{"owner":"\ud800"}`, "{\"owner\":\"\xff\"}"} {
		w.refused(400, "invalid-request", "PATCH", rowPath1, body, g.token(0), "Content-Type: application/json")
	}
	for _, origin := range []string{"Origin: http://evil.example", "Sec-Fetch-Site: cross-site"} {
		r := w.do("PATCH", rowPath1, `{"balance":1}`, g.token(0), origin)
		p := r.refusal(t, 403, "forbidden")
		if p["mark"] != nil || p["holder"] != nil || r.header.Get("ETag") != "" {
			t.Errorf("a refusal of access discloses the mark: %v", r)
		}
	}
	if got := w.mark(rowPath1); got != 0 {
		t.Fatalf("a refusal moved the mark to %d", got)
	}
}

// TestContention: a lock that is not free in time is no verdict, and the same token may be tried again.
func TestContention(t *testing.T) {
	w, s := shared(t)
	g := w.acquire("wallet:1")
	conn := connect(t, s.database)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM wallets WHERE id = 1 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	w.refused(503, "contention", "PATCH", rowPath1, `{"balance":5}`, g.token(0))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.want(200, "PATCH", rowPath1, `{"balance":5}`, g.token(0)); r.replayed() {
		t.Fatalf("what was refused had been accepted: %v", r)
	}
}

// TestMarks: also of what was never written, and of what was deleted.
func TestMarks(t *testing.T) {
	w, _ := shared(t)
	for path, lease := range map[string]string{"/rows/wallets/1": "wallet:1", "/objects/reports/a": "report:a"} {
		never := w.want(200, "GET", "/v1/marks"+path, "")
		resource := strings.TrimPrefix(strings.Replace(path, "wallets", "public.wallets", 1), "/")
		if want := fmt.Sprintf(`{"resource":%q,"token":0,"lease":%q}`+"\n", resource, lease); never.body != want {
			t.Errorf("got %s, want %s", never.body, want)
		}
		g := w.acquire(lease)
		if r := w.do("PUT", "/v1"+path, `{"balance":1}`, g.token(7)); !r.ok() {
			t.Fatalf("got %v", r)
		}
		w.want(204, "DELETE", "/v1"+path, "", g.token(8))
		var m struct {
			Resource, Lease, Principal string
			Token                      int64
			WrittenAt                  time.Time `json:"written_at"`
		}
		if err := json.Unmarshal([]byte(w.want(200, "GET", "/v1/marks"+path, "").body), &m); err != nil {
			t.Fatal(err)
		}
		if age := time.Since(m.WrittenAt); m.Token != g.Token+8 || m.Principal != "anonymous" || m.Resource != resource || m.Lease != lease || age < -time.Minute || age > time.Minute {
			t.Errorf("got %+v", m)
		}
	}
}

// TestUploadThatWasGivenUp (I6): an intent that the collector has aborted can never be published.
func TestUploadThatWasGivenUp(t *testing.T) {
	w, s := shared(t)
	g := w.acquire("report:a")
	w.want(201, "PUT", objectPathA, "before", g.token(0))
	body, feed := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", w.base+objectPathA, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Fence-Token", fmt.Sprint(g.Token+1))
	fed := make(chan error, 1)
	go func() {
		_, err := io.WriteString(feed, "half")
		fed <- err
	}()
	type result struct {
		resp *http.Response
		err  error
	}
	answered := make(chan result, 1)
	go func() {
		resp, err := w.client.Do(req)
		answered <- result{resp, err}
	}()
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the upload's intent", func() bool {
		return queryText(t, s.database, "SELECT count(*)::text FROM fence.blobs WHERE state = 'pending'") == "1"
	})
	execSQL(t, s.database, "UPDATE fence.blobs SET state = 'aborted' WHERE state = 'pending'")
	feed.Close()
	got := <-answered
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer got.resp.Body.Close()
	read, err := io.ReadAll(got.resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := response{what: "PUT", status: got.resp.StatusCode, header: got.resp.Header, body: string(read)}
	r.refusal(t, 409, "upload-expired")
	r.knowsMark(t)
	if got := w.want(200, "GET", objectPathA, "").body; got != "before" || w.mark(objectPathA) != g.Token {
		t.Fatalf("it was published: %s", got)
	}
	w.want(200, "PUT", objectPathA, "half", g.token(1))
}
