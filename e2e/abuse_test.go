package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// victim is a gateway that is abused, with what is needed to see that it bears it.
type victim struct {
	*wire
	p       *program
	servers servers
	addr    string
	around  string    // the folder in which the gateway's own is
	db      *pgx.Conn // for one test at a time
}

// newVictim readies the servers, and not yet the gateway.
func newVictim(t *testing.T) *victim {
	t.Helper()
	v := &victim{servers: testServers(t), around: t.TempDir()}
	v.db = connect(t, v.servers.database)
	t.Cleanup(func() { v.db.Close(context.Background()) })
	return v
}

// abused starts a gateway for abuse.
func abused(t *testing.T, args ...string) *victim {
	t.Helper()
	v := newVictim(t)
	v.p = startOn(t, v.servers, filepath.Join(v.around, "data"), args...)
	execSQL(t, v.servers.database, walletsSQL)
	protectBucket(t, v.servers.database, "reports", "report:{key}")
	v.wire = newWire(t, v.p.url)
	v.addr = strings.TrimPrefix(v.p.url, "http://")
	return v
}

// in is the same gateway, failing another test.
func (v *victim) in(t *testing.T) *victim {
	other := *v
	other.wire = v.wire.in(t)
	return &other
}

// state is all that a client could have changed: data, marks and grants, and the files beside the blobs.
func (v *victim) state() string {
	v.t.Helper()
	var rows string
	err := v.db.QueryRow(v.t.Context(), `SELECT concat_ws(E'\n',
		(SELECT string_agg(w::text, ' ' ORDER BY id) FROM wallets w), (SELECT count(*) FROM changes), (SELECT count(*) FROM flips),
		(SELECT string_agg(resource || '=' || token, ' ' ORDER BY resource) FROM fence.marks),
		(SELECT string_agg(lease || '=' || first || blocks::text, ' ' ORDER BY lease) FROM fence.grants),
		(SELECT string_agg(o::text, ' ' ORDER BY bucket, key) FROM fence.objects o),
		(SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace))`).Scan(&rows)
	if err != nil {
		v.t.Fatal(err)
	}
	return rows + "\n" + strings.Join(v.files(), " ")
}

// files lists everything around the gateway's folder that is not the bytes of a blob.
func (v *victim) files() (names []string) {
	v.t.Helper()
	err := filepath.WalkDir(v.around, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(path, "/data/blobs/reports/") && !strings.Contains(path, "/data/blobs/.tmp/") {
			names = append(names, strings.TrimPrefix(path, v.around))
		}
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return names
}

// unchanged runs an abuse that must leave nothing behind and the gateway well.
func (v *victim) unchanged(abuse func()) {
	v.t.Helper()
	before := v.state()
	abuse()
	if after := v.state(); after != before {
		v.t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
	v.want(200, "GET", "/v1/rows/wallets/1", "")
}

// raw is a connection on which a test says what it likes.
type raw struct {
	*net.TCPConn
	t testing.TB
	r *bufio.Reader
}

// dial connects; deadline bounds everything on the connection.
func (v *victim) dial(deadline time.Duration) *raw {
	v.t.Helper()
	conn, err := net.DialTimeout("tcp", v.addr, patience)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		v.t.Fatal(err)
	}
	return &raw{conn.(*net.TCPConn), v.t, bufio.NewReader(conn)}
}

// say sends text as it stands. What the gateway does not want to hear any more is lost.
func (c *raw) say(text string) *raw {
	_, _ = io.WriteString(c, text)
	return c
}

// hear reads one answer; the status is 0 when the connection was closed instead.
func (c *raw) hear(method string) response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		if os.IsTimeout(err) {
			c.t.Errorf("neither an answer nor the end of the connection: %v", err)
		}
		return response{what: "raw", body: err.Error()}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return response{what: "raw", body: err.Error()}
	}
	return response{what: "raw", status: resp.StatusCode, header: resp.Header, body: string(body)}
}

// closed tells whether the gateway has nothing more to say and closes the connection before the deadline.
func (c *raw) closed() bool {
	rest, err := io.ReadAll(c.r)
	return len(rest) == 0 && !os.IsTimeout(err)
}

// ask sends a request as it stands, while it reads the answer, on a connection of its own.
func (v *victim) ask(request string) response {
	v.t.Helper()
	c := v.dial(patience)
	said := make(chan struct{})
	go func() {
		defer close(said)
		c.say(request)
	}()
	r := c.hear(firstWord(request))
	c.Close()
	<-said
	return r
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

// among checks a status; 0 stands for a connection that was closed. A refusal by the gateway itself is a problem, one by
// net/http is plain text.
func (r response) among(t testing.TB, statuses ...int) {
	t.Helper()
	if !slices.Contains(statuses, r.status) {
		t.Errorf("got %.300v, want one of %v", r, statuses)
	}
	if len(r.body) > 4096 && !r.ok() {
		t.Errorf("a refusal has %d bytes", len(r.body))
	}
	if kind := r.header.Get("Content-Type"); r.header.Get("X-Trace-Id") != "" && r.status >= 400 && (kind != "application/problem+json" || r.code() == "" || r.code() == "internal") {
		t.Errorf("the refusal is no problem: %.300v", r)
	}
}

// httpRequest renders a request with a body as it stands.
func httpRequest(method, path, body string, headers ...string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	return b.String() + "\r\n" + body
}
