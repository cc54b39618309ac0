//go:build unix

package regular

import "syscall"

// Nonblock keeps the opening of a named pipe from waiting for a writer.
const Nonblock = syscall.O_NONBLOCK
