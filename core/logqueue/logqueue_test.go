package logqueue

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

// nothing takes nothing out.
func nothing(_, text string) string { return text }

func say(q *Queue, format string, args ...any) { q.Logger().Info(fmt.Sprintf(format, args...)) }

// patience bounds the waits of these tests.
const patience = time.Minute

// gated is a writer that takes nothing until it is opened, and fails while it has an error.
type gated struct {
	open chan struct{}

	mu   sync.Mutex
	text strings.Builder
	err  error
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	return g.text.Write(p)
}

func (g *gated) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *gated) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.SplitAfter(strings.TrimSuffix(g.text.String(), "\n"), "\n")
}

func opened() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestLinesKeepTheirOrder(t *testing.T) {
	w := &gated{open: opened()}
	q := New(w, noon, nothing)
	for i := range 1000 {
		say(q, "line %d", i)
	}
	if !q.Flush(patience) {
		t.Fatal("the lines were not written")
	}
	got := w.lines()
	if len(got) != 1000 {
		t.Fatalf("%d lines, want 1000", len(got))
	}
	for i, l := range got {
		if want := fmt.Sprintf("2026-01-02T12:00:00Z INFO line %d", i); strings.TrimSpace(l) != want {
			t.Fatalf("line %d is %q, want %q", i, l, want)
		}
	}
}

// TestNothingWaitsForTheWriter: a writer that takes nothing stops nobody; what finds no room is counted, and said in
// its place.
func TestNothingWaitsForTheWriter(t *testing.T) {
	w := &gated{open: make(chan struct{})}
	q := New(w, noon, nothing)
	text := strings.Repeat("x", 1000)
	const given = 3000
	for i := range given {
		say(q, "%d %s", i, text)
	}
	total, unsaid := q.Lost()
	if total == 0 || total != unsaid {
		t.Fatalf("%d lines were lost and %d of them not told, want the same number above 0", total, unsaid)
	}
	if kept := (given - int(total)) * len(text); kept > maxWaiting || kept < maxWaiting/2 {
		t.Errorf("%d bytes wait, want about %d", kept, maxWaiting)
	}
	if q.Flush(0) {
		t.Error("lines that wait are said to be written")
	}
	close(w.open)
	if !q.Flush(patience) {
		t.Fatal("the lines were not written")
	}
	got := w.lines()
	if want := fmt.Sprintf(" log: %d lines were lost here", total); !strings.Contains(got[len(got)-1], want) {
		t.Errorf("the last line is %.100q, want one with %q", got[len(got)-1], want)
	}
	if len(got) != given-int(total)+1 {
		t.Errorf("%d lines, want %d and the one about the rest", len(got), given-int(total))
	}
	if again, unsaid := q.Lost(); again != total || unsaid != 0 {
		t.Errorf("afterwards %d lines are lost and %d not told, want %d and 0", again, unsaid, total)
	}
	say(q, "more")
	q.Flush(patience)
	if got := w.lines(); !strings.HasSuffix(got[len(got)-1], " more") {
		t.Errorf("the last line is %q", got[len(got)-1])
	}
}

// TestSlowWriter: where lines come faster than they are written, there is a line about the lost ones for each burst,
// not for each line.
func TestSlowWriter(t *testing.T) {
	w := &gated{open: make(chan struct{})}
	q := New(w, noon, nothing)
	text := strings.Repeat("x", 1000)
	for range 2000 {
		say(q, "%s", text)
	}
	for range 4000 { // one is written, one is given
		w.open <- struct{}{}
		say(q, "%s", text)
	}
	close(w.open)
	q.Flush(patience)
	told, lost := 0, uint64(0)
	for _, l := range w.lines() {
		if m := regexp.MustCompile(`log: (\d+) lines were lost`).FindStringSubmatch(l); m != nil {
			var n uint64
			if _, err := fmt.Sscan(m[1], &n); err != nil {
				t.Fatal(err)
			}
			told++
			lost += n
		}
	}
	if total, unsaid := q.Lost(); lost != total || unsaid != 0 {
		t.Errorf("the log tells of %d lost lines, and %d are not told, of %d", lost, unsaid, total)
	}
	if told == 0 || told > 20 {
		t.Errorf("%d lines tell of lost ones", told)
	}
}

func TestLinesThatFailAreLost(t *testing.T) {
	w := &gated{open: opened()}
	w.fail(errors.New("no space"))
	q := New(w, noon, nothing)
	for range 3 {
		say(q, "gone")
		q.Flush(patience)
	}
	if total, unsaid := q.Lost(); total != 3 || unsaid != 3 {
		t.Errorf("%d lines are lost and %d not told, want 3 and 3", total, unsaid)
	}
	w.fail(nil)
	if _, err := q.Write([]byte("there\n")); err != nil {
		t.Fatal(err)
	}
	q.Flush(patience)
	want := "2026-01-02T12:00:00Z WARN log: 3 lines were lost here: they could not be written, or came faster than they " +
		"could\n2026-01-02T12:00:00Z WARN there"
	if got := strings.Join(w.lines(), ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, unsaid := q.Lost(); unsaid != 0 {
		t.Errorf("%d lost lines are not told", unsaid)
	}
}

func TestManyLog(t *testing.T) {
	w := &gated{open: opened()}
	q := New(w, noon, nothing)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 500 {
				say(q, "%d", i)
				if i%100 == 0 {
					q.Flush(patience)
				}
			}
		})
	}
	all.Wait()
	q.Flush(patience)
	if total, _ := q.Lost(); len(w.lines())+int(total) != 4000 {
		t.Errorf("%d lines and %d lost, want 4000", len(w.lines()), total)
	}
}

// TestNobodyWritesOurLines: what a plugin says is told apart from what the server says, and steers no terminal.
func TestNobodyWritesOurLines(t *testing.T) {
	var out strings.Builder
	q := New(&out, noon, nothing)
	say(q, "plugin p: %s", "bad\n2026-01-02T12:00:00Z the store is fine\x1b[2J \u202e\xff é\tend\n")
	if !q.Flush(time.Minute) {
		t.Fatal("it is not written")
	}
	want := "2026-01-02T12:00:00Z INFO plugin p: bad\n\t2026-01-02T12:00:00Z the store is fine\\u{1b}[2J \\u{202e}\\xff " +
		"é\tend\n\t\n"
	if got := out.String(); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}
