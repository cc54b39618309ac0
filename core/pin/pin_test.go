package pin

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// abc is the digest that FIPS 180-4 gives for "abc".
const abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

func TestDigests(t *testing.T) {
	h := sha256.New()
	h.Write([]byte("abc"))
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := File(path, 3)
	if err != nil || Digest([]byte("abc")) != abc || Sum(h) != abc || file != abc {
		t.Errorf("%s %s %s %v", Digest([]byte("abc")), Sum(h), file, err)
	}
	if _, err := File(path, 2); err == nil {
		t.Error("a file above the limit was named")
	}
	if _, err := File(t.TempDir(), 2); err == nil {
		t.Error("a directory was named")
	}
}

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{abc: true, strings.ToUpper(abc): false, abc[:70]: false, abc + "0": false,
		"": false, "sha256:": false,
		"md5:" + abc[7:]: false, " " + abc: false, strings.Replace(abc, "a", "g", 1): false,
		"sha256:" + strings.ToUpper(abc[7:]): false} {
		if Is(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}
