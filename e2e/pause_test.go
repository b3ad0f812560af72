package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pausedTTL is the time to live of the lease whose holder is paused.
const pausedTTL = 300 * time.Millisecond

// worker is a process that holds a lease and can be stopped.
type worker struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startProcess(t testing.TB, cmd *exec.Cmd) *worker {
	t.Helper()
	w := &worker{t: t, cmd: cmd}
	var errs log
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.in, w.lines = in, bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("standard error of %v:\n%s", cmd.Args, errs.String())
		}
	})
	return w
}

// startWorker starts fencegate worker, which takes the lease, reads the resource, and writes when it is told to.
func startWorker(t testing.TB, url, lease, path string, flags ...string) *worker {
	t.Helper()
	args := append([]string{"worker", "--url=" + url, "--holder=paused", "--lease=" + lease, "--path=" + path, "--ttl=" + pausedTTL.String()}, flags...)
	return startProcess(t, exec.Command(binary, args...))
}

func (w *worker) line() string {
	w.t.Helper()
	if !w.lines.Scan() {
		w.t.Fatalf("the worker said nothing more: %v", w.lines.Err())
	}
	return w.lines.Text()
}

// step is a line of fencegate worker.
func (w *worker) step(event string) (s struct {
	Event, Code, Detail string
	Token               int64
}) {
	w.t.Helper()
	line := w.line()
	if err := json.Unmarshal([]byte(line), &s); err != nil || s.Event != event {
		w.t.Fatalf("the worker said %q, want %s (%v)", line, event, err)
	}
	return s
}

// pause stops the worker and returns when the kernel says that all its threads have stopped.
func (w *worker) pause() {
	w.t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(w.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || !status.Stopped() {
			w.t.Fatalf("the worker has not stopped: status %#x, %v", status, err)
		}
		return
	}
}

// wake lets the worker do what it was about to.
func (w *worker) wake() {
	w.t.Helper()
	if _, err := io.WriteString(w.in, "go on\n"); err != nil {
		w.t.Fatal(err)
	}
	if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		w.t.Fatal(err)
	}
}

// I1, I5: a holder that was paused past its TTL writes a row after its successor has. It is refused, and neither row nor
// mark changes.
func TestPausedHolderIsRefusedAfterItsSuccessorWroteTheRow(t *testing.T) {
	t.Parallel()
	p, _ := startShared(t)
	c := p.client()
	w := startWorker(t, p.url, "wallet:42", "rows/wallets/42", "--row=balance", "--take=30")
	paused := w.step("granted").Token
	w.step("read")
	w.pause()

	successor := c.acquire("wallet:42", 30*time.Second)
	if successor.Token <= paused {
		t.Fatalf("successor's token %d is not above %d", successor.Token, paused)
	}
	c.patch("wallets/42", successor.Token, `{"balance":50}`).want(t, "")
	w.wake()
	if got := w.step("refused"); got.Code != "stale-token" {
		t.Errorf("late write: got %+v, want stale-token", got)
	}
	if balance, mark := c.balance("wallets/42"); balance != "50" || mark != successor.Token {
		t.Errorf("balance %s, mark %d; want 50, %d", balance, mark, successor.Token)
	}
}

// I2: the holder is refused as soon as its successor has been granted the lease, before the successor's first write.
func TestPausedHolderIsRefusedBeforeItsSuccessorsFirstWriteOfTheRow(t *testing.T) {
	t.Parallel()
	p, _ := startShared(t)
	c := p.client()
	w := startWorker(t, p.url, "wallet:42", "rows/wallets/42", "--row=balance", "--take=30")
	w.step("granted")
	w.step("read")
	w.pause()

	successor := c.acquire("wallet:42", 30*time.Second)
	w.wake()
	if got := w.step("refused"); got.Code != "stale-token" {
		t.Errorf("late write: got %+v, want stale-token", got)
	}
	if balance, mark := c.balance("wallets/42"); balance != "100" || mark != 0 {
		t.Errorf("after the refusal: balance %s, mark %d; want 100, 0", balance, mark)
	}
	c.patch("wallets/42", successor.Token, `{"balance":50}`).want(t, "")
	if balance, mark := c.balance("wallets/42"); balance != "50" || mark != successor.Token {
		t.Errorf("after the successor's write: balance %s, mark %d; want 50, %d", balance, mark, successor.Token)
	}
}

// I2: the same for an object: it does not appear.
func TestPausedHolderIsRefusedBeforeItsSuccessorsFirstWriteOfTheObject(t *testing.T) {
	t.Parallel()
	p, _ := startShared(t)
	c := p.client()
	w := startWorker(t, p.url, "report:a.txt", "objects/reports/a.txt", "--text=late")
	w.step("granted")
	w.step("read")
	w.pause()

	successor := c.acquire("report:a.txt", 30*time.Second)
	w.wake()
	if got := w.step("refused"); got.Code != "stale-token" {
		t.Errorf("late write: got %+v, want stale-token", got)
	}
	if r := c.get("objects/reports/a.txt"); r.status != 404 || r.mark() != 0 {
		t.Errorf("after the refusal: %v, mark %d; want 404, mark 0", r, r.mark())
	}
	c.put("reports/a.txt", successor.Token, []byte("successor")).want(t, "")
	if r := c.get("objects/reports/a.txt"); string(r.body) != "successor" || r.mark() != successor.Token {
		t.Errorf("after the successor's write: %v, mark %d", r, r.mark())
	}
}

// I1, I2, I6: a holder is paused in the middle of an upload, whose first half the gateway has taken while the grant was
// good. Its successor takes over, and has written or not when the holder wakes; the upload is completed and refused.
func TestUploadOfPausedHolderIsRefused(t *testing.T) {
	t.Parallel()
	p, s := startShared(t)
	c := p.client()
	early := []byte(strings.Repeat("what stood before ", 1000))
	body := []byte(strings.Repeat("the successor's report ", 100_000))

	for _, test := range []struct {
		name  string
		key   string
		wrote bool // the successor has written when the holder wakes
	}{
		{"AfterItsSuccessorWrote", "after.txt", true},
		{"BeforeItsSuccessorsFirstWrite", "before.txt", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			lease, path := "report:"+test.key, "reports/"+test.key
			holder := c.acquire(lease, pausedTTL)
			c.put(path, holder.Token, early).want(t, "")

			w := startUploader(t, p.url+"/v1/objects/"+path, holder.Token+1)
			if got := w.line(); got != "half" {
				t.Fatalf("the uploader said %q", got)
			}
			w.pause()
			// What was sent may still be on its way to the gateway.
			within(t, patience, "the gateway has admitted the upload", func() bool { return uploads(t, s.database) == "1" })
			successor := c.acquire(lease, 30*time.Second)
			standing, mark := early, holder.Token
			if test.wrote {
				c.put(path, successor.Token, body).want(t, "")
				standing, mark = body, successor.Token
			}
			w.wake()
			if got := w.line(); got != "412 stale-token" {
				t.Errorf("late upload: got %q, want 412 stale-token", got)
			}
			if r := c.get("objects/" + path); !bytes.Equal(r.body, standing) || r.mark() != mark {
				t.Errorf("the object has %d bytes starting %.20q, mark %d; want %d bytes, mark %d", len(r.body), r.body, r.mark(), len(standing), mark)
			}
			if n := uploads(t, s.database); n != "0" {
				t.Errorf("%s uploads are under way after the refusal, want 0", n)
			}
			c.put(path, successor.Token+1, body).want(t, "")
		})
	}
}

// uploads counts the uploads that are under way.
func uploads(t testing.TB, database string) string {
	t.Helper()
	return queryText(t, database, "SELECT count(*)::text FROM fence.blobs WHERE state = 'pending'")
}

func startUploader(t testing.TB, url string, token int64) *worker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), uploaderURL+"="+url, fmt.Sprintf("FENCEGATE_E2E_TOKEN=%d", token))
	return startProcess(t, cmd)
}
