package execrun

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pieceMost is how much is read for one piece of a scan stream. A larger piece that is dense with secrets would take
	// the scanners longer than they have.
	pieceMost = 64 << 10
	// gather is how long more bytes are waited for once some have come, so that a program that prints line by line does
	// not make a record of each line.
	gather = 20 * time.Millisecond
	// keepAlive is how long a stream may be silent before the gateway is told that it goes on. The gateway forgets streams
	// after limits.scan_stream_idle, which is five minutes unless the operator sets another.
	keepAlive = time.Minute
	// quiet is how long an output terminal, whose buffer cannot be measured, has to be silent after its program has ended.
	quiet = 200 * time.Millisecond
	// trailMost is how much is read from an output terminal after its program has ended.
	trailMost = 1 << 20
)

// source is the read end of what a program prints.
type source struct {
	f    *os.File
	tty  bool
	mu   sync.Mutex
	over bool // the program has ended: what it has printed is there, and nothing is waited for
	left int  // once over: how much of that is unread; -1 as long as it is not known
	held bool // others still have the write end
}

func newSource(f *os.File, tty bool) *source { return &source{f: f, tty: tty, left: -1} }

// state is how a fill has ended.
type state uint8

const (
	more state = iota
	idle       // nothing came for as long as keepAlive
	done       // nothing comes any more
)

// finish says that the program has ended. What others still write is not read.
func (s *source) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	_ = s.f.SetReadDeadline(time.Unix(1, 0)) // a file that takes none has no reader that waits
}

// wait sets how long the next read may wait, unless the program has ended.
func (s *source) wait(until time.Time) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		_ = s.f.SetReadDeadline(until)
	}
	return s.over
}

// fill reads what is there, and waits for it if there is nothing.
func (s *source) fill(buf []byte) (int, state) {
	n, until := 0, time.Now().Add(keepAlive)
	for n < len(buf) {
		if s.wait(until) {
			m, st := s.rest(buf[n:])
			return n + m, st
		}
		m, err := s.f.Read(buf[n:])
		if n == 0 && m > 0 {
			until = time.Now().Add(gather)
		}
		n += m
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded): // the end of a pipe, or EIO of a terminal
			return n, done
		case s.wait(until): // not the time, but the program's end
		case n == 0:
			return 0, idle
		default:
			return n, more
		}
	}
	return n, more
}

// rest reads what the program had printed when it ended.
func (s *source) rest(buf []byte) (int, state) {
	if s.tty {
		return s.trail(buf)
	}
	if s.left < 0 {
		_ = s.f.SetReadDeadline(time.Time{})
		s.left = s.unread()
	}
	if s.left == 0 {
		var one [1]byte
		m, err := s.readNow(one[:]) // only to learn whether it is the end: what others write is not shown
		s.held = m > 0 || err != nil
		return 0, done
	}
	m, err := s.readNow(buf[:min(len(buf), s.left)])
	if m <= 0 || err != nil {
		return 0, done
	}
	s.left -= m
	return m, more
}

// unread is how many bytes stand in the pipe.
func (s *source) unread() (n int) {
	raw, err := s.f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), getUnread) })
	return n
}

// readNow reads without waiting.
func (s *source) readNow(buf []byte) (n int, err error) {
	raw, err := s.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	errRaw := raw.Read(func(fd uintptr) bool {
		for {
			if n, err = unix.Read(int(fd), buf); err != unix.EINTR {
				return true
			}
		}
	})
	return n, errors.Join(err, errRaw)
}

// trail is rest for a terminal: what is printed to it arrives a moment later.
func (s *source) trail(buf []byte) (int, state) {
	if s.left < 0 {
		s.left = trailMost
	}
	_ = s.f.SetReadDeadline(time.Now().Add(quiet))
	n, err := s.f.Read(buf[:min(len(buf), s.left)])
	s.left -= n
	if err != nil || s.left == 0 {
		return n, done
	}
	return n, more
}

// discard reads to the end, for those that still write: they would be ended by a pipe without a reader.
func discard(f *os.File) {
	_ = f.SetReadDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, f)
}
