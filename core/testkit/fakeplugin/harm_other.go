//go:build !unix

package main

import "os/exec"

// stopSelf hangs where a process cannot stop itself.
func stopSelf() { forever() }

// outside has no sessions to start a command in.
func outside(*exec.Cmd) {}
