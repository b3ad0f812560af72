package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
)

// workerProcess is a worker of the demo, seen from outside.
type workerProcess struct {
	name  string
	token int64
	wrote string // what it wrote, or would have

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	steps  *bufio.Scanner
	errors bytes.Buffer
	waited bool
}

func startWorker(ctx context.Context, program, name string, args, env []string) (*workerProcess, error) {
	w := &workerProcess{name: name, cmd: exec.CommandContext(ctx, program, args...)}
	w.cmd.Env = env
	w.cmd.Stderr = &w.errors
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.steps = bufio.NewScanner(out)
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return w, nil
}

// next waits for the worker's next step, which must be the event that is wanted.
func (w *workerProcess) next(event string) (step, error) {
	if !w.steps.Scan() {
		return step{}, fmt.Errorf("%s ended before it was %s: %s", w.name, event, w.complaint())
	}
	var s step
	if err := json.Unmarshal(w.steps.Bytes(), &s); err != nil {
		return step{}, fmt.Errorf("%s said %q: %w", w.name, w.steps.Text(), err)
	}
	if s.Event != event {
		return s, fmt.Errorf("%s should have been %s and was %s %s %s", w.name, event, s.Event, s.Code, s.Detail)
	}
	return s, nil
}

func (w *workerProcess) tellToWrite() error {
	_, err := io.WriteString(w.stdin, "write\n")
	return err
}

func (w *workerProcess) signal(sig os.Signal) error { return w.cmd.Process.Signal(sig) }

// wait waits for the worker's end.
func (w *workerProcess) wait() error {
	w.waited = true
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", w.name, err, strings.TrimSpace(w.errors.String()))
	}
	return nil
}

// complaint ends the worker and returns what it wrote to standard error.
func (w *workerProcess) complaint() string {
	w.kill()
	return strings.TrimSpace(w.errors.String())
}

// kill ends a worker that did not end by itself, stopped or not.
func (w *workerProcess) kill() {
	if w.waited {
		return
	}
	w.waited = true
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

// readable is a percent-encoded name for people.
func readable(name string) string {
	if s, err := url.PathUnescape(name); err == nil {
		return s
	}
	return name
}

func orNone(s string) string {
	if s == "" {
		return "none yet"
	}
	return s
}
