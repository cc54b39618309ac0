package wasmgen

import (
	"slices"
	"strings"

	"github.com/yett-dev/yett/sdk/abi"
)

// refused is an honest guest after a change that must keep it out by its bytes alone.
func refused(name string, change func(*Module)) Hostile { return bad(name, edited(change)) }

func without(name string) func(*Module) {
	return func(m *Module) {
		m.Exports = slices.DeleteFunc(m.Exports, func(e Export) bool { return e.Name == name })
	}
}

// retyped gives an exported function another type.
func retyped(name string, sig Sig, body []byte) func(*Module) {
	return func(m *Module) {
		for _, e := range m.Exports {
			if e.Name == name {
				m.Funcs[e.Index-len(m.Imports)] = Func{Sig: sig, Body: body}
			}
		}
	}
}

func importing(i Import) func(*Module) {
	return func(m *Module) { m.Imports[len(m.Imports)-1] = i } // sched_yield, which the honest guest never calls
}

func exporting(e Export) func(*Module) {
	return func(m *Module) { m.Exports = append(m.Exports, e) }
}

// interfaces are imports and exports that ABI v1 does not have.
func interfaces() []Hostile {
	last := len(Imports) + 3 // yett_scan
	yield := Sig{"", "i"}
	return []Hostile{
		refused("export-missing-memory", without(abi.ExportMemory)),
		refused("export-missing-marker", without(abi.ExportMarker)),
		refused("export-missing-buffer", without(abi.ExportBuffer)),
		refused("export-missing-init", without(abi.ExportInit)),
		refused("export-missing-scan-and-check", without(abi.ExportScan)),
		refused("signature-of-marker", retyped(abi.ExportMarker, Sig{"", "i"}, I32(0))),
		refused("signature-of-buffer", retyped(abi.ExportBuffer, Sig{"l", "i"}, I32(0))),
		refused("signature-of-init", retyped(abi.ExportInit, Sig{"i", ""}, nil)),
		refused("signature-of-scan", retyped(abi.ExportScan, Sig{"ii", "i"}, I32(0))),
		refused("signature-of-check", exporting(Export{abi.ExportCheck, ExternFunc, last})),
		refused("signature-of-describe", exporting(Export{abi.ExportDescribe, ExternFunc, last})),
		refused("signature-of-initialize", exporting(Export{abi.ExportInitialize, ExternFunc, last})),
		refused("export-of-no-function", func(m *Module) { m.Exports[len(m.Exports)-1].Index = 999 }),
		refused("export-of-an-import", func(m *Module) { m.Exports[len(m.Exports)-1].Index = 0 }),
		refused("export-scan-is-a-memory", func(m *Module) {
			m.Exports[len(m.Exports)-1] = Export{abi.ExportScan, ExternMemory, 0}
		}),
		refused("export-memory-is-a-function", func(m *Module) { m.Exports[0] = Export{abi.ExportMemory, ExternFunc, last} }),
		refused("export-twice", func(m *Module) { m.Exports = append(m.Exports, m.Exports[1]) }),
		refused("export-misspelt", exporting(Export{"yett_scn", ExternFunc, last})),
		refused("export-start", exporting(Export{"_start", ExternFunc, len(Imports)})),
		refused("export-fuel-global", reserved("yett.fuel")),
		refused("export-stack-global", reserved("yett.stack")),
		refused("export-reserved-name", reserved("yett.g0")),
		refused("export-reserved-function", exporting(Export{"yett.x", ExternFunc, last})),
		refused("import-of-tick", importing(Import{Module: "yett_host", Name: "tick", Sig: Sig{"i", "i"}})),
		refused("import-of-overflow", importing(Import{Module: "yett_host", Name: "overflow", Sig: Sig{"", ""}})),
		refused("import-from-env", importing(Import{Module: "env", Name: "emit", Sig: Imports[0].Sig})),
		refused("import-unknown", importing(Import{Module: abi.ImportModule, Name: "fetch", Sig: yield})),
		refused("import-of-files", importing(Import{Module: abi.WASIModule, Name: "path_open", Sig: Sig{"iiiiillii", "i"}})),
		refused("import-of-sockets", importing(Import{Module: abi.WASIModule, Name: "sock_send", Sig: Sig{"iiiii", "i"}})),
		refused("import-from-the-wrong-module", importing(Import{Module: abi.WASIModule, Name: abi.ImportEmit,
			Sig: Imports[0].Sig})), refused("import-without-confidence",
			importing(Import{Module: abi.ImportModule, Name: abi.ImportEmit, Sig: Sig{"iiiiiiiii", "i"}})),
		refused("import-without-a-result", importing(Import{Module: abi.ImportModule, Name: abi.ImportPut,
			Sig: Sig{"iii", ""}})), refused("import-of-control-characters",
			importing(Import{Module: "\x1b[2J", Name: "x\n", Sig: yield})),
		refused("import-of-a-long-name", importing(Import{Module: abi.ImportModule, Name: strings.Repeat("x", 1<<20),
			Sig: yield})), refused("import-of-a-memory",
			importing(Import{Module: abi.ImportModule, Name: "memory", Kind: ExternMemory, Desc: []byte{0, 1}})),
		refused("import-of-a-table", importing(Import{Module: abi.ImportModule, Name: "table", Kind: ExternTable,
			Desc: Table(1, -1)})), refused("import-of-a-global",
			importing(Import{Module: abi.ImportModule, Name: "global", Kind: ExternGlobal, Desc: []byte{I32Type, 0}})),
		refused("import-of-a-fuel-global", importing(Import{Module: "yett_host", Name: "fuel", Kind: ExternGlobal,
			Desc: []byte{I32Type, 1}})),
	}
}

// reserved exports a global under a name that is the host's.
func reserved(name string) func(*Module) {
	return func(m *Module) {
		m.Globals = [][]byte{Global(I32Type, I32(0))}
		m.Exports = append(m.Exports, Export{name, ExternGlobal, 0})
	}
}

// metadata are documents that the host must not take a module by.
func metadata() []Hostile {
	doc := func(name, text string) Hostile {
		g := Finder()
		g.Meta = text
		return Hostile{Name: "metadata-" + name, Want: Refused, Module: g.Encode()}
	}
	with := func(name, old, replacement string) Hostile {
		return doc(name, strings.Replace(GuestMeta, old, replacement, 1))
	}
	return []Hostile{
		doc("missing", "-"),
		doc("empty", " "),
		doc("not-json", "{"),
		doc("not-an-object", "[]"),
		doc("nested-deep", strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)),
		doc("not-utf-8", strings.Replace(GuestMeta, "1.2.3", "\xff", 1)),
		doc("too-long", GuestMeta+strings.Repeat(" ", abi.MaxPut)),
		with("of-another-abi", `"abi":1`, `"abi":2`),
		with("abi-beyond-32-bits", `"abi":1`, `"abi":4294967297`),
		with("member-twice", `"abi":1`, `"abi":1,"abi":1`),
		with("member-unknown", `"abi":1`, `"abi":1,"trusted":true`),
		with("kind-with-control-characters", "TEST_KIND", `T\u001b[2J`),
		with("kind-twice", "OTHER_KIND", "TEST_KIND"),
		with("severity-of-9", `"severity":3`, `"severity":9`),
		with("without-a-stream-mode", `"mode":"none"`, ``),
		with("of-an-unknown-stream-mode", `"mode":"none"`, `"mode":"all"`),
		with("lookbehind-of-1-gib", `"mode":"none"`, `"mode":"window","lookbehind":1073741824`),
		with("needs-1-tib", `"needs":{}`, `"needs":{"memory_bytes":1099511627776}`),
		with("needs-an-hour", `"needs":{}`, `"needs":{"deadline_ms":3600000}`),
		with("trigger-of-nothing", `"needs":{}`, `"needs":{},"triggers":[{}]`),
		with("trigger-of-both", `"needs":{}`, `"needs":{},"triggers":[{"literal":"a","class":"at","min":1}]`),
		with("trigger-of-an-unknown-class", `"needs":{}`, `"needs":{},"triggers":[{"class":"any","min":1}]`),
		with("trigger-that-is-long", `"needs":{}`, `"needs":{},"triggers":[{"literal":"`+strings.Repeat("a", 60_000)+`"}]`),
		with("triggers-too-many", `"needs":{}`, `"needs":{},"triggers":[`+strings.Repeat(`{"class":"at"},`, 4_100)+
			`{"class":"at","min":1}]`),
		{Name: "metadata-twice", Want: Refused, Module: edited(func(m *Module) { m.Customs = append(m.Customs, m.Customs[0]) })},
	}
}
