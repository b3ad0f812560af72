package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	idleConnections = 10_000
	// memoryPerIdle bounds what one connection may cost the gateway: a goroutine's stack (8 KiB), net/http's two buffers
	// (4 KiB each) and what it keeps of the last request, and as much again that the collector has not yet given back.
	memoryPerIdle = 32 << 10
)

// Ten thousand connections that do nothing cost little memory, keep nobody else waiting, and are closed in time: half of
// them have never sent a byte, half are kept alive after a request.
func TestAbuseIdleConnections(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	// The Go runtime has raised the soft limit to the hard one, here and in the gateway.
	if need := uint64(idleConnections + 1000); files.Max < need {
		t.Fatalf("this machine lets a process open %d files (ulimit -Hn), %d connections need %d", files.Max, idleConnections, need)
	}
	const idle = 8 * time.Second
	v := abused(t, "--idle-timeout="+idle.String())
	v.serves(time.Second, time.Second)
	before := v.resident()

	conns := make([]net.Conn, idleConnections)
	begun := time.Now()
	var dialling sync.WaitGroup
	const dialers = 16
	for d := range dialers {
		dialling.Go(func() {
			for i := d; i < len(conns); i += dialers {
				var err error
				if conns[i], err = idler(v.addr, i%2 == 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	dialling.Wait()
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	if t.Failed() {
		return
	}
	t.Logf("opened after %v", time.Since(begun).Round(time.Millisecond))
	v.serves(2*time.Second, time.Second)
	grown := v.resident() - before
	t.Logf("resident memory grew from %d KiB by %d KiB, %d B per connection", before>>10, grown>>10, grown/idleConnections)
	if grown > idleConnections*memoryPerIdle {
		t.Errorf("a connection costs %d B, want at most %d", grown/idleConnections, memoryPerIdle)
	}

	// net/http gives 10 s to whoever has sent nothing yet, the flag says how long others have.
	deadline := time.Now().Add(20 * time.Second)
	for i, c := range conns {
		if err := c.SetReadDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d is still open", i)
		}
	}
	t.Logf("all closed after %v", time.Since(begun).Round(time.Millisecond))
	v.serves(time.Second, time.Second)
}

// idler opens a connection, and has it answered once when it is to have been used.
func idler(addr string, used bool) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil || !used {
		return conn, err
	}
	if _, err := conn.Write([]byte(httpRequest("GET", "/livez", ""))); err != nil {
		return conn, err
	}
	// Small, so that the test's own memory stays small.
	r := bufio.NewReaderSize(conn, 512)
	status, err := r.ReadString('\n')
	if err == nil && !strings.Contains(status, " 200 ") {
		err = fmt.Errorf("an idle client was answered %q", status)
	}
	for err == nil && r.Buffered() > 0 {
		_, err = r.Discard(r.Buffered())
	}
	return conn, err
}

// resident is the gateway's resident memory in bytes.
func (v *victim) resident() int64 {
	v.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.p.cmd.Process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(firstWord(strings.TrimSpace(rest)), 10, 64)
	if err != nil {
		v.t.Fatalf("VmRSS of %s: %v", status, err)
	}
	return kib << 10
}
