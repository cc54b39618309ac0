package chain

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// joined is what a text that comes in pieces reads as, by its units.
func joined(t testing.TB, pieces ...string) (out string) {
	t.Helper()
	held := ""
	for i, piece := range pieces {
		held += piece
		u := units{text: held, final: i == len(pieces)-1}
		for n, as := u.next(); n > 0; n, as = u.next() {
			if as == nil {
				as = []byte(held[u.at-n : u.at])
			}
			out += string(as)
		}
		if held = held[u.at:]; len(held) > 12 {
			t.Fatalf("%q: %d bytes wait for the rest of an escape", pieces, len(held))
		}
	}
	if held != "" {
		t.Fatalf("%q: %q is left", pieces, held)
	}
	return out
}

func checkUnits(t testing.TB, text string) {
	t.Helper()
	want, ok := decoded(text)
	if !ok {
		want = text
	}
	for at := 0; at <= len(text); at++ {
		if got := joined(t, text[:at], text[at:]); got != want {
			t.Fatalf("%q, cut at %d: reads as %q, want %q", text, at, got, want)
		}
	}
	// Every place goes back to a unit that reads as what is there, and the units follow one another.
	places := make([]int, len(want))
	for i := range places {
		places[i] = i
	}
	from, to := sources(text, places)
	for i := range places {
		unit, at := unitAt(text, i)
		part, _ := decoded(text[from[i]:to[i]])
		if at != from[i] || unit > i || to[i]-from[i] == 1 && text[from[i]] != want[i] || part != "" && !strings.HasPrefix(want[unit:], part) || i > 0 && from[i] < from[i-1] {
			t.Fatalf("%q: byte %d of %q is of %d to %d, unit %d at %d", text, i, want, from[i], to[i], unit, at)
		}
	}
}

var escapeSeeds = []string{"", `\`, `\\`, `\\\`, `a\nb`, `\d\n`, `\u`, `\u00`, `\u0041`, `\u004g`, `\u005cu0041`, `\ud83d\ude00`, `\ud83d`, `\ud83dx`, `\ud83d\u0041`, `\ud83d\ud83d\ude00`, `\ude00`, `\ud83d\`, `\ud83d\u`, `\ud83d\ude`, `\U0041`,
	`C:\new\x`, "\xff\\n\xc3", `\u0000`, `é\/é`}

// A text reads the same whole and cut anywhere, and as encoding/json reads it where that is JSON.
func TestUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	parts := []string{`\`, `\\`, "n", "u", "0", "4", "d83d", "de00", `\ud83d`, `\ude00`, `\u00e9`, "é", `"`, "/", "x", " "}
	texts := escapeSeeds
	for range 3000 {
		var b strings.Builder
		for range rng.IntN(10) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		texts = append(texts, b.String())
	}
	for _, text := range texts {
		checkUnits(t, text)
		var want string
		if json.Unmarshal([]byte(`"`+text+`"`), &want) != nil || !utf8.ValidString(text) {
			continue
		}
		if got, ok := decoded(text); ok && got != want || !ok && text != want {
			t.Errorf("%q reads as %q, want %q", text, got, want)
		}
	}
}

func FuzzUnits(f *testing.F) {
	for _, s := range escapeSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 1<<10 {
			checkUnits(t, text)
		}
	})
}
