//go:build !linux

package localservers

import (
	"errors"
	"syscall"
)

// canTellFolder says that runsIn does not know.
const canTellFolder = false

// dieWithParent has no counterpart here: a server that outlives its program is found by the lock of its folder.
func dieWithParent(*syscall.SysProcAttr) {}

func canNamespace() bool { return false }

func enterNamespace(*syscall.SysProcAttr) {}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// runsIn cannot be told here. No process is then taken for one of ours, and none is interrupted.
func runsIn(int, string) bool { return false }

// descendants are not known here, so that a signal reaches the main process only.
func descendants(int) []int { return nil }
