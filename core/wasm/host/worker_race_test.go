//go:build race

package host

// The race detector reserves more address space than any sensible limit.
const raceDetector = true
