//go:build race

package wasmhost

// The race detector reserves more address space than any sensible limit.
const raceDetector = true
