//go:build !linux

package execrun

// hide has nothing to do where there is no /proc.
func hide() error { return nil }
