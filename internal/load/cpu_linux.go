package load

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of times in /proc, which is the same for all programs (USER_HZ).
const tick = time.Second / 100

// process is a line of /proc/<pid>/stat.
type process struct {
	parent int
	began  string        // ticks since boot; with the id it names a process for good
	own    time.Duration // user and system
	reaped time.Duration // of children that have ended and were waited for, and of theirs
}

// SelfCPU is the CPU time of this process so far, user and system, finer than ProcessCPU.
func SelfCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, os.NewSyscallError("getrusage", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// ProcessCPU is the CPU time of these processes so far, user and system, in steps of 10 ms. Their children do not count.
func ProcessCPU(pids ...int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		p, err := readProcess(strconv.Itoa(pid))
		if err != nil {
			return 0, err
		}
		sum += p.own
	}
	return sum, nil
}

// TreeCPU is the CPU time of a process, of all its descendants, and of those that have ended and were waited for: of a
// PostgreSQL with all its sessions, by the id of its postmaster. In steps of 10 ms for each process.
func TreeCPU(pid int) (time.Duration, error) {
	const attempts = 5
	var before map[int]string
	var sum time.Duration
	for range attempts {
		tree, err := readTree(pid)
		if err != nil {
			return 0, err
		}
		sum = 0
		now := make(map[int]string, len(tree))
		for id, p := range tree {
			sum += p.own + p.reaped
			now[id] = p.began
		}
		// One that ends while others are read counts for neither itself nor its parent: only a tree that stands still is right.
		if maps.Equal(before, now) {
			return sum, nil
		}
		before = now
	}
	return sum, nil // many come and go; the next best
}

// ResidentMemory is how many bytes of memory a process has in RAM. The kernel counts it loosely: a process of a few hundred pages may
// seem to have none.
func ResidentMemory(pid int) (int64, error) {
	name := "/proc/" + strconv.Itoa(pid) + "/status"
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(value), []byte("kB")))), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no VmRSS: the process has ended", name)
}

// readTree reads a process and its descendants.
func readTree(root int) (map[int]process, error) {
	all, err := readAll()
	if err != nil {
		return nil, err
	}
	if _, ok := all[root]; !ok {
		return nil, fmt.Errorf("process %d: %w", root, os.ErrNotExist)
	}
	children := make(map[int][]int)
	for pid, p := range all {
		children[p.parent] = append(children[p.parent], pid)
	}
	tree := make(map[int]process)
	for next := []int{root}; len(next) > 0; next = next[1:] {
		if _, seen := tree[next[0]]; !seen {
			tree[next[0]] = all[next[0]]
			next = append(next, children[next[0]]...)
		}
	}
	return tree, nil
}

// readAll reads all processes; those that end meanwhile are left out.
func readAll() (map[int]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]process, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(name); err == nil {
			all[pid] = p
		}
	}
	return all, nil
}

// readProcess reads /proc/<pid>/stat. The fields follow the command's name, which may itself hold spaces and parentheses; proc(5)
// counts them from 1, and the one after the name is number 3.
func readProcess(pid string) (p process, err error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return p, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const parent, utime, stime, cutime, cstime, started = 4 - 3, 14 - 3, 15 - 3, 16 - 3, 17 - 3, 22 - 3
	if len(fields) <= started {
		return p, fmt.Errorf("/proc/%s/stat has %d fields", pid, len(fields))
	}
	ticks := func(field int) time.Duration {
		n, e := strconv.ParseInt(string(fields[field]), 10, 64)
		if e != nil {
			err = fmt.Errorf("/proc/%s/stat: %w", pid, e)
		}
		return time.Duration(n) * tick
	}
	p.own, p.reaped = ticks(utime)+ticks(stime), ticks(cutime)+ticks(cstime)
	p.began = string(fields[started])
	p.parent = int(ticks(parent) / tick)
	return p, err
}
