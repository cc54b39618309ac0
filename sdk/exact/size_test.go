package exact

import (
	"strings"
	"testing"
	"unsafe"
)

// TestSize: what a Doc holds is never more than what was said before it was parsed.
func TestSize(t *testing.T) {
	if got := unsafe.Sizeof(node{}); got != nodeBytes {
		t.Errorf("a node has %d bytes, not %d", got, nodeBytes)
	}
	lim := Limits{Depth: 64, Tokens: 1000}
	for _, src := range []string{`0`, `"a"`, `[]`, `{}`, `[[],{}]`, `[0,0,0]`, `{"a":1}`,
		`{"a":{"b":[1,2,{"c":null}]},"d":""}`, `["a,b:c[d{e"]`,
		"[0" + strings.Repeat(",0", 900) + "]", "[" + strings.Repeat(",", 5000) + "]",
		strings.Repeat("[", 40) + strings.Repeat("]", 40)} {
		var d Doc
		err := d.Parse(src, lim)
		tokens, most := d.Size()/nodeBytes, MostSize(src, lim)
		if err == nil && tokens == 0 || 2*d.Size() > most || cap(d.nodes)*nodeBytes > max(most, 512) ||
			most > 2*nodeBytes*lim.Tokens {
			t.Errorf("%.40s: %d tokens, %d bytes of tape, at most %d, %v", src, tokens, cap(d.nodes)*nodeBytes, most, err)
		}
	}
}

// TestTextInsideStringsIsNoTape: a long text counts for what it is. What ends a string is read as Parse reads it.
func TestTextInsideStringsIsNoTape(t *testing.T) {
	many := strings.Repeat(`,:[{`, closeLook)
	lim := Limits{Depth: 64, Tokens: 1 << 20}
	for _, c := range []struct {
		src    string
		tokens int // at most
	}{
		{`{"output":"` + many + `"}`, 3},
		{`{"output":"\\\"` + many + `\\"}`, 3},
		{`["` + many + `\"",` + `"` + many + `"]`, 3},
		{`["` + many + `\\",0,0,0]`, 5},
		{`["` + strings.Repeat(`\"`, 3) + many + `",[0],"x"]`, 5},
		{`[` + strings.Repeat(`"",`, 2*closeLook) + `""]`, 2*closeLook + 2},
		{`["` + many, 2},
	} {
		var d Doc
		err := d.Parse(c.src, lim)
		if most := MostSize(c.src, lim) / nodeBytes / 2; most > c.tokens || d.Size()/nodeBytes > most {
			t.Errorf("%.30s… %.30s: at most %d tokens, %d after Parse (%v), want %d", c.src, c.src[len(c.src)-10:], most,
				d.Size()/nodeBytes, err, c.tokens)
		}
	}
}

// TestGrows: the canonical form is never longer than the text and what was said.
func TestGrows(t *testing.T) {
	var d Doc
	for src, most := range map[string]int{`[1,2.50,-0,"1e308"]`: 0, `[1e308]`: plainDigits,
		`{"a":1E-300,"b":[1e400,-1e-400,1e401]}`: 4 * plainDigits, `{"a":1e9}`: plainDigits, `7`: 0} {
		if err := d.Parse(src, DefaultLimits); err != nil {
			t.Fatal(err)
		}
		if long := len(d.Root().AppendCanonical(nil)); d.Grows() != most || long > len(src)+most {
			t.Errorf("%s: %d bytes in canonical form, %d more at most, want %d", src, long, d.Grows(), most)
		}
	}
	if err := d.Parse(`[1e5,`, DefaultLimits); err == nil || d.Grows() != 0 {
		t.Errorf("what is no JSON grows by %d", d.Grows())
	}
}
