package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	// patience bounds every wait for something that must happen.
	patience = 60 * time.Second
	// readyLine is followed by the URL.
	readyLine = "fencegate is ready on "
)

// program is a fencegate that runs, in a process group of its own.
type program struct {
	t      testing.TB
	cmd    *exec.Cmd
	url    string // http://127.0.0.1:port
	data   string
	ready  chan string   // the URL, once
	done   chan struct{} // closed when the process has ended; cmd.ProcessState is set then
	stderr log
}

// log collects what a process writes while others read it.
type log struct {
	mu      sync.Mutex
	content bytes.Buffer // guarded by mu
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.String()
}

// startDev runs fencegate dev with private servers on a folder and waits until it is ready.
func startDev(t testing.TB, data string, args ...string) *program {
	t.Helper()
	p := launch(t, data, nil, args...)
	p.waitReady()
	return p
}

// startShared runs fencegate dev on a folder and on servers of testenv, with a table wallets (row 42, balance 100) and
// a bucket reports as the seed of private servers has them.
func startShared(t testing.TB, args ...string) (*program, servers) {
	t.Helper()
	s := testServers(t)
	p := startOn(t, s, t.TempDir(), args...)
	protectTable(t, s.database, "wallets", "wallet:{id}", "id bigint PRIMARY KEY, owner text NOT NULL, balance numeric NOT NULL")
	execSQL(t, s.database, "INSERT INTO wallets VALUES (42, 'alice', 100)")
	protectBucket(t, s.database, "reports", "report:{key}")
	return p, s
}

// servers are what a gateway stands in front of.
type servers struct{ database, redis string }

// ledger makes a database whose ledger is up to date.
func ledger(t testing.TB) string {
	t.Helper()
	return testenv.Ledger(t, func(url string) error {
		migrate := exec.Command(binary, "migrate", "up")
		migrate.Env = append(os.Environ(), "FENCEGATE_DATABASE_URL="+url)
		if out, err := migrate.CombinedOutput(); err != nil {
			return fmt.Errorf("migrate: %w\n%s", err, out)
		}
		return nil
	})
}

func (s servers) flags() []string {
	return []string{"--database-url=" + s.database, "--redis-url=" + s.redis}
}

// startOn runs fencegate dev on a folder and on servers that run, and waits until it is ready.
func startOn(t testing.TB, s servers, data string, args ...string) *program {
	t.Helper()
	return startDev(t, data, append(s.flags(), args...)...)
}

// launch runs fencegate dev and does not wait. It is killed when the test ends. adjust may be nil.
func launch(t testing.TB, data string, adjust func(*exec.Cmd), args ...string) *program {
	t.Helper()
	p := &program{t: t, data: data}
	p.launch(adjust, append([]string{"dev", "--listen=127.0.0.1:0", "--data=" + data}, args...)...)
	return p
}

// launch runs a command that serves.
func (p *program) launch(adjust func(*exec.Cmd), args ...string) {
	t := p.t
	t.Helper()
	p.ready, p.done = make(chan string, 1), make(chan struct{})
	overheard.arguments(args)
	p.cmd = exec.Command(binary, args...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = &p.stderr
	if adjust != nil {
		adjust(p.cmd)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), readyLine); ok {
				p.ready <- url
			}
		}
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.stop()
		overheard.hears("fencegate "+args[0]+" of "+t.Name(), p.stderr.String())
		if t.Failed() && p.stderr.String() != "" {
			t.Logf("standard error of fencegate %s (process %d):\n%s", args[0], p.cmd.Process.Pid, p.stderr.String())
		}
	})
}

// waitReady waits for the ready line.
func (p *program) waitReady() {
	p.t.Helper()
	select {
	case p.url = <-p.ready:
	case <-p.done:
		p.t.Fatalf("fencegate ended before it was ready: %v", p.cmd.ProcessState)
	case <-time.After(patience):
		p.t.Fatalf("fencegate is not ready after %v", patience)
	}
}

// kill ends the gateway with kill -9, and whatever else is in its process group, and waits.
func (p *program) kill() {
	// An error means that it has ended already.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// stop ends the gateway in order and returns its exit code, -1 when it had to be killed.
func (p *program) stop() int {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	// One that a test has paused would not see the signal.
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Errorf("fencegate did not stop within %v", patience)
		p.kill()
	}
	return p.cmd.ProcessState.ExitCode()
}

// env returns the exports of the file env as a shell reads them.
func (p *program) env() map[string]string {
	p.t.Helper()
	out, err := exec.Command("sh", "-c", `. "$1" && env`, "sh", filepath.Join(p.data, "env")).Output()
	if err != nil {
		p.t.Fatalf("source %s/env: %v", p.data, err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.HasPrefix(name, "FENCEGATE_") {
			found[name] = value
		}
	}
	return found
}

// runBinary runs a command of the program to its end.
func runBinary(t testing.TB, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	overheard.hears("fencegate "+strings.Join(args[:min(1, len(args))], "")+" of "+t.Name(), errs.String())
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// protectTable makes a table and protects it.
func protectTable(t testing.TB, database, table, lease, columns string) {
	t.Helper()
	execSQL(t, database, fmt.Sprintf("CREATE TABLE %s (%s)", table, columns))
	execSQL(t, database, "SELECT fence.protect($1, $2)", table, lease)
}

// protectBucket protects all keys of a bucket.
func protectBucket(t testing.TB, database, bucket, lease string) {
	t.Helper()
	execSQL(t, database, "SELECT fence.protect_bucket($1, '', $2)", bucket, lease)
}

func execSQL(t testing.TB, database, sql string, args ...any) {
	t.Helper()
	conn := connect(t, database)
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// queryText returns the one value of a query as text.
func queryText(t testing.TB, database, sql string, args ...any) (value string) {
	t.Helper()
	conn := connect(t, database)
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func connect(t testing.TB, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// within polls until the condition holds.
func within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %v: %s", limit, what)
		case <-tick.C:
		}
	}
}
