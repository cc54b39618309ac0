//go:build !linux

package peer

// writingEnded is no event here. A peer that only ends its own writing goes on.
const writingEnded = 0
