package mcptest

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

func TestDifference(t *testing.T) {
	list := func(texts ...string) (out [][]byte) {
		for _, s := range texts {
			out = append(out, []byte(s))
		}
		return out
	}
	for _, c := range []struct {
		direct, through [][]byte
		want            string
	}{
		{list("a", "b"), list("a", "b"), ""},
		{nil, nil, ""},
		{list("a", "b"), list("a"), "2 messages direct, 1 through"},
		{list("a"), list("a", "b"), "1 messages direct, 2 through"},
		{list("a", `{"n":0.10}`), list("a", `{"n":0.1}`), "message 2 of 2 differs at byte 8"},
		{list("abc"), list("ab"), "message 1 of 1 differs at byte 2"},
	} {
		if got := Difference(c.direct, c.through); got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%q, %q: %q, want %q", c.direct, c.through, got, c.want)
		}
	}
}

// TestResultsAreHardToCarry holds the results against what a gateway is to be tried with.
func TestResultsAreHardToCarry(t *testing.T) {
	fixed := rawmcp.FixedResults()
	for tool, wants := range map[string][]string{
		"numbers":         {"12345678901234567890,", `"money":0.10,`, "1E+2", "-0.0", "1e-400", "0.3333333333333333333333333333"},
		"huge-number":     {"1e400", "-1e400"},
		"unicode":         {`\u00e9 e\u0301`, `\uD83D\uDE00 😀`, `\/`, `\u0000`, "\u00e9\":1,\"e\u0301\":2", "\t", `] ,`},
		"unknown-members": {`"x-top":{"n":0.10}`, `"x-a":1e400`, `"x-content":[12345678901234567890]`, `"nothing":null`},
		"unknown-content": {`"type":"hologram"`},
		"meta":            {`"vendor.example/id":12345678901234567890`, "9007199254740993"},
		"image":           {`"type":"image"`, `"type":"audio"`},
		"blob":            {`"blob":"AAECAwQF"`, `"type":"resource_link"`},
		"structured":      {`"structuredContent":{"name":"Zoë","n":0.10}`},
		"fail":            {`"isError":true`},
	} {
		for _, want := range wants {
			if !strings.Contains(fixed[tool], want) {
				t.Errorf("%s does not hold %s: %s", tool, want, fixed[tool])
			}
		}
	}
}
