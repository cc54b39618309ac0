//go:build !linux

package host

import "time"

var begun = time.Now()

// threadTime takes every thread for one that always has a processor, where no clock tells it: long calls do not rest
// then.
func threadTime() time.Duration { return time.Since(begun) }

// setSlice is a wish that only Linux takes.
func setSlice(time.Duration) {}
