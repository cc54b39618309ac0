package main

import "math/rand"

// sampleOf makes a text from the notation of compile: literals as they are, runs from their class. The same seed gives
// the same text, so that no test holds anything that looks like a credential.
func sampleOf(src string, seed int64) string {
	rng := rand.New(rand.NewSource(seed))
	p := compile(src)
	all := append(append([]element{}, p.left...), element{lit: p.lit})
	all = append(all, p.right...)
	var out []byte
	for _, e := range all {
		if e.set == nil {
			out = append(out, e.lit...)
			continue
		}
		var bytes []byte
		for c := range 256 {
			if e.set[c] && isWord(byte(c)) {
				bytes = append(bytes, byte(c))
			}
		}
		n := e.min + rng.Intn(min(e.max, e.min+20)-e.min+1)
		for range n {
			out = append(out, bytes[rng.Intn(len(bytes))])
		}
	}
	return string(out)
}
