package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit/wasmgen"
	"github.com/yett-dev/yett/core/wasm/check"
)

// downward is a guest that nests calls, each frame with so many locals: by itself, in turn with another function, or
// through a table. Its scan calls the first of them as run says.
func downward(locals int, how string, run []byte) []byte {
	g := wasmgen.Before(run)
	next := wasmgen.CallTo(wasmgen.FirstExtra)
	switch how {
	case "mutual":
		next = wasmgen.CallTo(wasmgen.FirstExtra + 1)
	case "table":
		next = wasmgen.Cat(wasmgen.I32(0), wasmgen.CallIndirect(0))
		g.Edit = func(m *wasmgen.Module) {
			m.Types = []wasmgen.Sig{{Params: "i"}}
			m.Tables = [][]byte{wasmgen.Table(1, 1)}
			m.Elements = [][]byte{wasmgen.ActiveElements(wasmgen.FirstExtra)}
		}
	}
	down := func(next []byte) wasmgen.Func {
		return wasmgen.Func{Sig: wasmgen.Sig{Params: "i"}, Locals: locals,
			Body: wasmgen.Cat(wasmgen.Get(0), wasmgen.If, wasmgen.Get(0), wasmgen.I32(1), wasmgen.Sub, next, wasmgen.End)}
	}
	g.Extra = []wasmgen.Func{down(next), down(wasmgen.CallTo(wasmgen.FirstExtra))}
	return g.Encode()
}

// nested calls the first function of downward.
func nested(depth int) []byte {
	return wasmgen.Cat(wasmgen.I32(depth), wasmgen.CallTo(wasmgen.FirstExtra))
}

func loadCode(tb testing.TB, code []byte, fuel uint64) *Module {
	tb.Helper()
	m, err := newHost(tb, Options{}).Load(context.Background(),
		Spec{Name: "m", Code: code, Timeout: MaxTimeout, Fuel: fuel})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// The stack that a call grows to is paid by the byte, whatever way its calls nest, and only as far as it was never that
// deep before.
func TestStackIsPaidByTheByte(t *testing.T) {
	cost := func(depth, locals int, how string) (uint64, error) {
		return scanFuel(loadCode(t, downward(locals, how, nested(depth)), MaxFuel), "some text")
	}
	for _, how := range []string{"direct", "mutual", "table"} {
		for _, locals := range []int{0, 8, 64, 512} {
			frame := 64 + 8*locals // at least
			depth := 4 * stackStep / frame
			few, err := cost(1, locals, how)
			if err != nil {
				t.Fatal(err)
			}
			many, err := cost(depth, locals, how)
			if err != nil {
				t.Fatal(err)
			}
			if least := uint64(4 * (depth*frame - 2*stackStep)); many-few < least {
				t.Errorf("%s, %d locals: %d calls cost %d units more than one, less than the %d of their stack", how, locals, depth,
					many-few, least)
			}
			if _, err = cost(check.StackBudget, locals, how); !errors.Is(err, ErrStack) {
				t.Errorf("%s, %d locals: no end of depth: %v", how, locals, err)
			}
		}
	}
	// The same depth once more costs what the instructions cost.
	again := func(n int) uint64 {
		fuel, err := scanFuel(loadCode(t, downward(8, "direct", wasmgen.Repeat(n, nested(2000))), MaxFuel), "some text")
		if err != nil {
			t.Fatal(err)
		}
		return fuel
	}
	if first, second := again(1), again(2)-again(1); second > first/4 {
		t.Errorf("2000 calls cost %d units, and %d the second time", first, second)
	}
}

// toucher stores to each 4 KiB of its memory once: the kernel has to find a page for every store.
func toucher(pages int) []byte {
	const touched = wasmgen.FindLocal + 1
	touch := wasmgen.Times(touched, pages<<4, wasmgen.Cat(wasmgen.Get(touched), wasmgen.I32(12), []byte{0x74},
		wasmgen.I32(1), wasmgen.Store32))
	g := wasmgen.Before(touch)
	g.Pages = pages
	return g.Encode()
}

// Memory that the kernel gives page by page is paid for, whatever touches it: a budget that suffices for the
// instructions alone does not.
func TestFreshMemoryIsPaid(t *testing.T) {
	cost := func(pages int) uint64 {
		fuel, err := scanFuel(loadCode(t, toucher(pages), MaxFuel), "some text")
		if err != nil {
			t.Fatal(err)
		}
		return fuel
	}
	few, many := cost(16), cost(272)
	if least := uint64(256 << 16); many-few < least {
		t.Errorf("256 pages more cost %d units, less than %d", many-few, least)
	}
}

// processorTime is what this process has taken of the processors: other people's load does not count.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHostileUnits says what a unit of fuel takes in each module that uses its budget up, of those that were made
// to be slow: the dearest is to be within four times the median. Run it on an idle machine: go test ./core/wasm/host
// -run ^$ -bench HostileUnits
func BenchmarkHostileUnits(b *testing.B) {
	const budget = 50_000_000
	type row struct {
		name string
		ns   float64
	}
	var rows []row
	codes := map[string][]byte{}
	for _, how := range []string{"direct", "mutual", "table"} {
		for _, locals := range []int{0, 8, 512, 4000} {
			codes[fmt.Sprintf("endless depth %s %d", how, locals)] = downward(locals, how, nested(1<<30))
		}
		codes["up and down "+how] = downward(0, how, wasmgen.Cat(wasmgen.Loop, nested(40_000), wasmgen.Br(0), wasmgen.End))
	}
	measure := func(name string, m *Module, text string, ends bool) {
		var took time.Duration
		var used uint64
		for range 3 {
			begun := processorTime(b)
			fuel, _ := scanFuel(m, text)
			took += processorTime(b) - begun
			used += fuel
		}
		if ends || used >= 3*budget { // others end otherwise, and most of what they take is the start of an instance
			rows = append(rows, row{name, float64(took.Nanoseconds()) / float64(used)})
		}
	}
	for range b.N {
		rows = rows[:0]
		for name, code := range codes {
			measure(name, loadCode(b, code, budget), "some text", false)
		}
		for _, h := range hogs {
			measure("hog "+h.name, load(b, h.g, func(s *Spec) { s.Timeout, s.Fuel = MaxTimeout, budget }), "some text", false)
		}
		for _, h := range wasmgen.All() {
			if h.Line != wasmgen.Metering || h.Want == wasmgen.Refused {
				continue
			}
			m, err := newHost(b, Options{}).Load(b.Context(), Spec{Name: "m", Code: h.Module, Timeout: MaxTimeout, Fuel: budget})
			if err != nil {
				b.Logf("%s: %v", h.Name, err)
				continue
			}
			measure(h.Name, m, h.Poisoned("some text that is long enough"), false)
		}
		for _, pages := range []int{64, 1000} {
			measure(fmt.Sprint("first touch of pages ", pages), loadCode(b, toucher(pages), budget), "some text", true)
		}
	}
	slices.SortFunc(rows, func(x, y row) int { return int(1e6 * (x.ns - y.ns)) })
	var table strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&table, " | %s %.3f ns", r.name, r.ns)
	}
	b.Log(table.String())
	median, most := rows[len(rows)/2].ns, rows[len(rows)-1].ns
	b.ReportMetric(median, "ns/unit-median")
	b.ReportMetric(most, "ns/unit-dearest")
	b.ReportMetric(most/median, "dearest/median")
	b.ReportMetric(0, "ns/op")
}
