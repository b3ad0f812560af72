package load_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/load"
)

// spin uses CPU of this process until told to stop.
func spin(until func() bool) {
	for n := 0; ; n++ {
		if n%1_000_000 == 0 && until() {
			return
		}
	}
}

func TestCPUOfThisProcess(t *testing.T) {
	before, err := load.ProcessCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	fine, err := load.SelfCPU()
	if err != nil {
		t.Fatal(err)
	}
	const much = 60 * time.Millisecond
	spin(func() bool { now, err := load.SelfCPU(); return err != nil || now-fine >= much })
	after, err := load.ProcessCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used := after - before; used < much-20*time.Millisecond || used > 50*much {
		t.Errorf("%v used, want about %v", used, much)
	}
	if twice, err := load.ProcessCPU(os.Getpid(), os.Getpid()); err != nil || twice < 2*after {
		t.Errorf("two processes used %v, %v", twice, err)
	}
}

// A shell has a child that has worked and ended, and a grandchild that has worked and waits: both are counted.
func TestCPUOfATree(t *testing.T) {
	const script = `
work() { i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; }
(work)               # reaped
(sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo worked; read wait <&3' & wait) &
wait
`
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.ExtraFiles = []*os.File{read}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	tree, err := load.TreeCPU(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	own, err := load.ProcessCPU(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	write.Close()
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	all := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if own > tree/4 || tree < all*2/3 || tree > all+50*time.Millisecond {
		t.Errorf("the tree used %v, the shell alone %v, all in the end %v", tree, own, all)
	}
}

func TestResidentMemory(t *testing.T) {
	debug.FreeOSMemory() // what other tests have left would be used, or given back, in between
	before, err := load.ResidentMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const much = 64 << 20
	touched, err := syscall.Mmap(-1, 0, much, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(touched)
	for i := 0; i < much; i += 1024 {
		touched[i] = 1
	}
	after, err := load.ResidentMemory(os.Getpid())
	if err != nil || after-before < much*3/4 || after-before > 2*much {
		t.Errorf("%d bytes, then %d with %d more, %v", before, after, much, err)
	}
}

func TestCPUOfNobody(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	gone := cmd.Process.Pid
	if _, err := load.ProcessCPU(os.Getpid(), gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := load.TreeCPU(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := load.ResidentMemory(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
