package store

import (
	"encoding/hex"
	"errors"
)

// Hash is a SHA-256 that rows hold as hex: as an array it would be 32 numbers.
type Hash [32]byte

// MarshalText gives 64 hex digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 hex digits.
func (h *Hash) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(h[:], text[:min(len(text), 64)]); err != nil || n != len(h) || len(text) != 64 {
		return errors.New("a hash that is not 64 hex digits")
	}
	return nil
}
