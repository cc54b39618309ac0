package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/yett-dev/yett/core/testkit"
)

// metered instantiates the metered form of m.
func metered(t testing.TB, m module, h *meter) api.Module {
	t.Helper()
	c, err := checkCore(m.encode())
	if err != nil {
		t.Fatal(err)
	}
	return instance(t, c.Metered(), h)
}

func instance(t testing.TB, wasm []byte, h *meter) api.Module {
	t.Helper()
	ctx := context.Background()
	rt := newRuntime(ctx)
	t.Cleanup(func() { rt.Close(ctx) })
	if err := h.provide(ctx, rt); err != nil {
		t.Fatal(err)
	}
	inst, err := rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// paid is what a call of f pays.
func paid(t *testing.T, inst api.Module, h *meter, args ...uint64) (int64, error) {
	t.Helper()
	fuel := inst.ExportedGlobal(ExportFuel).(api.MutableGlobal)
	fuel.Set(uint64(uint32(h.slice)))
	h.paid, h.ticks = 0, 0
	_, err := inst.ExportedFunction("f").Call(context.Background(), args...)
	return h.paid + int64(h.slice) - int64(int32(fuel.Get())), err
}

// counting runs body as often as parameter 0 says.
func counting(body ...[]byte) []byte {
	return loop(cat(body...), op(opLocalGet, 0), i32(1), []byte{opI32Sub}, op(opLocalTee, 0), op(opBrIf, 0))
}

func length(n int, instr ...byte) []byte { return cat(i32(0), i32(0), i32(n), instr) }

// TestCharges states what runs cost: what is in one, times how often it runs.
func TestCharges(t *testing.T) {
	fill, grow := []byte{0xfc, 11, 0}, []byte{opMemoryGrow, 0, opDrop}
	long := repeat(100, []byte{opNop})
	for _, c := range []struct {
		name string
		code []byte
		arg  uint64
		min  int64
		max  int64
	}{
		{"nothing", nil, 0, leastCharge, leastCharge},
		{"ten instructions", repeat(10, []byte{opNop}), 0, 10, 10},
		{"an empty loop, 1000 times", counting(), 1000, 5000, 5000 + leastCharge},
		{"an empty loop, 100000 times", counting(), 100_000, 500_000, 500_000 + leastCharge},
		{"a loop that goes round by its condition alone, 1000 times", loop(op(opLocalGet, 0), op(opBrIf, 0)), 0, 2 * leastCharge, 2 * leastCharge},
		{"a loop in a loop", counting(i32(100), op(opLocalSet, 1), loop(op(opLocalGet, 1), i32(1), []byte{opI32Sub}, op(opLocalTee, 1), op(opBrIf, 0))), 100, 50_000, 52_000},
		{"a long path not taken", counting(blk(i32(1), op(opBrIf, 0), long)), 1000, 5000, 1000*(7+100) + leastCharge},
		{"a long path behind a branch", counting(blk(i32(1), op(opBrIf, 0), repeat(5, long)), blk(i32(1), op(opBrIf, 0), blk(), long)), 1000, 5000, 1000 * (610 + 12)},
		{"a long arm not taken", counting(i32(0), []byte{opIf, 0x40}, repeat(50, long), []byte{opEnd}), 1000, 5000, 1000 * 80},
		{"a long arm taken", counting(i32(1), []byte{opIf, 0x40}, repeat(50, long), []byte{opEnd}), 1000, 5_000_000, 5_010_000},
		{"code behind a block left by a branch", counting(blk(blk(blk(i32(2), []byte{opBrTable, 2, 0, 1, 2}), long), long), repeat(10, long)), 1000, 1_000_000, 1_100_000},
		{"a fill of 64 KiB", length(65536, fill...), 0, 16_384, 16_500},
		{"a fill that traps", length(-1, fill...), 0, 262_144, 262_244},
		{"growth by one page", cat(i32(1), grow), 0, 65_536, 65_700},
		{"growth beyond all", cat(i32(-1), grow), 0, 1 << 30, 1<<30 + 100},
		{"ten references to functions", repeat(10, []byte{opRefFunc, 0, opDrop}), 0, 2560, 2600},
	} {
		h := &meter{slice: 10_000, limit: 1 << 20}
		inst := metered(t, one(fn{params: "i", locals: 2, code: c.code}), h)
		got, err := paid(t, inst, h, c.arg)
		if err != nil && !strings.Contains(err.Error(), "out of bounds memory access") {
			t.Errorf("%s: %v", c.name, err)
		}
		if got < c.min || got > c.max {
			t.Errorf("%s: paid %d, want %d to %d", c.name, got, c.min, c.max)
		}
	}
}

// TestTableCharges has a module that owns a table pay for what it does with it.
func TestTableCharges(t *testing.T) {
	null := []byte{opRefNull, valFuncref}
	for name, code := range map[string][]byte{
		"table.fill": cat(i32(0), null, i32(-1), []byte{0xfc, 17, 0}),
		"table.copy": cat(i32(0), i32(0), i32(-1), []byte{0xfc, 14, 0, 0}),
		"table.init": cat(i32(0), i32(0), i32(-1), []byte{0xfc, 12, 0, 0}),
		"table.grow": cat(null, i32(-1), []byte{0xfc, 15, 0, opDrop}),
	} {
		m := one(fn{code: code})
		m.tables = [][]byte{{valFuncref, 0, 10}}
		m.elems = [][]byte{{1, 0, 1, 0}}
		h := &meter{slice: 10_000, limit: 10}
		got, _ := paid(t, metered(t, m, h), h)
		if got < maxElementCharge || got > maxElementCharge+200 {
			t.Errorf("%s: paid %d", name, got)
		}
		c, err := checkCore(m.encode())
		if err != nil || c.Keeps != name {
			t.Errorf("%s: keeps %q, %v", name, c.Keeps, err)
		}
	}
}

// TestEndless stops what never ends, with and without loops.
func TestEndless(t *testing.T) {
	indirect := one(fn{code: cat(i32(0), []byte{opCallIndirect, 0, 0})})
	indirect.tables = [][]byte{{valFuncref, 0, 1}}
	indirect.elems = [][]byte{{0, opI32Const, 0, opEnd, 1, 0}}
	mutual := one(fn{code: op(opCall, 1)})
	mutual.funcs = append(mutual.funcs, fn{code: op(opCall, 0)})
	// Calls itself twice, 40 deep: 2^40 calls without a loop, but for a shallow stack.
	tree := one(fn{params: "i", code: cat(op(opLocalGet, 0), []byte{opIf, 0x40},
		op(opLocalGet, 0), i32(1), []byte{opI32Sub}, op(opCall, 0), op(opLocalGet, 0), i32(1), []byte{opI32Sub},
		op(opCall, 0), []byte{opEnd})})
	for _, c := range []struct {
		name string
		m    module
		want error
		args []uint64
	}{
		{"loop", one(fn{code: loop(op(opBr, 0))}), errExhausted, nil},
		{"loop left and entered by table", one(fn{code: loop(i32(0), []byte{opBrTable, 0, 0})}), errExhausted, nil},
		{"recursion", one(fn{code: op(opCall, 0)}), errOverflow, nil},
		{"recursion through a table", indirect, errOverflow, nil},
		{"mutual recursion", mutual, errOverflow, nil},
		{"tree of calls", tree, errExhausted, []uint64{40}},
	} {
		h := &meter{slice: 100_000, limit: 40}
		inst := metered(t, c.m, h)
		if _, err := inst.ExportedFunction("f").Call(context.Background(), c.args...); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// deep are functions that call themselves without end with a lot to remember.
func deep() map[string]fn {
	load := []byte{opI32Const, 0, 0x28, 0, 0}
	sum := func(n int) []byte { return repeat(n, []byte{opI32Add}) }
	var locals, kept []byte
	for i := range 500 {
		locals = cat(locals, load, op(opLocalSet, i))
		kept = cat(kept, op(opLocalGet, i), []byte{opI32Add})
	}
	var joins []byte
	for i := range 400 {
		joins = cat(joins, blk(load, op(opBrIf, 0), op(opLocalGet, i%20), i32(1), []byte{opI32Add}, op(opLocalSet, i%20)))
	}
	var use []byte
	for i := range 20 {
		use = cat(use, op(opLocalGet, i), []byte{opI32Add})
	}
	return map[string]fn{
		"small":      {code: op(opCall, 0)},
		"results":    {results: strings.Repeat("l", 200), code: op(opCall, 0)},
		"operands":   {code: cat(repeat(500, load), op(opCall, 0), sum(499), []byte{opDrop})},
		"locals":     {locals: 500, code: cat(locals, op(opCall, 0), i32(0), kept, []byte{opDrop})},
		"one by one": {code: cat(op(opCall, 0), repeat(400, cat(load, op(opCall, 0), []byte{opDrop})))},
		"joins":      {locals: 20, code: cat(joins, op(opCall, 0), i32(0), use, []byte{opDrop})},
	}
}

// TestDepth holds the estimate of frames against the compiler's real ones: what recurs runs out of StackBudget before
// the compiler's own limit of 50 MB. The original, the control, reaches that.
func TestDepth(t *testing.T) {
	all := deep()
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if testkit.Quick() && i%4 != 0 {
			continue
		}
		f := all[name]
		h := &meter{slice: 1 << 30, limit: 10}
		if _, err := metered(t, one(f), h).ExportedFunction("f").Call(context.Background()); !errors.Is(err, errOverflow) {
			t.Errorf("%s: %v", name, err)
		}
		c, err := checkCore(one(f).encode())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := instance(t, c.Original(), h).ExportedFunction("f").Call(context.Background()); err == nil ||
			!strings.Contains(err.Error(), "stack overflow") {
			t.Errorf("%s, the original: %v", name, err)
		}
	}
}

// TestStackIsGivenBack returns from a recursive function in every way there is.
func TestStackIsGivenBack(t *testing.T) {
	down := cat(op(opLocalGet, 0), i32(1), []byte{opI32Sub}, op(opCall, 0))
	for name, code := range map[string][]byte{
		"falls through": cat(op(opLocalGet, 0), []byte{opIf, 0x40}, down, []byte{opDrop, opEnd}, i32(1)),
		"return":        cat(op(opLocalGet, 0), []byte{opIf, 0x40}, down, []byte{opReturn, opEnd}, i32(1)),
		"branch":        cat(op(opLocalGet, 0), []byte{opIf, 0x40}, down, op(opBr, 1), []byte{opEnd}, i32(1)),
		"branch if": cat(op(opLocalGet, 0), []byte{opIf, 0x40}, down, i32(1), op(opBrIf, 1), []byte{opDrop, opEnd},
			i32(1)), "table": cat(op(opLocalGet, 0), []byte{opIf, 0x40}, down, i32(0), []byte{opBrTable, 1, 1, 1, opEnd},
			i32(1)),
	} {
		h := &meter{slice: 1 << 20, limit: 1000}
		inst := metered(t, one(fn{params: "i", results: "i", code: code}), h)
		for range 3 {
			if _, err := paid(t, inst, h, 100); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if left := inst.ExportedGlobal(ExportStack).Get(); left != StackBudget {
			t.Errorf("%s: %d bytes left of %d", name, left, StackBudget)
		}
	}
}

func TestChainIsBounded(t *testing.T) {
	chain := func(n int) module {
		m := module{}
		for i := range n {
			m.funcs = append(m.funcs, fn{locals: 10_000, code: op(opCall, i+1)})
		}
		m.funcs = append(m.funcs, fn{})
		return m
	}
	if _, err := checkCore(chain(100).encode()); err != nil {
		t.Error(err)
	}
	if _, err := checkCore(chain(110).encode()); err == nil || !strings.Contains(err.Error(), "calls that cannot recur") {
		t.Errorf("a long chain: %v", err)
	}
}

// TestGlobals are exported under names that say which they are, and no others.
func TestGlobals(t *testing.T) {
	m := one(fn{code: cat(i32(7), op(opGlobalSet, 1))})
	m.globals = 2
	h := &meter{slice: 100, limit: 1}
	inst := metered(t, m, h)
	if _, err := inst.ExportedFunction("f").Call(context.Background()); err != nil {
		t.Fatal(err)
	}
	c, err := checkCore(m.encode())
	if err != nil || fmt.Sprint(c.Globals) != "[{yett.g0 127} {yett.g1 127}]" || c.Keeps != "" {
		t.Fatalf("%+v, %v", c, err)
	}
	if v := inst.ExportedGlobal(c.Globals[1].Name).Get(); v != 7 {
		t.Errorf("got %d", v)
	}
}

// TestCostBound has, for each way to make the compiler work, a module that is refused and a smaller one that is let in.
func TestCostBound(t *testing.T) {
	brk := cat(i32(0), []byte{0x28, 0, 0}, op(opBrIf, 0))
	touch := func(n int) (b []byte) {
		for i := range n {
			b = cat(b, op(opLocalGet, i), []byte{opDrop})
		}
		return b
	}
	calls := func(args, n int) module {
		s := strings.Repeat("i", args)
		m := one(fn{code: cat(repeat(args, i32(0)), repeat(n, op(opCall, 1)), repeat(args, []byte{opDrop}))})
		m.funcs = append(m.funcs, fn{params: s, results: s, code: []byte{opUnreachable}})
		return m
	}
	for name, f := range map[string]func(n int) module{
		"loads over branches": func(n int) module { return one(fn{code: repeat(300*n, blk(brk))}) },
		"locals over branches": func(n int) module {
			return one(fn{locals: 1000, code: cat(touch(1000), repeat(150*n, blk(brk)))})
		},
		"branch table": func(n int) module {
			return one(fn{locals: 1000, code: cat(touch(1000),
				loop(i32(0), []byte{opBrTable}, leb(900*n), repeat(900*n+1, []byte{0})))})
		},
		"arguments": func(n int) module { return calls(500, 90*n) },
		"globals": func(n int) module {
			m := calls(0, 750*n)
			m.globals = 230
			return m
		},
		"bulk": func(n int) module { return one(fn{code: repeat(150*n, length(0, 0xfc, 11, 0))}) },
	} {
		if _, err := checkCore(f(10).encode()); err != nil {
			t.Errorf("%s, the smaller one: %v", name, err)
		}
		if _, err := checkCore(f(20).encode()); err == nil || !strings.Contains(err.Error(), "would cost the compiler") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMeteredByManyIsMeteredByOne rewrites modules with one processor and with several: the bytes are the same, for
// numbers of functions around the size of a batch.
func TestMeteredByManyIsMeteredByOne(t *testing.T) {
	wasm, err := os.ReadFile("../../../scanners/secrets/secrets.wasm")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string][]byte{"secrets": wasm}
	for _, n := range []int{1, batch - 1, batch, batch + 1, 3*batch + 7} {
		m := module{memory: true}
		for i := range n {
			m.funcs = append(m.funcs, fn{code: repeat(i, []byte{opNop})})
		}
		codes[fmt.Sprint(n, " functions")] = m.encode()
	}
	for name, code := range codes {
		m, err := checkCore(code)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := runtime.GOMAXPROCS(1)
		one := m.Metered()
		runtime.GOMAXPROCS(4)
		for range 5 {
			if !bytes.Equal(m.Metered(), one) {
				t.Errorf("%s: not the same bytes", name)
			}
		}
		runtime.GOMAXPROCS(before)
	}
}

// BenchmarkStart is what a start does with the built-in module beside compiling it.
func BenchmarkStart(b *testing.B) {
	wasm, err := os.ReadFile("../../../scanners/secrets/secrets.wasm")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if _, err := checkCore(wasm); err != nil {
				b.Fatal(err)
			}
		}
	})
	m, err := checkCore(wasm)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("meter", func(b *testing.B) {
		for b.Loop() {
			m.Metered()
		}
	})
}

// What panics while functions are rewritten reaches the caller, who may recover it, on whatever goroutine it was.
func TestPanicsReachTheCaller(t *testing.T) {
	mod := module{memory: true}
	for range 3 * batch {
		mod.funcs = append(mod.funcs, fn{code: []byte{opNop}})
	}
	m, err := checkCore(mod.encode())
	if err != nil {
		t.Fatal(err)
	}
	m.shape.bodies[2*batch].code = []byte{0xff} // as no module is that was let in
	defer func() {
		if cause := recover(); cause == nil || !strings.Contains(fmt.Sprint(cause), "is not readable") {
			t.Errorf("recovered %v", cause)
		}
	}()
	m.Metered()
	t.Error("nothing panicked")
}
