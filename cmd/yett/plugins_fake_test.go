package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
)

func digestOf(t testing.TB, path string) string {
	t.Helper()
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(code)
	return "sha256:" + hex.EncodeToString(sum[:])
}
