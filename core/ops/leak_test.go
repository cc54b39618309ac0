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
		{value, true}, {"see " + value + "!", true}, {"yett_" + value, true}, {value[1:], false}, {value[:len(value)-1] + "~", false},
		{strings.ToUpper(value), false}, {"yett_", false}, {"", false}, {strings.Repeat("yett_", 100), false},
	} {
		if got := HoldsKey(c.text); got != c.want {
			t.Errorf("HoldsKey(%q) = %v", c.text, got)
		}
	}
}
