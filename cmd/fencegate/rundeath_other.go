//go:build !linux

package main

import "syscall"

// endWithParent does nothing where the system cannot tell a command of the end of its parent.
func endWithParent(*syscall.SysProcAttr) {}
