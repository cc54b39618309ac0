// Package pin owns the text that names bytes: "sha256:" and 64 hex digits in lower case, as configurations, locks,
// packages and receipts write it. It decides nothing: who compares digests says what a difference means.
package pin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/yett-dev/yett/core/regular"
)

const prefix = "sha256:"

// Digest names some bytes.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return prefix + hex.EncodeToString(sum[:])
}

// Sum names the bytes that were written to h, a SHA-256.
func Sum(h hash.Hash) string { return prefix + hex.EncodeToString(h.Sum(nil)) }

// Is reports whether a text names bytes.
func Is(text string) bool {
	digits, ok := strings.CutPrefix(text, prefix)
	return ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

// File names the bytes of a regular file of at most so many. It reads the file once and keeps none of it.
func File(path string, most int64) (string, error) {
	f, _, err := regular.Sized(path, most)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return "", err
	case n > most:
		return "", fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return Sum(h), nil
}
