package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/abi"
)

// without drops an export.
func without(name string) func(*mod) {
	return func(m *mod) {
		m.exports = slices.DeleteFunc(m.exports, func(e exp) bool { return e.name == name })
	}
}

func retyped(name, params, results string, body []byte) func(*mod) {
	return func(m *mod) {
		for _, e := range m.exports {
			if e.name == name {
				m.funcs[e.index-len(m.imports)] = fn{sig(params, results), 0, body}
			}
		}
	}
}

func importing(i imp) func(*mod) { return func(m *mod) { m.imports[0] = i } }

// alsoImporting is for what is no function: it shifts no index.
func alsoImporting(i imp) func(*mod) { return func(m *mod) { m.imports = append(m.imports, i) } }

// refusals are changes to a sound module that must keep it out.
var refusals = []struct {
	name string
	edit func(*mod)
}{
	{"no memory export", without(abi.ExportMemory)},
	{"no marker", without(abi.ExportMarker)},
	{"no buffer", without(abi.ExportBuffer)},
	{"no init", without(abi.ExportInit)},
	{"neither scan nor check", without(abi.ExportScan)},
	{"marker with a result", retyped(abi.ExportMarker, "", "i", i32(0))},
	{"buffer without a result", retyped(abi.ExportBuffer, "i", "", nil)},
	{"init of i64", retyped(abi.ExportInit, "l", "i", i32(0))},
	{"scan of two", retyped(abi.ExportScan, "ii", "i", i32(0))},
	{"check of three", func(m *mod) {
		m.exports = append(m.exports, exp{abi.ExportCheck, externFunc, len(m.imports) + len(m.funcs) - 1})
	}},
	{"initialize with a result", func(m *mod) {
		m.exports = append(m.exports, exp{abi.ExportInitialize, externFunc, len(m.imports) + len(m.funcs) - 2})
	}},
	{"scan is an import", func(m *mod) { m.exports[len(m.exports)-1].index = 0 }},
	{"function that is not there", func(m *mod) { m.exports[len(m.exports)-1].index = 999 }},
	{"scan is a memory", func(m *mod) { m.exports[len(m.exports)-1] = exp{abi.ExportScan, externMemory, 0} }},
	{"memory is a function", func(m *mod) { m.exports[0] = exp{abi.ExportMemory, externFunc, 20} }},
	{"unknown export", func(m *mod) { m.exports = append(m.exports, exp{"yett_scn", externFunc, 20}) }},
	{"double export", func(m *mod) { m.exports = append(m.exports, m.exports[0]) }},
	{"program", func(m *mod) { m.exports = append(m.exports, exp{"_start", externFunc, len(m.imports)}) }},
	{"start section", func(m *mod) { m.start = len(m.imports) }},
	{"two memories", func(m *mod) { m.memories = append(m.memories, m.memories[0]) }},
	{"no memory", func(m *mod) { m.memories, m.datas, m.exports = nil, nil, m.exports[1:] }},
	{"shared memory", func(m *mod) { m.memories = [][]byte{{3, 1, 1}} }},
	{"64-bit memory", func(m *mod) { m.memories = [][]byte{{4, 1}} }},
	{"large memory", func(m *mod) { m.memories = [][]byte{cat([]byte{0}, leb(1025))} }},
	{"memory imported", alsoImporting(imp{module: abi.ImportModule, name: "memory", kind: externMemory, desc: []byte{0, 1}})},
	{"table imported", alsoImporting(imp{module: abi.ImportModule, name: "emit", kind: externTable, desc: []byte{0x70, 0, 1}})},
	{"global imported", alsoImporting(imp{module: abi.WASIModule, name: "fd_write", kind: externGlobal, desc: []byte{0x7f, 0}})},
	{"import from env", importing(imp{module: "env", name: "emit", sig: importSig(hostFuncs[0])})},
	{"unknown import", importing(imp{module: abi.ImportModule, name: "emitt", sig: importSig(hostFuncs[0])})},
	{"import of files", importing(imp{module: abi.WASIModule, name: "path_open", sig: sig("iiiiiilli", "i")})},
	{"import in the wrong module", importing(imp{module: abi.WASIModule, name: "emit", sig: importSig(hostFuncs[0])})},
	{"import with another type", importing(imp{module: abi.ImportModule, name: "emit", sig: sig("iiiiiiiii", "i")})},
	{"import without a result", importing(imp{module: abi.ImportModule, name: "put", sig: sig("iii", "")})},
	{"import with control characters", importing(imp{module: "\x1b[2J", name: "x\n", sig: sig("", "")})},
	{"no metadata", func(m *mod) { m.customs = nil }},
	{"two sections of metadata", func(m *mod) { m.customs = append(m.customs, m.customs[0]) }},
	{"metadata is not JSON", func(m *mod) { m.customs[0].body = "{" }},
	{"body that does not validate", func(m *mod) { m.funcs[len(m.funcs)-1].body = []byte{0x6a} }},
}

func TestRefusals(t *testing.T) {
	h := newHost(t, Options{})
	var out strings.Builder
	for _, r := range refusals {
		g := finder()
		g.edit = r.edit
		_, err := h.Load(context.Background(), Spec{Name: "mod", Code: g.wasm()})
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: got %v", r.name, err)
			continue
		}
		fmt.Fprintf(&out, "%s:\n  %s\n", r.name, refused.Reason)
	}
	golden(t, "refused.txt", []byte(out.String()))
}

// TestCustomSectionsAreNotCompiled gives a name section whose function map claims 2^32-1 entries.
func TestCustomSectionsAreNotCompiled(t *testing.T) {
	g := finder()
	g.edit = func(m *mod) {
		m.customs = append(m.customs, custom{"name", "\x01\x05\xff\xff\xff\xff\x0f"}, custom{".debug_info", "x"})
	}
	if _, err := scan(load(t, g, nil), "!"); err != nil {
		t.Error(err)
	}
}
