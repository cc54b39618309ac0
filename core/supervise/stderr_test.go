//go:build linux

package supervise

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// lines collects what is logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) log(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

func TestStderrLines(t *testing.T) {
	for name, c := range map[string]struct {
		said string
		want []string
	}{
		"nothing":    {"", nil},
		"two":        {"one\ntwo\n", []string{"one", "two"}},
		"unfinished": {"one\ntwo", []string{"one", "two"}},
		"empty line": {"\n\nx\n", []string{"", "", "x"}},
		"control":    {"a\x1b[31mred\x07\x00\r\n\ttab", []string{`a\u001b[31mred\u0007\u0000\u000d`, " tab"}},
		"no text":    {"\xff\xfeok\n", []string{`\xff\xfeok`}},
		"direction":  {"a\u202eb\u2028c\n", []string{`a\u202eb\u2028c`}},
		"umlaut":     {"grün ✓\n", []string{"grün ✓"}},
		"long":       {strings.Repeat("x", 1000) + " " + strings.Repeat("y", 500) + "\nnext", []string{strings.Repeat("x", 1000) + "… (501 bytes more)", "next"}},
		"one word":   {strings.Repeat("x", 1500) + "\nnext", []string{"… (1500 bytes more)", "next"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got lines
			now := time.Unix(0, 0)
			p := &stderrReader{log: got.log, now: func() time.Time { return now }}
			p.run(strings.NewReader(c.said))
			if fmt.Sprint(got.all) != fmt.Sprint(c.want) || len(got.all) != len(c.want) {
				t.Errorf("%q\nwant %q", got.all, c.want)
			}
		})
	}
}

// ticking gives one line a read, and lets the clock go on.
type ticking struct {
	n   int
	now *time.Time
	by  time.Duration
}

func (r *ticking) Read(b []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	r.n--
	*r.now = r.now.Add(r.by)
	return copy(b, fmt.Sprintf("line %d\n", r.n)), nil
}

func TestStderrRate(t *testing.T) {
	now := time.Unix(0, 0)
	var got lines
	p := &stderrReader{log: got.log, now: func() time.Time { return now }}
	p.run(&ticking{1000, &now, 5 * time.Millisecond}) // 200 a second for five seconds
	notes, left := 0, 0
	for _, l := range got.all {
		var n int
		if _, err := fmt.Sscanf(l, "… %d lines of stderr left out", &n); err == nil {
			notes, left = notes+1, left+n
		}
	}
	if logged := len(got.all) - notes; logged+left != 1000 || logged > 300 || logged < 250 || notes < 5 {
		t.Errorf("%d logged, %d left out in %d notes", logged, left, notes)
	}
	got.all = nil
	p = &stderrReader{log: got.log, now: func() time.Time { return now }}
	p.run(&ticking{1000, &now, 21 * time.Millisecond})
	if len(got.all) != 1000 {
		t.Errorf("%d of 1000 lines at a rate that is allowed", len(got.all))
	}
}

// A flood is slowed down to logBytes a second, and no more once the process is gone.
func TestStderrPace(t *testing.T) {
	now := time.Unix(0, 0)
	waits := 0
	p := &stderrReader{now: func() time.Time { return now }, after: func(d time.Duration) <-chan time.Time {
		waits++
		now = now.Add(d)
		c := make(chan time.Time, 1)
		c <- now
		return c
	}}
	p.run(io.LimitReader(endless{}, 5*logBytes+1))
	if waits != 5 || now.Sub(time.Unix(0, 0)) != 5*time.Second {
		t.Errorf("%d waits, %v", waits, now.Sub(time.Unix(0, 0)))
	}
	exited := make(chan struct{})
	close(exited)
	p = &stderrReader{now: func() time.Time { return now }, exited: exited, after: func(time.Duration) <-chan time.Time {
		return nil
	}}
	p.run(io.LimitReader(endless{}, 3*logBytes))
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestStderrKept(t *testing.T) {
	for _, n := range []int{0, 1, 1023, 1024, 1025, 4090, 4091, 4092, 4096, 5000, 1 << 20} {
		var all strings.Builder
		for i := 0; all.Len() < n; i++ {
			fmt.Fprintf(&all, "%07d\n", i)
		}
		said := all.String()[:n]
		now := time.Unix(0, 0)
		p := &stderrReader{now: func() time.Time { return now }, after: time.After}
		p.run(io.MultiReader(strings.NewReader(said[:n/3]), strings.NewReader(said[n/3:])))
		got := p.kept()
		head, tail, lost := strings.Cut(got, cut)
		if len(got) > maxStderr || !strings.HasPrefix(said, head) || !strings.HasSuffix(said, tail) || !lost && got != said ||
			lost != (n > headBytes+tailBytes) {
			t.Errorf("of %d bytes %d are kept: %q", n, len(got), got)
		}
	}
}

// Whoever masks what a process said sees no part of a word: of a secret that was cut it would not know that it is one.
func TestStderrIsCutBetweenWords(t *testing.T) {
	secret := "tok" + "_" + strings.Repeat("k9", 16)
	for at := range 1100 {
		for _, said := range []string{
			"panic: " + strings.Repeat("y ", at/2) + strings.Repeat("z", at%2) + " " + secret + strings.Repeat(" w", 4000) +
				"\n",
			strings.Repeat("w ", 2000) + secret + " " + strings.Repeat("y ", 1600+at/2) + strings.Repeat("z", at%2) + "\n",
		} {
			var got lines
			p := &stderrReader{log: got.log, now: func() time.Time { return time.Unix(0, 0) }, after: time.After}
			p.run(strings.NewReader(said))
			e := Exit{Code: 1, Stderr: p.kept()}
			e.judge(Limits{}, false, p.starved)
			e.quote()
			for name, text := range map[string]string{"log": strings.Join(got.all, "\n"), "stderr": e.Stderr, "words": e.words(),
				"error": e.Err} {
				if text = strings.ReplaceAll(text, secret, ""); strings.ContainsAny(text, "k_") {
					t.Fatalf("%s: a part is left of a secret, %d bytes on: %q", name, at, text)
				}
			}
		}
	}
}

// What a process said last is long enough to be masked before it is cut; only the sentence on how it ended is short.
func TestWordsAreWhole(t *testing.T) {
	said := "panic: " + strings.Repeat("y", 180) + " " + strings.Repeat("k9", 16) + " z"
	e := Exit{Code: 1, Stderr: said + "\n"}
	e.judge(Limits{}, false, false)
	e.quote()
	if e.words() != said || !strings.HasSuffix(e.Err, "y…") {
		t.Errorf("%q, %q", e.words(), e.Err)
	}
}

func TestStderrFlood(t *testing.T) {
	var got lines
	p := begins(t, Command{Args: []string{"errflood", "3000000"}, Log: got.log})
	e := ends(t, p)
	if !strings.HasSuffix(e.Stderr, "the very last line\n") || len(e.Stderr) > maxStderr || e.Code != 0 {
		t.Errorf("%d bytes: %q", len(e.Stderr), e.Stderr)
	}
	if len(got.all) > 30_000/10 || !strings.Contains(strings.Join(got.all, "\n"), "lines of stderr left out") {
		t.Errorf("%d lines logged", len(got.all))
	}
	p = begins(t, Command{Args: []string{"errflood", "1000000000000"}})
	until(t, "it is slowed down", func() bool { return asleep(p.Pid()) })
	p.Kill()
	if e := ends(t, p); e.Cause != CauseKilled {
		t.Errorf("%#v", e)
	}
}

// asleep says whether a process waits for something, here for room in its pipe.
func asleep(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return bytes.Contains(stat, []byte(") S "))
}

func FuzzStderr(f *testing.F) {
	f.Add([]byte("panic: on purpose\n\ngoroutine 1 [running]:\n"), 3)
	f.Add([]byte("\xff\x00\u202e\n\n\n"), 1)
	f.Add([]byte(strings.Repeat("long ", 2000)), 100)
	f.Fuzz(func(t *testing.T, said []byte, at int) {
		at = max(0, min(at, len(said)))
		now := time.Unix(0, 0)
		var got lines
		p := &stderrReader{log: got.log, now: func() time.Time { return now }, after: time.After}
		p.addChunk(said[:at])
		p.run(strings.NewReader(string(said[at:])))
		for _, l := range got.all {
			if len(l) > 6*logLine+64 || strings.ContainsFunc(l, unicode.IsControl) || !utf8.ValidString(l) {
				t.Errorf("%q is logged", l)
			}
		}
		if s := p.kept(); len(s) > maxStderr || !utf8.ValidString(s) {
			t.Errorf("%q is kept", s)
		}
		e := Exit{Code: 1, Stderr: p.kept()}
		e.judge(Limits{}, false, p.starved)
		if len(e.Err) > 300 || strings.ContainsFunc(e.Err, unicode.IsControl) {
			t.Errorf("%q", e.Err)
		}
	})
}
