package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is one that is handed to a command's process group and taken back, as a shell does with its jobs. A nil terminal
// is none.
type terminal struct {
	fd  int
	own int // this program's process group
}

// terminalOf returns the terminal of a file; nil if it is none, or not this program's to hand on because it runs in the
// background.
func terminalOf(f *os.File) *terminal {
	t := &terminal{fd: int(f.Fd()), own: syscall.Getpgrp()}
	if !t.has(t.own) {
		return nil
	}
	return t
}

// has reports whether a process group has the terminal.
func (t *terminal) has(group int) bool {
	got, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && got == group
}

func (t *terminal) give(group int) { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) }

// given is called once the command's group has the terminal: from then on this program is in the background, from where
// only who ignores SIGTTOU can take it back. Ignored before, the signal would be ignored by the command, too.
func (t *terminal) given() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

func (t *terminal) takeBack() {
	if t != nil {
		t.give(t.own)
	}
}

// unstopped is how long this program takes to stop. Where no shell could continue it, it does not.
const unstopped = 200 * time.Millisecond

// stopped follows a command that was stopped at its terminal (Ctrl-Z): this program stops too, so that the shell sees it,
// and both go on together.
func (t *terminal) stopped(pid int) {
	if t == nil || !t.has(pid) {
		return
	}
	t.takeBack()
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	select {
	case <-continued:
	case <-time.After(unstopped):
	}
	if t.has(t.own) {
		t.give(pid)
	}
	_ = syscall.Kill(-pid, syscall.SIGCONT)
}
