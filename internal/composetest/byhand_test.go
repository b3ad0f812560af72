package composetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// built is the program as the checkout has it, made once for the tests of this package.
var built struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

func binaries(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "fencegate-composetest-"); built.err != nil {
			return
		}
		for _, b := range []struct{ folder, pkg, name string }{{root, "./cmd/fencegate", "fencegate"}, {".", "./shell", "shell"}} {
			build := exec.Command("go", "build", "-o", filepath.Join(built.dir, b.name), b.pkg)
			build.Dir = b.folder
			build.Stderr = os.Stderr
			if built.err = build.Run(); built.err != nil {
				return
			}
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

func fencegate(t *testing.T) string {
	t.Helper()
	return filepath.Join(binaries(t), "fencegate")
}

// Docker is not needed to see that what the file says works together: the script starts the same programs with the same
// environment and commands.
func TestByHand(t *testing.T) {
	dir := binaries(t)
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
	defer cancel()
	script := exec.CommandContext(ctx, filepath.Join(root, "docs/examples/compose/by-hand.sh"))
	script.Env = append(os.Environ(), "FENCEGATE="+filepath.Join(dir, "fencegate"), "COMPOSE_SHELL="+filepath.Join(dir, "shell"))
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
