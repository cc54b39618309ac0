package cli

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// WidthOf is how many cells a line has: COLUMNS if set, else the terminal's, 0 for what is no terminal.
func WidthOf(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// IsTerminal reports whether a person sits at the other end.
func IsTerminal(r any) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), readSettings)
	return err == nil
}
