package main

import "math/bits"

// Hashes of at most 55 and 135 bytes, which is all that addresses need; the standard library's would make the module
// a third larger.

var sha256Constants = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

func sha256(data []byte) (sum [32]byte) {
	var block [64]byte
	n := copy(block[:55], data)
	block[n] = 0x80
	block[62], block[63] = byte(n*8>>8), byte(n*8)
	var w [64]uint32
	for i := range 16 {
		w[i] = uint32(block[i*4])<<24 | uint32(block[i*4+1])<<16 | uint32(block[i*4+2])<<8 | uint32(block[i*4+3])
	}
	for i := 16; i < 64; i++ {
		a, b := w[i-15], w[i-2]
		w[i] = w[i-16] + w[i-7] + (bits.RotateLeft32(a, -7) ^ bits.RotateLeft32(a, -18) ^ a>>3) +
			(bits.RotateLeft32(b, -17) ^ bits.RotateLeft32(b, -19) ^ b>>10)
	}
	state := [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
	s := state
	for i, k := range sha256Constants {
		t1 := s[7] + (bits.RotateLeft32(s[4], -6) ^ bits.RotateLeft32(s[4], -11) ^ bits.RotateLeft32(s[4], -25)) +
			(s[4]&s[5] ^ ^s[4]&s[6]) + k + w[i]
		t2 := (bits.RotateLeft32(s[0], -2) ^ bits.RotateLeft32(s[0], -13) ^ bits.RotateLeft32(s[0], -22)) +
			(s[0]&s[1] ^ s[0]&s[2] ^ s[1]&s[2])
		s = [8]uint32{t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]}
	}
	for i := range state {
		v := state[i] + s[i]
		sum[i*4], sum[i*4+1], sum[i*4+2], sum[i*4+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
	}
	return sum
}

var keccakRounds = [24]uint64{
	0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000, 0x000000000000808b,
	0x0000000080000001,
	0x8000000080008081, 0x8000000000008009, 0x000000000000008a, 0x0000000000000088, 0x0000000080008009,
	0x000000008000000a,
	0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003, 0x8000000000008002,
	0x8000000000000080,
	0x000000000000800a, 0x800000008000000a, 0x8000000080008081, 0x8000000000008080, 0x0000000080000001,
	0x8000000080008008,
}

var (
	keccakTurns = [24]int{1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44}
	keccakPlace = [24]int{10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1}
)

// keccak256 is the hash as Ethereum uses it, with the padding from before SHA-3.
func keccak256(data []byte) (sum [32]byte) {
	var block [136]byte
	n := copy(block[:135], data)
	block[n] ^= 1
	block[135] ^= 0x80
	var a [25]uint64
	for i := range 17 {
		for k := range 8 {
			a[i] |= uint64(block[i*8+k]) << (8 * k)
		}
	}
	for _, constant := range keccakRounds {
		var c [5]uint64
		for x := range 5 {
			c[x] = a[x] ^ a[x+5] ^ a[x+10] ^ a[x+15] ^ a[x+20]
		}
		for x := range 5 {
			d := c[(x+4)%5] ^ bits.RotateLeft64(c[(x+1)%5], 1)
			for y := 0; y < 25; y += 5 {
				a[x+y] ^= d
			}
		}
		last := a[1]
		for i, place := range keccakPlace {
			last, a[place] = a[place], bits.RotateLeft64(last, keccakTurns[i])
		}
		for y := 0; y < 25; y += 5 {
			row := [5]uint64(a[y : y+5])
			for x := range 5 {
				a[x+y] = row[x] ^ ^row[(x+1)%5]&row[(x+2)%5]
			}
		}
		a[0] ^= constant
	}
	for i := range 32 {
		sum[i] = byte(a[i/8] >> (8 * (i % 8)))
	}
	return sum
}
