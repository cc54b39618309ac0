package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestFillers: what people write where a secret goes is told from what was generated, also where chance has put one of
// the short words into that.
func TestFillers(t *testing.T) {
	for _, v := range []string{"xxxxxxxxxxxxxxxxxxxxxxxx", "XXXXXXXXXXXX", "sk_" + "live_xxxx1234xxxx5678xxxx",
		"your-token-here-please", "YOUR_API_KEY_0123", "yourSecretToken2024", "YourKeyGoesInThisPlace",
		"todo-set-this-before-1", "TODO1", "insert-it",
		"123456789012345678", "aaaaaaaaaaaabbbb"} {
		if !filler([]byte(v)) {
			t.Errorf("%q is no filler", v)
		}
	}
	for _, v := range []string{"e5dutU" + "XXxx" + "oDGvSmVuIO", "q7G" + "yOur" + "3kLm9ZpT4wVbN1cR8",
		"8Hs2k" + "xxxx" + "9aP4mQ7tZ1vB6nW3", "T4k" + "YOUR" + "8sQ2mZ7pL1vX9cB5n"} {
		if filler([]byte(v)) {
			t.Errorf("%q is a filler", v)
		}
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	rng := rand.New(rand.NewPCG(1, 1))
	const tries = 500_000
	wrong := 0
	for range tries {
		var b strings.Builder
		for range 24 {
			b.WriteByte(alphabet[rng.IntN(len(alphabet))])
		}
		if filler([]byte(b.String())) {
			wrong++
		}
	}
	if wrong > 5 {
		t.Errorf("%d of %d generated values are fillers", wrong, tries)
	}
}
