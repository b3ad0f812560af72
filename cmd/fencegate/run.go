package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/lease"
)

// Exit codes of fencegate run. The first is sysexits.h's EX_TEMPFAIL.
const (
	exitNotAcquired   = 75
	exitLost          = 76
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128
)

// exitStatus is an exit code of which everything has been said.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

type runCmd struct {
	Lease   string        `required:"" placeholder:"NAME" help:"Lease to hold while the command runs."`
	TTL     time.Duration `name:"ttl" default:"30s" help:"How long the lease outlives this program if it dies; it is renewed at a third of it."`
	Wait    time.Duration `default:"0s" help:"How long to wait for a lease that somebody else holds."`
	IfHeld  string        `enum:"fail,skip,wait" default:"fail" help:"When somebody else still holds the lease after --wait: fail (exit code 75), skip (exit code 0, and nothing is said), or wait for as long as it takes (for --wait, if that is given)."`
	Holder  string        `placeholder:"NAME" help:"Name under which others see the holder. Defaults to the host's name and the process id."`
	MaxHold time.Duration `default:"0s" help:"Longest time to hold the lease; then the command is ended as if the lease were lost. 0 is no limit."`
	Grace   time.Duration `default:"10s" help:"How long the command may take to end after SIGTERM, before SIGKILL."`
	gatewayFlags
	Command []string `arg:"" passthrough:"" help:"Command and its arguments."`
}

// Help is shown below the flags of fencegate run.
func (runCmd) Help() string {
	return `Runs a command while holding a lease, and releases the lease when it has ended:

  fencegate run --lease nightly-import -- ./import.sh

The command finds FENCE_TOKEN and FENCE_TOKEN_LAST (the tokens to write with), FENCE_LEASE_ID, FENCEGATE_URL and
FENCEGATE_AUTH_TOKEN in its environment. It runs in a process group of its own, to which SIGHUP, SIGINT, SIGQUIT, SIGTERM,
SIGUSR1, SIGUSR2 and SIGWINCH are passed on. A terminal on standard input is handed to the command, as a shell hands it to a
job, so that Ctrl-C and Ctrl-Z reach the command.

When the lease is lost (taken, broken, or not renewed in time, time asleep included) the group gets SIGTERM, and SIGKILL
after --grace. If this program itself is killed the lease runs out after its time to live; on Linux the command gets a
SIGTERM then.

The lease is given back when the command has ended, whatever it has started and left behind. A wait of more than an hour is
several waits, each at the end of the queue.

Exit codes: that of the command, 128 and the signal's number when a signal ended it; 75 not acquired; 76 the lease was lost
while the command ran, or just before; 126 and 127 a command that cannot be executed or found; 80 wrong flags.`
}

// Validate refuses what would be refused later.
func (c *runCmd) Validate() error {
	if err := c.gatewayFlags.Validate(); err != nil {
		return err
	}
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	switch {
	case len(c.Command) == 0:
		return errors.New("name a command behind --")
	case c.TTL < lease.MinTTL || c.TTL > lease.MaxTTL:
		return fmt.Errorf("--ttl is %v to %v", lease.MinTTL, lease.MaxTTL)
	case c.Wait < 0 || c.MaxHold < 0 || c.Grace < 0:
		return errors.New("--wait, --max-hold and --grace are not negative")
	}
	if c.Holder != "" {
		if err := fence.CheckHolder(c.Holder); err != nil {
			return fmt.Errorf("--holder: %w", err)
		}
	}
	return nil
}

// Run holds the lease around the command.
func (c *runCmd) Run(std *streams, rc *runContext) error {
	if err := fence.CheckLeaseName(c.Lease); err != nil {
		return err
	}
	program, err := c.find()
	if err != nil {
		return c.unstartable(std, err)
	}
	cl, err := client.New(client.Config{URL: c.URL, AuthToken: c.Auth})
	if err != nil {
		return err
	}
	defer cl.Close()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)
	// A signal ends the command, not the lease that it works under.
	ctx, cancel := context.WithCancel(context.WithoutCancel(rc))
	defer cancel()
	kept, err := c.acquire(ctx, cancel, std, cl, signals)
	if err != nil {
		return err
	}
	defer func() {
		if err := kept.Close(); err != nil {
			c.say(std.err, err.Error())
		}
	}()
	if err := kept.Err(); err != nil { // this program was suspended
		c.say(std.err, err.Error()+": the command was not started")
		return exitStatus(exitLost)
	}
	p, err := startProcess(program, c.Command, c.environ(kept), std)
	if err != nil {
		return c.unstartable(std, err)
	}
	return c.attend(std, kept, p, signals)
}

// find finds the program as a shell does.
func (c *runCmd) find() (string, error) {
	program, err := exec.LookPath(c.Command[0])
	if errors.Is(err, exec.ErrDot) {
		return program, nil
	}
	return program, err
}

// unstartable says why the command cannot be started.
func (c *runCmd) unstartable(std *streams, err error) error {
	var named *exec.Error
	var path *fs.PathError
	cause := err
	switch {
	case errors.As(err, &named):
		cause = named.Err
	case errors.As(err, &path):
		cause = path.Err
	}
	c.say(std.err, fmt.Sprintf("%s: %v", shownName(c.Command[0]), cause))
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitStatus(exitNotFound)
	}
	return exitStatus(exitNotExecutable)
}

// acquire takes the lease, waiting for as long as it may. A signal that would end the program cancels the wait.
func (c *runCmd) acquire(ctx context.Context, cancel context.CancelFunc, std *streams, leases lease.Leases, signals <-chan os.Signal) (*lease.Kept, error) {
	type result struct {
		kept *lease.Kept
		err  error
	}
	done := make(chan result, 1)
	go func() {
		kept, err := c.insist(ctx, leases)
		done <- result{kept, err}
	}()
	for {
		select {
		case r := <-done:
			if r.err != nil {
				return nil, c.notAcquired(std, r.err)
			}
			return r.kept, nil
		case s := <-signals:
			if !slices.Contains(ending(), s) {
				continue
			}
			cancel()
			if r := <-done; r.err == nil {
				_ = r.kept.Close()
			}
			return nil, exitStatus(exitSignalled + int(s.(syscall.Signal)))
		}
	}
}

// insist repeats what may succeed when it is repeated, until the wait is over.
func (c *runCmd) insist(ctx context.Context, leases lease.Leases) (*lease.Kept, error) {
	began := time.Now()
	left := func() time.Duration {
		if c.IfHeld == "wait" && c.Wait == 0 {
			return lease.MaxWait
		}
		return max(0, c.Wait-time.Since(began))
	}
	k := lease.Keeper{Leases: leases, Holder: cmp.Or(c.Holder, ownName()), TTL: c.TTL, MaxHold: c.MaxHold}
	for {
		k.Wait = min(left(), lease.MaxWait)
		kept, err := k.Keep(ctx, c.Lease)
		if err == nil || ctx.Err() != nil || !passing(err) || left() == 0 {
			return kept, err
		}
		if fence.CodeOf(err) == fence.CodeLeaseHeld {
			continue
		}
		// A gateway that is away, or is being replaced.
		select {
		case <-time.After(min(time.Second, left())):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// passing reports whether another acquire may succeed.
func passing(err error) bool {
	code := fence.CodeOf(err)
	return code.Retryable() || code == fence.CodeLeaseLost
}

func (c *runCmd) notAcquired(std *streams, err error) error {
	switch {
	case fence.CodeOf(err) == fence.CodeLeaseHeld && c.IfHeld == "skip":
		return exitStatus(exitOK)
	}
	c.say(std.err, "not acquired: "+sayable(err))
	return exitStatus(exitNotAcquired)
}

// environ is the command's environment.
func (c *runCmd) environ(kept *lease.Kept) []string {
	g := kept.Grant()
	set := []string{
		"FENCE_TOKEN=" + g.First().String(), "FENCE_TOKEN_LAST=" + g.Blocks[0].Last.String(), "FENCE_LEASE_ID=" + g.ID, "FENCEGATE_URL=" + c.URL,
	}
	if c.Auth != "" {
		set = append(set, "FENCEGATE_AUTH_TOKEN="+c.Auth)
	}
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(set, func(s string) bool { return v[:strings.IndexByte(v, '=')+1] == s[:strings.IndexByte(s, '=')+1] })
	})
	return append(inherited, set...)
}

// ownName is the holder's, for people.
func ownName() string {
	host, err := os.Hostname()
	if err != nil || fence.CheckHolder(host) != nil || len(host) > fence.MaxHolder/2 {
		host = "fencegate run"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// say tells people what happens. What others have named is shown without what a terminal would not print as it stands.
func (c *runCmd) say(w io.Writer, text string) {
	fmt.Fprintf(w, "fencegate: %s\n", printable(text))
}

// printable escapes what a terminal would not print as it stands.
func printable(text string) string {
	var shown strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			shown.WriteRune(r)
		} else {
			fmt.Fprintf(&shown, "\\u%04x", r)
		}
	}
	return shown.String()
}
