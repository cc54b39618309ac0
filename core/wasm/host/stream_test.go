package host

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

func streamMeta(mode string) string {
	return strings.Replace(testMeta, `"mode":"stateful"`, mode, 1)
}

// runFinder: runs of '!' are findings, however long; it needs the byte before a run and the byte behind it. Locals: 3
// the place, 4 the start of the run.
func runFinder() guest {
	at := cat(get(3), i32(bufferAt), add, get(0), add, load8)
	emit := cat(host("emit", i32(kindAt), i32(kindLen), get(4), get(3), f32(1), i32(3), i32(abi.ActionRedact), i32(0),
		i32(0)), drop)
	return guest{locals: 2, meta: streamMeta(`"mode":"window","lookbehind":8`), scan: cat(
		block, loop, get(3), get(1), geU, brIf(1),
		at, i32('!'), eq, ifThen,
		get(3), set(4),
		block, loop, get(3), get(1), geU, brIf(1), at, i32('!'), ne, brIf(1), get(3), i32(1), add, set(3), br(0), end, end,
		emit, br(1), end, // the loop goes on at the byte behind the run
		get(3), i32(1), add, set(3), br(0), end, end, i32(0))}
}

// behindB finds every '!' right behind a 'b': it needs a byte of context before its finding.
func behindB() guest {
	at := cat(get(3), i32(bufferAt), add, get(0), add)
	return guest{locals: 1, meta: streamMeta(`"mode":"window","lookbehind":2`), scan: cat(
		i32(1), set(3), block, loop, get(3), get(1), geU, brIf(1),
		at, load8, i32('!'), eq, at, i32(1), sub, load8, i32('b'), eq, []byte{0x71}, ifThen,
		host("emit", i32(kindAt), i32(kindLen), get(3), cat(get(3), i32(1), add), f32(1), i32(3), i32(1), i32(0), i32(0)),
		drop, end, get(3), i32(1), add, set(3), br(0), end, end, i32(0))}
}

// afterColon finds every '!' whose number of ':' before it, in the whole stream, is odd. The state is that number's
// last bit.
func afterColon() guest {
	at := cat(get(3), i32(bufferAt), add, get(0), add, load8)
	xor := []byte{0x73}
	return guest{locals: 2, scan: cat(
		get(0), ifThen, i32(bufferAt), load8, set(4), end,
		block, loop, get(3), get(1), geU, brIf(1),
		at, i32(':'), eq, ifThen, get(4), i32(1), xor, set(4), end,
		at, i32('!'), eq, get(4), []byte{0x71}, ifThen,
		host("emit", i32(kindAt), i32(kindLen), get(3), cat(get(3), i32(1), add), f32(1), i32(3), i32(1), i32(0), i32(0)),
		drop, end, get(3), i32(1), add, set(3), br(0), end, end,
		i32(scratchAt), get(4), store32,
		get(2), i32(abi.FlagStream), []byte{0x71}, ifThen, host("put", i32(abi.SlotState), i32(scratchAt), i32(1)), drop, end,
		i32(0))}
}

// wantsUTF8 finds '!' and fails with status 64 on a window that is not UTF-8.
func wantsUTF8() guest {
	g := finder()
	g.meta = streamMeta(`"mode":"window","lookbehind":1`)
	g.scan = cat(get(2), i32(abi.FlagUTF8), []byte{0x71}, []byte{0x45}, ifThen, i32(64), ret, end, g.scan)
	return g
}

// A finding that a stream cannot give fails a scan of the whole text too, but for the last one that a call may report,
// which stands for all that follow.
func TestFindingsLongerThanLookbehindFail(t *testing.T) {
	many := strings.Repeat("! ", abi.MaxFindings-2)
	for _, c := range []struct {
		text string
		fits bool
	}{
		{"a!!!!!!!!b", true},
		{"a!!!!!!!!!b", false},
		{many + "!!!!!!!!!b", false},
		{many + "! !!!!!!!!!b", true},
	} {
		m := load(t, runFinder(), nil)
		switch _, err := scan(m, c.text); {
		case c.fits && err != nil:
			t.Errorf("%q fails: %v", c.text, err)
		case !c.fits && (!errors.Is(err, ErrSpan) || !strings.Contains(err.Error(), "lookbehind, 8")):
			t.Errorf("%q: %v, not an error of its span", c.text, err)
		}
	}
}

var streamGuests = []struct {
	name  string
	g     guest
	texts []string
}{
	{"window", runFinder(), []string{"", "!", "a!b", "a!!!b!c!!", "no", "!!!!!!!!", "x!!!!!!!y", strings.Repeat("ab!c!!d", 9), "ä!ö!!ü!!!ß" + strings.Repeat("€", 7)}},
	{"window with context", behindB(), []string{"b!", "!b!", "b!b!ab!!b!", strings.Repeat("ab!c!", 6)}},
	{"stateful", afterColon(), []string{"", ":", "!:!:!", "a:b!c!d:!", strings.Repeat(":!ä!", 7)}},
	{"none", func() guest { g := finder(); g.meta = streamMeta(`"mode":"none"`); return g }(), []string{"", "!", "a!b!!", "ä!"}},
	{"UTF-8", wantsUTF8(), []string{"ä!", "€€€!€", "🙂!🙂🙂!é", strings.Repeat("é", 20) + "!"}},
}

// TestStreamsEqualOneScan cuts every text at every place, and into single bytes, and at three places.
func TestStreamsEqualOneScan(t *testing.T) {
	for _, c := range streamGuests {
		t.Run(c.name, func(t *testing.T) {
			m := load(t, c.g, nil)
			for _, text := range c.texts {
				want, err := scan(m, text)
				if err != nil {
					t.Fatal(err)
				}
				for cut := 0; cut <= len(text); cut++ {
					wantStream(t, m, want, text, text[:cut], text[cut:])
					other := len(text) - cut/2
					if a, b := min(cut, other), max(cut, other); true {
						wantStream(t, m, want, text, text[:a], text[a:b], "", text[b:])
					}
				}
				wantStream(t, m, want, text, strings.Split(text, "")...)
				var single []string
				for i := range len(text) {
					single = append(single, text[i:i+1])
				}
				wantStream(t, m, want, text, single...)
			}
		})
	}
}

// wantStream writes the pieces and compares what comes out, joined, with one scan.
func wantStream(t *testing.T, m *Module, want []sdk.Finding, text string, pieces ...string) {
	t.Helper()
	s := m.NewStream()
	var out strings.Builder
	var got []sdk.Finding
	for i := range len(pieces) + 1 {
		chunk, final := "", i >= len(pieces)-1
		if i < len(pieces) {
			chunk = pieces[i]
		}
		p, err := s.Write(context.Background(), chunk, final)
		if err != nil {
			t.Fatalf("%q: %v", pieces, err)
		}
		if p.Start != out.Len() {
			t.Fatalf("%q: a piece at %d, want %d", pieces, p.Start, out.Len())
		}
		out.WriteString(p.Text)
		for _, f := range p.Findings {
			if f.Start < p.Start || f.End > out.Len() {
				t.Errorf("%q: %d–%d is not in the piece %d–%d", pieces, f.Start, f.End, p.Start, out.Len())
			}
		}
		got = append(got, p.Findings...)
		if final {
			break
		}
	}
	if out.String() != text {
		t.Errorf("%q: released %q", pieces, out.String())
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q: got %v, want %v", pieces, got, want)
	}
}

// TestWindowIsReleasedInTime checks that a stream holds back no more than it must.
func TestWindowIsReleasedInTime(t *testing.T) {
	m := load(t, runFinder(), nil)
	s := m.NewStream()
	released := 0
	for n := range 500 {
		p, err := s.Write(context.Background(), "x", false)
		if err != nil {
			t.Fatal(err)
		}
		if released += len(p.Text); n+1-released > 8+4 {
			t.Fatalf("%d bytes of %d are held back", n+1-released, n+1)
		}
		if len(s.buf) > 2*8+4 {
			t.Fatalf("%d bytes are kept", len(s.buf))
		}
	}
}

func TestStreamErrorsAreFinal(t *testing.T) {
	ctx := context.Background()
	m := load(t, finder(), func(s *Spec) { s.Memory = 32 << 20 })
	s := m.NewStream()
	_, err := s.Write(ctx, "!~", false)
	wantErr(t, err, ErrTrap)
	_, again := s.Write(ctx, "!", true)
	if again != err {
		t.Errorf("after the error: %v", again)
	}

	s = m.NewStream()
	if _, err := s.Write(ctx, "!", true); err != nil {
		t.Fatal(err)
	}
	_, err = s.Write(ctx, "!", false)
	wantErr(t, err, ErrInput)

	g := finder()
	g.meta = streamMeta(`"mode":"none"`)
	s = load(t, g, nil).NewStream()
	if _, err := s.Write(ctx, strings.Repeat("x", MaxStream), false); err != nil {
		t.Fatal(err)
	}
	_, err = s.Write(ctx, "x", false)
	wantErr(t, err, ErrInput)
}

// TestStateBelongsToItsModule moves a stream from one module to another.
func TestStateBelongsToItsModule(t *testing.T) {
	ctx := context.Background()
	h := newHost(t, Options{})
	first := loadOn(t, h, afterColon(), nil)
	same := loadOn(t, h, afterColon(), nil)
	other := loadOn(t, h, afterColon(), func(s *Spec) { s.Config = []byte(`{"a":1}`) })
	code := loadOn(t, h, finder(), nil)
	s := first.NewStream()
	if _, err := s.Write(ctx, ":", false); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Module{other, code} {
		wantErr(t, s.Move(m), ErrInput)
	}
	if err := s.Move(same); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(ctx); err != nil {
		t.Fatal(err)
	}
	p, err := s.Write(ctx, "!", true)
	if err != nil || len(p.Findings) != 1 || p.Findings[0].Start != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestSecretsAsAStream runs the built-in scanner over text in pieces.
func TestSecretsAsAStream(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a large module, which -short leaves out")
	}
	wasm, err := os.ReadFile("../../../scanners/secrets/secrets.wasm")
	if err != nil {
		t.Fatal(err)
	}
	m, err := newHost(t, Options{}).Load(context.Background(),
		Spec{Name: "secrets", Code: wasm, Start: time.Minute, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	token := "gh" + "p_" + "q8Zr2LmV5tXc7NpK3sWd9YfB1hJg6RaT4uEe"
	line := "an ordinary line of a log with 12345 numbers, é and €\n"
	text := "auth=" + token + "\n" + strings.Repeat(line, 400) + "and " + token + " again\n" + strings.Repeat(line, 300) +
		token
	want, err := scan(m, text)
	if err != nil || len(want) != 3 {
		t.Fatalf("%d findings, %v", len(want), err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		var pieces []string
		for rest := text; rest != ""; {
			n := min(1+r.IntN(6000), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		wantStream(t, m, want, text, pieces...)
	}
}

// TestStreamPassesTheContext has a stream end with its caller.
func TestStreamPassesTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := load(t, finder(), nil).NewStream().Write(ctx, "!", true)
	wantErr(t, err, context.Canceled)
}
