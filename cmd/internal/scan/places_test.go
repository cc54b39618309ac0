package scan

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// spotted are findings of kind K at each <…> of a text, which is given without these marks.
func spotted(marked string) (text string, found []sdk.Finding) {
	for {
		before, rest, ok := strings.Cut(marked, "<")
		text += before
		if !ok {
			return text, found
		}
		inside, after, _ := strings.Cut(rest, ">")
		found = append(found, sdk.Finding{Kind: "K", Scanner: "s", Start: len(text), End: len(text) + len(inside),
			Severity: sdk.High})
		text, marked = text+inside, after
	}
}

// TestPlaces: lines and columns are those of an editor, and comments allow what stands on their line, wherever the text
// is cut.
func TestPlaces(t *testing.T) {
	long := strings.Repeat("y", maxMarked)
	for _, c := range []struct{ text, want string }{
		{"a <bc>", "1:3-1:5"},
		{"\n\n<bc>\n", "3:1-3:3"},
		{"é€𝄞<bc>", "1:4-1:6"},
		{"\xff\xfe<bc>", "1:3-1:5"},
		{"x\r\ny<b>\r\n", "2:2-2:3"},
		{"<a\nbc\n>d", "1:1-3:1"},
		{"<a><b>\n<c>", "1:1-1:2 1:2-1:3 2:1-2:2"},
		{"<a> # yett:allow K it is a sample\n<b>", "2:1-2:2 allowed 1:1 it is a sample"},
		{"yett:allow K in front <a>", "allowed 1:23 in front a"},
		{"<a> /* yett:allow K sample */", "allowed 1:1 sample"},
		{"<a> (* yett:allow K sample *)", "allowed 1:1 sample"},
		{"<a> # yett:allow K", "1:1-1:2 unreasoned 1"},
		{"<a> # yett:allow K  -- */", "1:1-1:2 unreasoned 1"},
		{"<a> # yett:allow OTHER sample", "1:1-1:2"},
		{"<a> # yett:allow OTHER", "1:1-1:2"},
		{"<a><b> # yett:allow K", "1:1-1:2 1:2-1:3 unreasoned 1"},
		{"<a> # yett:allow K yett:allow K twice", "allowed 1:1 twice"},
		{"<a> # yett:allow k sample", "1:1-1:2"},
		{"<a> # xyett:allow K sample", "1:1-1:2"},
		{"<a> # yett:allowed K sample", "1:1-1:2"},
		{"<a> # yett:allow OTHER x yett:allow K y", "allowed 1:1 y"},
		{"<a>\n# yett:allow K sample", "1:1-1:2"},
		{"# yett:allow K sample\n<a>", "2:1-2:2"},
		{"<a yett:allow K sample>", "1:1-1:22"},
		{"<a\nb> yett:allow K sample", "1:1-2:2"},
		{"<a>" + long + " yett:allow K sample\n<b>", "1:1-1:2 2:1-2:2"},
	} {
		text, found := spotted(c.text)
		for at := range min(len(text)+1, 60) {
			if at < len(text) && !utf8.RuneStart(text[at]) {
				continue // a stream releases whole characters
			}
			if got := placed(t, text, found, at); got != c.want {
				t.Errorf("%.60q cut at %d: %s, want %s", text, at, got, c.want)
				break
			}
		}
	}
}

// placed gives the text in two pieces.
func placed(t *testing.T, text string, found []sdk.Finding, at int) string {
	t.Helper()
	p := newPlaces("f", sdk.Low)
	for _, f := range found { // as a stream, which cuts no finding
		if f.Start < at && at < f.End {
			at = f.Start
		}
	}
	n := 0
	for n < len(found) && found[n].Start < at {
		n++
	}
	must(t, p.take(text[:at], found[:n], text, 0), p.take(text[at:], found[n:], text, 0))
	p.endLine()
	var out []string
	for _, f := range p.found {
		out = append(out, fmt.Sprintf("%d:%d-%d:%d", f.Line, f.Column, f.EndLine, f.EndColumn))
	}
	for _, f := range p.allowed {
		out = append(out, fmt.Sprintf("allowed %d:%d %s", f.Line, f.Column, f.Reason))
	}
	for _, u := range p.unreasoned {
		out = append(out, fmt.Sprintf("unreasoned %d", u.Line))
	}
	return strings.Join(out, " ")
}

func FuzzMarks(f *testing.F) {
	f.Add("x yett:allow K because", 0)
	f.Add("yett:allow yett:allow", 3)
	f.Fuzz(func(t *testing.T, line string, at int) {
		for _, m := range marksOf(line) {
			if m.kind == "" || m.at < 0 || m.at > len(line) || strings.ContainsAny(m.reason, "\n\x1b") {
				t.Errorf("%q: %+v", line, m)
			}
		}
	})
}

// TestDoubles: what a text shows as it stands and as it reads is one finding.
func TestDoubles(t *testing.T) {
	p := newPlaces("f", sdk.Low)
	f := func(kind string, start, end int) sdk.Finding {
		return sdk.Finding{Kind: kind, Scanner: "s", Start: start, End: end, Severity: sdk.High}
	}
	must(t, p.take("0123456789", []sdk.Finding{f("A", 1, 6), f("A", 2, 5), f("B", 2, 5), f("A", 5, 8)}, "0123456789", 0))
	p.endLine()
	if len(p.found) != 3 || p.found[1].Kind != "B" || p.found[2].Start != 5 {
		t.Errorf("%+v", p.found)
	}
}

// reader gives a text of so many lines, of which every nth has something to find, and never holds it.
type reader struct {
	lines, at, nth int
	rest           string
	passed         int
}

func (r *reader) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.at == r.lines {
			return 0, io.EOF
		}
		if r.at++; r.at%r.nth == 0 {
			r.rest = assigned(r.at) + "\n"
		} else {
			r.rest = "nothing to be found in this line, which is long enough\n"
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.passed += n
	return n, nil
}

// TestLarge: a text of any length is scanned with a piece of it in memory, and what is found is what a scan of each
// line would find.
func TestLarge(t *testing.T) {
	e := startSecrets(t)
	r := &reader{lines: 60_000, nth: 997}
	places, most, passed := newPlaces("f", sdk.Low), 0, 0
	look := e.chain.Steps[0].Stream.Lookbehind
	must(t, e.scan(t.Context(), r, func(released string, found []sdk.Finding, around string, at int) error {
		most = max(most, len(around))
		passed += len(released)
		return places.take(released, found, around, at)
	}))
	if limit := pieceSize + 4*look; most > limit {
		t.Errorf("%d bytes were in memory, more than %d", most, limit)
	}
	if passed != r.passed || len(places.found) != 60_000/997 {
		t.Errorf("%d of %d bytes and %d findings", passed, r.passed, len(places.found))
	}
	for i, f := range places.found {
		if f.Line != (i+1)*997 || f.Column != 16 || f.value != value(f.Line) {
			t.Errorf("finding %d: %+v", i, f)
		}
	}
}

// TestCrowded: a text may have more findings than one call of a module, each with its own place.
func TestCrowded(t *testing.T) {
	e := startSecrets(t)
	for _, lines := range []int{abi.MaxFindings - 1, abi.MaxFindings, abi.MaxFindings + 1, 1000, 3000} {
		if testing.Short() && lines > 1000 {
			break
		}
		places := newPlaces("f", sdk.Low)
		must(t, e.scan(t.Context(), &reader{lines: lines, nth: 1}, places.take))
		places.endLine()
		if len(places.found) != lines {
			t.Errorf("%d of %d findings", len(places.found), lines)
			continue
		}
		for i, f := range places.found {
			if f.Line != i+1 || f.value != value(i+1) {
				t.Fatalf("finding %d: %+v", i, f)
			}
		}
	}
	pieces := newPlaces("f", sdk.Low) // more than a piece, crowded all the way
	must(t, e.scan(t.Context(), &reader{lines: 9000, nth: 2}, pieces.take))
	for i, f := range pieces.found {
		if f.Line != 2*(i+1) || f.value != value(f.Line) {
			t.Fatalf("finding %d of a stream: %+v", i, f)
		}
	}
	if len(pieces.found) != 4500 {
		t.Errorf("%d of 4500 findings of a stream", len(pieces.found))
	}
	var text strings.Builder
	for i := range 1000 {
		text.WriteString(assigned(i) + []string{"; ", "; ", "; ", "\n"}[i%4])
	}
	once, err := e.chain.Steps[0].Scanner.Scan(t.Context(), &chain.Input{Text: text.String()})
	if err != nil || len(once) != 1000 {
		t.Errorf("%d findings, %v, want 1000, each once", len(once), err)
	}
	p, long := newPlaces("f", sdk.Low), strings.Repeat("x", maxFindings+1)
	for i := range maxFindings + 1 {
		err := p.take(long[i:i+1], []sdk.Finding{{Kind: "K", Start: i, End: i + 1, Severity: sdk.High}}, long, 0)
		if tooMany := i == maxFindings; tooMany != (err == errCrowded) {
			t.Fatalf("finding %d: %v", i, err)
		}
	}
}

// startSecrets starts one built-in scanner.
func startSecrets(t *testing.T) *engine {
	t.Helper()
	s, err := builtin("secrets")
	must(t, err)
	e, err := start(t.Context(), []chosen{s}, 2, sdk.Flag, sdk.Low)
	must(t, err)
	t.Cleanup(func() { must(t, e.close(context.Background())) })
	return e
}
