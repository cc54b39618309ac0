package check

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

func sortedStrings(s []string) []string {
	slices.Sort(s)
	return s
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
