// Package logqueue writes the server's log for those who log: it is a handler of log/slog, and owns how lines look and
// one promise: a line never waits for whoever reads the log. Lines wait here instead, up to a bound. What finds no room
// is dropped and counted, and the log says how many lines that were. It must never write a text that was not given to
// whoever takes secrets out of it.
package logqueue

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

// What may wait, bytes, and what a line counts for beside its text.
const (
	maxWaiting = 1 << 20
	lineCost   = 64
)

// Queue is a log. Its lines are written in the order in which they were given. Safe for concurrent use.
type Queue struct {
	w      io.Writer
	now    func() time.Time
	redact func(name, text string) string
	level  slog.LevelVar // lines below it are not written
	json   atomic.Bool

	mu      sync.Mutex
	lines   []line
	waiting int           // bytes of the lines that are not written yet
	lost    uint64        // lines that were dropped or could not be written
	unsaid  uint64        // of these, the ones that no line has told of
	writing chan struct{} // closed once nothing waits; nil: nothing does
}

type line struct {
	text string
	lost uint64 // this line tells of so many that were lost
}

func (l line) cost() int { return len(l.text) + lineCost }

// New makes a log that is written to w, one call of Write for each line: those of level info and above, as text, until
// Configure is called. redact takes secrets out of a message (name "") or of an attribute of that name.
func New(w io.Writer, now func() time.Time, redact func(name, text string) string) *Queue {
	return &Queue{w: w, now: now, redact: redact}
}

// Configure says which lines are written from now on, and how.
func (q *Queue) Configure(least slog.Level, json bool) {
	q.level.Set(least)
	q.json.Store(json)
}

// Logger logs to the queue. It never waits.
func (q *Queue) Logger() *slog.Logger { return slog.New(&handler{q: q}) }

// add puts a line, with its end, behind those that wait.
func (q *Queue) add(text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := line{text: text}
	room := maxWaiting
	if q.unsaid > 0 { // not for single lines, each with a line about the lost ones before it
		room /= 2
	}
	if q.waiting > 0 && q.waiting+l.cost() > room {
		q.lost++
		q.unsaid++
		return
	}
	if q.unsaid > 0 {
		q.push(q.gap())
	}
	q.push(l)
	if q.writing == nil {
		q.writing = make(chan struct{})
		go q.write()
	}
}

// Write implements io.Writer for libraries that log to one. Each call is a line, and a warning.
func (q *Queue) Write(p []byte) (int, error) {
	q.Logger().Warn(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// Lost counts the lines that were lost since the start, and of these the ones that the log does not tell of yet.
func (q *Queue) Lost() (total, unsaid uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost, q.unsaid
}

// Flush waits until every line is written, for at most so long. It reports whether they are.
func (q *Queue) Flush(most time.Duration) bool {
	q.mu.Lock()
	writing := q.writing
	q.mu.Unlock()
	if writing == nil {
		return true
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-writing:
		return true
	case <-late.C:
		return false
	}
}

// shown is a text with escapes in place of what does not print, and its further lines set in: what a plugin says must
// neither look like a line of ours nor steer a terminal.
func shown(text string) string {
	hides := func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' || r == utf8.RuneError }
	if strings.IndexFunc(text, hides) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case !hides(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString("\n\t")
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// gap is the line that stands where others are missing.
func (q *Queue) gap() line {
	said := fmt.Sprintf("log: %d lines were lost here: they could not be written, or came faster than they could",
		q.unsaid)
	l := line{text: q.format(slog.LevelWarn, said, nil, nil), lost: q.unsaid}
	q.unsaid = 0
	return l
}

func (q *Queue) push(l line) {
	q.lines = append(q.lines, l)
	q.waiting += l.cost()
}

// write writes until nothing waits.
func (q *Queue) write() {
	for {
		l, ok := q.next()
		if !ok {
			return
		}
		_, err := io.WriteString(q.w, l.text)
		q.wrote(l, err)
	}
}

func (q *Queue) next() (line, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		close(q.writing)
		q.lines, q.writing = nil, nil
		return line{}, false
	}
	l := q.lines[0]
	q.lines[0] = line{}
	q.lines = q.lines[1:]
	return l, true
}

func (q *Queue) wrote(l line, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting -= l.cost()
	switch {
	case err != nil && l.lost > 0:
		q.unsaid += l.lost
	case err != nil:
		q.lost++
		q.unsaid++
	case len(q.lines) == 0 && q.unsaid > 0: // nobody has logged since, and the writer takes lines again
		q.push(q.gap())
	}
}
