package ops

import (
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// idSource makes prefixed ULIDs and random tokens. Randomness is drawn in blocks: one system call serves many ids.
type idSource struct {
	now    func() time.Time
	random func([]byte)

	mu   sync.Mutex
	buf  [1 << 10]byte
	left int
}

func newIDSource(now func() time.Time, random func([]byte)) *idSource {
	return &idSource{now: now, random: random}
}

func (s *idSource) draw(dst []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left < len(dst) {
		s.random(s.buf[:])
		s.left = len(s.buf)
	}
	copy(dst, s.buf[len(s.buf)-s.left:])
	clear(s.buf[len(s.buf)-s.left:][:len(dst)])
	s.left -= len(dst)
}

// id is prefix + ULID: unique, and sortable by time.
func (s *idSource) id(prefix string) string {
	var u ulid.ULID
	_ = u.SetTime(ulid.Timestamp(s.now())) // fails in the year 10889
	s.draw(u[6:])
	var b [40]byte
	n := copy(b[:], prefix)
	_ = u.MarshalTextTo(b[n : n+ulid.EncodedSize]) // fails for a wrong length only
	return string(b[:n+ulid.EncodedSize])
}

// token is an id followed by 256 random bits.
func (s *idSource) token(prefix string) string {
	var raw [32]byte
	s.draw(raw[:])
	return s.id(prefix) + base64.RawURLEncoding.EncodeToString(raw[:])
}

// hash16 is a short hash over parts, each with its length.
func hash16(parts ...string) (out [16]byte) {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte{byte(len(p) >> 24), byte(len(p) >> 16), byte(len(p) >> 8), byte(len(p))})
		h.Write([]byte(p))
	}
	copy(out[:], h.Sum(nil))
	return out
}
