package main

import (
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/fencegate/fencegate/lease"
)

// forwarded are the signals that are passed on to the command.
func forwarded() []os.Signal {
	return append(ending(), syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
}

// ending are those of them that would end this program while it waits for the lease.
func ending() []os.Signal {
	return []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}
}

// attend waits for the end of the command, and ends it when the lease is lost.
func (c *runCmd) attend(std *streams, kept *lease.Kept, p *process, signals <-chan os.Signal) error {
	lost := kept.Context().Done()
	var killing <-chan time.Time
	for {
		select {
		case status := <-p.ended:
			if kept.Err() == nil {
				return exitOf(status)
			}
			if lost != nil {
				c.say(std.err, kept.Err().Error()+", and the command has ended")
				killing = p.end(c.Grace)
			}
			p.clear(killing)
			return exitStatus(exitLost)
		case s := <-signals:
			p.signal(s.(syscall.Signal))
			if slices.Contains(ending(), s) {
				p.signal(syscall.SIGCONT) // a stopped command would not see it
			}
		case <-lost:
			lost = nil
			c.say(std.err, kept.Err().Error()+": ending the command")
			killing = p.end(c.Grace)
		case <-killing:
			killing = nil
			p.signal(syscall.SIGKILL)
		}
	}
}

// exitOf is the exit code of a command that ended while its lease was held, as a shell has it.
func exitOf(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		return exitStatus(exitSignalled + int(status.Signal()))
	case status.ExitStatus() != 0:
		return exitStatus(status.ExitStatus())
	}
	return nil
}
