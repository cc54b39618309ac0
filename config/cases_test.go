package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBadCases(t *testing.T) {
	for _, path := range files(t, "cases/*.bad.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			_, err := ReadCases(path)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			golden(t, strings.TrimSuffix(path, filepath.Ext(path))+".err", []byte(err.Error()+"\n"))
		})
	}
	if _, err := ReadCases("testdata/cases/none.yaml"); err == nil ||
		!strings.Contains(err.Error(), "cannot read testdata/cases/none.yaml: no such file") {
		t.Errorf("no file: %v", err)
	}
}

func TestCasesAreExact(t *testing.T) {
	c, err := ReadCases("testdata/cases/house.good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	one, least := c.Cases[0], c.Cases[1]
	const args = `{"amount":1000000.000000000000000000010,"n":1e400,"":null,"a::b.c":[-0,true,"01",{"x":"2026-03-04","y":"😀\u0001<&>"}],"z":{},"e":[]}`
	if one.Call.Args != args || one.Call.Context != `{"region":"eu"}` {
		t.Errorf("args %s, context %s", one.Call.Args, one.Call.Context)
	}
	if one.Call.Key != (CallKey{"k1", "pay bot"}) || one.Call.Now != "2026-03-04T05:06:07Z" ||
		one.Call.Operation != "refund" || one.Call.SessionID != "s1" {
		t.Errorf("call %+v", one.Call)
	}
	if one.Want != (Want{"defer", "big-payments", "BIG_PAYMENT"}) || one.Pos.Line != 3 || least.Want.Effect != "DENY" {
		t.Errorf("want %+v, at %s", one.Want, one.Pos)
	}
	if least.Call != (Call{AgentID: "a", ToolID: "t", Key: CallKey{Name: "pay bot"}}) || len(c.Rules) != 2 ||
		len(c.Rules[0].Rules) != 4 {
		t.Errorf("call %+v, %d files", least.Call, len(c.Rules))
	}
	c, err = ReadCases("testdata/cases/house.good.json")
	if err != nil || c.Cases[0].Call.Args != `{"a":null,"b":1.50,"s":"😀"}` {
		t.Errorf("JSON: %+v, %v", c, err)
	}
}

func TestParseCall(t *testing.T) {
	for _, tt := range []struct{ name, text, args, err string }{
		{"-", `{"agent_id":"a","tool_id":"t","args":{"n":1.0}}`, `{"n":1.0}`, ""},
		{"-", "\n\t{\"agent_id\":\"a\",\"tool_id\":\"t\"}", ``, ""},
		{"-", "{agent_id: a, tool_id: t, args: {n: 1.0}}", `{"n":1.0}`, ""},
		{"-", "agent_id: a\ntool_id: t\n", ``, ""},
		{"call.txt", "agent_id: a\ntool_id: t\n", ``, ""},
		{"call.json", "agent_id: a\n", ``, "call.json:1:1: is not JSON"},
		{"-", ``, ``, "-: is empty"},
		{"-", `{"agent_id":"a"}`, ``, "tool_id: is required"},
		{"-", `{"agent_id":"a","tool_id":"t","dry_run":true}`, ``, "-:1:31: dry_run: unknown key"},
		{"-", `{"agent_id":"a","tool_id":"t","args":{"a":1,"a":2}}`, ``, "-:1:45: args.a: is written twice"},
		{"-", "agent_id: a\nagent_id: b\ntool_id: t\n", ``, "-:2:1: agent_id: is written twice"},
		{"-", "\xff", ``, "is not UTF-8"},
	} {
		c, err := ParseCall(tt.name, []byte(tt.text))
		switch {
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%q: got %v, want %s", tt.text, err, tt.err)
		case tt.err == "" && (err != nil || string(c.Args) != tt.args):
			t.Errorf("%q: got %+v, %v", tt.text, c, err)
		}
	}
	if _, err := ReadCall("testdata"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

// FuzzCases feeds foreign bytes to the readers of cases and calls: they end in an error that says something or in text
// that the next reader can take.
func FuzzCases(f *testing.F) {
	list, err := filepath.Glob("testdata/cases/*")
	if err != nil || len(list) == 0 {
		f.Fatal("no seeds")
	}
	for _, path := range list {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"agent_id":"a","tool_id":"t","args":{"n":1.0,"l":[null,{}]},"key":"k"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"-", "x.yaml", "x.json"} {
			c, err := ParseCall(name, data)
			if err == nil {
				again, err := ParseCall("-", []byte(`{"agent_id":"a","tool_id":"t","args":`+string(orObject(c.Args))+`}`))
				if err != nil || again.Args != orObject(c.Args) || !utf8.ValidString(string(c.Args)) {
					t.Fatalf("%q reads as %q, which reads as %+v, %v", data, c.Args, again, err)
				}
				continue
			}
			var e *Error
			if !errors.As(err, &e) || err.Error() == "" {
				t.Fatalf("%s: an error that says nothing: %#v", name, err)
			}
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "cases.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadCases(path); err != nil && err.Error() == "" {
			t.Fatal("an error that says nothing")
		}
	})
}

func orObject(d Document) Document {
	if d == "" {
		return "{}"
	}
	return d
}
