package execrun

import "golang.org/x/sys/unix"

// The requests that read and write the settings of a terminal, and the one that counts what stands in a pipe.
const (
	getSettings = unix.TCGETS
	setSettings = unix.TCSETS
	getUnread   = unix.TIOCINQ
)
