package main

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
)

// process is a command in a process group of its own.
type process struct {
	pid      int
	terminal *terminal // nil if the command did not get it
	// ended yields how the command ended, once.
	ended chan syscall.WaitStatus
}

// startProcess starts a command that inherits what it is given: pipes of ours would go on for as long as the command's own
// children have them open.
func startProcess(program string, args, env []string, std *streams) (*process, error) {
	files, err := inherited(std.in, std.out, std.err)
	if err != nil {
		return nil, err
	}
	p := &process{ended: make(chan syscall.WaitStatus, 1)}
	sys := &syscall.SysProcAttr{Setpgid: true}
	if p.terminal = terminalOf(files[0]); p.terminal != nil {
		sys.Foreground, sys.Ctty = true, int(files[0].Fd())
	}
	endWithParent(sys)
	started := make(chan error)
	go func() {
		// The system tells the command of the end of the thread that started it, not of the program's.
		runtime.LockOSThread()
		child, err := os.StartProcess(program, args, &os.ProcAttr{Env: env, Files: files, Sys: sys})
		if err == nil {
			p.pid = child.Pid
			_ = child.Release() // it is waited for below
		}
		started <- err
		if err == nil {
			p.ended <- p.wait()
		}
	}()
	return p, <-started
}

// inherited are the standard streams as files.
func inherited(in io.Reader, outs ...io.Writer) ([]*os.File, error) {
	files := make([]*os.File, 0, 1+len(outs))
	f, ok := in.(*os.File)
	files = append(files, f)
	for _, w := range outs {
		f, is := w.(*os.File)
		files, ok = append(files, f), ok && is
	}
	if !ok {
		return nil, errors.New("the standard streams are no files")
	}
	return files, nil
}

// wait waits for the end of the command, which may be stopped on the way.
func (p *process) wait() syscall.WaitStatus {
	p.terminal.given()
	defer p.terminal.takeBack()
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil, status.Exited(), status.Signaled():
			return status
		case status.Stopped():
			p.terminal.stopped(p.pid)
		}
	}
}

// signal sends a signal to the command's group. An error means that nobody is left of it.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.pid, s) }

// end tells the group to end. What is returned comes when it is to be killed.
func (p *process) end(grace time.Duration) <-chan time.Time {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT) // one that is stopped would not end
	return time.After(grace)
}

// clear waits for what is left of the group behind its leader, and kills it when its time is over; at once without one.
func (p *process) clear(killing <-chan time.Time) {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for killing != nil && syscall.Kill(-p.pid, 0) == nil {
		select {
		case <-killing:
			killing = nil
		case <-look.C:
		}
	}
	p.signal(syscall.SIGKILL)
}
