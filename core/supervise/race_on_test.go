//go:build race

package supervise

// raceEnabled: whether the race detector is compiled in.
const raceEnabled = true
