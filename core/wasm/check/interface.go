package check

import (
	"strings"

	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/sdk/abi"
)

// signature is a function's type: one byte for each value, as in the binary format.
type signature struct{ params, results string }

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

// Import is one function that a module may import.
type Import struct {
	Module, Name string
	// a byte for each value, as in the binary format: []api.ValueType(Params) is its type for wazero
	Params, Results string
}

// Imports is the closed list of what a module may import, in a fixed order. Each call gives a new slice.
func Imports() []Import {
	out := make([]Import, len(imports))
	for i, im := range imports {
		out[i] = Import{im.module, im.name, im.sig.params, im.sig.results}
	}
	return out
}

// ImportSignature looks one import up: a byte for each parameter and result. ok is false if modules may not import it.
func ImportSignature(module, name string) (params, results string, ok bool) {
	for _, im := range imports {
		if im.module == module && im.name == name {
			return im.sig.params, im.sig.results, true
		}
	}
	return "", "", false
}

var imports = []struct {
	module, name string
	sig          signature
}{
	{abi.ImportModule, abi.ImportEmit, sig("iiiifiiii", "i")},
	{abi.ImportModule, abi.ImportDecide, sig("iiiiii", "i")},
	{abi.ImportModule, abi.ImportPut, sig("iii", "i")},
	{abi.ImportModule, abi.ImportLog, sig("iii", "")},
	{abi.WASIModule, "args_get", sig("ii", "i")},
	{abi.WASIModule, "args_sizes_get", sig("ii", "i")},
	{abi.WASIModule, "clock_time_get", sig("ili", "i")},
	{abi.WASIModule, "environ_get", sig("ii", "i")},
	{abi.WASIModule, "environ_sizes_get", sig("ii", "i")},
	{abi.WASIModule, "fd_close", sig("i", "i")},
	{abi.WASIModule, "fd_fdstat_get", sig("ii", "i")},
	{abi.WASIModule, "fd_fdstat_set_flags", sig("ii", "i")},
	{abi.WASIModule, "fd_prestat_dir_name", sig("iii", "i")},
	{abi.WASIModule, "fd_prestat_get", sig("ii", "i")},
	{abi.WASIModule, "fd_write", sig("iiii", "i")},
	{abi.WASIModule, "poll_oneoff", sig("iiii", "i")},
	{abi.WASIModule, "proc_exit", sig("i", "")},
	{abi.WASIModule, "random_get", sig("ii", "i")},
	{abi.WASIModule, "sched_yield", sig("", "i")},
}

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

// checkABI holds the module against ABI v1 and fills in what it found.
func (m *Module) checkABI(l Limits) error {
	s := m.shape
	if s.hasStart {
		return refusef("it has a start section: nothing may run before %s", abi.ExportInitialize)
	}
	if err := s.checkMemory(l.Pages); err != nil {
		return err
	}
	if err := s.checkImports(); err != nil {
		return err
	}
	has, err := s.checkExports()
	if err != nil {
		return err
	}
	m.Initialize, m.Scan = has[abi.ExportInitialize], has[abi.ExportScan]
	m.Check, m.Describe = has[abi.ExportCheck], has[abi.ExportDescribe]
	switch {
	case len(s.meta) > 1:
		return refusef("%d custom sections %q: at most one is allowed", len(s.meta), abi.MetaSection)
	case len(s.meta) == 1:
		m.Meta = s.meta[0]
	case !m.Describe:
		return refusef("it has neither a custom section %q nor an export %q: one of them must hold the metadata",
			abi.MetaSection, abi.ExportDescribe)
	}
	return nil
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
		name := quote.Short(im.module, 64) + "." + quote.Short(im.name, 64)
		if im.module != abi.ImportModule && im.module != abi.WASIModule {
			return refusef("import %s: modules may import from %s and %s only", name, abi.ImportModule, abi.WASIModule)
		}
		if im.kind != externFunc {
			return refusef("import %s: want a function, not a %s", name, externKinds[im.kind])
		}
		params, results, ok := ImportSignature(im.module, im.name)
		if !ok {
			return refusef("import %s: there is no such function", name)
		}
		if got, want := s.types[im.typ], (signature{params, results}); got != want {
			return refusef("import %s: want %s, got %s", name, want, got)
		}
	}
	return nil
}

var externKinds = [...]string{"function", "table", "memory", "global"}

// checkExports looks at every export of the ABI. Other exports are of no use to us and do no harm, except names that we
// would call if they were spelt right, and those that Metered adds.
func (s *shape) checkExports() (map[string]bool, error) {
	has := map[string]bool{}
	for _, e := range s.exports {
		if has[e.name] {
			return nil, refusef("export %q: there are two", quote.Short(e.name, 64))
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
			if got, _ := s.functionType(e.index); got != want {
				return nil, refusef("export %q: want %s, got %s", e.name, want, got)
			}
		case strings.HasPrefix(e.name, "yett_"):
			return nil, refusef("export %q: ABI v%d has no such export", quote.Short(e.name, 64), abi.Version)
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
	t, ok := s.functionTypeIndex(index)
	if !ok {
		return signature{}, false
	}
	return s.types[t], true
}

// functionTypeIndex is the index of that type.
func (s *shape) functionTypeIndex(index uint32) (uint32, bool) {
	switch {
	case uint64(index) < uint64(len(s.importFuncs)):
		return s.importFuncs[index], true
	case uint64(index) < uint64(s.funcCount()):
		return s.funcs[int(index)-len(s.importFuncs)], true
	}
	return 0, false
}

func (s *shape) funcCount() int { return len(s.importFuncs) + len(s.funcs) }
