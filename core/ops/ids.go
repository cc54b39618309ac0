package ops

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// idSource makes prefixed ULIDs and random tokens. Randomness is drawn in blocks: one system call serves many ids.
type idSource struct {
	now    func() time.Time
	random func([]byte)

	mu   sync.Mutex
	last ulid.ULID
	buf  [1 << 10]byte
	left int
}

func newIDSource(now func() time.Time, random func([]byte)) *idSource {
	return &idSource{now: now, random: random}
}

func (s *idSource) drawBytes(dst []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawBytesLocked(dst)
}

// drawBytesLocked is drawBytes with s.mu held.
func (s *idSource) drawBytesLocked(dst []byte) {
	if s.left < len(dst) {
		s.random(s.buf[:])
		s.left = len(s.buf)
	}
	copy(dst, s.buf[len(s.buf)-s.left:])
	clear(s.buf[len(s.buf)-s.left:][:len(dst)])
	s.left -= len(dst)
}

// next is a ULID behind every earlier one, also within a millisecond and when the clock is set back: then the random
// part of the last one grows by a random step.
func (s *idSource) next() (u ulid.ULID) {
	at := ulid.Timestamp(s.now())
	s.mu.Lock()
	defer s.mu.Unlock()
	if at > s.last.Time() {
		_ = s.last.SetTime(at) // fails in the year 10889
		s.drawBytesLocked(s.last[6:])
		s.last[6] &= 0x7f // room to grow
		return s.last
	}
	var step [4]byte
	s.drawBytesLocked(step[:])
	add := uint64(binary.BigEndian.Uint32(step[:])) + 1
	low := binary.BigEndian.Uint64(s.last[8:])
	binary.BigEndian.PutUint64(s.last[8:], low+add)
	if low+add < low {
		binary.BigEndian.PutUint16(s.last[6:], binary.BigEndian.Uint16(s.last[6:])+1)
	}
	return s.last
}

// id is prefix + ULID: unique, and sortable in the order they were made.
func (s *idSource) id(prefix string) string {
	u := s.next()
	var b [40]byte
	n := copy(b[:], prefix)
	_ = u.MarshalTextTo(b[n : n+ulid.EncodedSize]) // fails for a wrong length only
	return string(b[:n+ulid.EncodedSize])
}

// token is an id followed by 256 random bits.
func (s *idSource) token(prefix string) string {
	var raw [32]byte
	s.drawBytes(raw[:])
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
