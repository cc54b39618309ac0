package chain

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
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

// token is a value in a form that only the session's key reads. The nonce is a hash of the value, as in RFC 5297 (with
// HMAC-SHA-256 in CMAC's place): so the same value has the same token, and a token that was changed has none. "" stands
// for no token.
func token(key []byte, kind, value string) string {
	nonce := part(part(key, "nonce"), kind, value)[:tokenNonce]
	data := append(nonce, value...)
	if !crypt(key, nonce, data[tokenNonce:]) {
		return ""
	}
	return "[" + kind + "#" + base64.RawURLEncoding.EncodeToString(data) + "]"
}

// untoken reads the inside of a token.
func untoken(key []byte, kind, text string) (value string, ok bool) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) < tokenNonce {
		return "", false
	}
	nonce := data[:tokenNonce]
	if !crypt(key, nonce, data[tokenNonce:]) {
		return "", false
	}
	value = string(data[tokenNonce:])
	return value, hmac.Equal(nonce, part(part(key, "nonce"), kind, value)[:tokenNonce])
}

// crypt writes data in the other form: encrypted or plain. Without a cipher it leaves data as it is, and says so.
func crypt(key, nonce, data []byte) bool {
	block, err := aes.NewCipher(part(key, "cipher"))
	if err == nil {
		cipher.NewCTR(block, nonce).XORKeyStream(data, data)
	}
	return err == nil
}

// Reveal puts the values of a session's tokens back into a text, escaped where the text is JSON. It counts the tokens
// that the key has read, and those that it has not: tokens of another session, or changed ones, stay as they are.
func Reveal(key []byte, text string) (out string, revealed, unknown int) {
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
		value, ok := untoken(key, kind, data)
		switch {
		case !ok:
			unknown++
			value = text[:size]
		case asJSON:
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
	return b.String(), revealed, unknown
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
