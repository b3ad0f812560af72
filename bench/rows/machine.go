package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// report says what was measured, on what.
func (b *bench) report(ctx context.Context) (*report, error) {
	about, err := b.machine(ctx)
	return &report{machine: about, plan: b.plan, r: b.results, targets: b.targets(), growth: b.growth, missing: b.missing}, err
}

// machine tells of the machine, the versions and the length of the run.
func (b *bench) machine(ctx context.Context) (string, error) {
	var version, fsync, commit string
	err := b.servers.admin.QueryRow(ctx, "SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('fsync'), current_setting('synchronous_commit')").
		Scan(&version, &fsync, &commit)
	if err != nil {
		return "", err
	}
	programs := []string{fmt.Sprintf("PostgreSQL %s on a socket (fsync %s, synchronous_commit %s, otherwise as it comes)", version, fsync, commit), runtime.Version()}
	for _, p := range []struct {
		name, program string
		args          []string
	}{{"Redis", "redis-server", []string{"--version"}}, {"Node.js", b.node(), []string{"--version"}}} {
		if p.program == "" {
			continue
		}
		if out, err := exec.CommandContext(ctx, p.program, p.args...).Output(); err == nil {
			programs = append(programs, p.name+" "+versionIn(string(out)))
		}
	}
	return fmt.Sprintf("%d CPUs%s, %s/%s; %s; %s. Rounds: %d, slices of %v after %v of warm-up, seed %d.\nThe load generator and all servers share the machine.",
		runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH, strings.Join(programs, ", "), time.Now().UTC().Format(time.DateOnly),
		b.rounds, b.plan.slice, b.warmUp, b.seed), nil
}

// versionIn finds the first number with a point.
func versionIn(text string) string {
	for _, word := range strings.Fields(text) {
		word = strings.TrimLeft(word, "v=")
		if strings.Contains(word, ".") && word[0] >= '0' && word[0] <= '9' {
			return word
		}
	}
	return "?"
}

// processor is its model, where the system tells it.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return " (" + strings.TrimSpace(value) + ")"
		}
	}
	return ""
}

// node is the Node.js of the peers: the one that is installed with them, which is new enough, or else that of the system; empty
// where there is none.
func (b *bench) node() string {
	if b.peers == "" {
		return ""
	}
	own, _ := exec.LookPath(filepath.Join(b.peers, "node_modules", ".bin", "node"))
	others, _ := exec.LookPath("node")
	return cmp.Or(own, others)
}
