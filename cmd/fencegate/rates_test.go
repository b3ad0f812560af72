package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/internal/ratelimit"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestRateFlags(t *testing.T) {
	parser, c := newParser(t)
	t.Setenv("FENCEGATE_RATE_WRITES", "50/1s")
	t.Setenv("FENCEGATE_RATE_LEASES", "")
	k, err := parser.Parse([]string{"serve", "--database-url=postgres://x", "--redis-url=redis://x", "--rate-reads=600/1m"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]ratelimit.Limit{gateway.ClassReads: {Count: 600, Window: time.Minute}, gateway.ClassWrites: {Count: 50, Window: time.Second}}
	if got := c.Serve.rateFlags.limits(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
	shown := fmt.Sprint(effective(k))
	for _, w := range []string{"rate-reads=600/1m0s", "rate-writes=50/1s", "rate-leases= ", "rate-limit-unavailable=allow"} {
		if !strings.Contains(shown, w) {
			t.Errorf("no %q in %s", w, shown)
		}
	}
	for _, bad := range []string{"--rate-reads=600", "--rate-writes=0/1m", "--rate-leases=1/1ms", "--rate-limit-unavailable=maybe"} {
		if code, _, errs := command(t, "serve", "--database-url=postgres://x", "--redis-url=redis://x", bad); code != 80 || !strings.Contains(errs, strings.SplitN(bad, "=", 2)[0]) {
			t.Errorf("%s: exit %d: %.300s", bad, code, errs)
		}
	}
}

// What becomes of requests that Redis cannot count, because it hangs or because it is down: a setting, and never a matter of
// writes.
func TestServeWithoutTheRedisThatCounts(t *testing.T) {
	for _, unavailable := range []string{"allow", "deny"} {
		t.Run(unavailable, func(t *testing.T) {
			t.Parallel()
			redis := testenv.RedisServer(t)
			s := startServing(t, "--redis-url="+redis.URL(), "--rate-reads=1000000/1h", "--rate-writes=1000000/1h", "--rate-leases=3/1h", "--rate-limit-unavailable="+unavailable)
			// A machine that is busy may be too slow for the 20 ms at any time, so nothing here depends on a single count.
			until := func(status int, method, path string, headers ...string) (*http.Response, string) {
				t.Helper()
				for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
					answer, body := request(t, method, s.url+path, "", headers...)
					if answer.StatusCode == status {
						return answer, body
					}
					if time.Now().After(deadline) {
						t.Fatalf("%s %s: %d, want %d: %s", method, path, answer.StatusCode, status, body)
					}
				}
			}
			var grant struct {
				Token json.Number
				ID    string
			}
			if _, body := until(201, "POST", "/v1/leases/wallet:42"); json.Unmarshal([]byte(body), &grant) != nil {
				t.Fatal(body)
			}
			id := "X-Lease-Id: " + grant.ID
			limited, body := until(429, "PUT", "/v1/leases/wallet:42", id)
			if after, err := strconv.Atoi(limited.Header.Get("Retry-After")); err != nil || after < 3000 || after > 3600 {
				t.Errorf("after %d s: %s", after, body)
			}
			until(200, "GET", "/v1/rows/wallets/42")
			spent, err := grant.Token.Int64()
			if err != nil {
				t.Fatal(err)
			}
			uncounted := func(state string) {
				t.Helper()
				reads := map[string]int{"allow": http.StatusOK, "deny": http.StatusServiceUnavailable}[unavailable]
				for range 5 {
					began := time.Now()
					s.want(reads, "GET", "/v1/rows/wallets/42", "")
					spent++
					s.want(200, "PATCH", "/v1/rows/wallets/42", `{"balance":1}`, "X-Fence-Token: "+strconv.FormatInt(spent, 10))
					// Both wait 20 ms at most; Redis's own timeouts are a second.
					if took := time.Since(began); took > 700*time.Millisecond {
						t.Errorf("%s: a read and a write took %v", state, took)
					}
				}
			}
			if err := redis.Pause(); err != nil {
				t.Fatal(err)
			}
			uncounted("hung")
			if err := redis.Resume(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(10 * time.Second); len(s.log.lines("requests are counted again")) == 0; time.Sleep(10 * time.Millisecond) {
				request(t, "GET", s.url+"/v1/rows/wallets/42", "")
				if time.Now().After(deadline) {
					t.Fatalf("requests are not counted again: %s", s.log)
				}
			}
			until(200, "GET", "/v1/rows/wallets/42")
			if err := redis.Stop(); err != nil {
				t.Fatal(err)
			}
			uncounted("down")
			_, metrics := request(t, "GET", s.admin+"/metrics", "")
			if strings.Contains(metrics, "\nfencegate_rate_limited_total{class=\"leases\"} 0\n") || strings.Contains(metrics, "\nfencegate_rate_uncounted_total{class=\"writes\"} 0\n") {
				t.Error(metrics)
			}
		})
	}
}
