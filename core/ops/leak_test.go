package ops

import (
	"strings"
	"testing"
)

func TestHoldsKey(t *testing.T) {
	s := New(Settings{Pepper: make([]byte, 32), Random: func(b []byte) {
		for i := range b {
			b[i] = byte(i * 7)
		}
	}})
	_, value := s.newValue()
	for _, c := range []struct {
		text string
		want bool
	}{
		{value, true}, {"see " + value + "!", true}, {"yett_" + value, true}, {value[1:], true}, {value[len(keyPrefix)+1:], false}, {value[:len(value)-1] + "~", false},
		{strings.ToUpper(value), false}, {"yett_", false}, {"", false}, {strings.Repeat("yett_", 100), false},
	} {
		if got := HoldsKey(c.text); got != c.want {
			t.Errorf("HoldsKey(%q) = %v", c.text, got)
		}
	}
}

// What is left of a key that was cut is hidden as long as it would help anybody to find the rest, and so is one that goes on.
func TestKeysIn(t *testing.T) {
	s := New(Settings{Pepper: make([]byte, 32), Random: func(b []byte) {
		for i := range b {
			b[i] = byte(i * 7)
		}
	}})
	_, value := s.newValue()
	id := len(keyPrefix) + keyIDLen + 1
	for _, c := range []struct{ text, hidden string }{
		{"see " + value + "!", value}, {value + "x", value}, {value[:len(value)-1], value[:len(value)-1]}, {value[1:], value[len(keyPrefix):]},
		{"a " + value[:id+leastSecret+1] + "…", value[:id+leastSecret+1]}, {value[:id+leastSecret-1] + " ", ""}, {"yett_configuration_of_the_gateway", ""},
		{value[:id] + strings.Repeat("A", 80), value[:id] + strings.Repeat("A", 80)},
	} {
		got := ""
		for _, f := range KeysIn(c.text) {
			got += c.text[f.Start:f.End]
		}
		if got != c.hidden {
			t.Errorf("in %q %q is hidden, want %q", c.text, got, c.hidden)
		}
	}
}
