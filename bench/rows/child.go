package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	childStarts = 60 * time.Second
	childStops  = 20 * time.Second
)

// child is a program that serves HTTP. It says "ready on http://HOST:PORT" on its standard output.
type child struct {
	address string // HOST:PORT
	cmd     *exec.Cmd
	in      io.Closer     // its standard input, to which nothing is written
	done    chan struct{} // closed when it has ended
}

// startChild starts a program and waits until it is ready. What it complains of is in the log, and in the error.
func startChild(ctx context.Context, dir, name, program string, env []string, args ...string) (*child, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := &child{cmd: exec.Command(program, args...), done: make(chan struct{})}
	c.cmd.Dir, c.cmd.Stderr, c.cmd.Env = dir, log, append(os.Environ(), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(c.cmd.SysProcAttr)
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started, ready := make(chan error, 1), make(chan string, 1)
	go func() {
		defer close(c.done)
		// The kernel takes the end of the thread that started a child for the death of its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		for lines := bufio.NewScanner(out); lines.Scan(); { // to its end: it must not wait for a reader
			if _, url, found := strings.Cut(lines.Text(), "ready on http://"); found {
				select {
				case ready <- url:
				default:
				}
			}
		}
		_ = c.cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, childStarts)
	defer cancel()
	select {
	case c.address = <-ready:
		return c, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.done:
		err = fmt.Errorf("it has ended: %v", c.cmd.ProcessState)
	}
	c.stop()
	text, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("%s does not become ready: %w\n%s", name, err, text[:min(len(text), 2000)])
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop ends the program and waits for it.
func (c *child) stop() {
	_ = c.in.Close()
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-c.done:
	case <-time.After(childStops):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}
