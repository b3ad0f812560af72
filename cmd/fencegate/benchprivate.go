package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// benchStopGrace is how long the private gateway may take to end.
const benchStopGrace = time.Minute

// private measures a gateway of its own, in a folder that is removed afterwards.
func (b *bench) private(rc *runContext) (err error) {
	dir, err := os.MkdirTemp("", "fencegate-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintln(b.std.err, "Starting a private PostgreSQL, Redis and gateway …")
	ctx, cancel := context.WithCancelCause(rc)
	defer cancel(nil)
	g, err := startBenchGateway(ctx, "--data="+filepath.Join(dir, "data"), "--rows="+strconv.Itoa(len(b.target.resources)), "--bucket="+b.cmd.Bucket)
	if err != nil {
		return err
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		<-g.done
		cancel(errors.New("the private gateway has ended"))
	}()
	defer func() {
		err = errors.Join(err, g.stop())
		<-watched
	}()
	b.api, b.meter = newBenchAPI(g.url, "", b.cmd.Clients), meterBelow(g.cmd.Process.Pid)
	fmt.Fprintf(b.std.err, "Writing %s with %s for %v …\n", b.target.text, counted(b.cmd.Clients, "client"), b.cmd.Warmup+b.cmd.Duration)
	return b.measure(ctx)
}

// benchGatewayProcess is a private gateway, seen from outside.
type benchGatewayProcess struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
	said  bytes.Buffer  // to standard error; to be read when it is done
	done  chan struct{} // closed when it has ended
	err   error         // of its end; to be read when it is done
}

// startBenchGateway starts one and waits until it is ready.
func startBenchGateway(ctx context.Context, args ...string) (*benchGatewayProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &benchGatewayProcess{cmd: exec.Command(self, append([]string{"bench-gateway"}, args...)...), done: make(chan struct{})}
	g.cmd.Stderr = &g.said
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process: leases are given back first
	stdin, err := g.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	g.stdin = stdin
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the private gateway: %w", err)
	}
	giveUp := context.AfterFunc(ctx, func() { _ = stdin.Close() })
	line, err := bufio.NewReader(out).ReadString('\n')
	giveUp()
	go func() {
		defer close(g.done)
		g.err = g.cmd.Wait()
	}()
	if g.url = strings.TrimSpace(line); err == nil && ctx.Err() == nil {
		return g, nil
	}
	err = g.stop()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, errors.Join(errors.New("the private gateway did not start"), err)
}

// stop ends it, its servers with it.
func (g *benchGatewayProcess) stop() error {
	_ = g.stdin.Close() // it may be closed already
	select {
	case <-g.done:
	case <-time.After(benchStopGrace):
		_ = g.cmd.Process.Kill()
		<-g.done
	}
	if g.err == nil {
		return nil
	}
	return fmt.Errorf("the private gateway: %w: %s", g.err, strings.TrimSpace(g.said.String()))
}
