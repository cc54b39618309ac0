package log

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/regular"
)

// Origin is the name under which a store signs its checkpoints.
func Origin(store string) string { return "yett.dev/audit/" + store }

// Signer signs checkpoints of one store.
type Signer struct {
	store  string
	signer note.Signer
	public string
}

// LoadSigner reads the Ed25519 seed at path, making it (mode 0600) when it is not there. It refuses a file that others
// may read.
func LoadSigner(path, store string) (*Signer, error) {
	seed, err := regular.Read(path, 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		seed = make([]byte, ed25519.SeedSize)
		if _, err = rand.Read(seed); err == nil {
			err = writeNew(path, seed)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("audit signing key: %w", err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("audit signing key: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("audit signing key: %s is readable by others (mode %#o, want 0600)", path, st.Mode().Perm())
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("audit signing key: %s is %d bytes long, want %d", path, len(seed), ed25519.SeedSize)
	}
	return NewSigner(ed25519.NewKeyFromSeed(seed), store)
}

func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// NewSigner makes a signer from a private key.
func NewSigner(key ed25519.PrivateKey, store string) (*Signer, error) {
	name := Origin(store)
	public, err := note.NewEd25519VerifierKey(name, key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, fmt.Errorf("audit signing key: %w", err)
	}
	id := strings.Split(public, "+")[1]
	blob := base64.StdEncoding.EncodeToString(append([]byte{1}, key.Seed()...)) // 1 = note's algEd25519
	signer, err := note.NewSigner("PRIVATE+KEY+" + name + "+" + id + "+" + blob)
	if err != nil {
		return nil, fmt.Errorf("audit signing key: %w", err)
	}
	return &Signer{store, signer, public}, nil
}

// PublicKey is the verifier key in note syntax: origin+hash+base64.
func (s *Signer) PublicKey() string { return s.public }

// KeyID is the key hash of the note format, in hex.
func (s *Signer) KeyID() string { return fmt.Sprintf("%08x", s.signer.KeyHash()) }

// Checkpoint signs a tree of size leaves with that root, as a C2SP tlog-checkpoint.
func (s *Signer) Checkpoint(size uint64, root tlog.Hash) (string, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", Origin(s.store), size, base64.StdEncoding.EncodeToString(root[:]))
	signed, err := note.Sign(&note.Note{Text: text}, s.signer)
	return string(signed), err
}
