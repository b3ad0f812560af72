package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const examples = "../docs/examples"

// goExamples builds the Go examples and returns where they are.
func goExamples(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir+"/", "./"+examples+"/go/...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// python is how a Python example is called.
func python(t *testing.T, script string, args ...string) []string {
	t.Helper()
	if out, err := exec.Command("python3", "-c", "import requests").CombinedOutput(); err != nil {
		t.Fatalf("the Python examples need python3 and requests (make testdeps; apt-get install python3-requests): %v\n%s", err, out)
	}
	return append([]string{"python3", "-B", filepath.Join(examples, "python", script)}, args...)
}

func shellExample(script string, args ...string) []string {
	return append([]string{filepath.Join(examples, "shell", script)}, args...)
}

// example is a command with a gateway in its environment, and what it wrote.
func example(t *testing.T, p *program, args ...string) (*exec.Cmd, *log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd, out := exec.CommandContext(ctx, args[0], args[1:]...), &log{}
	cmd.Env = append(os.Environ(), "FENCEGATE_URL="+p.url, "FENCEGATE_BLOB_DIR="+filepath.Join(p.data, "blobs"))
	for name, value := range p.env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", strings.Join(args, " "), out)
		}
	})
	return cmd, out
}

// runExample runs an example to its end and returns what it wrote.
func runExample(t *testing.T, p *program, args ...string) string {
	t.Helper()
	cmd, out := example(t, p, args...)
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// What docs/examples shows works as it stands.
func TestExamples(t *testing.T) {
	t.Parallel()
	dir := goExamples(t)
	for name, commands := range map[string]func(t *testing.T, example string, args ...string) []string{
		"Go": func(_ *testing.T, example string, args ...string) []string {
			return append([]string{filepath.Join(dir, example)}, args...)
		},
		"Python": func(t *testing.T, example string, args ...string) []string {
			return python(t, example+".py", args...)
		},
		"Shell": func(_ *testing.T, example string, args ...string) []string {
			return shellExample(example+".sh", args...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			commands(t, "wallet") // before a gateway is started for nothing
			p, _ := startShared(t)
			t.Run("Wallet", func(t *testing.T) { walletExample(t, p, commands(t, "wallet")) })
			t.Run("Nightly", func(t *testing.T) {
				command := commands(t, "nightly")
				if name == "Shell" {
					lease := "report:nightly/" + time.Now().Format(time.DateOnly) + ".csv"
					command = append([]string{binary, "run", "--lease=" + lease, "--if-held=skip", "--"}, command...)
				}
				nightlyExample(t, p, command, name == "Shell")
			})
			t.Run("Leader", func(t *testing.T) {
				leaderExample(t, p, commands(t, "leader", "a"), commands(t, "leader", "b"))
			})
		})
	}
	t.Run("InProcess", func(t *testing.T) {
		t.Parallel()
		p, _ := startShared(t)
		runExample(t, p, binary, "protect", "wallets", "--guard")
		if out := runExample(t, p, filepath.Join(dir, "inprocess-row")); out != "left: 90\n" {
			t.Errorf("it wrote %q", out)
		}
		sqlExample(t, p)
		if balance, mark := newClient(t, p.url).balance("wallets/42"); balance != "80" || mark == 0 {
			t.Errorf("balance %s, mark %d", balance, mark)
		}
		if out := runExample(t, p, filepath.Join(dir, "inprocess-object")); !strings.HasPrefix(out, "published with token ") || !strings.HasSuffix(out, ": hello\n") {
			t.Errorf("it wrote %q", out)
		}
		if r := newClient(t, p.url).get("objects/reports/hello.txt"); string(r.body) != "hello\n" || r.mark() == 0 {
			t.Errorf("the gateway serves %v", r)
		}
	})
}

// sqlExample lets plain SQL write to a guarded table under a lease, and not without it.
func sqlExample(t *testing.T, p *program) {
	if _, err := exec.LookPath("psql"); err != nil {
		t.Fatalf("the SQL example needs psql (apt-get install postgresql-client): %v", err)
	}
	script := filepath.Join(examples, "sql", "spend.sh")
	if out := runExample(t, p, binary, "run", "--lease=wallet:42", "--", script); out != "left: 80\n" {
		t.Errorf("it wrote %q", out)
	}
	mark := newClient(t, p.url).get("marks/rows/wallets/42").mark()
	for token, says := range map[int64]string{mark: "grant-ended", mark - 1: "stale-token"} {
		cmd, out := example(t, p, script)
		cmd.Env = append(cmd.Env, fmt.Sprint("FENCE_TOKEN=", token))
		if err := cmd.Run(); err == nil || !strings.Contains(out.String(), says) {
			t.Errorf("with token %d: %v\n%s", token, err, out)
		}
	}
	cmd, out := example(t, p, "psql", "-X", "-c", "UPDATE wallets SET balance = 0", p.env()["FENCEGATE_DATABASE_URL"])
	if err := cmd.Run(); err == nil || !strings.Contains(out.String(), "fence.admit('public.wallets', KEY, TOKEN)") {
		t.Errorf("without a token: %v\n%s", err, out)
	}
}

// walletExample lets the fifty spend from a wallet of 100.
func walletExample(t *testing.T, p *program, command []string) {
	out := runExample(t, p, command...)
	if !strings.Contains(out, "10 of 50 were served\n") {
		t.Errorf("it wrote\n%s", out)
	}
	c := newClient(t, p.url)
	if balance, _ := c.balance("wallets/42"); balance != "0" {
		t.Errorf("the balance is %s", balance)
	}
	c.get("leases/wallet:42").want(t, "not-found")
}

// nightlyExample starts the job on three machines at once, and once more.
func nightlyExample(t *testing.T, p *program, command []string, silent bool) {
	c := newClient(t, p.url)
	var mu sync.Mutex
	var all bytes.Buffer
	var jobs sync.WaitGroup
	for range 3 {
		jobs.Go(func() {
			out := runExample(t, p, command...)
			mu.Lock()
			defer mu.Unlock()
			all.WriteString(out)
		})
	}
	jobs.Wait()
	all.WriteString(runExample(t, p, command...))
	said := all.String()
	others := strings.Count(said, "somebody else is at it\n") + strings.Count(said, "it was done before\n")
	if strings.Count(said, "published\n") != 1 || !strings.HasSuffix(said, "it was done before\n") || !silent && others != 3 {
		t.Errorf("they wrote\n%s", said)
	}
	name := "reports/nightly/" + time.Now().Format(time.DateOnly) + ".csv"
	r := c.get("objects/" + name)
	if lines := bytes.Count(r.body, []byte("\n")); lines != 1000 || r.header.Get("Content-Type") != "text/csv" {
		t.Errorf("the report: %d lines, %v", lines, r.header)
	}
}

// leaderExample pauses the leader until it is replaced, and continues it.
func leaderExample(t *testing.T, p *program, first, second []string) {
	c := newClient(t, p.url)
	leads := func(name string) func() bool {
		return func() bool { return string(c.get("objects/reports/leader").body) == name }
	}
	start := func(command []string) (*exec.Cmd, *log) {
		cmd, out := example(t, p, command...)
		// A group of its own: a shell's children are stopped with it.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	a, saidA := start(first)
	defer func() { _ = syscall.Kill(-a.Process.Pid, syscall.SIGKILL); _ = a.Wait() }()
	within(t, patience, "a leads", leads("a"))
	b, saidB := start(second)
	defer func() { _ = syscall.Kill(-b.Process.Pid, syscall.SIGKILL); _ = b.Wait() }()
	if err := syscall.Kill(-a.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "b leads", leads("b"))
	mark := c.get("marks/objects/reports/leader")
	if err := syscall.Kill(-a.Process.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "a notices", func() bool {
		return strings.Contains(saidA.String(), "a leads no more") || strings.Contains(saidA.String(), "a does not lead")
	})
	// b goes on, and nothing of a's has come in between.
	var before, now struct{ Token, FirstToken int64 }
	mark.decode(t, &before)
	within(t, patience, "b goes on", func() bool {
		r := c.get("marks/objects/reports/leader")
		return json.Unmarshal(r.body, &now) == nil && now.Token > before.Token
	})
	if !leads("b")() || strings.Count(saidB.String(), "b leads\n") != 1 {
		t.Errorf("b wrote\n%s\na wrote\n%s", saidB, saidA)
	}
	for _, cmd := range []*exec.Cmd{a, b} {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", cmd, err)
		}
	}
	c.get("leases/report:leader").want(t, "not-found")
}

// The Go code that README.md and docs/migrating.md show compiles.
func TestShownGoCompiles(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	source.WriteString(`package main

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/lease"
)

var _ = fence.CodeOf

func main() {}
`)
	shown := 0
	for file, headings := range map[string][]string{
		"../README.md":         {"## In your program"},
		"../docs/migrating.md": {"## bsm/redislock", "## go-redsync/redsync", "## ubgo/lock, package redislock"},
	} {
		for _, heading := range headings {
			for _, b := range codeBlocks(t, file, heading) {
				if b.language != "go" || strings.HasPrefix(b.text, "// before") {
					continue
				}
				shown++
				fmt.Fprintf(&source, `
func shown%d(ctx context.Context, gateway *client.Client, balance int, errBusy error, importAll func(context.Context, *lease.Tokens) error) error {
	var _ time.Duration
	%s
	return err
}
`, shown, b.text)
			}
		}
	}
	if shown != 4 {
		t.Errorf("%d blocks were found", shown)
	}
	// In a package that is there for the compiler only: it needs the module around it.
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "docs/examples/go/shown/main.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{file: source.String(), overlay: string(replaced)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-overlay="+overlay, "-o", filepath.Join(dir, "shown"), "./docs/examples/go/shown")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("go build: %v\n%s\n%s", err, out, source.String())
	}
}
