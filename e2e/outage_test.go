package e2e

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
)

// Bounds of the answers while a server does not work. A server that refuses connections is known to be down at once;
// one that hangs is known by timeouts only.
const (
	leaseBound   = 3 * time.Second
	downBound    = 5 * time.Second
	hungBound    = 16 * time.Second
	s3HungBound  = 35 * time.Second
	recoverBound = 20 * time.Second
)

// within checks how long an answer took.
func (r response) within(t testing.TB, limit time.Duration) response {
	t.Helper()
	if r.took > limit {
		t.Errorf("%v: took %v, more than %v", r, r.took, limit)
	}
	return r
}

// TestRedisOutage (section 9): leases stop, writes go on, and nothing is restarted.
func TestRedisOutage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := startRedis(t, dir)
	w := serveWallets(t, servers{database: ledger(t), redis: server.URL()})
	held := w.acquire("wallet:1", `"ttl":"1h"`)
	spent := int64(0)
	write := func(t *testing.T) {
		t.Helper()
		w := w.in(t)
		w.want(200, "PATCH", "/v1/rows/wallets/1", fmt.Sprintf(`{"balance":%d}`, spent), held.token(spent)).within(t, time.Second)
		spent++
	}
	const during = `{"acquire_id":%q}`
	outage := func(t *testing.T) {
		t.Helper()
		w := w.in(t)
		write(t)
		for what, r := range map[string]response{
			"acquire": w.do("POST", "/v1/leases/wallet:2", fmt.Sprintf(during, t.Name())),
			"another": w.do("POST", "/v1/leases/wallet:3", ""),
			"renew":   w.do("PUT", leasePath(held.Name), "", held.id()),
		} {
			r.refusal(t, 503, "unavailable")
			r.within(t, leaseBound)
			if t.Failed() {
				t.Fatal(what)
			}
		}
		// Many callers at once wait no longer than one.
		var many []func() response
		for i := range 40 {
			many = append(many, w.start("POST", fmt.Sprintf("/v1/leases/many:%d", i), ""))
		}
		write(t)
		for _, answer := range many {
			answer().within(t, leaseBound).refusal(t, 503, "unavailable")
		}
		w.want(200, "GET", "/readyz", "").within(t, time.Second)
	}
	recovered := func(t *testing.T) {
		t.Helper()
		within(t, recoverBound, "an acquire", func() bool { return w.do("POST", "/v1/leases/wallet:4", `{"ttl":"1s"}`).status == 201 })
		w := w.in(t)
		// The acquire that was answered with 503 can be repeated, once what it may have taken has been given back.
		within(t, recoverBound, "the repeated acquire", func() bool {
			return w.do("POST", "/v1/leases/wallet:2", fmt.Sprintf(during, t.Name())).status == 201
		})
		w.release(holdingOf(t, w.want(201, "POST", "/v1/leases/wallet:2", fmt.Sprintf(during, t.Name()))))
		write(t)
	}
	t.Run("Hung", func(t *testing.T) {
		// Connections that were just used are not tried before they are trusted.
		for range 50 {
			w.want(200, "GET", "/v1/rows/wallets/1", "")
		}
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		outage(t)
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		recovered(t)
		w.in(t).want(200, "PUT", leasePath(held.Name), "", held.id())
	})
	t.Run("Down", func(t *testing.T) {
		server.Kill()
		outage(t)
		server = startRedis(t, dir)
		recovered(t)
		// Its lease is gone with the server's memory; a renewal never makes it again.
		w.in(t).refused(409, "lease-lost", "PUT", leasePath(held.Name), "", held.id())
		next := w.in(t).acquire("wallet:1")
		w.in(t).refusedWith(held.Token+spent-1, 412, "stale-token", "PATCH", "/v1/rows/wallets/1", `{"balance":-1}`, held.token(spent))
		w.in(t).want(200, "PATCH", "/v1/rows/wallets/1", `{"balance":1}`, next.token(0))
	})
}

func startRedis(t testing.TB, dir string) *localservers.Redis {
	t.Helper()
	server, err := localservers.StartRedis(t.Context(), localservers.RedisConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	stopLater(t, server)
	return server
}

func stopLater(t testing.TB, server interface{ Stop() error }) {
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestPostgresOutage (section 9, I7): writes are refused in bounded time, every accepted one is still there
// afterwards, one of unknown outcome is settled by repeating it, and nothing is restarted.
func TestPostgresOutage(t *testing.T) {
	t.Parallel()
	dir := testenv.QuickDir(t)
	start := func() *localservers.Postgres {
		server, err := localservers.StartPostgres(t.Context(), localservers.PostgresConfig{Dir: dir, Ephemeral: true})
		if err != nil {
			t.Fatal(err)
		}
		stopLater(t, server)
		return server
	}
	server := start()
	s := servers{database: server.URL(""), redis: testenv.Redis(t)}
	w := serveWallets(t, s)
	held := w.acquire("wallet:1", `"ttl":"1h"`)
	object := w.acquire("report:a", `"ttl":"1h"`)
	w.want(201, "PUT", "/v1/objects/reports/a", "before", object.token(0))

	spent, accepted := int64(0), int64(-1)
	// try spends the next token until an attempt has an outcome that is known.
	try := func(t *testing.T, limit time.Duration) bool {
		t.Helper()
		r := w.do("PATCH", "/v1/rows/wallets/1", fmt.Sprintf(`{"balance":%d}`, spent), held.token(spent)).within(t, limit)
		if r.ok() {
			accepted = spent
			spent++
			return true
		}
		if code := r.code(); r.status != 503 || code != "unavailable" && code != "outcome-unknown" {
			t.Fatalf("got %v", r)
		}
		r.refusal(t, 503, r.code())
		return false
	}
	outage := func(t *testing.T, limit time.Duration) {
		t.Helper()
		w := w.in(t)
		for range 3 {
			if try(t, limit) {
				t.Fatal("accepted without PostgreSQL")
			}
		}
		w.want(503, "GET", "/readyz", "").within(t, limit)
		w.want(200, "GET", "/livez", "").within(t, time.Second)
		for _, path := range []string{"/v1/rows/wallets/1", "/v1/objects/reports/a", "/v1/marks/rows/wallets/1"} {
			r := w.do("GET", path, "").within(t, limit)
			r.refusal(t, 503, "unavailable")
		}
		r := w.do("PUT", "/v1/objects/reports/a", "during", object.token(1)).within(t, limit)
		r.refusal(t, 503, "unavailable")
		acquired := w.do("POST", "/v1/leases/wallet:2", `{"ttl":"1s"}`).within(t, limit)
		acquired.refusal(t, 503, "unavailable")
	}
	recovered := func(t *testing.T) {
		t.Helper()
		w := w.in(t)
		within(t, recoverBound, "/readyz", func() bool { return w.do("GET", "/readyz", "").status == 200 })
		got := queryText(t, s.database, "SELECT balance::text FROM wallets WHERE id = 1")
		if want := fmt.Sprint(accepted); got != want && got != fmt.Sprint(spent) {
			t.Fatalf("the row is %s; %s was accepted, and %d may have been", got, want, spent)
		}
		if !try(t, time.Second) {
			t.Fatal("the write is still refused")
		}
		if got := queryText(t, s.database, "SELECT count(*)::text FROM changes WHERE id = 1 AND balance = $1", spent-1); got != "1" {
			t.Fatalf("the repeated write was applied %s times", got)
		}
		if got := w.want(200, "GET", "/v1/objects/reports/a", "").body; got != "before" {
			t.Fatalf("the object is %q", got)
		}
		within(t, recoverBound, "an acquire", func() bool { return w.do("POST", "/v1/leases/wallet:3", `{"ttl":"1s"}`).status == 201 })
	}
	if !try(t, time.Second) {
		t.Fatal("refused before the outage")
	}
	t.Run("Hung", func(t *testing.T) {
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		outage(t, hungBound)
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		recovered(t)
	})
	t.Run("Killed", func(t *testing.T) {
		server.Kill()
		// Its sessions notice a little later, and what one of them has accepted until then counts.
		within(t, downBound, "the last session ends", func() bool { return !try(t, downBound) })
		outage(t, downBound)
		server = start()
		recovered(t)
	})
}

// TestS3Outage (section 9, I6): object writes are refused, nothing is published, rows go on, and nothing is restarted.
func TestS3Outage(t *testing.T) {
	t.Parallel()
	server := newRestartableS3(t)
	server.start()
	s := testServers(t)
	w := serveWallets(t, s, "--s3-endpoint="+server.Endpoint, "--s3-access-key="+server.AccessKey, "--s3-secret-key="+server.SecretKey)
	server.makeBucket("reports")
	held := w.acquire("report:a", `"ttl":"1h"`)
	row := w.acquire("wallet:1", `"ttl":"1h"`)
	const path = "/v1/objects/reports/a"
	w.want(201, "PUT", path, "before", held.token(0))

	rows := int64(0)
	outage := func(t *testing.T, limit time.Duration) {
		t.Helper()
		w := w.in(t)
		// At once, because each takes as long as the limit.
		answers := []func() response{
			w.start("PUT", path, "during", held.token(1)),
			w.start("GET", path, ""),
		}
		w.want(200, "PATCH", "/v1/rows/wallets/1", `{"balance":1}`, row.token(rows)).within(t, time.Second)
		rows++
		if got := w.mark(path); got != held.Token {
			t.Fatalf("the mark is %d", got)
		}
		w.want(200, "GET", "/readyz", "").within(t, time.Second)
		for _, answer := range answers {
			answer().within(t, limit).refusal(t, 502, "unavailable")
		}
	}
	recovered := func(t *testing.T) {
		t.Helper()
		w := w.in(t)
		got := w.want(200, "GET", path, "")
		if got.body != "before" || w.mark(path) != held.Token {
			t.Fatalf("something was published: %v", got)
		}
	}
	t.Run("Down", func(t *testing.T) {
		server.kill()
		outage(t, downBound)
		server.start()
		recovered(t)
	})
	t.Run("Hung", func(t *testing.T) {
		server.signal(syscall.SIGSTOP)
		outage(t, s3HungBound)
		server.signal(syscall.SIGCONT)
		recovered(t)
	})
	if r := w.want(200, "PUT", path, "during", held.token(1)); r.replayed() {
		t.Fatalf("a write that was refused is answered as replayed: %v", r)
	}
	if got := w.want(200, "GET", path, "").body; got != "during" {
		t.Fatalf("the object is %q", got)
	}
}

// restartableS3 is a versitygw that keeps its address and keys when it is started again.
type restartableS3 struct {
	testenv.S3
	t       testing.TB
	program string
	dir     string
	address string
	cmd     *exec.Cmd
}

func newRestartableS3(t testing.TB) *restartableS3 {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		program = filepath.Join("..", ".cache", "bin", "versitygw")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &restartableS3{t: t, program: program, dir: t.TempDir(), address: l.Addr().String()}
	s.S3 = testenv.S3{Endpoint: "http://" + s.address, Region: "us-east-1", AccessKey: rand.Text(), SecretKey: rand.Text()}
	for _, name := range []string{"objects", "attributes"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(s.kill)
	return s
}

// start returns once the server answers.
func (s *restartableS3) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.program, "--port", s.address, "--quiet", "posix",
		"--sidecar", filepath.Join(s.dir, "attributes"), filepath.Join(s.dir, "objects"))
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.AccessKey, "ROOT_SECRET_KEY="+s.SecretKey)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("%v (make tools builds versitygw)", err)
	}
	within(s.t, patience, "versitygw answers", func() bool {
		_, err := s.Client().ListBuckets(s.t.Context(), nil)
		return err == nil
	})
}

func (s *restartableS3) makeBucket(name string) {
	s.t.Helper()
	if _, err := s.Client().CreateBucket(s.t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *restartableS3) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

func (s *restartableS3) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}
