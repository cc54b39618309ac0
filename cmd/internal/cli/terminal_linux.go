package cli

import "golang.org/x/sys/unix"

// readSettings is the request that reads the settings of a terminal. It fails for any other file.
const readSettings = unix.TCGETS
