// Package cosign owns what a witness of a log is known by, and what its cosignature says: C2SP tlog-cosignature with
// Ed25519 (cosignature/v1). It must never take a signature of another kind, or of another key of the same name, for a
// cosignature. A Key is a note.Verifier, and knows nothing of notes.
package cosign

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// algorithm is the type of a key that makes cosignatures.
const algorithm = 0x04

// mostName bounds a name, which is in messages and metrics, in bytes.
const mostName = 255

// Key is the public key of a witness.
type Key struct {
	name   string
	id     uint32
	public ed25519.PublicKey
}

var errForm = errors.New("must be NAME+ID+KEY, as the witness's operator publishes it: the key type must be 4 " +
	"(cosignature/v1 with Ed25519)")

// ParseKey reads a verifier key: name+hash+base64. The error never quotes it: whoever mixes files up gives the private
// key here.
func ParseKey(text string) (*Key, error) {
	name, rest, _ := strings.Cut(text, "+")
	hash, coded, ok := strings.Cut(rest, "+")
	if !ok || !validName(name) {
		return nil, errForm
	}
	if len(name) > mostName {
		return nil, fmt.Errorf("its name has %d bytes, at most %d", len(name), mostName)
	}
	id, err := hex.DecodeString(hash)
	if err != nil || len(id) != 4 || hex.EncodeToString(id) != hash {
		return nil, errForm
	}
	data, err := base64.StdEncoding.Strict().DecodeString(coded)
	if err != nil || len(data) != 1+ed25519.PublicKeySize || data[0] != algorithm ||
		base64.StdEncoding.EncodeToString(data) != coded {
		return nil, errForm
	}
	k := &Key{name: name, id: keyID(name, data), public: data[1:]}
	if k.id != binary.BigEndian.Uint32(id) {
		return nil, fmt.Errorf("the ID of the key is %s, and does not fit its name and key: copy all of it", hash)
	}
	return k, nil
}

func validName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsSpace)
}

func keyID(name string, data []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), data...))
	return binary.BigEndian.Uint32(sum[:])
}

// Name is the witness's name.
func (k *Key) Name() string { return k.name }

// KeyHash is the id of the key.
func (k *Key) KeyHash() uint32 { return k.id }

// stampSize is the size of the time in front of a signature.
const stampSize = 8

// Verify reports whether sig is a cosignature of the body of a checkpoint.
func (k *Key) Verify(body, sig []byte) bool {
	if len(sig) != stampSize+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	return at <= math.MaxInt64 && ed25519.Verify(k.public, statement(at, body), sig[stampSize:])
}

// statement is what a witness signs.
func statement(at uint64, body []byte) []byte {
	return append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", at), body...)
}
