package plugin

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestDecodePoints wants each problem at the very member that is wrong.
func TestDecodePoints(t *testing.T) {
	type Named string
	type base struct {
		A  string `json:"a"`
		Up string `json:"up"`
	}
	type Loop struct { // embeds itself
		*Loop
		X int `json:"x"`
	}
	type entry struct {
		Tools []string          `json:"tools"`
		Max   json.Number       `json:"max"`
		Caps  map[string]int    `json:"caps"`
		By    map[int]bool      `json:"by"`
		For   *time.Duration    `json:"for"`
		Pair  [2]uint8          `json:"pair"`
		Addr  netip.Addr        `json:"addr"`
		Any   any               `json:"any"`
		Twice map[string]*entry `json:"twice"`
	}
	type config struct {
		base
		Named
		Loop
		A       int             `json:"a"` // hides base's
		Entries []entry         `json:"entries"`
		Quoted  int             `json:"quoted,string"`
		At      time.Time       `json:"at"`
		Raw     json.RawMessage `json:"raw"`
	}
	for text, want := range map[string]string{
		`{"a":1,"up":"x","Named":"n","x":2,"quoted":"7"}`:          "",
		`{"entries":null,"raw":null,"entries2":0}`:                 "/entries2: unknown member",
		`{"entries":null,"raw":null,"at":null}`:                    "",
		`{"entries":[{"for":null,"any":null,"twice":{"a":null}}]}`: "",
		`{"entries":[{},{"tools":["a",7]}]}`: "/entries/1/tools/1: a number does not fit: " +
			"expected string",
		`{"entries":[{},{"tools":7}]}`: "/entries/1/tools: a number does not fit: " +
			"expected []string",
		`{"entries":[{"max":"5"}]}`: "/entries/0/max: a string does not fit: " +
			"expected a number",
		`{"entries":[{"max":true}]}`: "/entries/0/max: a bool does not fit",
		`{"entries":[{"max":null}]}`: "/entries/0/max: null does not fit",
		`{"entries":[{"tools":["a",null]}]}`: "/entries/0/tools/1: null does not fit: " +
			"expected string",
		`{"entries":[null]}`: "/entries/0: null does not fit",
		`{"a":null}`:         "/a: null does not fit: expected int",
		`{"entries":[{"caps":{"pay/ments~":"x"}}]}`: "/entries/0/caps/pay~1ments~0: a string does not " +
			"fit: expected int",
		`{"entries":[{"by":{"1":true,"b":true}}]}`: "/entries/0/by: ",
		`{"entries":[{"pair":[1,256]}]}`: "/entries/0/pair/1: a number 256 does not fit: " +
			"expected uint8",
		`{"entries":[{"addr":"nowhere"}]}`:                           "/entries/0/addr: ",
		`{"entries":[{"twice":{"a":{"twice":{"b":{"for":"1s"}}}}}]}`: "/entries/0/twice/a/twice/b/for: a string does not fit",
		`{"entries":[{"twice":{"a/b":{"Max":1}}}]}`:                  "/entries/0/twice/a~1b/Max: unknown member; max is one",
		`{"quoted":"x"}`:     "quoted",
		`{"at":"yesterday"}`: "/at: ",
		`{"a":"1"}`:          "/a: a string does not fit: expected int",
		`{"entries":[{"tools":["x"]},{"max":1,"caps":{"a":1},"max":2}]}`: "/entries/1/max: invalid JSON at byte 52: a " +
			"member name is there twice",
		`{"a":1,"b":[[],{"c/d":{"e":1,"e":1}}]}`: "/b/1/c~1d/e: invalid JSON at byte 29",
		`{"a":["x","\u0000"]}`:                   "/a/1: invalid JSON at byte 11: a NUL character in a string",
		`{"a":1,`:                                "invalid JSON at byte 7",
		`{"a":` + strings.Repeat(`[`, 64) + strings.Repeat(`]`, 64) + `}`: "/a" + strings.Repeat("/0", 63) +
			": invalid JSON at byte 68: nested deeper",
		`{"a":1} {}`: "invalid JSON at byte 8",
		`{"entries":[{"tools":["ok"]},{"tools":{}}], "up":"\ud800", "quoted":1,"at":"","a":1}`: "/up: invalid JSON",
	} {
		var c config
		err := Settings{Config: json.RawMessage(text)}.Decode(&c)
		if (want == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), want) && want != "quoted" {
			t.Errorf("%.90s:\n%v, want\n%q", text, err, want)
		}
	}
	var c config
	if err := (Settings{Config: json.RawMessage(`{}`)}).Decode(c); err == nil {
		t.Error("decoded into what is no pointer")
	}
	if err := (Settings{}).Decode(nil); err == nil {
		t.Error("decoded into nothing")
	}
}
