package composetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// build makes a program of the checkout in a folder and returns its path. Nobody looks for its symbols, and a linker takes a
// third of its time to write them.
func build(dir, folder, pkg, name string) (path string, err error) {
	path = filepath.Join(dir, name)
	b := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, pkg)
	b.Dir = folder
	if out, err := b.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w: %s", pkg, err, out)
	}
	return path, nil
}

// program is fencegate, which TestMain builds before the first test.
var program string

func TestMain(m *testing.M) { os.Exit(buildAndTest(m)) }

func buildAndTest(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fencegate-compose-")
	if err == nil {
		defer os.RemoveAll(dir)
		program, err = build(dir, root, "./cmd/fencegate", "fencegate")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "composetest:", err)
		return 1
	}
	return m.Run()
}

// Docker is not needed to see that what the file says works together: the script starts the same programs with the same
// environment and commands.
func TestByHand(t *testing.T) {
	shell, err := build(t.TempDir(), ".", "./shell", "shell")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
	defer cancel()
	script := exec.CommandContext(ctx, filepath.Join(root, "docs/examples/compose/by-hand.sh"))
	script.Env = append(os.Environ(), "FENCEGATE="+program, "COMPOSE_SHELL="+shell)
	// The script stops what it has started when it is told to end.
	script.Cancel = func() error { return script.Process.Signal(os.Interrupt) }
	script.WaitDelay = 30 * time.Second
	out, err := script.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

func TestAuthFile(t *testing.T) {
	check := exec.CommandContext(t.Context(), program, "auth", "check", filepath.Join(root, "docs/examples/compose/principals.yaml"))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
