package main

import "syscall"

// endWithParent has the command told when this program is killed: from then on nobody renews its lease.
func endWithParent(sys *syscall.SysProcAttr) { sys.Pdeathsig = syscall.SIGTERM }
