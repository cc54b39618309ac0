package execrun

import "syscall"

// ignoredSignals would be the signals that this process ignores. This system does not tell.
func ignoredSignals() uint64 { return 0 }

// apart starts a process in a session of its own: nothing that ends the agent's processes ends it.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
