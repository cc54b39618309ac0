package sockd

import "bytes"

const (
	firstBuffer = 4 << 10  // a connection's buffer at first
	idleBuffer  = 64 << 10 // the largest that a connection keeps between lines
	headBytes   = 512      // of a line that is too long, what is looked at to tell its spelling
)

// lines cuts what a connection sends at its line ends. It holds at most one line of limit bytes and what was read
// behind it; of a longer line it keeps nothing but the fact.
type lines struct {
	limit int

	buf      []byte
	r, w     int  // buf[r:w] was read and is not handed out
	seen     int  // buf[r:seen] has no line end
	full     bool // a read filled all there was: more may be waiting
	skipping bool // within a line that is too long

	may     func(n int) bool // whether so many bytes more may be held; nil: yes
	give    func(n int)      // gives what may has allowed back
	held    int              // of it
	starved bool             // the line was cut off since no more may be held
}

// grow holds what a buffer of that size takes beyond what every connection has.
func (l *lines) grow(size int) bool {
	n := size - idleBuffer
	if l.may == nil || n <= l.held {
		return true
	}
	if !l.may(n - l.held) {
		return false
	}
	l.held = n
	return true
}

// release gives all that is held back.
func (l *lines) release() {
	if l.held > 0 {
		l.give(l.held)
		l.held = 0
	}
}

func (l *lines) larger() int { return min(2*len(l.buf), l.limit+firstBuffer) }

// room is where to read to. It invalidates what next gave.
func (l *lines) room() []byte {
	if l.r == l.w {
		l.r, l.w, l.seen = 0, 0, 0
		switch {
		case l.buf == nil:
			l.buf = make([]byte, firstBuffer)
		case len(l.buf) > idleBuffer:
			l.buf = make([]byte, idleBuffer)
			l.release()
		case l.full && len(l.buf) < idleBuffer:
			l.buf = make([]byte, 2*len(l.buf))
		}
	}
	l.full = false
	if l.r > 0 && l.w > len(l.buf)-len(l.buf)/4 {
		l.w = copy(l.buf, l.buf[l.r:l.w])
		l.seen -= l.r
		l.r = 0
	}
	if l.w == len(l.buf) {
		bigger := make([]byte, l.larger())
		l.w = copy(bigger, l.buf[l.r:l.w])
		l.seen -= l.r
		l.r, l.buf = 0, bigger
	}
	return l.buf[l.w:]
}

// took says that n bytes were read to where room was.
func (l *lines) took(n int) {
	l.w += n
	l.full = l.w == len(l.buf)
}

// next gives the next whole line without its end. long says that it is longer than the limit: line is then its
// beginning only, and the rest is skipped. ok is false when more has to be read first.
func (l *lines) next() (line []byte, long, ok bool) {
	for {
		i := bytes.IndexByte(l.buf[l.seen:l.w], '\n')
		if i < 0 {
			l.seen = l.w
			return l.partial()
		}
		line, l.r = l.buf[l.r:l.seen+i], l.seen+i+1
		l.seen = l.r
		switch {
		case l.skipping:
			l.skipping = false // it was told when it became too long
		case len(line) > l.limit:
			return line[:min(len(line), headBytes)], true, true
		case !blank(line):
			return line, false, true
		}
	}
}

// partial looks at a line whose end has not come.
func (l *lines) partial() (line []byte, long, ok bool) {
	if l.skipping {
		l.r = l.w
		return nil, false, false
	}
	if l.w-l.r <= l.limit {
		if l.w < len(l.buf) || l.r > 0 || l.grow(l.larger()) {
			return nil, false, false
		}
		l.starved = true
	}
	line = l.buf[l.r:min(l.w, l.r+headBytes)]
	l.skipping, l.r = true, l.w
	return line, true, true
}

// rest is the last line when the stream ended without a line end; ok is false if there is none.
func (l *lines) rest() (line []byte, ok bool) {
	line = l.buf[l.r:l.w]
	l.r, l.seen = l.w, l.w
	return line, !l.skipping && !blank(line)
}

// begun says whether a part of a line is there.
func (l *lines) begun() bool { return l.skipping || l.r < l.w }

// blank says whether a line has nothing in it. Such lines say nothing, so nothing answers them.
func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
