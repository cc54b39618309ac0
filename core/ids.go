package core

import (
	"crypto/rand"
	mathrand "math/rand/v2"
)

func random(b []byte) {
	_, _ = rand.Read(b) // never fails: it ends the process instead
}

// newID makes prefixed ids of 128 random bits in base 32.
func newID(prefix string) func() string {
	return func() string { return prefix + rand.Text() }
}

// newName makes ids of the same form for requests and connections. They must differ. Nobody gains anything by guessing
// one, so Go's own generator makes them: it is much faster than the kernel's.
func newName(prefix string) func() string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	return func() string {
		text := make([]byte, len(prefix), len(prefix)+26)
		copy(text, prefix)
		for range 2 {
			for n, i := mathrand.Uint64(), 0; i < 13; n, i = n>>5, i+1 {
				text = append(text, digits[n%32])
			}
		}
		return string(text)
	}
}
