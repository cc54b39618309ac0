package kit

import (
	"context"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit/wasmgen"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// TestWindowsHaveHits: a module that is right about windows without hits and wrong about those with them does not pass.
func TestWindowsHaveHits(t *testing.T) {
	ctx := context.Background()
	both := wasmgen.I32(abi.FlagStream | abi.FlagHitsComplete)
	g := honest()
	g.Scan = wasmgen.Cat(wasmgen.Get(2), both, wasmgen.And, both, wasmgen.Eq, wasmgen.If, wasmgen.I32(0), wasmgen.Return,
		wasmgen.End, wasmgen.FindBody())
	vectors := parse(t, `vectors: [{name: v, text: "ab!d", findings: [{kind: TEST_KIND, start: 2, end: 3}]}]`)
	rep, err := Settings{}.Test(ctx, module(g), vectors)
	if err != nil {
		t.Fatal(err)
	}
	if p := rep.Results[0].Problems; len(p) != 1 || p[0].Run != "windows cut at byte 1, with the host's hits" ||
		!strings.Contains(p[0].Diff[0], "missing    TEST_KIND 2–3") {
		t.Errorf("%+v", rep.Results[0])
	}
	fit, err := Settings{}.Check(ctx, module(g), nil, vectors)
	if err != nil || fit.Fit || !strings.HasPrefix(fit.Reason, "streams: ") ||
		!strings.Contains(fit.Reason, "with the host's hits: missing") {
		t.Errorf("%+v %v", fit, err)
	}
}

// pairs finds every "!" with the byte behind it, and answers text that is not UTF-8 with a status.
func pairs() wasmgen.Guest {
	utf8 := wasmgen.Cat(wasmgen.Get(2), wasmgen.I32(abi.FlagUTF8), wasmgen.And, wasmgen.I32(0), wasmgen.Eq, wasmgen.If,
		wasmgen.I32(3), wasmgen.Return, wasmgen.End)
	next := wasmgen.Cat(wasmgen.Get(wasmgen.FindLocal), wasmgen.I32(1), wasmgen.Add)
	emit := wasmgen.Cat(wasmgen.Host(abi.ImportEmit, wasmgen.I32(wasmgen.KindAt), wasmgen.I32(wasmgen.KindLen),
		wasmgen.Get(wasmgen.FindLocal), wasmgen.Cat(next, wasmgen.I32(1), wasmgen.Add),
		wasmgen.F32(1), wasmgen.I32(1), wasmgen.I32(0), wasmgen.I32(0), wasmgen.I32(0)), wasmgen.Drop)
	g := honest()
	g.Meta = meta(markFirst, `{"mode":"window","lookbehind":2}`)
	g.Scan = wasmgen.Cat(utf8, wasmgen.I32(0), wasmgen.Set(wasmgen.FindLocal), wasmgen.Block, wasmgen.Loop, next,
		wasmgen.Get(1), wasmgen.GeU, wasmgen.BrIf(1),
		wasmgen.ByteAt(), wasmgen.I32('!'), wasmgen.Eq, wasmgen.If, emit, wasmgen.End, next, wasmgen.Set(wasmgen.FindLocal),
		wasmgen.Br(0), wasmgen.End, wasmgen.End, wasmgen.I32(0))
	return g
}

// TestWindowsKeepWhole: no window cuts a character, and none a finding.
func TestWindowsKeepWhole(t *testing.T) {
	vectors := parse(t, `
vectors:
  - {name: pairs, text: "ab!cd!!ef!g", findings: [{kind: TEST_KIND, start: 2, end: 4}, {kind: TEST_KIND, start: 5, end: 7}, {kind: TEST_KIND, start: 6, end: 8}, {kind: TEST_KIND, start: 9, end: 11}]}
  - {name: characters, text: "é日!é本!x語", findings: [{kind: TEST_KIND, start: 5, end: 7}, {kind: TEST_KIND, start: 11, end: 13}]}
`)
	rep, err := Settings{}.Test(context.Background(), module(pairs()), vectors)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Results {
		if !r.OK {
			t.Errorf("%+v", r)
		}
	}
}

// TestWindowsAreSettled: two windows with hits give what the text gives as a whole, wherever it is cut, and what only
// the edge of a window makes is not settled.
func TestWindowsAreSettled(t *testing.T) {
	ctx := context.Background()
	st, err := (&Settings{}).stage(ctx, module(honest()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.close(ctx); err != nil {
			t.Error(err)
		}
	}()
	sub, err := st.with(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"!", "!!", "quiet", "a!é!b", "!\xff\x80!", "日本!語"} {
		want := whole(ctx, sub.first, text)
		for at := 1; at < len(text); at++ {
			if why := differ(sub.windows(ctx, text, at), want, text); why != "" {
				t.Errorf("%q cut at %d: %s", text, at, why)
			}
		}
	}
	checkUncut(t)
}

func checkUncut(t *testing.T) {
	t.Helper()
	spans := func(at ...int) (out []sdk.Finding) {
		for i := 0; i < len(at); i += 2 {
			out = append(out, sdk.Finding{Start: at[i], End: at[i+1]})
		}
		return out
	}
	for want, c := range map[int]struct {
		findings []sdk.Finding
		to       int
	}{7: {nil, 7}, 5: {spans(5, 9), 7}, 2: {spans(5, 9, 2, 6), 7}, 6: {spans(0, 6, 6, 8), 6}} {
		if got := uncut(c.findings, c.to); got != want {
			t.Errorf("%v at %d: %d, want %d", c.findings, c.to, got, want)
		}
	}
	for at, want := range map[int]int{-3: 0, 0: 0, 1: 0, 2: 0, 3: 3, 6: 6} {
		if got := startOfRune("日本", at); got != want {
			t.Errorf("%d: %d, want %d", at, got, want)
		}
	}
}
