package chain_test

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// heap is what is in use once all that can be collected is.
func heap() int64 {
	for range 3 { // what pools keep takes two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What a stream says that it keeps is what it keeps in memory, whatever keeps it: state, findings, readings, or an
// array of which little is left in use.
func TestStreamKeptIsTheHeaps(t *testing.T) {
	state := func(string, []byte) ([]sdk.Finding, []byte) { return nil, bytes.Repeat([]byte("s"), abi.MaxState) }
	part := func(string, []byte) ([]sdk.Finding, []byte) {
		return nil, bytes.Repeat([]byte("s"), 256*abi.MaxState)[:abi.MaxState]
	}
	step := func(name, mode string, s chain.Scanner) chain.ScanStep {
		return chain.ScanStep{Name: name, OnError: sdk.Deny, Scanner: s,
			Stream: abi.Stream{Mode: mode, Lookbehind: map[string]int{abi.StreamWindow: 16}[mode]}}
	}
	shadow := step("shadow", abi.StreamStateful, literal("BANG", "!"))
	shadow.Shadow = true
	bangs := strings.Repeat("!", abi.MaxFindings-1)
	for name, c := range map[string]struct {
		streams int
		steps   []chain.ScanStep
		say     []string
	}{
		"text held back":                   {100, []chain.ScanStep{step("whole", abi.StreamNone, literal("BANG", "!"))}, []string{strings.Repeat("a", 64<<10), strings.Repeat("b", 64<<10)}},
		"state":                            {1000, []chain.ScanStep{step("one", abi.StreamStateful, pieces{find: state}), step("two", abi.StreamStateful, pieces{find: state})}, []string{"a"}},
		"state in a large array":           {50, []chain.ScanStep{step("one", abi.StreamStateful, pieces{find: part})}, []string{"a"}},
		"state in readings":                {1000, []chain.ScanStep{step("one", abi.StreamStateful, pieces{find: state})}, []string{"a", `b\\u0041c`, "d"}},
		"findings":                         {100, []chain.ScanStep{step("whole", abi.StreamNone, literal("NONE", "none")), step("one", abi.StreamStateful, literal("BANG", "!"))}, []string{bangs, bangs, bangs}},
		"findings that are given":          {300, []chain.ScanStep{step("one", abi.StreamStateful, literal("BANG", "!"))}, []string{bangs}},
		"findings in shadow":               {100, []chain.ScanStep{step("whole", abi.StreamNone, literal("NONE", "none")), shadow}, []string{bangs, bangs, `\u0041`, bangs}},
		"a reading of which nothing comes": {100, []chain.ScanStep{step("one", abi.StreamStateful, literal("NONE", "none"))}, []string{strings.Repeat("\x1b[0m", 16<<10)}},
		"window":                           {5000, []chain.ScanStep{step("one", abi.StreamWindow, literal("BANG", "!"))}, []string{strings.Repeat("a", 1<<10)}},
	} {
		t.Run(name, func(t *testing.T) {
			sc := &chain.ScanChain{Budget: time.Minute, Now: time.Now, Steps: c.steps,
				Actions: []chain.ActionRule{{Action: sdk.Redact}}}
			kept := make([]*chain.Stream, c.streams)
			before := heap()
			for i := range kept {
				s := sc.NewStream(&chain.Input{ToolID: "t"}, 1<<20)
				for _, piece := range c.say {
					next, res := s.Next(context.Background(), strings.Clone(piece), false)
					if next == nil {
						t.Fatalf("%+v", res.ScanResult)
					}
					s = next
				}
				kept[i] = s
			}
			grown := heap() - before
			counted := int64(0)
			for _, s := range kept {
				counted += int64(s.Kept())
			}
			t.Logf("%d bytes are counted, %d held", counted, grown)
			const noise = 1 << 20
			if grown > counted*3/2+noise || counted > 3*grown+noise {
				t.Errorf("%d bytes are counted, %d are held", counted, grown)
			}
			runtime.KeepAlive(kept)
		})
	}
}
