package localservers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 20 * time.Second
	pollInterval = 5 * time.Millisecond
	tailLines    = 6
)

// Process is a running server. Its owner ends it with Stop or Kill.
type Process struct {
	name     string
	logFile  string
	cmd      *exec.Cmd
	done     chan struct{}
	err      error // how it ended; read after done is closed
	stopping atomic.Bool
}

type command struct {
	name    string
	path    string
	args    []string
	env     []string
	dir     string
	logFile string
	lock    *folderLock
	as      identity
	exited  func() // called once when the process has ended
}

func startProcess(c command) (*Process, error) {
	out, err := openLog(c.logFile)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", c.name, err)
	}
	defer out.Close()
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.Stdout, cmd.Stderr = out, out
	// The inherited descriptor keeps the folder locked until the last process of the server has ended.
	cmd.ExtraFiles = []*os.File{c.lock.file}
	cmd.SysProcAttr = c.as.attributes()

	p := &Process{name: c.name, logFile: c.logFile, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started, c.exited)
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("start %s (%s): %w", c.name, c.path, err)
	}
	return p, nil
}

// run starts the process and waits for it. The kernel takes the end of the thread that started a child for the death
// of its parent, so this goroutine keeps its thread until the child has ended.
func (p *Process) run(started chan<- error, exited func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	if exited != nil {
		defer exited()
	}
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	if p.err == nil {
		p.err = errors.New("exit status 0")
	}
}

// Pid returns the id of the server's main process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the server has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err tells how the server ended: nil while it runs and when Stop or Kill ended it.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.stopping.Load() {
		return nil
	}
	return fmt.Errorf("%s ended: %w%s", p.name, p.err, tail(p.logFile))
}

// Signal sends a signal to the main process.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Pause stops every process of the server, as SIGSTOP does, until Resume.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for _, pid := range descendants(p.Pid()) {
		// A process that has just ended needs no pause.
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	return nil
}

// Resume continues what Pause stopped.
func (p *Process) Resume() error {
	for _, pid := range descendants(p.Pid()) {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	return p.Signal(syscall.SIGCONT)
}

// Stop ends the server in order and waits for it. A server that does not end in time is killed, which is an error.
func (p *Process) Stop() error {
	p.stopping.Store(true)
	select {
	case <-p.done:
		return nil
	default:
	}
	// Errors mean that it has ended meanwhile. A paused process would not see the interrupt.
	_ = p.Signal(syscall.SIGINT)
	_ = p.Resume()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("%s did not stop within %s and was killed", p.name, stopTimeout)
	}
}

// Kill ends the main process with SIGKILL and waits for it. Its children find out and end by themselves.
func (p *Process) Kill() {
	p.stopping.Store(true)
	children := descendants(p.Pid())
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// waitReady waits until the probe says yes, and no longer than the process lives.
func (p *Process) waitReady(ctx context.Context, probe func() bool) error {
	err := poll(ctx, startTimeout, func() (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("%s ended while it started: %w%s", p.name, p.err, tail(p.logFile))
		default:
			return probe(), nil
		}
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s is not ready: %w%s", p.name, err, tail(p.logFile))
	}
	return err
}

// poll asks until the answer is yes or an error, ctx ends, or the limit is reached.
func poll(ctx context.Context, limit time.Duration, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// openLog starts a new log and keeps the last one beside it.
func openLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// tail returns the last lines of a log, each on a line of its own, for an error message.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil || len(content) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return "\n  " + strings.Join(lines, "\n  ")
}
