package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Whoever kills the program that renews leaves a command that nobody renews for; it is told.
func TestRunThatIsKilledTakesTheCommandAlong(t *testing.T) {
	t.Parallel()
	p, _ := startShared(t)
	r := startRun(t, p.url, `trap 'echo told >told; exit' TERM; echo $$ >pid; while :; do sleep 0.02; done`, "--lease=orphan", "--ttl=500ms")
	r.until("pid")
	r.signal(syscall.SIGKILL)
	r.until("told")
	within(t, patience, "the command has ended", func() bool { return !r.alive("pid") })
}

// terminal is a pseudo terminal's other end.
type terminal struct {
	t      *testing.T
	master *os.File
	mu     sync.Mutex
	shown  bytes.Buffer // guarded by mu
}

// onTerminal starts a program in a session of its own with a terminal.
func onTerminal(t *testing.T, args ...string) (*exec.Cmd, *terminal) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(term, master)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = master.Close()
		<-read
		if t.Failed() {
			t.Logf("the terminal shows:\n%s", term.text())
		}
	})
	return cmd, term
}

func (x *terminal) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown.Write(b)
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown.String()
}

func (x *terminal) types(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.master, keys); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) shows(text string) {
	x.t.Helper()
	within(x.t, patience, "the terminal shows "+text, func() bool { return strings.Contains(x.text(), text) })
}

// A command has the terminal, as it would have without fencegate run, and the shell gets it back.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	p, _ := startShared(t)
	run := func(lease, script string) string {
		return fmt.Sprintf("%s run --url=%s --lease=%s --ttl=2s -- sh -c '%s'", binary, p.url, lease, script)
	}
	t.Run("ItReads", func(t *testing.T) {
		t.Parallel()
		// A shell without job control, as in a script.
		cmd, term := onTerminal(t, "sh", "-c", run("reads", `echo ready; read x; echo "got $x"; exit 4`)+`; echo "code $?"; read y; echo "then $y"`)
		term.shows("ready")
		term.types("hello\n")
		term.shows("got hello")
		term.shows("code 4")
		term.types("again\n")
		term.shows("then again")
		_ = cmd.Wait()
	})
	t.Run("CtrlC", func(t *testing.T) {
		t.Parallel()
		_, term := onTerminal(t, "bash", "--norc", "-i")
		term.types(run("interrupted", `echo be""gun; sleep 60`) + "; echo co''de $?\n")
		term.shows("begun")
		term.types("\x03")
		term.shows("code 130")
		newClient(t, p.url).get("leases/interrupted").want(t, "not-found")
	})
	t.Run("CtrlZ", func(t *testing.T) {
		t.Parallel()
		_, term := onTerminal(t, "bash", "--norc", "-i")
		term.types(run("stopped", `echo be""gun; read x; echo "got $x"`) + "; echo co''de $?\n")
		term.shows("begun")
		term.types("\x1a")
		term.shows("Stopped")
		term.types("fg\n")
		// It shows the command again, and reads no more.
		within(t, patience, "fg has begun", func() bool { return strings.Count(term.text(), "--lease=stopped") >= 3 })
		term.types("hello\n")
		term.shows("got hello")
		// The command is heard before its lease is given back, which takes less than what is left of the TTL.
		c := newClient(t, p.url)
		within(t, time.Second, "the lease is given back", func() bool { return c.get("leases/stopped").code() == "not-found" })
	})
	t.Run("CtrlZForLongerThanTheTTL", func(t *testing.T) {
		t.Parallel()
		_, term := onTerminal(t, "bash", "--norc", "-i")
		term.types(run("forgotten", `echo be""gun; read x`) + "; echo co''de $?\n")
		term.shows("begun")
		term.types("\x1a")
		term.shows("Stopped")
		c := newClient(t, p.url)
		within(t, patience, "the lease runs out", func() bool { return c.get("leases/forgotten").code() == "not-found" })
		term.types("fg; echo co''de $?\n")
		term.shows("code 76")
	})
	t.Run("NoShellToContinueIt", func(t *testing.T) {
		t.Parallel()
		_, term := onTerminal(t, "sh", "-c", run("alone", `echo ready; read x; echo "got $x"`))
		term.shows("ready")
		term.types("\x1a")
		term.types("hello\n")
		term.shows("got hello")
	})
}
