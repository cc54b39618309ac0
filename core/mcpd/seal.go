package mcpd

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// What is sealed, as additional data: what was sealed as one thing is never taken for another.
const (
	sealSession = "session"
	sealState   = "state"
)

// sealPrefix begins every sealed text, so that it is told from what a server has sealed itself.
const sealPrefix = "yett1."

// sealer seals what clients keep for us: they can neither read it nor make one. AES-256-GCM with random nonces, under a
// key that is derived from a file outside the database. Safe for concurrent use.
type sealer struct {
	aead   cipher.AEAD
	random func([]byte)
}

func newSealer(secret []byte, random func([]byte)) (*sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "yett mcp seal 1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &sealer{aead: aead, random: random}, nil
}

// seal gives what as text.
func (s *sealer) seal(as string, what any) (string, error) {
	plain, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	s.random(nonce)
	return sealPrefix + base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, []byte(as))), nil
}

// errForged says nothing more: who made it knows.
var errForged = errors.New("this was not sealed by this gateway, or not for this")

// open reads what was sealed as that.
func (s *sealer) open(as, sealed string, into any) error {
	text, ok := strings.CutPrefix(sealed, sealPrefix)
	if !ok || len(sealed) > maxSealed {
		return errForged
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return errForged
	}
	n := s.aead.NonceSize()
	plain, err := s.aead.Open(nil, raw[:n], raw[n:], []byte(as))
	if err != nil {
		return errForged
	}
	return json.Unmarshal(plain, into)
}

// maxSealed bounds what is opened, bytes.
const maxSealed = 16 << 10

// session is what a client of the older era keeps as its session id.
type session struct {
	Key      string `json:"k"`           // the id of the key that opened it
	Server   string `json:"s"`           // the configured name of the server
	Upstream string `json:"u,omitempty"` // the server's own session id; "" if it has none
	Agent    string `json:"a,omitempty"` // clientInfo.name
	URLs     bool   `json:"e,omitempty"` // the client can show a page to its user
	ID       string `json:"i"`           // random: the name of the session in records
}

// state is what a client of the newer era keeps while a person decides.
type state struct {
	Key    string    `json:"k"`
	Server string    `json:"s"`
	Token  string    `json:"t"` // of the deferred call
	Digest string    `json:"d"` // of what was asked
	Ends   time.Time `json:"x"`
}
