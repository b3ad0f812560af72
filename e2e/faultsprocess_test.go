package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/fencegate/fencegate/e2e/history"
)

// faultsClientProcess is one of the clients. It is started again when it was killed, with a new name.
type faultsClientProcess struct {
	rig    *faultsRig
	number int

	mu    sync.Mutex
	lives int            // guarded by mu
	cmd   *exec.Cmd      // guarded by mu
	stdin io.Closer      // guarded by mu
	done  chan struct{}  // guarded by mu: closed when this life is over
	lines []history.Line // guarded by mu: of all lives
}

// start begins a life.
func (c *faultsClientProcess) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lives++
	config := c.rig.config
	plan := clientPlan{
		Name: fmt.Sprintf("c%d.%d", c.number, c.lives), Principal: "anonymous", Admin: c.number == 0,
		Leases: config.leases, Bucket: c.rig.bucket.Bucket, Workers: config.workers, Work: config.work,
		Seed: config.seed + uint64(c.number)<<32 + uint64(c.lives)<<48,
	}
	if !config.anonymous {
		plan.Principal = principalOf(c.number)
		plan.Secret = c.rig.secrets[plan.Principal]
	}
	for _, g := range c.rig.gateways {
		plan.Gateways = append(plan.Gateways, g.url())
	}
	content, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), faultsClientEnv+"="+string(content))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	c.cmd, c.done = cmd, done
	c.rig.group.Go(func() {
		defer close(done)
		for in := bufio.NewScanner(out); in.Scan(); {
			var l history.Line
			// A client that was killed can leave half a line.
			if json.Unmarshal(in.Bytes(), &l) != nil {
				continue
			}
			c.mu.Lock()
			c.lines = append(c.lines, l)
			c.mu.Unlock()
		}
		// How it ended is no matter: it is killed often.
		_ = cmd.Wait()
	})
	return nil
}

func (c *faultsClientProcess) life() (*exec.Cmd, chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cmd, c.done
}

func (c *faultsClientProcess) signal(s syscall.Signal) {
	if cmd, _ := c.life(); cmd != nil {
		_ = cmd.Process.Signal(s)
	}
}

// kill ends it with kill -9 and waits.
func (c *faultsClientProcess) kill() {
	cmd, done := c.life()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	<-done
}

// finish lets it end what it is at and waits; one that takes too long is killed.
func (c *faultsClientProcess) finish(limit time.Duration) {
	c.mu.Lock()
	stdin, done := c.stdin, c.done
	c.mu.Unlock()
	if stdin == nil {
		return
	}
	stdin.Close()
	select {
	case <-done:
	case <-time.After(limit):
		c.rig.problem("client %d did not end within %v", c.number, limit)
		c.kill()
	}
}

// told is what it wrote in all its lives.
func (c *faultsClientProcess) told() []history.Line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}
