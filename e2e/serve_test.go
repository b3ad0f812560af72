package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// launchServe runs fencegate serve on servers that run and does not wait. The ledger need not exist.
func launchServe(t testing.TB, s servers, args ...string) *program {
	t.Helper()
	return launchServeIn(t, nil, append([]string{"--database-url=" + s.database, "--redis-url=" + s.redis}, args...)...)
}

// launchServeIn runs fencegate serve with an environment of its own.
func launchServeIn(t testing.TB, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, data: t.TempDir()}
	base := []string{"serve", "--listen=127.0.0.1:0", "--migrate", "--drain-delay=0s"}
	if !strings.Contains(strings.Join(args, " "), "--s3-endpoint") {
		base = append(base, "--blob-dir="+filepath.Join(p.data, "blobs"))
	}
	p.launch(func(c *exec.Cmd) { c.Env = append(os.Environ(), env...) }, append(base, args...)...)
	return p
}

// startServe runs fencegate serve and waits until it is ready.
func startServe(t testing.TB, s servers, args ...string) *program {
	t.Helper()
	p := launchServe(t, s, args...)
	p.waitReady()
	return p
}

// endsWith waits for the end of a program that cannot serve, and checks its exit code and what it says.
func (p *program) endsWith(code int, says string) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("it still runs after %v", patience)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code || !strings.Contains(p.stderr.String(), says) {
		p.t.Errorf("exit code %d, want %d, and %q in:\n%s", got, code, says, p.stderr.String())
	}
}

func testServers(t testing.TB) servers {
	t.Helper()
	return servers{database: ledger(t), redis: testenv.Redis(t)}
}

func TestServeRefusesToStart(t *testing.T) {
	s := testServers(t)
	unreadable := filepath.Join(t.TempDir(), "nothing")
	for _, c := range []struct {
		name, says string
		args       []string
	}{
		{"BeyondLoopback", "without authentication the gateway listens on loopback only", []string{"--listen=0.0.0.0:0"}},
		{"NoAuthFile", unreadable, []string{"--auth-file=" + unreadable}},
		{"HalfOfTLS", "--tls-cert and --tls-key go together", []string{"--tls-cert=" + unreadable}},
		{"NoCertificate", unreadable, []string{"--tls-cert=" + unreadable, "--tls-key=" + unreadable}},
		{"ClientsWithoutTLS", "--tls-client-ca needs", []string{"--tls-client-ca=" + unreadable}},
		{"TwoBlobStores", "blobs are kept in one place", []string{"--s3-endpoint=http://127.0.0.1:1", "--blob-dir=" + t.TempDir()}},
		{"BadRedisURL", "redis url", []string{"--redis-url=http://127.0.0.1"}},
		{"BadDatabaseURL", "--database-url cannot be parsed", []string{"--database-url=mysql://x", "--start-timeout=1s"}},
		{"NoDatabase", "PostgreSQL", []string{"--database-url=postgres://127.0.0.1:1/x", "--start-timeout=500ms"}},
		{"ImpossibleTime", "--drain-timeout", []string{"--drain-timeout=-1s"}},
		{"NoTime", "drain-delay", []string{"--drain-delay=5"}},
		{"GraceBelowUpload", "grace", []string{"--gc-grace=1s"}},
		{"CollectingAllTheTime", "--gc-interval is at least", []string{"--gc-interval=1ns"}},
		{"NoTimeForUploads", "--upload-limit is at least", []string{"--upload-limit=1ns"}},
		{"NoTimeForLocks", "--lock-timeout is at least", []string{"--lock-timeout=0s"}},
		{"EndlessLocks", "--lock-timeout is at most", []string{"--lock-timeout=999999h"}},
		{"HalfOfTheKeys", "go together", []string{"--s3-endpoint=http://127.0.0.1:1", "--s3-access-key=x"}},
		{"AdminWithoutPort", "--admin-listen", []string{"--admin-listen=localhost"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := launchServe(t, s, c.args...)
			code := 1
			if c.name == "NoTime" || c.name == "BadDatabaseURL" {
				code = 80 // the command line's own
			}
			p.endsWith(code, c.says)
		})
	}
}

func TestServeShowsItsConfiguration(t *testing.T) {
	s := servers{database: testenv.Database(t), redis: testenv.Redis(t)} // no ledger yet
	p := launchServeIn(t, []string{
		"FENCEGATE_DATABASE_URL=" + s.database, "FENCEGATE_REDIS_URL=" + s.redis, "FENCEGATE_LOCK_TIMEOUT=4s",
		"FENCEGATE_S3_SECRET_KEY=hunter2-secret", "FENCEGATE_S3_ACCESS_KEY=hunter2-access", "FENCEGATE_S3_ENDPOINT=http://127.0.0.1:1",
		"FENCEGATE_BLOB_DIR=", "FENCEGATE_ADMIN_LISTEN=127.0.0.1:0",
	}, "--s3-endpoint=http://127.0.0.1:1")
	p.waitReady()
	// What it says on one stream may be there before what it said on another.
	within(t, patience, "the log is there", func() bool { return strings.Contains(p.stderr.String(), `"msg":"ready"`) })
	log := p.stderr.String()
	for _, want := range []string{`"msg":"configuration"`, `"lock-timeout":"4s"`, `"s3-secret-key":"xxxxx"`, `"s3-endpoint":"http://127.0.0.1:1"`, `"admin-listen":"127.0.0.1:0"`} {
		if !strings.Contains(log, want) {
			t.Errorf("%s is not in:\n%s", want, log)
		}
	}
	if strings.Contains(log, "hunter2") {
		t.Errorf("a secret is in:\n%s", log)
	}
}

// Redis that is away, or another one than was thought, is told at the start, and keeps nobody from writing.
func TestServeWithoutRedis(t *testing.T) {
	p := startServe(t, servers{database: testenv.Database(t), redis: "redis://:hunter2@127.0.0.1:1"})
	within(t, patience, "the log tells that Redis does not answer", func() bool { return strings.Contains(p.stderr.String(), "Redis does not answer") })
	if log := p.stderr.String(); strings.Contains(log, "hunter2") {
		t.Errorf("the log says:\n%s", log)
	}
}

// A SIGHUP that comes early reloads what is there, and a SIGTERM is obeyed.
func TestSignalsWhileWaitingForPostgreSQL(t *testing.T) {
	p := launchServe(t, servers{database: "postgres://127.0.0.1:1/x", redis: testenv.Redis(t)}, "--start-timeout=1m")
	within(t, patience, "the gateway waits", func() bool { return strings.Contains(p.stderr.String(), "waiting for PostgreSQL") })
	hangup(t, p)
	within(t, patience, "it has read its files again", func() bool { return strings.Contains(p.stderr.String(), "again") })
	if code := p.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeWaitsForPostgreSQL(t *testing.T) {
	server := testenv.PostgresServer(t)
	s := servers{database: server.URL("fencegate"), redis: testenv.Redis(t)}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	p := launchServe(t, s)
	within(t, patience, "the gateway waits", func() bool { return strings.Contains(p.stderr.String(), "waiting for PostgreSQL") })
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	p.waitReady()
}

// A gateway that is told to stop goes on serving while load balancers learn that it leaves, then takes nobody new, lets
// what it serves finish, and sends waiters elsewhere.
func TestDrain(t *testing.T) {
	s := testServers(t)
	p := startServe(t, s, "--drain-delay=1500ms", "--drain-timeout=1s", "--drain-transfers=30s")
	execSQL(t, s.database, walletsSQL)
	protectBucket(t, s.database, "reports", "report:{key}")
	c := p.client()
	wallet, report := c.acquire("wallet:1", time.Minute), c.acquire("report:a", time.Minute)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	type result struct {
		reply
		err error
	}
	waiter := make(chan result, 1)
	go func() {
		_, r, err := c.tryAcquire(ctx, "wallet:1", time.Second, patience/2)
		waiter <- result{r, err}
	}()
	body, feed := io.Pipe()
	upload := make(chan result, 1)
	go func() {
		r, err := c.try(ctx, http.MethodPut, "/v1/objects/reports/a", body, "X-Fence-Token", itoa(report.Token))
		upload <- result{r, err}
	}()
	if _, err := io.WriteString(feed, "begun "); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the acquire waits", func() bool { return c.get("leases/wallet:1").ok() })

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "/readyz says that it leaves", func() bool {
		r, err := c.try(ctx, http.MethodGet, "/readyz", nil)
		return err == nil && r.status == http.StatusServiceUnavailable
	})
	c.patch("wallets/1", wallet.Token, `{"balance":1}`).want(t, "")
	select {
	case r := <-waiter:
		t.Fatalf("the waiter was sent away during the delay: %v %v", r.reply, r.err)
	default:
	}
	r := <-waiter
	if r.err != nil || r.code() != "unavailable" || r.header.Get("Retry-After") == "" {
		t.Errorf("the waiter got %v, %v", r.reply, r.err)
	}
	within(t, patience, "nobody new is taken", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	// Reading the auth file again does not end it, and the upload outlasts the drain timeout, which is for requests that
	// move no object.
	hangup(t, p)
	pause := time.NewTimer(1500 * time.Millisecond)
	<-pause.C
	if _, err := io.WriteString(feed, "and ended"); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	if r := <-upload; r.err != nil || !r.ok() {
		t.Errorf("the upload got %v, %v", r.reply, r.err)
	}
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	again := startServe(t, s)
	again.client().get("rows/wallets/1").want(t, "")
}

// A second signal does not wait for anybody. What was under way is published whole or not at all.
func TestSecondSignalAborts(t *testing.T) {
	s := testServers(t)
	p := startServe(t, s, "--drain-delay=1m")
	protectBucket(t, s.database, "reports", "report:{key}")
	c := p.client()
	report := c.acquire("report:a", time.Minute)
	body, feed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := c.try(t.Context(), http.MethodPut, "/v1/objects/reports/a", body, "X-Fence-Token", itoa(report.Token))
		ended <- err
	}()
	if _, err := io.WriteString(feed, "half"); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	within(t, patience, "it leaves", func() bool { return strings.Contains(p.stderr.String(), `"msg":"leaving"`) })
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
	feed.Close() // net/http tells of the lost connection once it has the rest of the body
	if err := <-ended; err == nil {
		t.Error("the upload got an answer")
	}
	again := startServe(t, s)
	if r := again.client().get("objects/reports/a"); r.status != http.StatusNotFound || r.mark() != 0 {
		t.Errorf("half an upload was published: %v", r)
	}
}

// certificate makes a certificate for 127.0.0.1, signed by parent or by itself, in dir/name.pem and dir/name.key.
func certificate(t testing.TB, dir, name string, subject pkix.Name, parent *tls.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: parent == nil,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	issuer, signer := template, any(key)
	if parent != nil {
		issuer, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(file, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(name+".pem", "CERTIFICATE", der)
	write(name+".key", "PRIVATE KEY", keyDER)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}
