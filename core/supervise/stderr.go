package supervise

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/quote"
)

// What of a child's stderr reaches the log, and how fast we read it: a child that floods is slowed down, it does not
// get our processor.
const (
	logLines  = 50      // lines a second
	logLine   = 1 << 10 // bytes a line
	logBytes  = 4 << 20 // bytes a second that are read at all
	headBytes = 1 << 10 // kept of the beginning, where a Go crash says what it was
	tailBytes = maxStderr - headBytes - len(cut)
	cut       = "\n…\n"
)

// stderrReader reads a child's stderr: whole lines to the log at a bounded rate, the beginning and the end kept.
type stderrReader struct {
	log    func(string)
	now    func() time.Time
	exited <-chan struct{} // from then on nothing is slowed down
	after  func(time.Duration) <-chan time.Time

	line    []byte // the unfinished line, at most logLine
	over    int    // bytes of that line beyond
	head    []byte
	tail    []byte // a window: its last tailBytes count
	lost    bool   // something between head and tail is gone
	read    uint64 // bytes in all
	starved bool   // a line complained of memory, as the runtimes of Go and C do

	window  time.Time // start of the current second
	lines   int
	bytes   int
	dropped int
}

// run reads until the end of r, or until its deadline.
func (p *stderrReader) run(r io.Reader) {
	buf := make([]byte, 16<<10)
	p.window = p.now()
	for {
		n, err := r.Read(buf)
		p.addChunk(buf[:n])
		if err != nil {
			break
		}
		p.pace(n)
	}
	if len(p.line) > 0 || p.over > 0 {
		p.endLine()
	}
	p.report()
}

func (p *stderrReader) addChunk(b []byte) {
	p.read += uint64(len(b))
	p.keep(b)
	for _, c := range b {
		switch {
		case c == '\n':
			p.endLine()
		case len(p.line) < logLine:
			p.line = append(p.line, c)
		default:
			p.over++
		}
	}
}

// keep remembers the first headBytes and the last tailBytes.
func (p *stderrReader) keep(b []byte) {
	if n := min(headBytes-len(p.head), len(b)); n > 0 {
		p.head = append(p.head, b[:n]...)
		b = b[n:]
	}
	p.tail = append(p.tail, b...)
	if over := len(p.tail) - tailBytes; over > 0 {
		p.lost = true
		p.tail = append(p.tail[:0], p.tail[over:]...)
	}
}

func (p *stderrReader) kept() string {
	head, tail := string(p.head), string(p.tail)
	if p.lost {
		head, tail = wholeWords(head)+cut, tail[strings.IndexAny(tail+" ", blanks):]
	}
	s := strings.ToValidUTF8(head+tail, "?")
	if len(s) > maxStderr { // a replaced run is never longer than what it replaces
		s = s[:maxStderr]
	}
	return s
}

func (p *stderrReader) endLine() {
	line, over := string(p.line), p.over
	p.line, p.over = p.line[:0], 0
	if strings.Contains(line, "out of memory") || strings.Contains(line, "annot allocate memory") {
		p.starved = true
	}
	p.beginSecond()
	if p.lines >= logLines {
		p.dropped++
		return
	}
	p.lines++
	if p.log == nil {
		return
	}
	if over > 0 {
		whole := wholeWords(line)
		line = quote.Line(whole) + fmt.Sprintf("… (%d bytes more)", len(line)-len(whole)+over)
	} else {
		line = quote.Line(line)
	}
	p.log(line)
}

const blanks = " \t\r\n"

// wholeWords is a text that was cut, without the word that was: of a part of a secret nobody sees that it is to be
// masked.
func wholeWords(s string) string {
	return strings.TrimRight(s[:strings.LastIndexAny(s, blanks)+1], " \t")
}

// beginSecond begins a new second when it is time, and says what the last one lost.
func (p *stderrReader) beginSecond() {
	if now := p.now(); now.Sub(p.window) >= time.Second {
		p.report()
		p.window, p.lines, p.bytes = now, 0, 0
	}
}

func (p *stderrReader) report() {
	if p.dropped > 0 && p.log != nil {
		p.log(fmt.Sprintf("… %d lines of stderr left out, at most %d a second are logged", p.dropped, logLines))
	}
	p.dropped = 0
}

// pace waits for the next second when this one's bytes are used up.
func (p *stderrReader) pace(n int) {
	p.beginSecond()
	if p.bytes += n; p.bytes < logBytes {
		return
	}
	select {
	case <-p.exited:
	case <-p.after(time.Second - p.now().Sub(p.window)):
	}
}
