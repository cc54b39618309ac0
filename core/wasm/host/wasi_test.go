package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/abi"
)

// statusOf scans once and gives the status, 0 for none.
func statusOf(t *testing.T, g guest) uint32 {
	t.Helper()
	_, err := scan(load(t, g, nil), "x")
	var se *StatusError
	switch {
	case errors.As(err, &se):
		return se.Status
	case err != nil:
		t.Fatal(err)
	}
	return 0
}

func TestWASIHasNoPower(t *testing.T) {
	a, b := i32(scratchAt), i32(scratchAt+8)
	dirty := cat(a, i32(-1), store32, b, i32(-1), store32)
	readClock := func(id, at int) []byte { return cat(host("clock_time_get", i32(id), i64(1), i32(at)), drop) }
	// One subscription to the clock id, for ns, relative or absolute.
	poll := func(id, ns, absolute int) []byte {
		sub := scratchAt + 64
		return cat(i32(sub), i32(77), store32, i32(sub+16), i32(id), store32, i32(sub+24), i32(ns), store32, i32(sub+40),
			i32(absolute), store32, host("poll_oneoff", i32(sub), i32(sub+64), i32(1), b), drop)
	}
	for _, c := range []struct {
		name string
		body []byte
		want uint32
	}{
		{"args_sizes_get", cat(dirty, host("args_sizes_get", a, b), drop, loadAt(scratchAt), loadAt(scratchAt+8), add), 0},
		{"environ_sizes_get", cat(dirty, host("environ_sizes_get", a, b), drop, loadAt(scratchAt), loadAt(scratchAt+8), add), 0},
		{"args_get", host("args_get", a, b), 0},
		{"environ_get", host("environ_get", a, b), 0},
		{"no directory", host("fd_prestat_get", i32(3), a), wasiBadFD},
		{"no directory's name", host("fd_prestat_dir_name", i32(3), a, i32(8)), wasiBadFD},
		{"close of a file", host("fd_close", i32(3)), wasiBadFD},
		{"close of stdout", host("fd_close", i32(1)), 0},
		{"flags of a file", host("fd_fdstat_set_flags", i32(9), i32(0)), wasiBadFD},
		{"stat of a file", host("fd_fdstat_get", i32(3), a), wasiBadFD},
		{"stat of stdout", cat(dirty, host("fd_fdstat_get", i32(1), a), drop, loadAt(scratchAt), loadAt(scratchAt+8), add), 2},
		{"write to a file", host("fd_write", i32(3), a, i32(0), b), wasiBadFD},
		{"write to stdin", host("fd_write", i32(0), a, i32(0), b), wasiBadFD},
		{"write of too many pieces", host("fd_write", i32(1), a, i32(maxIOVecs+1), b), wasiInvalid},
		{"write of much is short", cat(a, i32(bufferAt), store32, i32(scratchAt+4), i32(200_000), store32,
			host("fd_write", i32(1), a, i32(1), b), drop, loadAt(scratchAt+8)), maxPrinted},
		{"yield", host("sched_yield"), 0},
		{"the wall clock is fixed", cat(readClock(0, scratchAt), loadAt(scratchAt+4)), clockStart >> 32},
		{"the monotonic clock starts at 0", cat(readClock(1, scratchAt), loadAt(scratchAt)), clockStep},
		{"a clock moves on", cat(readClock(1, scratchAt), readClock(1, scratchAt+8), loadAt(scratchAt+8), loadAt(scratchAt), sub), clockStep},
		{"unknown clock", host("clock_time_get", i32(4), i64(0), a), wasiInvalid},
		{"too much randomness", host("random_get", i32(0), i32(maxRandom+1)), wasiInvalid},
		{"poll of nothing", host("poll_oneoff", a, a, i32(0), b), wasiInvalid},
		{"poll of too much", host("poll_oneoff", i32(0), i32(0), i32(maxSubscriptions+1), b), wasiInvalid},
		{"poll counts its events", cat(poll(1, 5, 0), loadAt(scratchAt+8)), 1},
		{"poll gives the user data back", cat(poll(1, 5, 0), loadAt(scratchAt+128)), 77},
		{"poll passes the time", cat(poll(1, 5_000_000, 0), readClock(1, scratchAt), loadAt(scratchAt)), 5_000_000 + clockStep},
		{"poll until a time", cat(readClock(1, scratchAt), poll(1, 9_000, 1), readClock(1, scratchAt), loadAt(scratchAt)), 9_000 + clockStep},
		{"poll until the past", cat(readClock(0, scratchAt), poll(0, 9_000, 1), readClock(1, scratchAt), loadAt(scratchAt)), 2 * clockStep},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := statusOf(t, guest{scan: c.body}); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestRandomIsTheSameForEachInstance(t *testing.T) {
	body := cat(host("random_get", i32(scratchAt), i32(8)), drop, loadAt(scratchAt), i32(1), []byte{0x72}) // or: never 0
	m := load(t, guest{scan: body}, nil)
	var seen []string
	for range 2 { // the first ends with an error, so the second is another instance
		_, err := scan(m, "x")
		seen = append(seen, err.Error())
	}
	if seen[0] != seen[1] {
		t.Errorf("two instances saw %q", seen)
	}
	_, err := scan(load(t, guest{scan: cat(body, []byte{0x01})}, nil), "x") // nop: other bytes, other seed
	if err.Error() == seen[0] {
		t.Error("two modules saw the same numbers")
	}
}

type sink struct{ lines []string }

func (s *sink) log(module string, level int, line string) {
	s.lines = append(s.lines, fmt.Sprintf("%s %d %q", module, level, line))
}

func TestLogBudget(t *testing.T) {
	var s sink
	h := newHost(t, Options{Log: s.log})
	m := loadOn(t, h, guest{locals: 1, scan: cat(
		host("log", i32(0), i32(textAt), i32(11)),
		host("log", i32(7), i32(badUTF8At), i32(2)),
		host("log", i32(2), i32(zerosAt), i32(abi.MaxLogLine+5)),
		times(3, 40, host("log", i32(1), i32(kindAt), i32(4))), i32(0))}, nil)
	if _, err := scan(m, "x"); err != nil {
		t.Fatal(err)
	}
	if len(s.lines) != abi.MaxLogLines+1 {
		t.Fatalf("%d lines: %q", len(s.lines), s.lines)
	}
	want := []string{`mod 0 "replacement"`, `mod 7 "` + "\uFFFD" + `"`, `mod 2 ""`, `mod 1 "TEST"`}
	if !reflect.DeepEqual(s.lines[:4], want) {
		t.Errorf("got %q", s.lines[:4])
	}
	if last := s.lines[abi.MaxLogLines]; last != `mod 2 "log over budget: 11 lines dropped, 1029 bytes cut"` {
		t.Errorf("last line %s", last)
	}
	if st := m.Stats(); st.LogLines != 11 || st.LogBytes != abi.MaxLogLine+5 {
		t.Errorf("stats %+v", st)
	}
}

func TestPrintedLinesGoToTheLog(t *testing.T) {
	var s sink
	h := newHost(t, Options{Log: s.log})
	const text = "one\ntwo\n\nrest"
	g := guest{meta: testMeta, doc: text}
	vecs := cat(i32(scratchAt), i32(docAt), store32, i32(scratchAt+4), i32(5), store32, // "one\nt"
		i32(scratchAt+8), i32(docAt+5), store32, i32(scratchAt+12), i32(len(text)-5), store32)
	// Prints to both streams, then fails with the number of bytes it was told were written.
	g.scan = cat(vecs, host("fd_write", i32(1), i32(scratchAt), i32(2), i32(scratchAt+16)), drop,
		host("fd_write", i32(2), i32(scratchAt), i32(1), i32(scratchAt+20)), drop, loadAt(scratchAt+16))
	_, err := scan(loadOn(t, h, g, nil), "x")
	var se *StatusError
	if !errors.As(err, &se) || se.Status != uint32(len(text)) {
		t.Errorf("written: %v", err)
	}
	want := []string{`mod 1 "one"`, `mod 1 "two"`, `mod 1 ""`, `mod 2 "one"`, `mod 1 "rest"`, `mod 2 "t"`}
	if !reflect.DeepEqual(s.lines, want) {
		t.Errorf("got %q, want %q", s.lines, want)
	}
}

// Whoever masks a line sees no part of a word: of a secret that was cut it would not know that it is one.
func TestLogLinesAreCutBetweenWords(t *testing.T) {
	m := load(t, finder(), nil)
	in, err := m.start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	secret := "tok" + "_" + strings.Repeat("k9", 16)
	for at := range abi.MaxLogLine + 10 {
		line := []byte(strings.Repeat("y", at) + " " + secret + " z")
		c := loose(in, scanning)
		c.log.add(0, line)
		c.print(0, line[:at/2])
		c.print(0, append(line[at/2:], '\n'))
		if len(c.log.lines) != 2 || c.log.lines[0].text != c.log.lines[1].text {
			t.Fatalf("logged and printed: %+v", c.log.lines)
		}
		text, left := c.log.lines[0].text, c.log.cut
		if strings.ContainsAny(strings.ReplaceAll(text, secret, ""), "k_") || left != 2*(len(line)-len(text)) ||
			left > 0 && len(line) <= abi.MaxLogLine {
			t.Fatalf("%d bytes before: %q, %d bytes cut", at, text, left)
		}
	}
}

func TestPrintingWithoutLineEndsIsBounded(t *testing.T) {
	m := load(t, finder(), nil)
	in, err := m.start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	c := loose(in, scanning)
	for range 100 {
		c.print(0, make([]byte, 10_000))
	}
	if n := len(c.printed[0]); n != abi.MaxLogLine+1 || c.log.cut != 1_000_000-n {
		t.Errorf("%d bytes kept, %d cut", n, c.log.cut)
	}
}
