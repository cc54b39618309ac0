//go:build !linux

package wasmhost

import "time"

// setSlice is a wish that only Linux takes.
func setSlice(time.Duration) {}
