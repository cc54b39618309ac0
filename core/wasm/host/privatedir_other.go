//go:build !unix

package host

import "errors"

// privateDir refuses: without owner and mode bits we cannot tell that nobody else writes native code there.
func privateDir(string) error {
	return errors.New("not supported on this system: its owner cannot be checked")
}
