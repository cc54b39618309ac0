package cosign

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

func keyText(name string, kind byte, public []byte) string {
	data := append([]byte{kind}, public...)
	return fmt.Sprintf("%s+%08x+%s", name, keyID(name, data), base64.StdEncoding.EncodeToString(data))
}

// TestCosignature: what a witness signs verifies, and nothing that differs by a bit.
func TestCosignature(t *testing.T) {
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	public := private.Public().(ed25519.PublicKey)
	k, err := ParseKey(keyText("witness.example.com/w1", 4, public))
	if err != nil || k.Name() != "witness.example.com/w1" {
		t.Fatal(err)
	}
	body := []byte("log\n1\nroot\n")
	sign := func(at uint64) []byte {
		return append(binary.BigEndian.AppendUint64(nil, at), ed25519.Sign(private, statement(at, body))...)
	}
	sig := sign(1_679_315_147)
	if !k.Verify(body, sig) {
		t.Error("it does not verify")
	}
	for i := range sig {
		other := bytes.Clone(sig)
		other[i] ^= 1
		if k.Verify(body, other) {
			t.Errorf("it verifies with another byte %d", i)
		}
	}
	for name, bad := range map[string][]byte{"cut": sig[:71], "longer": append(bytes.Clone(sig), 0), "none": nil,
		"a time that no clock has": sign(1 << 63), "a plain signature": ed25519.Sign(private, body)} {
		if k.Verify(body, bad) {
			t.Errorf("%s verifies", name)
		}
	}
	if k.Verify(append(bytes.Clone(body), '\n'), sig) {
		t.Error("it verifies for another checkpoint")
	}
}

// TestParseKey: keys of other kinds, and what is no key, are refused, and never quoted.
func TestParseKey(t *testing.T) {
	public := bytes.Repeat([]byte{9}, 32)
	good := keyText("w", 4, public)
	for name, text := range map[string]string{"empty": "", "a name": "w", "an id": "w+0a0a0a0a",
		"no name": keyText("", 4, public), "a space": keyText("a b", 4, public),
		"a key of notes": keyText("w", 1, public), "ML-DSA": keyText("w", 6, make([]byte, 1312)),
		"short": keyText("w", 4, public[:31]), "upper case": strings.Replace(good, good[2:10], "ABCDEF01", 1),
		"another id": "x" + good[1:], "private": "PRIVATE+KEY+" + good, "a line": good + "\n",
		"a long name": keyText(strings.Repeat("w", mostName+1), 4, public)} {
		if _, err := ParseKey(text); err == nil || len(text) > 1 && strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseKey(keyText(strings.Repeat("w", mostName), 4, public)); err != nil {
		t.Error(err)
	}
	if _, err := ParseKey(good); err != nil {
		t.Error(err)
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add(keyText("w", 4, make([]byte, 32)))
	f.Add("w+00000000+")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if err == nil && keyText(k.Name(), algorithm, k.public) != text {
			t.Errorf("%q is read as %q", text, keyText(k.Name(), algorithm, k.public))
		}
	})
}
