package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// running is a fencegate run, with what it and its command write.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	dir  string
	done chan struct{}
}

// startRun runs a script under a lease; flags are those of fencegate run. The script's folder is its working folder.
func startRun(t *testing.T, gateway, script string, flags ...string) *running {
	t.Helper()
	return startRunIn(t, nil, gateway, script, flags...)
}

// startRunIn adds to the environment.
func startRunIn(t *testing.T, env []string, gateway, script string, flags ...string) *running {
	t.Helper()
	r := &running{t: t, dir: t.TempDir(), done: make(chan struct{})}
	args := append([]string{"run", "--url=" + gateway}, flags...)
	r.cmd = exec.Command(binary, append(args, "--", "sh", "-c", script)...)
	r.cmd.Dir, r.cmd.Env = r.dir, append(os.Environ(), env...)
	// Its own files: a pipe would be held open by what a script leaves behind.
	for name, to := range map[string]func(*os.File){"out": func(f *os.File) { r.cmd.Stdout = f }, "err": func(f *os.File) { r.cmd.Stderr = f }} {
		f, err := os.Create(filepath.Join(r.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		to(f)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(r.done); _ = r.cmd.Wait() }()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
		overheard.hears("fencegate run of "+t.Name(), r.read("err"))
		if t.Failed() {
			t.Logf("standard output:\n%s\nstandard error:\n%s", r.read("out"), r.read("err"))
		}
	})
	return r
}

// read returns a file of the script's folder, empty if there is none.
func (r *running) read(name string) string {
	content, _ := os.ReadFile(filepath.Join(r.dir, name))
	return string(content)
}

// wait waits for the end and returns the exit code.
func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatalf("it still runs after %v", patience)
	}
	return r.cmd.ProcessState.ExitCode()
}

// until waits for a file of the script's.
func (r *running) until(name string) {
	r.t.Helper()
	within(r.t, patience, "the script makes the file "+name, func() bool {
		_, err := os.Stat(filepath.Join(r.dir, name))
		return err == nil
	})
}

func (r *running) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// want checks the exit code, what is said, and that the lease is free again.
func (r *running) want(c *client, code int, says, lease string) {
	r.t.Helper()
	if got := r.wait(); got != code || !strings.Contains(r.read("err"), says) {
		r.t.Errorf("exit code %d, want %d, and %q in:\n%s", got, code, says, r.read("err"))
	}
	if lease != "" {
		if held := c.get("leases/" + lease); held.code() != "not-found" {
			r.t.Errorf("the lease is not free: %v", held)
		}
	}
}

// alive reports whether a process of the script's, which wrote its id to a file, is there.
func (r *running) alive(name string) bool {
	r.t.Helper()
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(r.read(name)) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestRun(t *testing.T) {
	t.Parallel()
	p, _ := startShared(t)
	for name, test := range map[string]func(*testing.T, *program){
		"ExitCodes": runExitCodes, "TellsTheCommand": runTellsTheCommand, "Waits": runWaits, "KeepsTheLease": runKeepsTheLease,
		"ForwardsSignals": runForwardsSignals, "EndsTheCommandOfALostLease": runEndsTheCommandOfALostLease,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

func runExitCodes(t *testing.T, p *program) {
	newClient(t, p.url).acquire("held", time.Hour)
	for _, c := range []struct {
		name, script, says string
		code               int
		flags              []string
	}{
		{"OK", "true", "", 0, nil},
		{"ItsOwn", "exit 7", "", 7, nil},
		{"Signalled", "kill -USR1 $$", "", 128 + int(syscall.SIGUSR1), nil},
		{"Killed", "kill -9 $$", "", 137, nil},
		{"Held", "echo ran >ran", "not acquired: lease held is held by anonymous", 75, []string{"--lease=held"}},
		{"HeldForLonger", "echo ran >ran", "not acquired: lease held is held by anonymous", 75, []string{"--lease=held", "--if-held=wait", "--wait=100ms"}},
		{"Skipped", "echo ran >ran", "", 0, []string{"--lease=held", "--if-held=skip"}},
		{"SkippedBehindAWait", "echo ran >ran", "", 0, []string{"--lease=held", "--if-held=skip", "--wait=100ms"}},
		{"NoGateway", "echo ran >ran", "not acquired: ", 75, []string{"--url=http://127.0.0.1:1"}},
		{"NoSuchLease", "echo ran >ran", "control character", 1, []string{"--lease=a\nb"}},
		{"BadTTL", "echo ran >ran", "--ttl is 100ms to 24h", 80, []string{"--ttl=1ms"}},
		{"BadURL", "echo ran >ran", "--url is not of the form", 80, []string{"--url=localhost"}},
		{"BadChoice", "echo ran >ran", "--if-held", 80, []string{"--if-held=maybe"}},
		{"BadHolder", "echo ran >ran", "--holder", 80, []string{"--holder=a\nb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lease := "exit-" + c.name
			r := startRun(t, p.url, c.script, append([]string{"--lease=" + lease}, c.flags...)...)
			r.want(newClient(t, p.url), c.code, c.says, lease)
			if r.read("ran") != "" {
				t.Error("the command ran")
			}
			if c.code == 0 && r.read("err") != "" {
				t.Errorf("it says\n%s", r.read("err"))
			}
		})
	}
	t.Run("UnstartableCommands", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "script"), []byte("no program"), 0o755); err != nil {
			t.Fatal(err)
		}
		for command, want := range map[string]int{"no-such-command": 127, "./none": 127, "/": 126, "/etc/passwd": 126, filepath.Join(dir, "script"): 126} {
			_, errs, code := runBinary(t, nil, "run", "--url="+p.url, "--lease=unstartable", "--", command)
			if code != want || !strings.Contains(errs, command) {
				t.Errorf("%s: exit code %d, want %d:\n%s", command, code, want, errs)
			}
		}
		newClient(t, p.url).get("leases/unstartable").want(t, "not-found")
	})
	t.Run("NoCommand", func(t *testing.T) {
		if _, errs, code := runBinary(t, nil, "run", "--url="+p.url, "--lease=x"); code != 80 || !strings.Contains(errs, "name a command") {
			t.Errorf("exit code %d:\n%s", code, errs)
		}
	})
}

func runTellsTheCommand(t *testing.T, p *program) {
	c := newClient(t, p.url)
	script := `
		curl -sS -f -X PATCH --json '{"balance":7}' -H "X-Fence-Token: $FENCE_TOKEN" "$FENCEGATE_URL/v1/rows/wallets/42" >row
		curl -sS -f -X POST -H "X-Lease-Id: $FENCE_LEASE_ID" "$FENCEGATE_URL/v1/leases/wallet:42/tokens" >more
		curl -sS "$FENCEGATE_URL/v1/leases/wallet:42" >lease
		echo "$((FENCE_TOKEN_LAST - FENCE_TOKEN)) $FENCEGATE_AUTH_TOKEN $UNTOUCHED"; cat`
	env := []string{"UNTOUCHED=x y", "FENCE_TOKEN=an older one", "FENCEGATE_AUTH_TOKEN=bearer"}
	r := startRunIn(t, env, p.url, script, "--lease=wallet:42", "--holder=cron job", "--ttl=1s")
	r.want(c, 0, "", "wallet:42")
	if balance, _ := c.balance("wallets/42"); balance != "7" || !strings.Contains(r.read("lease"), `"holder":"cron job"`) || r.read("out") != "999 bearer x y\n" {
		t.Errorf("balance %s, %s, %q", balance, r.read("lease"), r.read("out"))
	}
	if !strings.Contains(r.read("more"), `"blocks"`) || strings.Contains(r.read("err"), "more") {
		t.Errorf("more tokens: %s", r.read("more"))
	}
}

func runWaits(t *testing.T, p *program) {
	c := newClient(t, p.url)
	for name, flags := range map[string][]string{"ForAWhile": {"--wait=30s"}, "ForAsLongAsItTakes": {"--if-held=wait"}} {
		t.Run(name, func(t *testing.T) {
			held := c.acquire("busy", time.Minute)
			r := startRun(t, p.url, "echo ran", append(flags, "--lease=busy", "--ttl=5s")...)
			within(t, patience, "it waits", func() bool { return strings.Contains(string(c.get("leases/busy").body), `"holder"`) })
			select {
			case <-r.done:
				t.Fatal("it did not wait")
			case <-time.After(200 * time.Millisecond):
			}
			c.release("busy", held)
			if r.want(c, 0, "", "busy"); r.read("out") != "ran\n" {
				t.Errorf("it wrote %q", r.read("out"))
			}
		})
	}
	t.Run("UntilItIsTold", func(t *testing.T) {
		held := c.acquire("busy", time.Minute)
		asked := make(chan struct{}, 100)
		target, err := url.Parse(p.url)
		if err != nil {
			t.Fatal(err)
		}
		through := httputil.NewSingleHostReverseProxy(target)
		through.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
		between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			asked <- struct{}{}
			through.ServeHTTP(w, req)
		}))
		defer between.Close()
		r := startRun(t, between.URL, "echo ran", "--if-held=wait", "--lease=busy", "--ttl=5s")
		<-asked
		r.signal(syscall.SIGUSR1)
		r.signal(syscall.SIGINT)
		if code := r.wait(); code != 128+int(syscall.SIGINT) || r.read("out") != "" {
			t.Errorf("exit code %d, it wrote %q", code, r.read("out"))
		}
		c.release("busy", held)
		within(t, patience, "nobody has the lease", func() bool { return c.get("leases/busy").code() == "not-found" })
	})
}

func runKeepsTheLease(t *testing.T, p *program) {
	r := startRun(t, p.url, "touch began; sleep 2.5", "--lease=kept", "--ttl=1s")
	r.until("began")
	for {
		_, got, err := newClient(t, p.url).tryAcquire(t.Context(), "kept", time.Second, 0)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-r.done:
			if code := r.wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			return
		default:
			if got.code() != "lease-held" {
				// It may have ended in between.
				if r.wait() != 0 || r.read("err") != "" {
					t.Errorf("somebody else got it: %v", got)
				}
				return
			}
		}
	}
}

func runForwardsSignals(t *testing.T, p *program) {
	for _, s := range []struct {
		name   string
		signal syscall.Signal
	}{{"HUP", syscall.SIGHUP}, {"INT", syscall.SIGINT}, {"QUIT", syscall.SIGQUIT}, {"TERM", syscall.SIGTERM}, {"USR1", syscall.SIGUSR1}, {"USR2", syscall.SIGUSR2}, {"WINCH", syscall.SIGWINCH}} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			// The process below has only its group in common with the command.
			script := `trap : ` + s.name + `
				sh -c 'trap "echo got >below; exit" ` + s.name + `; touch ready; while :; do sleep 0.02; done'; exit 9`
			r := startRun(t, p.url, script, "--lease=signal-"+s.name)
			r.until("ready")
			r.signal(s.signal)
			r.signal(s.signal) // a second one does not end what waits for the command either
			r.want(newClient(t, p.url), 9, "", "signal-"+s.name)
			if r.read("below") != "got\n" {
				t.Error("the group was not signalled")
			}
		})
	}
}

func runEndsTheCommandOfALostLease(t *testing.T, p *program) {
	breaks := func(c *client, lease string) {
		c.must(c.try(c.t.Context(), "POST", "/v1/leases/"+lease+"/break", strings.NewReader(`{"reason":"stuck"}`), "Content-Type", "application/json")).want(c.t, "")
	}
	t.Run("Broken", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, p.url)
		script := `trap 'echo term >trapped; exit 0' TERM; sh -c 'echo $$ >below; exec sleep 60' & touch began; while :; do sleep 0.02; done`
		r := startRun(t, p.url, script, "--lease=broken", "--ttl=600ms")
		r.until("began")
		r.until("below")
		breaks(c, "broken")
		r.want(c, 76, "lease broken has ended: broken: stuck (by anonymous): ending the command", "broken")
		if r.read("trapped") != "term\n" || r.alive("below") {
			t.Errorf("trapped %q, the child's child is alive: %v", r.read("trapped"), r.alive("below"))
		}
	})
	t.Run("SIGKILLBehindTheGrace", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, p.url)
		r := startRun(t, p.url, `trap '' TERM; echo $$ >pid; while :; do sleep 0.02; done`, "--lease=stubborn", "--ttl=600ms", "--grace=300ms")
		r.until("pid")
		breaks(c, "stubborn")
		if r.want(c, 76, "ending the command", "stubborn"); r.alive("pid") {
			t.Error("the command is alive")
		}
	})
	t.Run("StubbornBelow", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, p.url)
		r := startRun(t, p.url, `sh -c 'trap "" TERM; echo $$ >below; while :; do sleep 0.02; done' & touch began; wait`, "--lease=below", "--ttl=600ms", "--grace=300ms")
		r.until("below")
		breaks(c, "below")
		if r.want(c, 76, "ending the command", "below"); r.alive("below") {
			t.Error("what the command left behind is alive")
		}
	})
	t.Run("Stopped", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, p.url)
		r := startRun(t, p.url, `echo $$ >pid; kill -STOP $$`, "--lease=stopped", "--ttl=600ms", "--grace=10m")
		r.until("pid")
		breaks(c, "stopped")
		r.want(c, 76, "ending the command", "stopped")
	})
	t.Run("StoppedAndToldToEnd", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, p.url, `echo $$ >pid; kill -STOP $$`, "--lease=told", "--ttl=5s")
		r.until("pid")
		r.signal(syscall.SIGTERM)
		r.want(newClient(t, p.url), 128+int(syscall.SIGTERM), "", "told")
	})
	t.Run("MaxHold", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, p.url, `sleep 60`, "--lease=long", "--ttl=5s", "--max-hold=300ms")
		r.want(newClient(t, p.url), 76, "lease long was held for as long as it may be", "long")
	})
	t.Run("EndedWhileNobodyLooked", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, p.url)
		r := startRun(t, p.url, `echo $$ >pid; sleep 0.5`, "--lease=unseen", "--ttl=500ms")
		r.until("pid")
		r.signal(syscall.SIGSTOP)
		g := c.acquire("unseen", time.Minute)
		within(t, patience, "the command has ended", func() bool { return !r.alive("pid") })
		r.signal(syscall.SIGCONT)
		r.want(c, 76, "lease unseen ", "")
		c.release("unseen", g)
	})
	t.Run("PausedPastTheTTL", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, p.url)
		r := startRun(t, p.url, `touch began; while :; do sleep 0.02; done`, "--lease=paused", "--ttl=500ms")
		r.until("began")
		r.signal(syscall.SIGSTOP)
		g := c.acquire("paused", time.Minute) // once it has run out
		r.signal(syscall.SIGCONT)
		r.want(c, 76, "lease paused ", "")
		c.release("paused", g)
	})
}
