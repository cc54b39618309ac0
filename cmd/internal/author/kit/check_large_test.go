package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit/wasmgen"
	"github.com/yett-dev/yett/core/wasm/host"
)

// TestLargestTexts: what came of them is said, with how much the budget is enough for.
func TestLargestTexts(t *testing.T) {
	silent := wasmgen.I32(0)
	count := wasmgen.Cat(wasmgen.I32(0), wasmgen.Set(wasmgen.FindLocal), wasmgen.Block, wasmgen.Loop,
		wasmgen.Get(wasmgen.FindLocal), wasmgen.Get(1), wasmgen.GeU, wasmgen.BrIf(1),
		wasmgen.Get(wasmgen.FindLocal), wasmgen.I32(1), wasmgen.Add, wasmgen.Set(wasmgen.FindLocal), wasmgen.Br(0),
		wasmgen.End, wasmgen.End, wasmgen.I32(0))
	traps := wasmgen.Cat(wasmgen.Get(1), wasmgen.I32(1<<20), wasmgen.GtU, wasmgen.If, wasmgen.Unreachable, wasmgen.End,
		wasmgen.I32(0))
	for name, c := range map[string]struct {
		scan   []byte
		buffer []byte
		fuel   uint64
		says   string
		fails  bool
	}{
		"answered": {silent, wasmgen.I32(8192), 0, "answered with 3% of the budget", false},
		"stopped":  {count, wasmgen.I32(8192), 1_000_000, "stopped, the budget of 1000000 units is enough for about ", false},
		"refused":  {silent, nil, 0, "refused: ", false},
		"trapped":  {traps, wasmgen.I32(8192), 0, "guest trapped", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := honest()
			g.Scan, g.Buffer, g.Pages, g.Meta = c.scan, c.buffer, 80, meta("[]", noStream)
			rep, err := Settings{Fuel: c.fuel}.Check(context.Background(), module(g), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			last := rep.Checks[len(rep.Checks)-1]
			if last.Name != "maximal input" || last.OK == c.fails || rep.Fit == c.fails ||
				!strings.Contains(last.Detail, c.says) {
				t.Errorf("%+v", rep)
			}
			if kinds := rep.Checks[6]; kinds.Name != "kinds" ||
				!strings.HasPrefix(kinds.Detail, "0 findings, so nothing is shown: give --vectors") {
				t.Errorf("no findings: %+v", kinds)
			}
		})
	}
}

// TestBudget: what a call may spend is the gateway's default, or what was asked for, and an error says what sets it.
func TestBudget(t *testing.T) {
	ctx := context.Background()
	text := strings.Repeat("!.", 100)
	if _, _, err := (Settings{}).Run(ctx, module(honest()), nil, text); err != nil {
		t.Error(err)
	}
	_, _, err := Settings{Fuel: 20_000}.Run(ctx, module(honest()), nil, text)
	if !errors.Is(err, host.ErrFuel) || !strings.Contains(err.Error(), "20000 units: spend less") ||
		!strings.Contains(err.Error(), "limits.fuel or limits.timeout") {
		t.Errorf("%v", err)
	}
	g := honest()
	g.Scan = wasmgen.Cat(wasmgen.Loop, wasmgen.Br(0), wasmgen.End, wasmgen.I32(0))
	if _, _, err := (Settings{}).Run(ctx, module(g), nil, "!"); !errors.Is(err, host.ErrFuel) ||
		!strings.Contains(err.Error(), fmt.Sprint(DefaultFuel, " units")) {
		t.Errorf("%v", err)
	}
}
