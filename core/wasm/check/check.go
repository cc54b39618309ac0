// Package check is the door for a module's bytes: it decides, without running anything, whether a WASM binary is let
// in, and rewrites those that are so that they can be metered. It is pure: bytes in, bytes or one clear sentence out,
// no clock, no runtime, no allocation by a number that the binary merely claims. What it accepts is a small, canonical
// part of the format, so that the compiler behind it reads the same instructions as the rewriter did; what it accepts
// compiles within a stated cost (see cost.go). It never repairs a module, and types are left for the compiler to
// validate. The bytes come from core/wasm/host, which compiles what Metered gives and provides the imports of
// HostModule.
package check

import (
	"fmt"

	"github.com/yett-dev/yett/sdk/abi"
)

// What a metered module imports and exports beside its own.
const (
	HostModule     = "yett_host"
	ImportTick     = "tick"     // (left i32)->i32: the slice is used up, left is below zero; the result is the next slice
	ImportOverflow = "overflow" // ()->(): calls are nested too deep; the host panics, it never returns

	ExportFuel   = "yett.fuel"  // mutable i32: units left in this slice; 0 at first, so the host sets it before a call
	ExportStack  = "yett.stack" // mutable i32: bytes of stack left; StackBudget at first and before each call
	ExportGlobal = "yett.g"     // with a number behind it: a mutable global of the module's own
	reserved     = "yett."
)

// StackBudget is what the frames of nested calls may take together, in estimated bytes.
const StackBudget = 16 << 20

const (
	pageSize = 64 << 10
	maxPages = 1 << 16
)

// Limits are the operator's bounds on a module.
type Limits struct {
	Pages uint32 // the most memory it may start with, in pages of 64 KiB
}

// Refusal says why a module's bytes were not let in. No guest code has run.
type Refusal struct{ Reason string }

func (e *Refusal) Error() string { return "module refused: " + e.Reason }

func refusef(format string, args ...any) error {
	return &Refusal{Reason: fmt.Sprintf(format, args...)}
}

// Global is a mutable global of a module's own.
type Global struct {
	Name string // under which Metered exports it
	Type byte   // its value type as in the binary format: 0x7f i32, 0x7e i64, 0x7d f32, 0x7c f64
}

// Module is a module that was let in. It does not change and is safe for concurrent use.
type Module struct {
	Initialize, Scan, Check, Describe bool // which of the optional exports are there

	// Meta is the content of the custom section abi.MetaSection, nil if there is none. Nobody has looked into it.
	Meta []byte
	// Keeps is "" when the memory and Globals are all the state that a call can change, so that putting both back resets
	// an instance. Otherwise it names what keeps more: such a module must be instantiated afresh.
	Keeps string
	// Globals are the mutable globals of the module's own, in the order of their index.
	Globals []Global
	// Cost is the estimated time of compiling the metered module, in nanoseconds of one core (see cost.go).
	Cost int64
	// Chain is what the frames of functions that cannot recur may take of the stack together, in estimated bytes. Nothing
	// in the metered module counts them.
	Chain uint64

	shape   *shape
	recurs  []bool // own functions that can be on the stack twice
	pages   uint32 // the most memory there can be
	dearest int64  // bytes that compiling its dearest function is estimated to take
}

// Check decides whether a module is let in under l. Every error is a *Refusal. The module keeps parts of wasm, which
// must not be changed any more.
func Check(wasm []byte, l Limits) (*Module, error) {
	if len(wasm) > abi.MaxModule {
		return nil, refusef("%d bytes: at most %d are allowed", len(wasm), abi.MaxModule)
	}
	m, err := checkCore(wasm)
	if err != nil {
		return nil, err
	}
	if err := m.checkABI(l); err != nil {
		return nil, err
	}
	m.pages = min(l.Pages, maxPages)
	return m, nil
}

// checkCore is Check without what the ABI wants: a plain module may import, export and start what it likes.
func checkCore(wasm []byte) (*Module, error) {
	s, err := inspect(wasm)
	if err != nil {
		return nil, err
	}
	m := &Module{shape: s, pages: maxPages}
	if err := m.checkFlow(); err != nil {
		return nil, err
	}
	m.listGlobals()
	return m, nil
}

// listGlobals fills Globals, and says in Keeps which of them the host's interface to globals cannot put back.
func (m *Module) listGlobals() {
	for i, g := range m.shape.globals {
		switch {
		case !g.mutable:
		case g.resettable():
			m.Globals = append(m.Globals, Global{fmt.Sprint(ExportGlobal, i), g.of})
		case m.Keeps == "":
			m.Keeps = "a mutable global of type " + valueNames[g.of]
		}
	}
}

// resettable tells whether the host's interface to globals can put it back.
func (g global) resettable() bool {
	return g.mutable && (g.of == valI32 || g.of == valI64 || g.of == valF32 || g.of == valF64)
}
