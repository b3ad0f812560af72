package main

import "syscall"

// dieWithParent asks the kernel to end the child when this program is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
