package chain

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// What a token looks like: [KIND#DATA], with the synthetic nonce and the value in unpadded base64url.
const (
	tokenNonce = 16
	tokenLimit = 512 // bytes of a value; a longer one is not put into a token
)

// part derives one of the keys that a session's key stands for, or hashes with it.
func part(key []byte, texts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, t := range texts {
		h.Write([]byte{byte(len(t) >> 24), byte(len(t) >> 16), byte(len(t) >> 8), byte(len(t))})
		h.Write([]byte(t))
	}
	return h.Sum(nil)
}

// sealer makes and reads the tokens of one session.
type sealer struct {
	nonce []byte
	block cipher.Block
}

func newSealer(key []byte) (*sealer, error) {
	block, err := aes.NewCipher(part(key, "cipher"))
	return &sealer{part(key, "nonce"), block}, err
}

// seal is a value in a form that only the session's key reads. The nonce is a hash of the value, as in RFC 5297 (with
// HMAC-SHA-256 in CMAC's place): so the same value has the same token, and a token that was changed is refused.
func (s *sealer) seal(kind, value string) string {
	nonce := part(s.nonce, kind, value)[:tokenNonce]
	data := append(nonce, value...)
	cipher.NewCTR(s.block, nonce).XORKeyStream(data[tokenNonce:], data[tokenNonce:])
	return "[" + kind + "#" + base64.RawURLEncoding.EncodeToString(data) + "]"
}

// open reads the inside of a token.
func (s *sealer) open(kind, text string) (value string, ok bool) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) < tokenNonce || len(data) > tokenNonce+tokenLimit {
		return "", false
	}
	cipher.NewCTR(s.block, data[:tokenNonce]).XORKeyStream(data[tokenNonce:], data[tokenNonce:])
	value = string(data[tokenNonce:])
	return value, hmac.Equal(data[:tokenNonce], part(s.nonce, kind, value)[:tokenNonce])
}

// token gives a value's token, or "" if it cannot be made.
func token(key []byte, kind, value string) string {
	s, err := newSealer(key)
	if err != nil {
		return ""
	}
	return s.seal(kind, value)
}

// Reveal puts the values of a session's tokens back into a text, as they were spelled where they were found. In a text
// that is JSON, a value that would break its string is escaped. Reveal counts the tokens that the key has read, and
// those that it has not: tokens of another session, or changed ones, stay as they are. An error is ctx's, or says that
// there is no cipher.
func Reveal(ctx context.Context, key []byte, text string) (out string, revealed, unknown int, err error) {
	s, err := newSealer(key)
	if err != nil {
		return "", 0, 0, err
	}
	asJSON := isJSON(text, false)
	var b strings.Builder
	for {
		open := strings.IndexByte(text, '[')
		if open < 0 {
			break
		}
		b.WriteString(text[:open])
		text = text[open:]
		kind, data, size := tokenAt(text)
		if size == 0 {
			b.WriteByte('[')
			text = text[1:]
			continue
		}
		if err := ctx.Err(); err != nil {
			return "", 0, 0, err
		}
		value, ok := s.open(kind, data)
		switch {
		case !ok:
			unknown++
			value = text[:size]
		case asJSON && !json.Valid([]byte(`"`+value+`"`)):
			value = quoted(value)
			value = value[1 : len(value)-1]
			fallthrough
		default:
			revealed++
		}
		b.WriteString(value)
		text = text[size:]
	}
	b.WriteString(text)
	return b.String(), revealed, unknown, nil
}

// tokenAt reads what a text begins with, if it has a token's form.
func tokenAt(text string) (kind, data string, size int) {
	mark := 1
	for mark < len(text) && mark <= 64 && (text[mark] == '_' || text[mark] >= 'A' && text[mark] <= 'Z' ||
		text[mark] >= '0' && text[mark] <= '9') {
		mark++
	}
	if mark == 1 || mark >= len(text) || text[mark] != '#' {
		return "", "", 0
	}
	end := mark + 1
	for end < len(text) && (text[end] == '-' || text[end] == '_' || alphanumeric(rune(text[end]))) {
		end++
	}
	if end == mark+1 || end >= len(text) || text[end] != ']' {
		return "", "", 0
	}
	return text[1:mark], text[mark+1 : end], end + 1
}
