package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A gateway that is away is asked until the lease may have run out.
func TestRunWithoutItsGateway(t *testing.T) {
	t.Parallel()
	s := testServers(t)
	p := startOn(t, s, t.TempDir())
	r := startRun(t, p.url, "touch began; sleep 60", "--lease=job", "--ttl=1s")
	r.until("began")
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }()
	within(t, 10*time.Second, "the loss is said", func() bool {
		return strings.Contains(r.read("err"), "lease job could not be renewed before it may have run out")
	})
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	r.want(p.client(), 76, "ending the command", "")

	again := startRun(t, p.url, "touch began; sleep 1.2", "--lease=other", "--ttl=2s")
	again.until("began")
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	again.want(p.client(), 0, "", "other") // away for less than the TTL
}
