package composetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// build makes a program of the checkout and returns its path.
func build(t *testing.T, folder, pkg, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	b := exec.CommandContext(t.Context(), "go", "build", "-o", path, pkg)
	b.Dir = folder
	if out, err := b.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v: %s", pkg, err, out)
	}
	return path
}

func fencegate(t *testing.T) string {
	t.Helper()
	return build(t, root, "./cmd/fencegate", "fencegate")
}

// Docker is not needed to see that what the file says works together: the script starts the same programs with the same
// environment and commands.
func TestByHand(t *testing.T) {
	program, shell := fencegate(t), build(t, ".", "./shell", "shell")
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
	check := exec.CommandContext(t.Context(), fencegate(t), "auth", "check", filepath.Join(root, "docs/examples/compose/principals.yaml"))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
