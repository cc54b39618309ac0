package wasmgen_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit/wasmgen"
	"github.com/yett-dev/yett/core/wasm/check"
	"github.com/yett-dev/yett/sdk/abi"
)

// pages is the memory limit of these tests: 64 MiB.
const pages = 1024

// TestTable holds the table against its own promises and against static admission.
func TestTable(t *testing.T) {
	if testing.Short() {
		t.Skip("checks every module of the table")
	}
	names, wants := map[string]bool{}, map[string]int{}
	for _, h := range append(wasmgen.All(), wasmgen.Authorizers()...) {
		t.Run(h.Name, func(t *testing.T) {
			if names[h.Name] || strings.Trim(h.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || len(h.Name) > 60 {
				t.Error("the name is there twice, or no name for a file")
			}
			if h.Line == "" || bytes.Equal(h.Module, h.Twin) {
				t.Error("the row has no line, or no twin of its own")
			}
			names[h.Name] = true
			wants[h.Want]++
			if _, err := check.Check(h.Twin, check.Limits{Pages: pages}); err != nil {
				t.Errorf("the twin: %v", err)
			}
			m, err := check.Check(h.Module, check.Limits{Pages: pages})
			var refusal *check.Refusal
			switch {
			case h.Static && !errors.As(err, &refusal):
				t.Errorf("static admission lets it in: %v", err)
			case h.Static && (refusal.Reason == "" || len(refusal.Reason) > 500 ||
				strings.ContainsAny(refusal.Reason, "\x1b\n")):
				t.Errorf("the reason is no sentence: %q", refusal.Reason)
			case !h.Static && h.Want != wasmgen.Refused && h.Want != wasmgen.Bounded && err != nil:
				t.Errorf("static admission refuses it: %v", err)
			case err == nil && !bytes.HasPrefix(m.Metered(), []byte(wasmgen.Magic)):
				t.Error("what is metered is no module")
			}
		})
	}
	for _, want := range []string{wasmgen.Refused, wasmgen.Fails, wasmgen.Answers, wasmgen.Bounded} {
		if wants[want] == 0 {
			t.Errorf("no module %s", want)
		}
	}
	t.Logf("%d modules: %v", len(names), wants)
}

// TestBombs holds the two smallest bombs to their sizes.
func TestBombs(t *testing.T) {
	if n := len(wasmgen.ImportBomb()); n != 15 {
		t.Errorf("the bomb of imports has %d bytes", n)
	}
	if n := len(wasmgen.LocalsBomb()); n != 41 {
		t.Errorf("the bomb of locals has %d bytes", n)
	}
}

// TestSignatures holds the lists of imports against those that static admission goes by.
func TestSignatures(t *testing.T) {
	seen := map[string]bool{}
	for _, im := range wasmgen.Imports {
		params, results, ok := check.ImportSignature(im.Module, im.Name)
		if !ok || bytesOf(im.Sig.Params) != params || bytesOf(im.Sig.Results) != results {
			t.Errorf("%s.%s: %q %q, the host has %q %q, %v", im.Module, im.Name, im.Sig.Params, im.Sig.Results, params, results,
				ok)
		}
		seen[im.Name] = true
	}
	for _, name := range abi.WASI {
		if !seen[name] {
			t.Errorf("%s is not among the imports", name)
		}
	}
	if len(seen) != len(abi.WASI)+4 {
		t.Errorf("%d imports", len(seen))
	}
}

// bytesOf writes the letters of a Sig as the format does.
func bytesOf(letters string) string {
	return strings.NewReplacer("i", "\x7f", "l", "\x7e", "f", "\x7d", "d", "\x7c").Replace(letters)
}

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want []byte
	}{
		{"unsigned", wasmgen.Leb(624485), []byte{0xe5, 0x8e, 0x26}},
		{"negative", wasmgen.Sleb(-123456), []byte{0xc0, 0xbb, 0x78}},
		{"sign bit", wasmgen.Sleb(64), []byte{0xc0, 0x00}},
		{"empty module", (&wasmgen.Module{}).Encode(), []byte(wasmgen.Magic)},
		{"one function", (&wasmgen.Module{Funcs: []wasmgen.Func{{Sig: wasmgen.Sig{Params: "i", Results: "l"}, Locals: 2, Body: wasmgen.I64(1)}}}).Encode(),
			[]byte(wasmgen.Magic + "\x01\x06\x01\x60\x01\x7f\x01\x7e" + "\x03\x02\x01\x00" +
				"\x0a\x08\x01\x06\x01\x02\x7f\x42\x01\x0b")},
		{"a lie", (&wasmgen.Module{Replace: map[byte][]byte{wasmgen.SecType: {9}}, Tail: []byte{7}}).Encode(), []byte(wasmgen.Magic + "\x01\x01\x09\x07")},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s: got %x, want %x", c.name, c.got, c.want)
		}
	}
}
