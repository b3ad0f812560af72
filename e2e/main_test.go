package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// binary is the path of the program under test. TestMain builds it before the first test.
var binary string

func TestMain(m *testing.M) {
	if url := os.Getenv(uploaderURL); url != "" {
		os.Exit(uploaderMain(url))
	}
	if plan := os.Getenv(faultsClientEnv); plan != "" {
		os.Exit(faultsClientMain(plan))
	}
	if plan := os.Getenv(waitersEnv); plan != "" {
		os.Exit(waitersMain(plan))
	}
	os.Exit(buildAndTest(m))
}

func buildAndTest(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fencegate-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	// A test runs the program as another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	binary = filepath.Join(dir, "fencegate")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "github.com/fencegate/fencegate/cmd/fencegate")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: build: %v\n%s", err, out)
		return 1
	}
	code := testenv.Main(m)
	if leaks := overheard.leaks(); len(leaks) > 0 {
		fmt.Fprintf(os.Stderr, "e2e: secrets were said:\n%s\n", strings.Join(leaks, "\n"))
		return max(code, 1)
	}
	return code
}
