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

// What is left of a key that was cut is hidden as long as it would help anybody to find the rest, and so is one that
// goes on.
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

// A key is found that does not stand in one piece: with other characters between its own, or with id and secret apart.
func TestScatteredKeys(t *testing.T) {
	s := New(Settings{Pepper: make([]byte, 32), Random: func(b []byte) {
		for i := range b {
			b[i] = byte(i * 11)
		}
	}})
	id, value := s.newValue()
	secret := value[len(keyPrefix)+keyIDLen+1:]
	spread := func(sep string) string { return strings.Join(strings.Split(value, ""), sep) }
	behind := func(sep string) string { return value[:4] + sep + strings.Join(strings.Split(id+secret, ""), sep) }
	grouped := value[:5] + id[:6] + " - " + id[6:] + " " + secret[:20] + "\n" + secret[20:]
	for name, c := range map[string]struct{ text, hidden string }{
		"dashes":                 {"see " + strings.ReplaceAll(value, "_", "-") + ".", strings.ReplaceAll(value, "_", "-")},
		"dashes between all":     {"see " + behind("-") + ".", behind("-")},
		"blanks between all":     {behind(" "), behind(" ")},
		"no-break blanks":        {behind("\u00a0"), behind("\u00a0")},
		"in groups":              {grouped, grouped},
		"id in one, then secret": {`{"id":"` + id + `","note":"of the agent","secret":"` + secret + `"}`, secret},
		"secret, then id":        {`{"b":"` + secret + `","a":"yett_` + id + `"}`, secret},
		"names of members":       {`{"` + id + `":{"` + secret + `":1}}`, secret},
		"secret alone":           {`{"secret":"` + secret + `"}`, ""},
		"the id of another":      {`{"id":"` + strings.ToLower(id) + `","secret":"` + secret + `"}`, ""},
		"another secret":         {strings.ReplaceAll(value[:len(value)-1]+"~", "_", "-"), ""},
		"spread prefix":          {spread("-"), ""},
	} {
		got := ""
		for _, f := range KeysIn(c.text) {
			got += c.text[f.Start:f.End]
		}
		if got != c.hidden || HoldsKey(c.text) != (c.hidden != "") {
			t.Errorf("%s: in %q %q is hidden, want %q; HoldsKey %v", name, c.text, got, c.hidden, HoldsKey(c.text))
		}
	}
	if noKeys("agent", value[:len(keyPrefix)+keyIDLen], secret) == nil {
		t.Error("id and secret are taken for two names")
	}
	if err := noKeys(strings.Repeat("a", 100), id, strings.Repeat("b", 49)); err != nil {
		t.Error(err)
	}
}

// Looking for keys takes time that grows with the text alone, whatever it is made of.
func TestKeysInGoesThroughATextOnce(t *testing.T) {
	for name, part := range map[string]string{"prefixes": "yett", "ids": strings.Repeat("a", keyIDLen) + " ",
		"secrets": strings.Repeat("a", secretLen) + "AAAAAA ", "lines": "_", "other": "-"} {
		n := testing.AllocsPerRun(1, func() {
			if HoldsKey(strings.Repeat(part, 1<<20/len(part))) {
				t.Errorf("%s hold a key", name)
			}
		})
		if n > 1000 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
