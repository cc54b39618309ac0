// Package trust answers which bytes may run: it reads a module's file once, holds those bytes against the digest that
// the operator pinned and against minisign signatures by the keys the operator trusts, and hands out the very bytes it
// checked. It also signs, for authors. It is the only package that knows minisign. It must never run anything, never
// give bytes that differ from what it hashed, and never take a signature that does not hold for one that is missing.
package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"aead.dev/minisign"

	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/regular"
)

// Bounds on what is read, bytes.
const (
	MaxFile      = 16 << 20 // a module, as in ABI v1
	MaxProgram   = 512 << 20
	maxSignature = 4 << 10
	maxKeyFile   = 4 << 10
)

// SignatureSuffix is what the name of a file's signature ends in, after the whole name of the file.
const SignatureSuffix = ".minisig"

// Key is a public key that the operator trusts.
type Key struct {
	Name     string // what the operator calls it
	Minisign string // the key as minisign prints it: 56 characters that begin with RW
	Own      bool   // the operator's own: what it signs may run inside the gateway's process
}

// Policy says what a file must show.
type Policy struct {
	Keys             []Key
	RequireSignature bool
}

// File is what was read and what it showed.
type File struct {
	Bytes  []byte
	Digest string // "sha256:<hex>"
	Signer string // name of the key whose signature holds; "" when there is none
	Own    bool   // Signer is one of the operator's own keys
	// Note says why a signature that is there counts for nothing (nobody we know made it); "" otherwise.
	Note string
}

// Read reads path, a regular file of at most MaxFile bytes, and its signature path.minisig if there is one. digest is
// what the operator pinned; with "" any bytes are taken, for tools that write a lock. Whatever does not hold is an
// error: a wrong digest, a signature of a known key that does not fit, none where one is required.
func (p Policy) Read(path, digest string) (File, error) { return p.read(path, digest, MaxFile) }

// ReadProgram is Read for a program of at most MaxProgram bytes.
func (p Policy) ReadProgram(path, digest string) (File, error) {
	return p.read(path, digest, MaxProgram)
}

func (p Policy) read(path, digest string, most int64) (File, error) {
	code, err := readFile(path, most)
	if err != nil {
		return File{}, err
	}
	f := File{Bytes: code, Digest: pin.Digest(code)}
	if digest != "" && f.Digest != digest {
		return File{}, fmt.Errorf("%s has digest %s, pinned is %s", path, f.Digest, digest)
	}
	signature, err := readFile(path+SignatureSuffix, maxSignature)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return File{}, err
	default:
		if err := p.verify(&f, signature); err != nil {
			return File{}, fmt.Errorf("%s%s: %w", path, SignatureSuffix, err)
		}
	}
	if f.Signer == "" && p.RequireSignature {
		if f.Note != "" {
			return File{}, fmt.Errorf("%s%s: %s, and a signature is required", path, SignatureSuffix, f.Note)
		}
		return File{}, fmt.Errorf("%s has no signature %s%s, and one is required", path, path, SignatureSuffix)
	}
	return f, nil
}

func (p Policy) verify(f *File, signature []byte) error {
	var s minisign.Signature
	if err := s.UnmarshalText(signature); err != nil {
		return errors.New("it is no minisign signature")
	}
	i := slices.IndexFunc(p.Keys, func(k Key) bool {
		public, err := parse(k)
		return err == nil && public.ID() == s.KeyID
	})
	if i < 0 {
		f.Note = fmt.Sprintf("it was signed with the key %016X, which is not among the trusted ones", s.KeyID)
		return nil
	}
	public, err := parse(p.Keys[i])
	if err != nil {
		return err
	}
	if !minisign.Verify(public, f.Bytes, signature) {
		return fmt.Errorf("the signature with the key %q does not hold for these bytes", p.Keys[i].Name)
	}
	f.Signer, f.Own = p.Keys[i].Name, p.Keys[i].Own
	return nil
}

// Check says what is wrong with the policy itself: a key that is none, two keys of one id, a requirement nothing can
// meet.
func (p Policy) Check() error {
	ids := map[uint64]string{}
	for _, k := range p.Keys {
		public, err := parse(k)
		if err != nil {
			return err
		}
		if first, twice := ids[public.ID()]; twice {
			return fmt.Errorf("keys %q and %q are one key", first, k.Name)
		}
		ids[public.ID()] = k.Name
	}
	if p.RequireSignature && len(p.Keys) == 0 {
		return errors.New("signatures are required, and no key is trusted to make one")
	}
	return nil
}

func parse(k Key) (minisign.PublicKey, error) {
	var public minisign.PublicKey
	if err := public.UnmarshalText([]byte(k.Minisign)); err != nil {
		return public, fmt.Errorf("key %q is no minisign public key: want the 56 characters that begin with RW", k.Name)
	}
	return public, nil
}

// Sign signs data with the minisign secret key in a file and gives the text of the signature file. passphrase is asked
// only when the key is encrypted. comment is signed along and shown by minisign -V.
func Sign(keyFile string, passphrase func() (string, error), data []byte, comment string) ([]byte, error) {
	text, err := readFile(keyFile, maxKeyFile)
	if err != nil {
		return nil, err
	}
	var secret minisign.PrivateKey
	if minisign.IsEncrypted(text) {
		word, err := passphrase()
		if err != nil {
			return nil, err
		}
		if secret, err = minisign.DecryptKey(word, text); err != nil {
			return nil, fmt.Errorf("%s cannot be decrypted: wrong passphrase, or no minisign key", keyFile)
		}
	} else if err := secret.UnmarshalText(text); err != nil {
		return nil, fmt.Errorf("%s is no minisign secret key", keyFile)
	}
	return minisign.SignWithComments(secret, data, comment, "signature by yett scanner package"), nil
}

// readFile reads a regular file once, from one descriptor: what is checked is what is used.
func readFile(path string, most int64) ([]byte, error) {
	data, err := regular.Read(path, most)
	if file, ok := errors.AsType[*fs.PathError](err); ok &&
		(errors.Is(err, regular.ErrKind) || errors.Is(err, regular.ErrSize)) {
		return nil, fmt.Errorf("%s %w", path, file.Err)
	}
	return data, err
}
