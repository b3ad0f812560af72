package localservers

import (
	"bytes"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// insideID is nobody's id, which PostgreSQL finds in /etc/passwd.
const insideID = 65534

// canTellFolder says that runsIn knows.
const canTellFolder = true

// dieWithParent asks the kernel to interrupt the child when its parent ends. SIGTERM would make PostgreSQL wait for
// its sessions.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGINT }

func canNamespace() bool {
	_, err := user.LookupId(strconv.Itoa(insideID))
	return err == nil
}

func enterNamespace(a *syscall.SysProcAttr) {
	a.Cloneflags |= syscall.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Getegid(), Size: 1}}
}

// alive tells whether a process runs. One that only waits to be reaped does not.
func alive(pid int) bool {
	state, _, ok := stat(strconv.Itoa(pid))
	return ok && state != 'Z' && state != 'X'
}

// runsIn tells whether a process has its working folder in dir or below.
func runsIn(pid int, dir string) bool {
	cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	return err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/"))
}

// descendants returns the children of a process, their children, and so on.
func descendants(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := make(map[int][]int)
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, parent, ok := stat(e.Name()); ok {
			children[parent] = append(children[parent], child)
		}
	}
	var found []int
	for next := children[pid]; len(next) > 0; next = next[1:] {
		found = append(found, next[0])
		next = append(next, children[next[0]]...)
	}
	return found
}

// stat reads a process's state and parent. The fields follow the command's name, which may itself hold spaces and
// parentheses.
func stat(pid string) (state byte, parent int, ok bool) {
	content, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}
