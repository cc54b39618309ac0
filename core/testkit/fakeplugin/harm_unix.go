//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// stopSelf stops the process, and goes on when somebody continues it.
func stopSelf() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) } // cannot fail for oneself

// outside starts a command in a session of its own.
func outside(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
