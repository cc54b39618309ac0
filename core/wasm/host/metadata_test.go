package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk/abi"
)

func TestMetadataIsChecked(t *testing.T) {
	kinds := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"name":"K%d","severity":0}`, i)
		}
		return b.String()[1:]
	}
	base := `"name":"n","version":"1","abi":1,"needs":{},"stream":{"mode":"none"}`
	with := func(more string) string { return "{" + base + "," + more + "}" }
	swap := func(old, new string) string { return "{" + strings.Replace(base, old, new, 1) + "}" }
	var out strings.Builder
	for _, c := range []struct{ name, doc string }{
		{"sound", with(`"kinds":[` + kinds(256) + `],"triggers":[{"literal":"x","fold":true},{"class":"hex","min":4096},{"class":"at","min":1},{"literal":"` + strings.Repeat("x", 256) + `"}]`)},
		{"array", `[]`},
		{"duplicate member", with(`"abi":1`)},
		{"unknown member", with(`"trigers":[]`)},
		{"trailing data", with(`"kinds":[]`) + "x"},
		{"wrong type", swap(`"abi":1`, `"abi":"1"`)},
		{"abi", swap(`"abi":1`, `"abi":2`)},
		{"no name", swap(`"name":"n",`, ``)},
		{"name", swap(`"n"`, `"a b"`)},
		{"version", swap(`"1"`, `"1 0"`)},
		{"kind name", with(`"kinds":[{"name":"Secret","severity":0}]`)},
		{"kind name with a line end", with(`"kinds":[{"name":"SECRET\n","severity":0}]`)},
		{"kind name too long", with(`"kinds":[{"name":"` + strings.Repeat("K", 65) + `","severity":0}]`)},
		{"kind twice", with(`"kinds":[{"name":"K","severity":0},{"name":"K","severity":0}]`)},
		{"kind severity", with(`"kinds":[{"name":"K","severity":5}]`)},
		{"too many kinds", with(`"kinds":[` + kinds(257) + `]`)},
		{"stream missing", swap(`"mode":"none"`, ``)},
		{"stream mode", swap(`"none"`, `"some"`)},
		{"window without lookbehind", swap(`"none"`, `"window"`)},
		{"lookbehind without window", swap(`"none"`, `"none","lookbehind":9`)},
		{"trigger of neither", with(`"triggers":[{}]`)},
		{"trigger of both", with(`"triggers":[{"literal":"x","class":"at"}]`)},
		{"trigger class", with(`"triggers":[{"class":"letters","min":3}]`)},
		{"trigger min", with(`"triggers":[{"class":"hex","min":-1}]`)},
		{"trigger without min", with(`"triggers":[{"literal":"x"},{"class":"at"}]`)},
		{"trigger min of 0", with(`"triggers":[{"class":"digits","min":0}]`)},
		{"trigger min too large", with(`"triggers":[{"class":"digits","min":4097}]`)},
		{"trigger of an empty literal", with(`"triggers":[{"literal":""}]`)},
		{"trigger fold of a class", with(`"triggers":[{"class":"hex","fold":true}]`)},
		{"trigger min of a literal", with(`"triggers":[{"literal":"x","min":2}]`)},
		{"trigger too long", with(`"triggers":[{"literal":"` + strings.Repeat("x", 257) + `"}]`)},
		{"needs", swap(`{}`, `{"memory_bytes":-1}`)},
		{"too long", with(`"config_schema":{"x":"` + strings.Repeat("x", abi.MaxPut) + `"}`)},
	} {
		_, err := readMetadata([]byte(c.doc), true)
		if (err == nil) != (c.name == "sound") {
			t.Errorf("%s: got %v", c.name, err)
		}
		fmt.Fprintf(&out, "%s:\n  %v\n", c.name, err)
	}
	golden(t, "metadata.txt", []byte(out.String()))
}

// TestTriggersAgree has the metadata check and the compiler of the prefilter judge the same triggers: a module that
// passes one and not the other is admitted and then stops the gateway's start. Where only one has a bound, the
// metadata's is tighter.
func TestTriggersAgree(t *testing.T) {
	long := func(n int) abi.Trigger { return abi.Trigger{Literal: strings.Repeat("x", n)} }
	for _, c := range []struct {
		trigger   abi.Trigger
		good      bool
		metaAlone bool // refused by the metadata check alone
	}{
		{abi.Trigger{Literal: "x"}, true, false},
		{abi.Trigger{Literal: "x", Fold: true}, true, false},
		{abi.Trigger{Literal: "\x00\xff"}, true, false},
		{long(256), true, false},
		{long(257), false, true},
		{long(1025), false, false},
		{abi.Trigger{}, false, false},
		{abi.Trigger{Literal: "x", Class: "at", Min: 1}, false, false},
		{abi.Trigger{Literal: "x", Min: 1}, false, true},
		{abi.Trigger{Class: "at", Min: 1}, true, false},
		{abi.Trigger{Class: "at", Min: 1, Fold: true}, false, true},
		{abi.Trigger{Class: "digits", Min: 4096}, true, false},
		{abi.Trigger{Class: "digits", Min: 4097}, false, true},
		{abi.Trigger{Class: "digits"}, false, false},
		{abi.Trigger{Class: "hex", Min: -1}, false, false},
		{abi.Trigger{Class: "base64", Min: 1}, true, false},
		{abi.Trigger{Class: "letters", Min: 1}, false, false},
		{abi.Trigger{Class: "HEX", Min: 1}, false, false},
	} {
		set := []abi.Trigger{c.trigger}
		meta := checkTriggers(set)
		_, compile := prefilter.Compile([][]abi.Trigger{set})
		if (meta == nil) != c.good || (compile == nil) != (c.good || c.metaAlone) {
			t.Errorf("%.60v: metadata %v, prefilter %v", c.trigger, meta, compile)
		}
	}
}

func describer(doc string) []byte {
	return cat(host("put", i32(1), i32(docAt), i32(len(doc))), drop, i32(0))
}

func TestDescribe(t *testing.T) {
	other := strings.Replace(testMeta, "1.2.3", "9.9.9", 1)
	spaced := strings.ReplaceAll(testMeta, ",", " , ")
	for _, c := range []struct {
		name string
		g    guest
		want string // part of the error; "" is none
	}{
		{"describe alone", guest{meta: "-", doc: testMeta, describe: describer(testMeta)}, ""},
		{"both, written differently", guest{doc: spaced, describe: describer(spaced)}, ""},
		{"both, not equal", guest{doc: other, describe: describer(other)}, "differ"},
		{"nothing put", guest{meta: "-", describe: i32(0)}, "it put no metadata"},
		{"status", guest{meta: "-", describe: i32(3)}, "status 3 (internal)"},
		{"trap", guest{meta: "-", describe: unreachable}, "unreachable"},
		{"not JSON", guest{meta: "-", doc: "{", describe: describer("{")}, "yett_describe: metadata: invalid JSON"},
		{"emit", guest{meta: "-", describe: soundEmission.code()}, "emit outside yett_scan"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.g.scan = i32(0)
			m, err := newHost(t, Options{}).Load(context.Background(), Spec{Name: "mod", Code: c.g.wasm()})
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("got %v, want %q", err, c.want)
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want == "":
				if got := m.Metadata(); got.Version != "1.2.3" || len(got.Kinds) != 2 || len(got.Triggers) != 2 {
					t.Errorf("metadata %+v", got)
				}
			}
		})
	}
}

func TestNeedsAndConfigAreCheckedBeforeTheGuestRuns(t *testing.T) {
	trap := func(needs, schema string) guest {
		meta := strings.Replace(testMeta, `"needs":{}`, `"needs":`+needs+`,"config_schema":`+schema, 1)
		return guest{meta: meta, scan: i32(0), initialize: unreachable}
	}
	h := newHost(t, Options{CheckConfig: func(schema map[string]any, config json.RawMessage) error {
		if schema["type"] != "object" || string(config) != `{"a":1}` {
			t.Errorf("schema %v, config %s", schema, config)
		}
		return errors.New("a is too small")
	}})
	for _, c := range []struct{ needs, schema, want string }{
		{`{"memory_bytes":1073741824}`, `{}`, "needs 1073741824 bytes of memory: the limit is 67108864"},
		{`{"deadline_ms":2000}`, `{}`, "needs 2000 ms for a call: the limit is 1000"},
		{`{}`, `{"type":"object"}`, "config: a is too small"},
	} {
		_, err := h.Load(context.Background(), Spec{Name: "mod", Code: trap(c.needs, c.schema).wasm(),
			Config: json.RawMessage(`{"a":1}`)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestSpecIsChecked(t *testing.T) {
	h := newHost(t, Options{})
	var out strings.Builder
	for _, c := range []struct {
		name   string
		change func(*Spec)
	}{
		{"no name", func(s *Spec) { s.Name = "" }},
		{"name", func(s *Spec) { s.Name = "a\nb" }},
		{"little memory", func(s *Spec) { s.Memory = 1 }},
		{"much memory", func(s *Spec) { s.Memory = 2 << 30 }},
		{"timeout", func(s *Spec) { s.Timeout = -1 }},
		{"long timeout", func(s *Spec) { s.Timeout = time.Hour }},
		{"start", func(s *Spec) { s.Start = -1 }},
		{"instances", func(s *Spec) { s.Instances = -1 }},
		{"many instances", func(s *Spec) { s.Instances = 257 }},
		{"isolation", func(s *Spec) { s.Isolation = 9 }},
		{"fuel", func(s *Spec) { s.Fuel = MaxFuel + 1 }},
		{"slack", func(s *Spec) { s.Slack = 2 << 30 }},
		{"config", func(s *Spec) { s.Config = json.RawMessage(`{"a":1,"a":2}`) }},
		{"config is an array", func(s *Spec) { s.Config = json.RawMessage(`[]`) }},
		{"large config", func(s *Spec) { s.Config = make([]byte, MaxConfig+1) }},
	} {
		spec := Spec{Name: "mod", Code: finder().wasm()}
		c.change(&spec)
		_, err := h.Load(context.Background(), spec)
		if err == nil {
			t.Errorf("%s: loaded", c.name)
		}
		fmt.Fprintf(&out, "%s:\n  %v\n", c.name, err)
	}
	golden(t, "spec.txt", []byte(out.String()))
}
