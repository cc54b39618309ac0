package host

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

func TestScanFinds(t *testing.T) {
	m := load(t, finder(), nil)
	got, err := scan(m, "a!bc!")
	if err != nil {
		t.Fatal(err)
	}
	f := sdk.Finding{Kind: "TEST_KIND", Scanner: "mod", Start: 1, End: 2, Confidence: 0.5, Severity: sdk.High,
		Suggested: sdk.Redact}
	g := f
	g.Start, g.End = 4, 5
	if want := []sdk.Finding{f, g}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, text := range []string{"", "clean", "\xff\x00"} {
		if got, err := scan(m, text); err != nil || got != nil {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	if s := m.Stats(); s.Calls != 4 || s.Errors != 0 || s.Live != 1 || s.Discarded != 0 {
		t.Errorf("stats %+v", s)
	}
	about := m.About()
	if about.Version != "1.2.3" || !strings.HasPrefix(about.Digest, "sha256:") || len(about.Digest) != 71 {
		t.Errorf("about %+v", about)
	}
}

func TestFindingsAreSortedAndMapped(t *testing.T) {
	var body []byte
	for _, e := range []emission{
		{kind: kindAt, kindLen: kindLen, start: 3, end: 4, confidence: 1, severity: 0, action: abi.ActionFlag},
		{kind: kindAt, kindLen: kindLen, start: 1, end: 4, severity: 1, action: abi.ActionRedact},
		{kind: kindAt, kindLen: kindLen, start: 1, end: 2, severity: 2, action: abi.ActionReplace, repl: textAt, replLen: 11},
		{kind: otherAt, kindLen: otherLen, start: 1, end: 2, severity: 4, action: abi.ActionDeny},
		{kind: kindAt, kindLen: kindLen, start: 4, end: 5, severity: 3, action: abi.ActionReplace},
	} {
		body = cat(body, e.code(), drop)
	}
	got, err := scan(load(t, guest{scan: cat(body, i32(0))}, nil), "12345")
	if err != nil {
		t.Fatal(err)
	}
	want := []sdk.Finding{
		{Kind: "OTHER_KIND", Start: 1, End: 2, Severity: sdk.Critical, Suggested: sdk.Drop},
		{Kind: "TEST_KIND", Start: 1, End: 2, Severity: sdk.Medium, Suggested: sdk.Replace, Replacement: "replacement"},
		{Kind: "TEST_KIND", Start: 1, End: 4, Severity: sdk.Low, Suggested: sdk.Redact},
		{Kind: "TEST_KIND", Start: 3, End: 4, Confidence: 1, Severity: sdk.Info, Suggested: sdk.Flag},
		{Kind: "TEST_KIND", Start: 4, End: 5, Severity: sdk.High, Suggested: sdk.Replace},
	}
	for i := range want {
		want[i].Scanner = "mod"
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// invalidScans are scans of a 10-byte window that must fail, each with its own error.
var invalidScans = []struct {
	name string
	body []byte
	want error
}{
	{"undeclared kind", spoilt(func(e *emission) { e.kind, e.kindLen = undeclaredAt, 10 }), ErrKind},
	{"prefix of a kind", spoilt(func(e *emission) { e.kindLen-- }), ErrKind},
	{"empty kind", spoilt(func(e *emission) { e.kindLen = 0 }), ErrKind},
	{"end behind the window", spoilt(func(e *emission) { e.end = 11 }), ErrSpan},
	{"start behind the end", spoilt(func(e *emission) { e.start = 2 }), ErrSpan},
	{"empty span", spoilt(func(e *emission) { e.start, e.end = 1, 1 }), ErrSpan},
	{"empty span at the end", spoilt(func(e *emission) { e.start, e.end = 10, 10 }), ErrSpan},
	{"negative start", spoilt(func(e *emission) { e.start = -1 }), ErrSpan},
	{"negative end", spoilt(func(e *emission) { e.end = -1 }), ErrSpan},
	{"NaN", spoilt(func(e *emission) { e.confidence = float32(math.NaN()) }), ErrConfidence},
	{"infinite", spoilt(func(e *emission) { e.confidence = float32(math.Inf(1)) }), ErrConfidence},
	{"below 0", spoilt(func(e *emission) { e.confidence = -0.1 }), ErrConfidence},
	{"above 1", spoilt(func(e *emission) { e.confidence = 1.001 }), ErrConfidence},
	{"severity", spoilt(func(e *emission) { e.severity = 5 }), ErrSeverity},
	{"negative severity", spoilt(func(e *emission) { e.severity = -1 }), ErrSeverity},
	{"action", spoilt(func(e *emission) { e.action = 4 }), ErrAction},
	{"kind outside memory", spoilt(func(e *emission) { e.kind = -4 }), ErrPointer},
	{"kind longer than memory", spoilt(func(e *emission) { e.kindLen = -1 }), ErrPointer},
	{"replacement outside memory", spoilt(func(e *emission) { e.action, e.repl, e.replLen = 2, 4<<16-1, 2 }), ErrPointer},
	{"replacement without replace", spoilt(func(e *emission) { e.repl, e.replLen = textAt, 1 }), ErrReplacement},
	{"replacement too long", spoilt(func(e *emission) { e.action, e.repl, e.replLen = 2, zerosAt, abi.MaxReplacement+1 }), ErrReplacement},
	{"replacement not UTF-8", spoilt(func(e *emission) { e.action, e.repl, e.replLen = 2, badUTF8At, 2 }), ErrReplacement},
	{"replacements in all", times(3, 3, cat(spoilt(func(e *emission) { e.action, e.repl, e.replLen = 2, zerosAt, 4000 }), drop)), ErrReplacement},
	{"257 findings", times(3, 257, cat(soundEmission.code(), drop)), ErrFindings},
	{"decide in a scan", host("decide", i32(1), i32(kindAt), i32(kindLen), i32(0), i32(0), i32(0)), ErrMisplaced},
	{"put slot", host("put", i32(4), i32(0), i32(1)), ErrPut},
	{"put outside memory", host("put", i32(0), i32(-8), i32(9)), ErrPointer},
	{"put too long", host("put", i32(3), i32(0), i32(abi.MaxPut+1)), ErrPut},
	{"put twice", cat(host("put", i32(0), i32(textAt), i32(1)), drop, host("put", i32(0), i32(textAt), i32(1))), ErrPut},
	{"annotations that are no JSON", host("put", i32(3), i32(textAt), i32(11)), ErrPut},
	{"empty annotations", host("put", i32(3), i32(textAt), i32(0)), ErrPut},
	{"put metadata in a scan", host("put", i32(1), i32(0), i32(1)), ErrMisplaced},
	{"put state outside a stream", host("put", i32(2), i32(0), i32(1)), ErrMisplaced},
	{"log outside memory", cat(host("log", i32(0), i32(-1), i32(2)), i32(0)), ErrPointer},
	{"host calls", cat(times(3, abi.MaxHostCalls+1, cat(host("sched_yield"), drop)), i32(0)), ErrHostCalls},
	{"proc_exit", cat(host("proc_exit", i32(0)), i32(0)), ErrExit},
	{"unreachable", cat(unreachable, i32(0)), ErrTrap},
	{"load outside memory", cat(i32(-1), load32), ErrTrap},
	{"endless recursion", cat(get(0), get(1), get(2), callTo(len(hostFuncs)+3)), ErrStack},
	{"status", i32(3), ErrStatus},
	{"author's status", i32(64), ErrStatus},
	{"negative status", i32(-1), ErrStatus},
	{"error text with status 0", cat(host("put", i32(0), i32(textAt), i32(11)), drop, i32(0)), ErrStatus},
	{"fd_write outside memory", cat(host("fd_write", i32(1), i32(-4), i32(1), i32(0))), ErrPointer},
	{"random_get outside memory", cat(host("random_get", i32(-4), i32(8))), ErrPointer},
	{"clock outside memory", cat(host("clock_time_get", i32(0), i64(0), i32(-4))), ErrPointer},
	{"poll outside memory", cat(host("poll_oneoff", i32(-4), i32(0), i32(1), i32(0))), ErrPointer},
}

func TestInvalidScansFail(t *testing.T) {
	h := newHost(t, Options{})
	for _, c := range invalidScans {
		t.Run(c.name, func(t *testing.T) {
			if strings.HasPrefix(c.name, "replacements") || strings.HasPrefix(c.name, "257") {
				c.body = cat(c.body, i32(0))
			}
			m := loadOn(t, h, guest{scan: c.body, locals: 1}, func(s *Spec) { s.Timeout = time.Minute })
			got, err := scan(m, "0123456789")
			wantErr(t, err, c.want)
			var ce *CallError
			if !errors.As(err, &ce) || ce.Module != "mod" || ce.Export != abi.ExportScan || ce.Fault != c.want {
				t.Errorf("error %#v", err)
			}
			if got != nil {
				t.Errorf("findings beside an error: %v", got)
			}
			if s := settled(m); s.Errors != 1 || s.Discarded != 1 || s.Live != 1 {
				t.Errorf("the instance was kept: %+v", s)
			}
		})
	}
}

func TestBudgetsAreReachable(t *testing.T) {
	for name, body := range map[string][]byte{
		"256 findings": times(3, 256, cat(soundEmission.code(), drop)),
		"replacement": cat(spoilt(func(e *emission) { e.action, e.repl, e.replLen = 2, zerosAt, abi.MaxReplacement }),
			drop), "annotations": cat(i32(bufferAt), i32(' '), i32(abi.MaxPut), []byte{0xfc, 11, 0}, i32(bufferAt), i32('1'),
			[]byte{0x3a, 0, 0}, host("put", i32(3), i32(bufferAt), i32(abi.MaxPut)), drop),
		"host calls":      times(3, abi.MaxHostCalls, cat(host("sched_yield"), drop)),
		"span at the end": cat(spoilt(func(e *emission) { e.start, e.end = 9, 10 }), drop),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := scan(load(t, guest{scan: cat(body, i32(0)), locals: 1}, nil), "0123456789"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReplacementBudget(t *testing.T) {
	m := load(t, guest{scan: cat(host("emit", i32(kindAt), i32(kindLen), i32(0), i32(1), f32(0), i32(0), i32(2),
		i32(zerosAt), get(1)))}, nil)
	if got, err := scan(m, strings.Repeat("x", abi.MaxReplacement)); err != nil ||
		len(got[0].Replacement) != abi.MaxReplacement {
		t.Errorf("%d bytes: %v", abi.MaxReplacement, err)
	}
	_, err := scan(m, strings.Repeat("x", abi.MaxReplacement+1))
	wantErr(t, err, ErrReplacement) // though it is less than twice the window
}

func TestStatusCarriesTheAuthorsText(t *testing.T) {
	m := load(t, guest{scan: cat(host("put", i32(0), i32(textAt), i32(11)), drop, i32(70))}, nil)
	_, err := scan(m, "x")
	var se *StatusError
	if !errors.As(err, &se) || se.Status != 70 || se.Text != "replacement" {
		t.Fatalf("error %v", err)
	}
	want := `module "mod", yett_scan: guest returned an error: status 70: replacement`
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestDirtyUpperHalves(t *testing.T) {
	m := load(t, finder(), nil)
	in, err := m.start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	const dirt = 0xdeadbeef << 32
	c := loose(in, scanning)
	c.window = 5
	c.emit([]uint64{dirt | kindAt, dirt | kindLen, dirt | 1, dirt | 2, dirt | uint64(math.Float32bits(0.25)), dirt | 4,
		dirt | 2, dirt | textAt, dirt | 11})
	want := sdk.Finding{Kind: "TEST_KIND", Scanner: "mod", Start: 1, End: 2, Confidence: 0.25, Severity: sdk.Critical,
		Suggested: sdk.Replace, Replacement: "replacement"}
	if !reflect.DeepEqual(c.findings, []sdk.Finding{want}) {
		t.Errorf("emit: %+v", c.findings)
	}
	c = loose(in, checking)
	c.decide([]uint64{dirt | 2, dirt | kindAt, dirt | kindLen, dirt | textAt, dirt | 11, dirt | 9})
	if c.verdict.Effect != sdk.Deny || c.verdict.TTL != millis(9) || c.verdict.Reason != "replacement" {
		t.Errorf("decide: %+v", c.verdict)
	}
	c.put([]uint64{dirt | abi.SlotError, dirt | textAt, dirt | 11})
	if string(c.puts[abi.SlotError]) != "replacement" {
		t.Errorf("put: %q", c.puts[abi.SlotError])
	}
	c.writeLog([]uint64{dirt | 1, dirt | textAt, dirt | 11})
	if len(c.log.lines) != 1 || c.log.lines[0] != (logLine{1, "replacement"}) {
		t.Errorf("log: %+v", c.log)
	}
	for _, f := range wasiFuncs {
		if f.name != "proc_exit" {
			a := []uint64{dirt, dirt | scratchAt, dirt, dirt | scratchAt}
			f.run(c, a) // a fault would panic
			if a[0] > 0xffff {
				t.Errorf("%s answers %#x", f.name, a[0])
			}
		}
	}
}

// TestWindowLayout has the guest report what it finds in its buffer: state, window, hits and flags.
func TestWindowLayout(t *testing.T) {
	// status = 1000 + what is asked for, selected by the first byte of the state
	report := func(expr []byte) guest { return guest{scan: cat(i32(1000), expr, add)} }
	w := Window{State: []byte("st"), Text: "abc!1234",
		Hits: []prefilter.Hit{{Trigger: 0, Offset: 3}, {Trigger: 1, Offset: 4}}, Complete: true,
		Flags: abi.FlagFirst | abi.FlagStream}
	for _, c := range []struct {
		name string
		expr []byte
		want uint32
	}{
		{"state length", get(0), 2},
		{"window length", get(1), 8},
		{"flags", get(2), 2<<abi.HitShift | abi.FlagFirst | abi.FlagStream | abi.FlagUTF8 | abi.FlagHitsComplete},
		{"state byte", cat(i32(bufferAt+1), load8), 't'},
		{"window byte", cat(i32(bufferAt+2), load8), 'a'},
		{"hit 0 trigger", loadAt(bufferAt + 12), 0},
		{"hit 0 offset", loadAt(bufferAt + 16), 3},
		{"hit 1 trigger", loadAt(bufferAt + 20), 1},
		{"hit 1 offset", loadAt(bufferAt + 24), 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, report(c.expr), nil).ScanWindow(context.Background(), w)
			var se *StatusError
			if !errors.As(err, &se) || se.Status != 1000+c.want {
				t.Errorf("got %v, want %d", err, 1000+c.want)
			}
		})
	}
}

func TestBadWindowsAreRefused(t *testing.T) {
	m := load(t, finder(), func(s *Spec) { s.Memory = 4 << 16 })
	for name, w := range map[string]Window{
		"state":       {State: make([]byte, abi.MaxState+1)},
		"text":        {Text: strings.Repeat("x", 4<<16+1)},
		"own flags":   {Flags: abi.FlagUTF8},
		"hit flags":   {Flags: 1 << abi.HitShift},
		"hit offset":  {Text: "x", Hits: []prefilter.Hit{{Offset: 2}}},
		"hit trigger": {Text: "x", Hits: []prefilter.Hit{{Trigger: 2}}},
	} {
		_, err := m.ScanWindow(context.Background(), w)
		if !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := scan(m, strings.Repeat("x", bufferMax))
	wantErr(t, err, ErrBuffer)
	_, err = m.Check(context.Background(), &chain.Call{})
	wantErr(t, err, ErrNoExport)
	_, err = scan(load(t, guest{check: i32(0)}, nil), "x")
	wantErr(t, err, ErrNoExport)
}

func TestStreamState(t *testing.T) {
	// The next state is the window; annotations are the state.
	m := load(t, guest{scan: cat(
		host("put", i32(2), cat(i32(bufferAt), get(0), add), get(1)), drop,
		host("put", i32(3), i32(bufferAt), get(0)), drop, i32(0))}, nil)
	r, err := m.ScanWindow(context.Background(),
		Window{State: []byte("0"), Text: `"one"`, Flags: abi.FlagFirst | abi.FlagStream})
	if err != nil || string(r.State) != `"one"` || string(r.Annotations) != "0" {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err = m.ScanWindow(context.Background(), Window{State: r.State, Text: "two", Flags: abi.FlagStream})
	if err != nil || string(r.State) != "two" || string(r.Annotations) != `"one"` {
		t.Fatalf("%+v, %v", r, err)
	}
	_, err = m.ScanWindow(context.Background(), Window{Text: strings.Repeat("x", abi.MaxState+1), Flags: abi.FlagStream})
	wantErr(t, err, ErrPut)
}
