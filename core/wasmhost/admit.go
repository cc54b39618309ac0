package wasmhost

import (
	"slices"
	"strings"

	"github.com/yett-dev/yett/sdk/abi"
)

// exportSignatures are the functions of ABI v1 that a module exports.
var exportSignatures = map[string]signature{
	abi.ExportMarker:     sig("", ""),
	abi.ExportInitialize: sig("", ""),
	abi.ExportBuffer:     sig("i", "i"),
	abi.ExportInit:       sig("i", "i"),
	abi.ExportScan:       sig("iii", "i"),
	abi.ExportCheck:      sig("ii", "i"),
	abi.ExportDescribe:   sig("", "i"),
}

// admitted is a module that passed the static checks.
type admitted struct {
	code                              []byte
	meta                              *abi.Metadata // from the section, if there is one
	initialize, scan, check, describe bool
}

// admit is the one door for a module's bytes: everything that can be decided without running them is decided here.
func admit(wasm []byte, pages uint32) (*admitted, error) {
	s, err := inspect(wasm)
	if err != nil {
		return nil, err
	}
	if s.start {
		return nil, refusef("it has a start section: nothing may run before %s", abi.ExportInitialize)
	}
	if err := s.checkMemory(pages); err != nil {
		return nil, err
	}
	if err := s.checkImports(); err != nil {
		return nil, err
	}
	has, err := s.checkExports()
	if err != nil {
		return nil, err
	}
	a := &admitted{code: s.code, initialize: has[abi.ExportInitialize], scan: has[abi.ExportScan],
		check: has[abi.ExportCheck], describe: has[abi.ExportDescribe]}
	switch {
	case len(s.meta) > 1:
		return nil, refusef("%d custom sections %q: at most one is allowed", len(s.meta), abi.MetaSection)
	case len(s.meta) == 1:
		if a.meta, err = readMetadata(s.meta[0], a.scan); err != nil {
			return nil, refusef("custom section %q: %v", abi.MetaSection, err)
		}
	case !a.describe:
		return nil, refusef("it has neither a custom section %q nor an export %q: one of them must hold the metadata",
			abi.MetaSection, abi.ExportDescribe)
	}
	return a, nil
}

func (s *shape) checkMemory(pages uint32) error {
	if len(s.memories) != 1 {
		return refusef("it has %d memories of its own: want exactly one", len(s.memories))
	}
	switch m := s.memories[0]; {
	case m.shared:
		return refusef("its memory is shared: want one that is not")
	case m.min > pages:
		return refusef("its memory starts with %d bytes: the limit is %d", uint64(m.min)*pageSize, uint64(pages)*pageSize)
	}
	return nil
}

func (s *shape) checkImports() error {
	for _, im := range s.imports {
		name := cut(im.module, 64) + "." + cut(im.name, 64)
		if im.module != abi.ImportModule && im.module != abi.WASIModule {
			return refusef("import %s: modules may import from %s and %s only", name, abi.ImportModule, abi.WASIModule)
		}
		if im.kind != externFunc {
			return refusef("import %s: want a function, not a %s", name, externKinds[im.kind])
		}
		i := slices.IndexFunc(hostFuncs, func(f hostFunc) bool { return f.module == im.module && f.name == im.name })
		if i < 0 {
			return refusef("import %s: there is no such function", name)
		}
		if got := s.types[im.typ]; got != hostFuncs[i].sig {
			return refusef("import %s: want %s, got %s", name, hostFuncs[i].sig, got)
		}
	}
	return nil
}

var externKinds = [...]string{"function", "table", "memory", "global"}

// checkExports looks at every export of the ABI. Other exports are of no use to us and do no harm, except names that we
// would call if they were spelt right.
func (s *shape) checkExports() (map[string]bool, error) {
	has := map[string]bool{}
	for _, e := range s.exports {
		if has[e.name] {
			return nil, refusef("export %q: there are two", cut(e.name, 64))
		}
		has[e.name] = true
		switch want, known := exportSignatures[e.name]; {
		case e.name == "_start":
			return nil, refusef("export %q: it is a program, want a reactor (with %q)", e.name, abi.ExportInitialize)
		case e.name == abi.ExportMemory:
			if e.kind != externMemory {
				return nil, refusef("export %q: want a memory, got a %s", e.name, externKinds[e.kind])
			}
		case known:
			if e.kind != externFunc {
				return nil, refusef("export %q: want a function, got a %s", e.name, externKinds[e.kind])
			}
			got, ok := s.functionType(e.index)
			if !ok {
				return nil, refusef("export %q: there is no function %d", e.name, e.index)
			}
			if got != want {
				return nil, refusef("export %q: want %s, got %s", e.name, want, got)
			}
		case strings.HasPrefix(e.name, "yett_"):
			return nil, refusef("export %q: ABI v%d has no such export", cut(e.name, 64), abi.Version)
		}
	}
	for _, name := range []string{abi.ExportMemory, abi.ExportMarker, abi.ExportBuffer, abi.ExportInit} {
		if !has[name] {
			return nil, refusef("export %q is missing", name)
		}
	}
	if !has[abi.ExportScan] && !has[abi.ExportCheck] {
		return nil, refusef("neither %q nor %q is exported: want one or both", abi.ExportScan, abi.ExportCheck)
	}
	return has, nil
}

// functionType is the type of a function by its index: imports count first.
func (s *shape) functionType(index uint32) (signature, bool) {
	i := uint64(index)
	for _, im := range s.imports {
		if im.kind != externFunc {
			continue
		}
		if i == 0 {
			return s.types[im.typ], true
		}
		i--
	}
	if i >= uint64(len(s.funcs)) {
		return signature{}, false
	}
	return s.types[s.funcs[i]], true
}

var valueLetters = map[byte]byte{'i': valI32, 'l': valI64, 'f': valF32, 'd': valF64}

// sig writes a signature with one letter a value: i, l, f, d for i32, i64, f32, f64.
func sig(params, results string) signature {
	conv := func(s string) string {
		b := []byte(s)
		for i := range b {
			b[i] = valueLetters[b[i]]
		}
		return string(b)
	}
	return signature{conv(params), conv(results)}
}

var valueNames = map[byte]string{valI32: "i32", valI64: "i64", valF32: "f32", valF64: "f64", valV128: "v128",
	valFuncref: "funcref", valExtern: "externref"}

func (s signature) String() string {
	list := func(v string) string {
		names := make([]string, len(v))
		for i := range names {
			names[i] = valueNames[v[i]]
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	return list(s.params) + "->" + list(s.results)
}
