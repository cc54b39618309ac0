package testkit

import (
	"os"
	"syscall"
)

// WriteProgram writes a file that tests run, like os.WriteFile with mode 0o755. No process starts meanwhile: it would
// take the open file along until its own exec, and the system runs no program that somebody may still write to ("text
// file busy").
func WriteProgram(path string, code []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, code, 0o755)
}
