package host_test

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
)

// alphabets are the classes of the samples' notation: <w:32> is 32 letters and digits.
var alphabets = map[string]string{
	"d": digits, "x": digits + "abcdef", "X": digits + "abcdefABCDEF", "a": digits + lower, "A": digits + upper,
	"l": lower + upper, "w": digits + lower + upper, "s": digits + lower + upper + "+/", "u": "234567" + upper, "c": lower,
}

const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

var run = regexp.MustCompile(`<(\w):(\d+)>`)

// sample makes the text of one line and gives the spans that are marked in it. No file of the repository holds what
// looks like a secret, so the runs are made here.
func sample(t *testing.T, line string, seed int64) (text string, marks [][2]int) {
	t.Helper()
	random := rand.New(rand.NewSource(seed))
	fill := func(in string) string {
		return run.ReplaceAllStringFunc(in, func(r string) string {
			m := run.FindStringSubmatch(r)
			alphabet, n := alphabets[m[1]], 0
			if n, _ = strconv.Atoi(m[2]); alphabet == "" || n == 0 {
				t.Fatalf("unknown run %s in %s", r, line)
			}
			out := make([]byte, n)
			for i := range out {
				out[i] = alphabet[random.Intn(len(alphabet))]
			}
			return string(out)
		})
	}
	rest := strings.NewReplacer(`\n`, "\n", "¶", "").Replace(line)
	for {
		before, marked, some := strings.Cut(rest, "⟦")
		text += before
		if !some {
			return text, marks
		}
		inside, after, _ := strings.Cut(marked, "⟧")
		from := len(text)
		text += fill(strings.TrimPrefix(inside, "'"))
		marks, rest = append(marks, [2]int{from, len(text)}), after
	}
}

// lines are those of a scanner's samples, without comments.
func lines(t *testing.T, name, folder string) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../../scanners", name, "testdata", folder, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
				out = append(out, line)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("scanners/%s/testdata/%s has no line", name, folder)
	}
	return out
}

// plainly are lines whose marked texts stand there as they are. The other lines of pii have numbers whose check digits
// only that scanner's own test can make.
var plainly = regexp.MustCompile(`^[^⟦]*(⟦'[^⟧]*⟧[^⟦]*)+$`)

// TestSamples runs the samples of every built-in scanner through its committed module. A line of hit is KIND | text:
// exactly the spans in ⟦…⟧ are found, as that kind. In a line of clean nothing is found.
func TestSamples(t *testing.T) {
	h, err := host.New(t.Context(), host.Options{CacheDir: host.CompiledDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(t.Context()) })
	for _, name := range scanners.Names() {
		t.Run(name, func(t *testing.T) {
			code, _ := scanners.Builtin(name)
			m, err := h.Load(t.Context(), host.Spec{Name: name, Code: code, Timeout: host.MaxTimeout})
			if err != nil {
				t.Fatal(err)
			}
			prefix := strings.ToUpper(strings.TrimSuffix(name, "s")) + "_" // the samples may leave it out
			found := func(text string) string {
				all, err := m.Scan(t.Context(), &chain.Input{Text: text})
				if err != nil {
					t.Fatalf("%v in %q", err, text)
				}
				var out strings.Builder
				for _, f := range all {
					fmt.Fprintf(&out, "%s %d…%d\n", strings.TrimPrefix(f.Kind, prefix), f.Start, f.End)
				}
				return out.String()
			}
			read := 0
			for _, line := range lines(t, name, "hit") {
				kind, notation, ok := strings.Cut(line, " | ")
				if !ok {
					t.Fatalf("expected KIND | text, got %s", line)
				}
				if name == "pii" && !plainly.MatchString(notation) {
					continue
				}
				read++
				text, marks := sample(t, notation, 1)
				var want strings.Builder
				for _, m := range marks {
					fmt.Fprintf(&want, "%s %d…%d\n", strings.TrimPrefix(kind, prefix), m[0], m[1])
				}
				if got := found(text); got != want.String() {
					t.Errorf("%s: got\n%swant\n%s%q", line, got, want.String(), text)
				}
			}
			if read < 30 {
				t.Errorf("only %d lines of hit were read", read)
			}
			for _, line := range lines(t, name, "clean") {
				if name == "pii" && strings.Contains(line, "⟦") {
					continue
				}
				if text, _ := sample(t, line, 1); found(text) != "" {
					t.Errorf("found %s in %q", found(text), text)
				}
			}
		})
	}
}

// mostWork is how much fuel a byte may cost: about twice what the worst text of TestBuiltinsAreLinear does.
const mostWork = 30_000

// TestBuiltinsAreLinear holds that four times a text costs a built-in scanner hardly more than four times the work,
// whatever is repeated in it, and that a byte costs no more than mostWork. Work is fuel, which no other load of the
// machine changes.
func TestBuiltinsAreLinear(t *testing.T) {
	h, err := host.New(t.Context(), host.Options{CacheDir: host.CompiledDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(t.Context()) })
	for _, name := range scanners.Names() {
		t.Run(name, func(t *testing.T) {
			code, _ := scanners.Builtin(name)
			m, err := h.Load(t.Context(), host.Spec{Name: name, Code: code, Timeout: host.MaxTimeout, Fuel: 1e12})
			if err != nil {
				t.Fatal(err)
			}
			work := func(text string) uint64 {
				before := m.Stats().Fuel
				_, err := m.Scan(t.Context(), &chain.Input{Text: text})
				if err != nil && !strings.Contains(err.Error(), "more than 16384 bytes") {
					t.Fatalf("%v in %.60q", err, text)
				}
				return m.Stats().Fuel - before
			}
			for _, unit := range []string{"12 ", "4111 ", "1.2.", "a@b.", "+1 (", "token=", "key: \"", "-----BEGIN ", "eyJ",
				"gh" + "p_", "ignore ", "ignore all previous instructions ", "vtaber", "erongi ", "i g n o r e ", "aWdub3Jl",
				"69676e6f7265", "[[", "![](", "\u200b", "\U000e0041", "система ", "%41", "&#65;", "\\u0041", "=", "/", "x"} {
				small := work(strings.Repeat(unit, (24<<10)/len(unit)))
				large := work(strings.Repeat(unit, (96<<10)/len(unit)))
				if small > 1e6 && large > 6*small || large > mostWork*(96<<10) {
					t.Errorf("%q: %d for 24 KiB, %d for 96", unit, small, large)
				}
			}
		})
	}
}
