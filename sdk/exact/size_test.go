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
	for _, src := range []string{`0`, `"a"`, `[]`, `{}`, `[[],{}]`, `[0,0,0]`, `{"a":1}`, `{"a":{"b":[1,2,{"c":null}]},"d":""}`, `["a,b:c[d{e"]`,
		"[0" + strings.Repeat(",0", 900) + "]", "[" + strings.Repeat(",", 5000) + "]", strings.Repeat("[", 40) + strings.Repeat("]", 40)} {
		var d Doc
		err := d.Parse(src, lim)
		tokens, most := d.Size()/nodeBytes, MostSize(src, lim)
		if err == nil && tokens == 0 || 2*d.Size() > most || cap(d.nodes)*nodeBytes > max(most, 512) || most > 2*nodeBytes*lim.Tokens {
			t.Errorf("%.40s: %d tokens, %d bytes of tape, at most %d, %v", src, tokens, cap(d.nodes)*nodeBytes, most, err)
		}
	}
}
