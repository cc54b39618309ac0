package execrun

import "golang.org/x/sys/unix"

// The requests that read and write the settings of a terminal, and the one that counts what stands in a pipe.
const (
	getSettings = unix.TIOCGETA
	setSettings = unix.TIOCSETA
	getUnread   = 0x4004667f // FIONREAD
)
