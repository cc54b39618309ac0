//go:build race

package store

// raceEnabled: whether the race detector is compiled in.
const raceEnabled = true
