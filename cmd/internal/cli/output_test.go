package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// asYAML prints a text as a value, a name and an element, and reads it again.
func asYAML(t *testing.T, s string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"value": s, "list": []string{"a", s}, "in": map[string]string{s: s}})
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	o := Output{"yaml"}
	var b bytes.Buffer
	for range 2 { // as audit tail does: one document behind the other
		if err := o.PrintLine(&b, json.RawMessage(text)); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
	}
	for _, r := range b.String() {
		if hides(r) {
			t.Fatalf("%q is printed with %U", s, r)
		}
	}
	dec := yaml.NewDecoder(bytes.NewReader(b.Bytes()))
	for range 2 {
		var got any
		if err := dec.Decode(&got); err != nil {
			t.Fatalf("%q: %v in\n%s", s, err, &b)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %#v in\n%s", s, got, &b)
		}
	}
	if err := dec.Decode(new(any)); err != io.EOF {
		t.Fatalf("%q: something behind the second document: %v", s, err)
	}
}

// Every control, every noncharacter, and every other character that hides can be in an argument: what is printed is
// YAML, and the same text.
func TestYAMLOfAnyCharacter(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r <= 0x10ffff; r++ {
		switch {
		case r >= 0xd800 && r < 0xe000:
			continue
		case r < 0x100, r >= 0x2000 && r < 0x2070, r >= 0xfdd0 && r < 0xfe10, r >= 0xfe00 &&
			r <= 0xffff, r&0xfffe == 0xfffe, r >= 0xe0000 && r < 0xe0100:
			asYAML(t, string(r))
			asYAML(t, "a"+string(r)+"b")
			asYAML(t, string(r)+"\n- "+string(r))
			all.WriteRune(r)
		}
	}
	asYAML(t, all.String())
	for _, s := range []string{"", "\xff\xfe", "a\xed\xa0\x80b", "yes", "1_000", "<<", "~", "null", "1:30", "0x1f", ".nan",
		"- a", "a: b", "a #b", "{", "\n", "\n\n", " \n", "a\n", "a\n\n", "\n a\nb", " a\nb", "a\n b\n", "a \n \nb", "---",
		"...", "\n---\nx", "%YAML", `\`, `"`, "'", "!!str a", "&a", "*a", "\U0001f600", strings.Repeat("long word ", 40),
		strings.Repeat("\u202e ", 100)} {
		asYAML(t, s)
	}
	var b bytes.Buffer
	o := Output{"yaml"}
	if err := o.PrintLine(&b, json.RawMessage(`{"lone":"\ud800x\udc00"}`)); err != nil ||
		b.String() != "---\nlone: \"\\ufffdx\\ufffd\"\n" {
		t.Errorf("lone surrogates: %v %s", err, &b)
	}
}

// Numbers keep their digits.
func TestYAMLKeepsNumbers(t *testing.T) {
	for _, n := range []string{"0", "-1", "1000004", "12345678901234567890123", "1.50", "1e400", "-0.0",
		"9007199254740993"} {
		var b bytes.Buffer
		o := Output{"yaml"}
		if err := o.PrintData(&b, []any{json.RawMessage(`{"count":` + n + `}`)}, true); err != nil ||
			b.String() != fmt.Sprintf("count: %s\n", n) {
			t.Errorf("%s: %v %s", n, err, &b)
		}
	}
}

func FuzzYAML(f *testing.F) {
	f.Add("a\x7fb\u009b")
	f.Add(" a\n\ufffe b\n\n")
	f.Fuzz(asYAML)
}
