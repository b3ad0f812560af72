package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Whoever is slow loses the connection within the time that the gateway gives, and nobody else notices.
func TestAbuseSlowClients(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	v := abused(t, "--upload-limit="+limit.String(), "--download-limit="+limit.String(), "--idle-timeout="+limit.String())
	row, object := v.acquire("wallet:1", `"ttl":"10m"`), v.acquire("report:slow", `"ttl":"10m"`)
	body := strings.Repeat("x", 32<<20)
	v.want(201, "PUT", "/v1/objects/reports/big", body, v.acquire("report:big").token(0))
	before := v.state()

	json := httpRequest("PATCH", "/v1/rows/wallets/1", strings.Repeat(" ", 1000), "Content-Type: application/json", row.token(0))
	chunked := strings.NewReplacer("Content-Length: 1000", "Transfer-Encoding: chunked", strings.Repeat(" ", 1000), strings.Repeat("1\r\n \r\n", 1000))
	put := httpRequest("PUT", "/v1/objects/reports/slow", strings.Repeat("x", 1000), object.token(0))
	cases := []slowly{
		{"Header", httpRequest("GET", "/livez", "", "X-A: "+strings.Repeat("x", 1000)), 0, 10 * time.Second, []int{0}},
		{"JSONBody", json, strings.Index(json, "\r\n\r\n") + 4, 15 * time.Second, []int{400}},
		{"ChunkedJSON", chunked.Replace(json), strings.Index(json, "\r\n\r\n") + 7, 15 * time.Second, []int{400}},
		{"ObjectBody", put, strings.Index(put, "\r\n\r\n") + 4, limit, []int{400, 409}},
		{"RefusedBody", strings.Replace(put, "X-Fence-Token", "X-Other", 1), strings.Index(put, "\r\n\r\n") - 2, limit, []int{428}},
		{"RefusedMethod", strings.Replace(put, "PUT", "PATCH", 1), strings.Index(put, "\r\n\r\n") + 5, limit, []int{405}},
		{"IdleAfterARequest", httpRequest("GET", "/livez", ""), len(httpRequest("GET", "/livez", "")), limit, []int{200}},
	}
	// All at once, not as parallel subtests: most of their time they wait.
	var running sync.WaitGroup
	for _, tc := range cases {
		// As much again, for a machine that is busy.
		c := v.dial(2*tc.within + 10*time.Second)
		running.Go(func() { tc.play(c) })
	}
	download := v.dial(patience)
	running.Go(func() { v.readSlowly(download, "/v1/objects/reports/big", int64(len(body))) })
	v.serves(16*time.Second, time.Second)
	running.Wait()
	if after := v.state(); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
}

// slowly is a request whose sender takes its time.
type slowly struct {
	name, request string
	first         int           // so many bytes are sent at once
	within        time.Duration // the gateway's limit
	statuses      []int
}

func (s slowly) play(c *raw) {
	begun := time.Now()
	c.say(s.request[:s.first])
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		c.hear(firstWord(s.request)).among(c.t, s.statuses...)
		if !c.closed() {
			c.t.Errorf("%s: the connection stays open", s.name)
		}
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for rest := s.request[s.first:]; ; {
		select {
		case <-answered:
			c.t.Logf("%s: closed after %v", s.name, time.Since(begun).Round(time.Millisecond))
			return
		case <-tick.C:
			if rest != "" {
				c.say(rest[:1])
				rest = rest[1:]
			}
		}
	}
}

// readSlowly reads a body byte by byte until the gateway gives it up; what has arrived then must not look whole.
func (v *victim) readSlowly(c *raw, path string, size int64) {
	c.say(httpRequest("GET", path, ""))
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		v.t.Error(err)
		return
	}
	defer resp.Body.Close()
	given := `"client left","resource":"` + strings.TrimPrefix(path, "/v1/")
	for !strings.Contains(v.p.stderr.String(), given) {
		time.Sleep(100 * time.Millisecond)
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			v.t.Errorf("%s: %v, but the gateway has not given up", path, err)
			return
		}
	}
	// The buffers of the two sockets together are smaller than the body.
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil || os.IsTimeout(err) || n >= size {
		v.t.Errorf("%s: %d of %d bytes arrived, then %v, want the end of the connection", path, n, size, err)
	}
}

// serves is a well-behaved client for a while: it is answered within limit each time.
func (v *victim) serves(during, limit time.Duration) {
	v.t.Helper()
	quick := *v.wire
	if transport, ok := v.client.Transport.(*http.Transport); ok && transport.DisableKeepAlives {
		quick.client = keepAlive(v.t)
	}
	worst := time.Duration(0)
	n := 0
	for begun := time.Now(); time.Since(begun) < during; n++ {
		r := quick.want(200, "GET", fmt.Sprintf("/v1/rows/wallets/%d", 2+n%40), "")
		worst = max(worst, r.took)
		time.Sleep(5 * time.Millisecond)
	}
	v.t.Logf("%d requests of a client that behaves, the slowest took %v", n, worst)
	if worst > limit {
		v.t.Errorf("the slowest answer took %v, want at most %v", worst, limit)
	}
}

// A connection that is used in a strange way gets its answers in order, or none.
func TestAbuseStrangeConnections(t *testing.T) {
	t.Parallel()
	v := abused(t)
	g := v.acquire("wallet:1", `"ttl":"10m"`)
	patch := func(balance, n int64) string {
		return httpRequest("PATCH", "/v1/rows/wallets/1", fmt.Sprintf(`{"balance":%d}`, balance), "Content-Type: application/json", g.token(n))
	}
	t.Run("HalfClosedAfterAWrite", func(t *testing.T) {
		c := v.in(t).dial(patience)
		c.say(patch(1, 0))
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		// The write runs on, whoever waits for its answer.
		c.hear("PATCH").among(t, 200)
		if mark := v.mark("/v1/rows/wallets/1"); mark != g.Token {
			t.Errorf("the mark is %d, want %d", mark, g.Token)
		}
	})
	t.Run("HalfClosedInTheBody", func(t *testing.T) {
		v := v.in(t)
		v.unchanged(func() {
			c := v.dial(patience)
			text := patch(2, 1)
			c.say(text[:len(text)-3])
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			c.hear("PATCH").among(t, 400)
		})
	})
	t.Run("HalfClosedAfterARead", func(t *testing.T) {
		v := v.in(t)
		v.unchanged(func() {
			c := v.dial(patience)
			c.say(httpRequest("GET", "/v1/rows/wallets/2", ""))
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			c.hear("GET").among(t, 200, 0)
		})
	})
	t.Run("Pipelined", func(t *testing.T) {
		v := v.in(t)
		c := v.dial(patience)
		c.say(patch(3, 2) + httpRequest("GET", "/v1/rows/wallets/1", "") + patch(4, 1) + patch(5, 3) + httpRequest("GET", "/v1/marks/rows/wallets/1", ""))
		c.hear("PATCH").among(t, 200)
		if r := c.hear("GET"); !strings.Contains(r.body, `"balance":3`) && !strings.Contains(r.body, `"balance": 3`) {
			t.Errorf("the read does not see the write before it: %v", r)
		}
		c.hear("PATCH").among(t, 412)
		c.hear("PATCH").among(t, 200)
		if r := c.hear("GET"); r.header.Get("X-Fence-Token") != fmt.Sprint(g.Token+3) {
			t.Errorf("the last answer is not the last request's: %v", r)
		}
	})
	t.Run("GoneBeforeTheAnswer", func(t *testing.T) {
		v := v.in(t)
		for range 50 {
			c := v.dial(patience)
			c.say(httpRequest("GET", "/v1/rows/wallets/3", ""))
			if err := c.SetLinger(0); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		v.serves(500*time.Millisecond, time.Second)
	})
}
