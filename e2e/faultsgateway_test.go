package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
)

const (
	gatewaysInAll = 2
	linksEach     = 4 // to PostgreSQL, Redis and S3, and from the clients
	linksInAll    = gatewaysInAll * linksEach
)

// faultsGateway is one of the gateways, with the links around it. It is started again when it was killed.
type faultsGateway struct {
	rig   *faultsRig
	name  string
	links [linksEach]*faultsLink
	log   string

	mu      sync.Mutex
	process *gatewayProcess // guarded by mu; nil while there is none
	stopped bool            // guarded by mu
}

// gatewayProcess is one life of a gateway.
type gatewayProcess struct {
	cmd    *exec.Cmd
	ready  chan string // the address, once
	done   chan struct{}
	wanted atomic.Bool // it was told to end
}

func newFaultsGateway(rig *faultsRig, server *toxiproxy.ApiServer, name string) *faultsGateway {
	g := &faultsGateway{rig: rig, name: name, log: filepath.Join(rig.dir, name+".log")}
	for i, to := range []string{"postgres", "redis", "s3", "clients"} {
		g.links[i] = newFaultsLink(rig.t, server, name+"-"+to)
	}
	return g
}

func (g *faultsGateway) postgres() *faultsLink { return g.links[0] }
func (g *faultsGateway) redis() *faultsLink    { return g.links[1] }
func (g *faultsGateway) s3() *faultsLink       { return g.links[2] }
func (g *faultsGateway) front() *faultsLink    { return g.links[3] }

// url is where clients find it.
func (g *faultsGateway) url() string { return "http://" + g.front().address() }

func (g *faultsGateway) args() []string {
	s3 := g.rig.bucket
	args := []string{
		"serve", "--listen=127.0.0.1:0", "--drain-delay=0s", "--start-timeout=60s",
		"--database-url=postgres://postgres@" + g.postgres().address() + "/fencegate?sslmode=disable",
		"--redis-url=redis://" + g.redis().address(),
		"--s3-endpoint=http://" + g.s3().address(), "--s3-region=" + s3.Region, "--s3-access-key=" + s3.AccessKey, "--s3-secret-key=" + s3.SecretKey,
		// Small times, so that collection meets everything else.
		"--upload-limit=4s", "--download-limit=3s", "--gc-grace=5s", "--gc-interval=300ms",
		"--lock-timeout=2s", "--redis-timeout=500ms",
	}
	if g.rig.authFile != "" {
		args = append(args, "--auth-file="+g.rig.authFile)
	}
	return append(args, g.rig.config.flags...)
}

// start runs the gateway and waits until it serves, or the context ends. One that ends before, because PostgreSQL was
// killed in between say, is started again.
func (g *faultsGateway) start(ctx context.Context) error {
	for {
		p, err := g.launch()
		if err != nil {
			return err
		}
		select {
		case address := <-p.ready:
			g.front().bridge.lead("tcp", address)
			return nil
		case <-p.done:
			wait(ctx, 100*time.Millisecond)
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return fmt.Errorf("start %s: %w", g.name, ctx.Err())
		}
	}
}

func (g *faultsGateway) launch() (*gatewayProcess, error) {
	log, err := os.OpenFile(g.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &gatewayProcess{cmd: exec.Command(g.rig.config.binary, g.args()...), ready: make(chan string, 1), done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Env = append(os.Environ(), g.rig.config.env...)
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return nil, fmt.Errorf("%s was stopped", g.name)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	g.process = p
	g.rig.group.Go(func() {
		defer close(p.done)
		served := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), readyLine); ok {
				served = true
				p.ready <- strings.TrimPrefix(url, "http://")
			}
		}
		err := p.cmd.Wait()
		if served && !p.wanted.Load() {
			g.rig.problem("%s ended by itself: %v", g.name, err)
		}
	})
	return p, nil
}

func (g *faultsGateway) current() *gatewayProcess {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process
}

func (g *faultsGateway) signal(s syscall.Signal) {
	if p := g.current(); p != nil {
		// An error means that it has ended already.
		_ = p.cmd.Process.Signal(s)
	}
}

// kill ends it with kill -9 and waits.
func (g *faultsGateway) kill() {
	if p := g.current(); p != nil {
		p.wanted.Store(true)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// stop ends it in order, for good, and returns how it ended.
func (g *faultsGateway) stop() error {
	g.mu.Lock()
	g.stopped = true
	p := g.process
	g.mu.Unlock()
	if p == nil {
		return nil
	}
	p.wanted.Store(true)
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
	select {
	case <-p.done:
	case <-time.After(patience):
		g.kill()
		return fmt.Errorf("%s did not drain within %v", g.name, patience)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s drained with exit code %d", g.name, code)
	}
	return nil
}
