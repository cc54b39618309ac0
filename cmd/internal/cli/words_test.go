package cli

import "testing"

func TestQuoted(t *testing.T) {
	for in, want := range map[string]string{"/a/b-c.d": "/a/b-c.d", "": "''", "a b": "'a b'", "it's": `'it'\''s'`,
		"$(x)": "'$(x)'"} {
		if got := Quoted(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
