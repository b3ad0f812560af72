package model

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// outcome is what a search found.
type outcome struct {
	// violated is the assertion that fell; "" when none did.
	violated string
	// complete tells that every reachable state was seen.
	complete bool
	output   string
}

var (
	violatedRE = regexp.MustCompile(`(?m)^pan:\d+: assertion violated\s+(.+) \(at depth \d+\)$`)
	errorsRE   = regexp.MustCompile(`, errors: (\d+)\n`)
	// A search that met its depth or memory bound reports no errors either.
	cutRE = regexp.MustCompile(`max search depth too small|Search not completed|reached -DMEMLIM|out of memory|hash table full|[Tt]runcated`)
)

// explore searches the whole state space of a model with these flags. The searcher's exit status says nothing: its
// report decides.
func explore(t *testing.T, c search, flags ...string) outcome {
	t.Helper()
	// Few states: what takes the time is compiling, and a large table to clear. The limit is for a machine that is busy with others.
	// They are kept as they are: packing them (-DCOLLAPSE) takes longer, and saves memory that the larger bounds need.
	options, table, limit := []string{"-O0"}, "-w20", 3*time.Minute
	if *long {
		options, table, limit = []string{"-O2", "-DCOLLAPSE"}, "-w26", 20*time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	generated := call(t, ctx, dir, "spin", append(append([]string{"-a"}, flags...), c.model)...)
	if strings.Contains(generated, "Error") {
		t.Fatalf("spin -a %s: %s", strings.Join(flags, " "), generated)
	}
	// Invalid end states (-E) are no errors: whoever waits for a lock for ever stands for one that died.
	call(t, ctx, dir, compiler(), append(options, "-w", "-DSAFETY", "-DVECTORSZ=2048", "-DMEMLIM=8000", "-o", "pan", "pan.c")...)
	report := call(t, ctx, dir, "./pan", "-E", "-m100000", table)

	counted := errorsRE.FindStringSubmatch(report)
	if counted == nil {
		t.Fatalf("the search gave no count of errors:\n%s", report)
	}
	o := outcome{output: report, complete: counted[1] == "0" && !cutRE.MatchString(report)}
	if m := violatedRE.FindStringSubmatch(report); m != nil {
		o.violated = m[1]
	}
	return o
}

func call(t *testing.T, ctx context.Context, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			t.Fatalf("%s %s did not end in time", program, strings.Join(args, " "))
		}
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

func compiler() string {
	if cc := os.Getenv("CC"); cc != "" {
		return cc
	}
	for _, cc := range []string{"gcc", "clang"} {
		if _, err := exec.LookPath(cc); err == nil {
			return cc
		}
	}
	return "cc"
}

func needSpin(t *testing.T) {
	t.Helper()
	for _, program := range []string{"spin", compiler()} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: apt-get install spin gcc libc6-dev, or brew install spin", program)
		}
	}
}
