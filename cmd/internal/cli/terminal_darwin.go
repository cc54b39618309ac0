package cli

import "golang.org/x/sys/unix"

// readSettings reads the settings of a terminal, and fails for what is none.
const readSettings = unix.TIOCGETA
