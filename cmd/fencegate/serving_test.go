package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/testenv"
)

// serving is fencegate serve in this process, against real servers: table wallets and the bucket are protected.
type serving struct {
	t          *testing.T
	url, admin string
	bucket     string
	log        *shared
	stop       func() int
}

// shared is a buffer that a program writes while a test reads.
type shared struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// lines are the log's lines with a message.
func (s *shared) lines(message string) (found []map[string]any) {
	for line := range strings.Lines(s.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == message {
			found = append(found, fields)
		}
	}
	return found
}

// startServing starts it and waits until it is ready. More flags win over the test's own.
func startServing(t *testing.T, flags ...string) *serving {
	t.Helper()
	s3 := testenv.Bucket(t)
	database := testenv.Database(t)
	s := &serving{t: t, bucket: s3.Bucket, log: &shared{}}
	s.prepare(database)
	ctx, cancel := context.WithCancel(context.Background())
	out, ended := &shared{}, make(chan int, 1)
	args := append([]string{
		"serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--drain-delay=0s",
		"--database-url=" + database, "--redis-url=" + testenv.Redis(t),
		"--s3-endpoint=" + s3.Endpoint, "--s3-region=" + s3.Region, "--s3-access-key=" + s3.AccessKey, "--s3-secret-key=" + s3.SecretKey,
	}, flags...)
	go func() { ended <- run(ctx, args, streams{strings.NewReader(""), out, s.log}) }()
	s.stop = sync.OnceValue(func() int { cancel(); return <-ended })
	t.Cleanup(func() { s.stop() })
	for deadline := time.Now().Add(20 * time.Second); s.url == ""; time.Sleep(10 * time.Millisecond) {
		select {
		case code := <-ended:
			ended <- code // for stop
			t.Fatalf("serve ended with %d: %s", code, s.log)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("serve is not ready: %s", s.log)
		}
		first, _, _ := strings.Cut(out.String(), "\n")
		_, s.url, _ = strings.Cut(first, "ready on ")
	}
	s.admin = s.log.lines("operators' side")[0]["url"].(string)
	return s
}

func (s *serving) prepare(database string) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), database)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(s.t.Context()))
	if _, err := conn.Exec(s.t.Context(), "CREATE TABLE wallets (id bigint PRIMARY KEY, balance numeric NOT NULL); INSERT INTO wallets VALUES (42, 100)"); err != nil {
		s.t.Fatal(err)
	}
	for _, args := range [][]string{
		{"migrate", "up"}, {"protect", "wallets", "--lease=wallet:{id}"}, {"protect", "--bucket=" + s.bucket, "--lease=report:{key}"},
	} {
		if code, out, errs := command(s.t, append(args, "--database-url="+database)...); code != 0 {
			s.t.Fatalf("%v: %s%s", args, out, errs)
		}
	}
}

// request sends a request with headers "Name: value" and returns the answer with its body.
func request(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(all)
}

// want sends a request to the gateway and demands a status.
func (s *serving) want(status int, method, path, body string, headers ...string) string {
	s.t.Helper()
	answer, all := request(s.t, method, s.url+path, body, headers...)
	if answer.StatusCode != status {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, path, answer.StatusCode, status, all)
	}
	return all
}

// acquire takes a lease and returns its first token and the grant's id.
func (s *serving) acquire(name string, headers ...string) (token json.Number, id string) {
	s.t.Helper()
	var grant struct {
		Token json.Number
		ID    string
	}
	if err := json.Unmarshal([]byte(s.want(http.StatusCreated, "POST", "/v1/leases/"+name, `{"ttl":"30s"}`, headers...)), &grant); err != nil {
		s.t.Fatal(err)
	}
	return grant.Token, grant.ID
}
