package trust

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/testkit"
)

type pair struct {
	public minisign.PublicKey
	secret minisign.PrivateKey
}

func newPair(t *testing.T) pair {
	t.Helper()
	public, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pair{public, secret}
}

func (p pair) key(name string, own bool) Key { return Key{name, p.public.String(), own} }

// What a file must show, and what each thing wrong with it is called.
func TestRead(t *testing.T) {
	ours, acme, stranger := newPair(t), newPair(t), newPair(t)
	code := []byte("\x00asm\x01\x00\x00\x00")
	other := append(bytes.Clone(code), 0)
	keys := []Key{ours.key("ours", true), acme.key("acme", false)}
	for _, c := range []struct {
		name      string
		file      []byte
		signature []byte
		digest    string
		require   bool
		signer    string
		own       bool
		want      string // in the error
		note      string
	}{
		{name: "digest alone", file: code, digest: pin.Digest(code)},
		{name: "nothing pinned", file: code},
		{name: "wrong digest", file: other, digest: pin.Digest(code), want: "pinned is"},
		{name: "signed by us", file: code, digest: pin.Digest(code), signature: minisign.Sign(ours.secret, code), signer: "ours", own: true},
		{name: "signed by a vendor", file: code, signature: minisign.Sign(acme.secret, code), require: true, signer: "acme"},
		{name: "signed by nobody we know", file: code, signature: minisign.Sign(stranger.secret, code), note: "not among the trusted ones"},
		{name: "signed by nobody we know, required", file: code, signature: minisign.Sign(stranger.secret, code), require: true, want: "not among the trusted ones"},
		{name: "unsigned, required", file: code, digest: pin.Digest(code), require: true, want: "has no signature"},
		{name: "a signature of other bytes", file: other, signature: minisign.Sign(ours.secret, code), want: "does not hold"},
		{name: "a signature that is none", file: code, signature: []byte("hello"), want: "no minisign signature"},
		{name: "an empty signature", file: code, signature: []byte{}, want: "no minisign signature"},
		{name: "a huge signature", file: code, signature: bytes.Repeat([]byte("x"), maxSignature+1), want: "larger than"},
		{name: "a huge file", file: make([]byte, MaxFile+1), want: "larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.wasm")
			write(t, path, c.file)
			if c.signature != nil {
				write(t, path+SignatureSuffix, c.signature)
			}
			f, err := Policy{Keys: keys, RequireSignature: c.require}.Read(path, c.digest)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got error %v, want one with %q", err, c.want)
				}
				if f.Bytes != nil {
					t.Error("bytes were handed out beside an error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(f.Bytes, c.file) || f.Digest != pin.Digest(c.file) || f.Signer != c.signer || f.Own != c.own ||
				!strings.Contains(f.Note, c.note) || (f.Note == "") != (c.note == "") {
				t.Errorf("got signer %q, own %v, note %q, digest %s", f.Signer, f.Own, f.Note, f.Digest)
			}
		})
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A directory, a pipe or a missing file is an error and never blocks.
func TestReadRefuses(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none"), "/dev/zero"} {
		if _, err := (Policy{}).Read(path, ""); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}

func TestPolicy(t *testing.T) {
	a := newPair(t)
	for want, p := range map[string]Policy{
		"no minisign public key": {Keys: []Key{{Name: "x", Minisign: "RWnope"}}},
		"are one key":            {Keys: []Key{a.key("a", false), a.key("b", true)}},
		"no key is trusted":      {RequireSignature: true},
	} {
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if err := (Policy{Keys: []Key{a.key("a", false)}, RequireSignature: true}).Check(); err != nil {
		t.Error(err)
	}
}

// What Sign writes is what Read and minisign take.
func TestSign(t *testing.T) {
	p := newPair(t)
	dir := t.TempDir()
	plain, err := p.secret.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "plain"), plain)
	write(t, filepath.Join(dir, "m.wasm"), []byte("code"))
	signature, err := Sign(filepath.Join(dir, "plain"), nil, []byte("code"), "m 1.0")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "m.wasm"+SignatureSuffix), signature)
	f, err := Policy{Keys: []Key{p.key("me", false)}, RequireSignature: true}.Read(filepath.Join(dir, "m.wasm"), "")
	if err != nil || f.Signer != "me" {
		t.Errorf("signed by %q, error %v", f.Signer, err)
	}
	write(t, filepath.Join(dir, "none"), []byte("x"))
	if _, err := Sign(filepath.Join(dir, "none"), nil, []byte("code"), ""); err == nil {
		t.Error("a file that is no key signed")
	}
}

// An encrypted key needs its passphrase. Each try takes seconds, on purpose of the format.
func TestSignWithPassphrase(t *testing.T) {
	testkit.Slow(t, "derives keys, for seconds")
	if testing.Short() {
		t.Skip("minisign's key derivation takes seconds")
	}
	locked, err := minisign.EncryptKey("open sesame", newPair(t).secret)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "locked")
	write(t, path, locked)
	for word, good := range map[string]bool{"open sesame": true, "open barley": false} {
		if _, err := Sign(path, func() (string, error) { return word, nil }, []byte("code"), ""); (err == nil) != good {
			t.Errorf("%s: %v", word, err)
		}
	}
	asked := errors.New("no terminal")
	if _, err := Sign(path, func() (string, error) { return "", asked }, []byte("code"), ""); !errors.Is(err, asked) {
		t.Errorf("got %v", err)
	}
}
