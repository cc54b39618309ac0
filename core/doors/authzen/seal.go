package authzen

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
)

// What a sealed text is for. One that was made for another purpose does not open.
const (
	sealDenial   = "denial"   // binding_token
	sealTask     = "task"     // the id of a task
	sealApproval = "approval" // approval.state
)

// sealBytes is how much randomness a sealer takes.
const sealBytes = 64

// sealer makes texts that clients carry for the gateway and can neither read nor change. The same content gives the
// same text, so that a client which repeats a request gets the same handle.
type sealer struct {
	aead cipher.AEAD
	mac  []byte
	err  error // why there is no aead: then nothing is sealed, and nothing opens
}

// newSealer makes a sealer of sealBytes random bytes.
func newSealer(random []byte) *sealer {
	s := &sealer{mac: random[32:sealBytes]}
	block, err := aes.NewCipher(random[:32])
	if err != nil {
		s.err = err
		return s
	}
	s.aead, s.err = cipher.NewGCM(block)
	return s
}

// bound is what a sealed text is bound to beside its content.
func bound(purpose, key string) []byte { return []byte(purpose + "\x00" + key) }

// sum is a hash of texts that only this sealer can make.
func (s *sealer) sum(texts ...[]byte) []byte {
	h := hmac.New(sha256.New, s.mac)
	for _, t := range texts {
		one := sha256.Sum256(t) // so that no two lists of texts are one
		h.Write(one[:])
	}
	return h.Sum(nil)
}

// seal seals v for one purpose and the API key with that id.
func (s *sealer) seal(purpose, key string, v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil || s.err != nil {
		return "", errors.Join(err, s.err)
	}
	with := bound(purpose, key)
	nonce := s.sum(with, plain)[:s.aead.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, with)), nil
}

// open reads into v what was sealed for the same purpose and key, and says whether it was.
func (s *sealer) open(purpose, key, text string, v any) bool {
	if s.err != nil {
		return false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	n := s.aead.NonceSize()
	if err != nil || len(raw) < n {
		return false
	}
	plain, err := s.aead.Open(nil, raw[:n], raw[n:], bound(purpose, key))
	return err == nil && json.Unmarshal(plain, v) == nil
}
