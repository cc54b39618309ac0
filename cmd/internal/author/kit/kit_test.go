package kit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk/abi"
)

// TestMain is also the process in which modules are admitted: the host starts its own binary again.
func TestMain(m *testing.M) {
	is, err := host.Child(os.Args[1:], os.Stdin, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case !is:
		os.Exit(m.Run())
	}
}

// strictInit takes {} for the module called "m" and nothing that is longer.
func strictInit() []byte {
	empty := len(`{"abi":1,"name":"m","config":{}}`)
	return wasmgen.Cat(wasmgen.Get(0), wasmgen.I32(empty), wasmgen.GtU)
}

func meta(triggers, stream string) string {
	return `{"name":"test","version":"1.2.3","abi":1,"kinds":[{"name":"TEST_KIND","severity":3}],"stream":` + stream +
		`,"needs":{},"triggers":` + triggers + `}`
}

const (
	noStream  = `{"mode":"none"}`
	oneByte   = `{"mode":"window","lookbehind":1}`
	markFirst = `[{"literal":"!"}]`
)

// honest finds every "!" and declares it.
func honest() wasmgen.Guest {
	return wasmgen.Guest{Locals: 4, Scan: wasmgen.FindBody(), Init: strictInit(), Meta: meta(markFirst, oneByte)}
}

func module(g wasmgen.Guest) Module {
	return Module{Name: "m", Path: "m.wasm", Code: g.Encode()}
}

func parse(t *testing.T, text string) []*Vectors {
	t.Helper()
	v, err := ParseVectors("v.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return []*Vectors{v}
}

const honestVectors = `
vectors:
  - {name: none, text: quiet, findings: []}
  - {name: one, text: "a!b", findings: [{kind: TEST_KIND, start: 1, end: 2, text: "!", confidence: 0.5, severity: high, action: redact}]}
  - {name: bytes, base64: "/yE=", findings: [{kind: TEST_KIND, start: 1, end: 2, severity: 3}]}
  - {name: many, repeat: {text: "!.", times: 3}, findings: [{kind: TEST_KIND, start: 0, end: 1}, {kind: TEST_KIND, start: 2, end: 3}, {kind: TEST_KIND, start: 4, end: 5}]}
  - {name: config, config: {x: 1}, error: refused}
`

func TestVectorsRun(t *testing.T) {
	rep, err := Settings{}.Test(context.Background(), module(honest()), parse(t, honestVectors))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Results {
		if !r.OK {
			t.Errorf("%s: %+v", r.Name, r.Problems)
		}
	}
	if !rep.OK || rep.Version != "1.2.3" || rep.Digest != pin.Digest(honest().Encode()) || rep.Results[3].Cuts != 5 ||
		rep.Results[3].Runs < 5 {
		t.Errorf("%+v", rep)
	}
}

// TestVectorsFail: each way of running a vector sees what the others do not.
func TestVectorsFail(t *testing.T) {
	wants := func(text string) string {
		return "vectors:\n  - " + text + "\n  - {name: other, text: '!', error: status}\n"
	}
	find := `{name: v, text: "a!", findings: [{kind: TEST_KIND, start: 1, end: 2}]}`
	edit := func(change func(*wasmgen.Guest)) wasmgen.Guest { g := honest(); change(&g); return g }
	for _, c := range []struct {
		name    string
		guest   wasmgen.Guest
		vectors string
		run     string // of the first problem
		says    string
	}{
		{"missing", honest(), `{name: v, text: "a!", findings: [{kind: TEST_KIND, start: 0, end: 2}]}`, "whole", `missing    TEST_KIND 0–2 "a!"`},
		{"unexpected", honest(), `{name: v, text: "a!", findings: []}`, "whole", `unexpected TEST_KIND 1–2 "!" confidence 0.5 high redact`},
		{"confidence", honest(), `{name: v, text: "!", findings: [{kind: TEST_KIND, start: 0, end: 1, confidence: 0.25}]}`, "whole", "confidence 0.25"},
		{"severity", honest(), `{name: v, text: "!", findings: [{kind: TEST_KIND, start: 0, end: 1, severity: low}]}`, "whole", "low"},
		{"action", honest(), `{name: v, text: "!", findings: [{kind: TEST_KIND, start: 0, end: 1, action: deny}]}`, "whole", "deny"},
		{"replacement", honest(), `{name: v, text: "!", findings: [{kind: TEST_KIND, start: 0, end: 1, replacement: x}]}`, "whole", `replacement "x"`},
		{"no status", honest(), `{name: v, text: "!", error: status}`, "whole", "want a status"},
		{"taken config", edit(func(g *wasmgen.Guest) { g.Init = nil }), `{name: v, config: {a: b}, error: refused}`, "load", "want it refused"},
		{"untold trigger", edit(func(g *wasmgen.Guest) { g.Meta = meta(`[{"literal":"?"}]`, noStream) }), find, "prefiltered", `missing    TEST_KIND 1–2 "!"`},
		{"trap", edit(func(g *wasmgen.Guest) { g.Scan = wasmgen.Unreachable }), find, "whole", "guest trapped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := Settings{}.Test(context.Background(), module(c.guest), parse(t, wants(c.vectors)))
			if err != nil {
				t.Fatal(err)
			}
			first := rep.Results[0]
			if rep.OK || first.OK || first.Problems[0].Run != c.run ||
				!strings.Contains(strings.Join(first.Problems[0].Diff, "\n"), c.says) {
				t.Errorf("%+v", first)
			}
		})
	}
}

// narrow finds "!" only where it is not the first byte of the window: as a stream that depends on the cut.
func narrow() []byte {
	return wasmgen.Cat(wasmgen.I32(1), wasmgen.Set(wasmgen.FindLocal), wasmgen.Block, wasmgen.Loop,
		wasmgen.Get(wasmgen.FindLocal), wasmgen.Get(1), wasmgen.GeU, wasmgen.BrIf(1),
		wasmgen.ByteAt(), wasmgen.I32('!'), wasmgen.Eq, wasmgen.If, wasmgen.EmitMark(), wasmgen.End,
		wasmgen.Get(wasmgen.FindLocal), wasmgen.I32(1), wasmgen.Add, wasmgen.Set(wasmgen.FindLocal), wasmgen.Br(0),
		wasmgen.End, wasmgen.End, wasmgen.I32(0))
}

// stateful works on pieces alone, so that narrow misses one that begins with "!".
func TestStreamsAreCut(t *testing.T) {
	g := honest()
	g.Scan, g.Meta = narrow(), meta(markFirst, `{"mode":"stateful"}`)
	rep, err := Settings{}.Test(context.Background(), module(g),
		parse(t, `vectors: [{name: v, text: "ab!", findings: [{kind: TEST_KIND, start: 2, end: 3}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	if p := rep.Results[0].Problems; len(p) != 2 || p[0].Run != "stream cut at byte 2" ||
		p[1].Run != "stream byte by byte" {
		t.Errorf("%+v", rep.Results[0])
	}
	long := strings.Repeat("a", 3000) + "!" + strings.Repeat("a", 3000)
	rep, err = Settings{}.Test(context.Background(), module(g),
		parse(t, `vectors: [{name: v, text: "`+long+`", findings: [{kind: TEST_KIND, start: 3000, end: 3001}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	if r := rep.Results[0]; r.OK || r.Problems[0].Run != "stream cut at byte 3000" || len(r.Notes) != 1 {
		t.Errorf("a long text: %+v", r)
	}
}

// TestConformance: an honest module is fit, and each fault is seen by the check that is about it.
func TestConformance(t *testing.T) {
	testkit.Long(t, "it compiles modules")
	emits := func(change func(*wasmgen.Emission)) []byte {
		return wasmgen.Cat(wasmgen.Get(1), wasmgen.If, wasmgen.Spoilt(change), wasmgen.Drop, wasmgen.End, wasmgen.I32(0))
	}
	for _, c := range []struct {
		name  string
		guest func(*wasmgen.Guest)
		check string // that fails; "" for none
		says  string
	}{
		{"honest", func(*wasmgen.Guest) {}, "", ""},
		{"honest, without triggers", func(g *wasmgen.Guest) { g.Meta = meta("[]", noStream) }, "", ""},
		{"honest, without triggers, in windows", func(g *wasmgen.Guest) { g.Meta = meta("[]", oneByte) }, "", ""},
		{"trap at once", func(g *wasmgen.Guest) { g.Scan = wasmgen.Unreachable }, "admission", "trapped"},
		{"no metadata", func(g *wasmgen.Guest) { g.Meta = "-" }, "admission", "neither a custom section"},
		{"any config", func(g *wasmgen.Guest) { g.Init = nil }, "config", "is taken"},
		{"status always", func(g *wasmgen.Guest) { g.Scan = wasmgen.I32(64) }, "empty input", "status 64"},
		{"unsupported always", func(g *wasmgen.Guest) { g.Scan = wasmgen.I32(2) }, "does", "neither"},
		{"undeclared kind", func(g *wasmgen.Guest) {
			g.Scan = emits(func(e *wasmgen.Emission) { e.Kind, e.KindLen = wasmgen.UndeclaredAt, 10 })
		}, "admission", "undeclared kind"},
		{"dishonest triggers", func(g *wasmgen.Guest) { g.Meta = meta(`[{"literal":"zebra"}]`, noStream) }, "triggers", "missing TEST_KIND"},
		{"depends on the cut", func(g *wasmgen.Guest) { g.Scan, g.Meta = narrow(), meta(markFirst, `{"mode":"stateful"}`) }, "streams", "missing TEST_KIND"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := honest()
			c.guest(&g)
			rep, err := Settings{}.Check(context.Background(), module(g), nil, parse(t, honestVectors))
			if err != nil {
				t.Fatal(err)
			}
			if c.check == "" {
				if !rep.Fit || rep.Metadata == nil || len(rep.Checks) < 10 {
					t.Errorf("%+v", rep)
				}
				return
			}
			if rep.Fit || !strings.HasPrefix(rep.Reason, c.check+": ") || !strings.Contains(rep.Reason, c.says) {
				t.Errorf("%+v, want %s: …%s…", rep, c.check, c.says)
			}
		})
	}
}

// decides answers every call with one effect.
func decides(effect int) []byte {
	return wasmgen.Cat(wasmgen.Host(abi.ImportDecide, wasmgen.I32(effect), wasmgen.I32(wasmgen.KindAt),
		wasmgen.I32(wasmgen.KindLen), wasmgen.I32(wasmgen.TextAt), wasmgen.I32(11), wasmgen.I32(0)),
		wasmgen.Drop, wasmgen.I32(0))
}

func TestAuthorizers(t *testing.T) {
	g := wasmgen.Guest{Check: decides(abi.EffectDeny), Init: strictInit(),
		Meta: `{"name":"a","version":"1","abi":1,"stream":{"mode":"none"},"needs":{}}`}
	rep, err := Settings{}.Check(context.Background(), module(g), nil, nil)
	if err != nil || !rep.Fit {
		t.Fatalf("%+v %v", rep, err)
	}
	trial, err := Settings{}.Test(context.Background(), module(g), parse(t, `
vectors:
  - {name: right, call: {tool_id: pay, args: {amount: 1e3}}, decision: {effect: deny, code: TEST_KIND, reason: replacement, ttl_ms: 0}}
  - {name: effect, call: {}, decision: {effect: permit}}
  - {name: code, call: {}, decision: {effect: deny, code: OTHER}}
  - {name: reason, call: {}, decision: {effect: deny, reason: other}}
  - {name: ttl, call: {}, decision: {effect: deny, ttl_ms: 5}}
  - {name: status, call: {}, error: status}
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range trial.Results {
		if r.OK != (i == 0) || r.Runs != 3 {
			t.Errorf("%+v", r)
		}
	}
}

func TestPackage(t *testing.T) {
	ctx := context.Background()
	doc := meta(markFirst, oneByte)
	g := honest()
	g.Meta, g.Doc = "-", doc
	g.Describe = wasmgen.Host(abi.ImportPut, wasmgen.I32(abi.SlotMetadata), wasmgen.I32(wasmgen.DocAt),
		wasmgen.I32(len(doc)))
	g.Edit = func(m *wasmgen.Module) { m.Customs = []wasmgen.Custom{{Name: "name", Body: "built at /somewhere"}} }
	p, err := Settings{}.Package(ctx, module(g), nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Settings{}.Package(ctx, Module{Name: "x", Code: p.Code}, nil)
	if err != nil || string(again.Code) != string(p.Code) {
		t.Errorf("packed twice it differs: %v", err)
	}
	if strings.Contains(string(p.Code), "somewhere") ||
		!strings.Contains(string(p.Code), `{"abi":1,"kinds":[{"name":"TEST_KIND","severity":3}]`) ||
		p.Digest != pin.Digest(p.Code) {
		t.Errorf("%q", p.Code[max(0, len(p.Code)-400):])
	}
	bare, err := withSection(g.Encode(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string][]byte{"nothing": nil, "text": []byte("hello"), "cut off": g.Encode()[:200],
		"no metadata": bare[:len(bare)-1]} {
		if _, err := (Settings{}).Package(ctx, Module{Name: "m", Code: code}, nil); err == nil {
			t.Errorf("%s is packaged", name)
		}
	}
}

func FuzzWithSection(f *testing.F) {
	f.Add(honest().Encode())
	f.Add([]byte(preamble + "\x00\x80\x80\x80\x80\x00"))
	f.Fuzz(func(t *testing.T, code []byte) {
		out, err := withSection(code, "x", []byte("y"))
		if err != nil {
			return
		}
		again, err := withSection(out, "x", []byte("y"))
		if err != nil || string(again) != string(out) {
			t.Fatalf("%v: %x, %x", err, out, again)
		}
	})
}

func TestBench(t *testing.T) {
	ticks := time.Unix(0, 0)
	now := func() time.Time { ticks = ticks.Add(10 * time.Millisecond); return ticks }
	rep, err := Settings{}.Bench(context.Background(), module(honest()), nil, "", now)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Rows) != 8 || rep.Rows[0].Called || rep.Rows[0].Findings != 0 || !rep.Rows[4].Called ||
		rep.Rows[4].Findings == 0 ||
		rep.Rows[4].HostCalls != rep.Rows[4].Findings || rep.Rows[4].Fuel == 0 || rep.Rows[4].CallUS != 10_000 ||
		rep.Start.MemoryBytes == 0 {
		t.Errorf("%+v", rep)
	}
}

func TestRun(t *testing.T) {
	for text, want := range map[string]int{"": 0, "quiet": 0, "a!b!": 2} {
		found, called, err := Settings{}.Run(context.Background(), module(honest()), nil, text)
		if err != nil || len(found) != want || called != (want > 0) {
			t.Errorf("%q: %v %v %v", text, found, called, err)
		}
	}
	if _, _, err := (Settings{}).Run(context.Background(), module(honest()), json.RawMessage(`{"a":1}`),
		"x"); !host.IsConfig(err) {
		t.Errorf("a refused configuration: %v", err)
	}
}

func TestReadModule(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.wasm")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, abi.MaxModule+1); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{dir: "not a regular file", filepath.Join(dir, "none"): "no such file",
		large: "at most 16777216"} {
		if _, err := ReadModule(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, want := range map[string]string{"a/b c.wasm": "b-c", "/": "module", "_x": "x", "é.wasm": "module",
		strings.Repeat("n", 80): strings.Repeat("n", 64)} {
		if got := hostName(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestVectorMistakes(t *testing.T) {
	one := func(v string) string { return "vectors:\n  - " + v }
	for _, c := range []struct{ text, want string }{
		{"", "v.yaml:1: the file is empty"},
		{"vectors: [", "v.yaml:1: not YAML: did not find expected node content"},
		{"- a", "v.yaml:1: want a mapping with some of config, vectors"},
		{"vectors: []", "v.yaml:1: vectors: want a list with at least one vector"},
		{"vector: []", `v.yaml:1: "vector": unknown key, want one of config, vectors`},
		{"config: {}\nconfig: {}\n", `v.yaml:2: "config" is given twice`},
		{"config: 1\n", "v.yaml:1: want a mapping"},
		{one("{name: a, text: x, findings: []}\n---\na: b"), "v.yaml:1: the file has more than one document"},
		{one("{name: a, text: x}"), `v.yaml:2: "a": want exactly one of findings ([] for none), decision and error`},
		{one("{text: x, findings: []}"), "v.yaml:2: name is missing"},
		{one("{name: a, findings: []}"), `v.yaml:2: "a": want exactly one of text, base64, repeat and call`},
		{one("{name: a, text: x, base64: eA==, findings: []}"), `v.yaml:2: "a": want exactly one of text, base64, repeat and call`},
		{one("{name: a, text: 12, findings: []}"), "v.yaml:2: want a string; put it in quotes"},
		{one("{name: a, base64: '!', findings: []}"), "v.yaml:2: not base64: illegal base64 data at input byte 0"},
		{one("{name: a, repeat: {text: x}, findings: []}"), "v.yaml:2: repeat: want text and times, 0 or more"},
		{one("{name: a, repeat: {text: xx, times: 99999999}, findings: []}"), "v.yaml:2: repeat: 99999999 times 2 bytes is more than 67108864"},
		{one("{name: a, text: x, error: crash}"), "v.yaml:2: want one of refused, status"},
		{one("{name: a, text: x, findings: [{start: 0, end: 1}]}"), "v.yaml:2: kind is missing"},
		{one("{name: a, text: x, findings: [{kind: K, start: 0, end: 2}]}"), "v.yaml:2: start 0 and end 2: want 0 ≤ start < end ≤ 1, the bytes of the text"},
		{one("{name: a, text: x, findings: [{kind: K, start: 1, end: 0}]}"), "v.yaml:2: start 1 and end 0: want 0 ≤ start < end ≤ 1, the bytes of the text"},
		{one("{name: a, text: x, findings: [{kind: K, start: 1, end: 1}]}"), "v.yaml:2: start 1 and end 1: want 0 ≤ start < end ≤ 1, the bytes of the text"},
		{one("{name: a, text: x, findings: [{kind: K, start: 0, end: 1, text: y}]}"), `v.yaml:2: text: bytes 0–1 are "x", not "y"`},
		{one("{name: a, text: x, findings: [{kind: K, start: 0, end: 1, severity: bad}]}"), "v.yaml:2: want one of info, low, medium, high, critical, or 0 to 4"},
		{one("{name: a, text: x, findings: [{kind: K, start: 0, end: 1, severity: 5}]}"), "v.yaml:2: want one of info, low, medium, high, critical, or 0 to 4"},
		{one("{name: a, text: x, findings: [{kind: K, start: 0, end: 1, action: allow}]}"), "v.yaml:2: want one of flag, redact, replace, deny"},
		{one("{name: a, text: x, findings: [{kind: K, start: 0, end: 1, confidence: 2}]}"), "v.yaml:2: want a number from 0 to 1"},
		{one("{name: a, text: x, findings: []}\n  - {name: a, text: y, findings: []}"), `v.yaml:3: name: "a" is the name of the vector in line 2 too`},
		{one("{name: a, text: x, config: {a: &b 1, c: *b}, findings: []}"), "v.yaml:2: aliases are not allowed here: write the value out"},
		{one("{name: a, text: x, config: {a: 1, a: 2}, findings: []}"), `v.yaml:2: "a" is given twice`},
		{one("{name: a, text: x, config: {a: .nan}, findings: []}"), "v.yaml:2: .nan is no number in JSON"},
		{one("{name: a, call: {tool: x}, decision: {effect: deny}}"), "v.yaml:2: call.tool: unknown; a call has agent_id, session_id, tool_id, operation, call_id, args and context"},
		{one("{name: a, call: {tool_id: 1}, decision: {effect: deny}}"), "v.yaml:2: call.tool_id: a number does not fit"},
		{one("{name: a, call: {}, findings: []}"), `v.yaml:2: "a": findings are about a text, a decision is about a call`},
		{one("{name: a, call: {}, decision: {code: X}}"), "v.yaml:2: effect is missing"},
	} {
		_, err := ParseVectors("v.yaml", []byte(c.text))
		var at *VectorError
		if !errors.As(err, &at) || err.Error() != c.want {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestVectorsRead(t *testing.T) {
	v, err := ParseVectors("v.yaml", []byte("config: {a: 1.50, b: [true, null, 'x', 0x10, 2026-01-02], c: {d: "+
		"é}}\nvectors:\n  - {name: a, base64: /w==, findings: []}\n  - {name: b, config: {}, error: refused}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Vector{{Name: "a", Line: 3, Config: json.RawMessage(`{"a":1.50,"b":[true,null,"x",16,"2026-01-02"],"c":{"d":"é"}}`), Text: "\xff"},
		{Name: "b", Line: 4, Config: json.RawMessage(`{}`), Error: WantRefused}}
	if !reflect.DeepEqual(v.List, want) {
		t.Errorf("%+v", v.List)
	}
}

func FuzzParseVectors(f *testing.F) {
	f.Add([]byte(honestVectors))
	f.Add([]byte("vectors: [{name: a, call: {args: {x: 1}}, decision: {effect: deny}}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ParseVectors("v", text)
		var at *VectorError
		if err != nil && !errors.As(err, &at) {
			t.Fatalf("an error without a place: %v", err)
		}
		if err != nil {
			return
		}
		for _, one := range v.List {
			for _, w := range one.Findings {
				w.describe(one.Text)
			}
			if one.Config != nil && !json.Valid(one.Config) {
				t.Fatalf("config %s", one.Config)
			}
		}
	})
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{"a\x1b[31mb\n\xff\t": `a\u{1b}[31mb\n\xff\t`,
		strings.Repeat("é", 40): strings.Repeat("é", 20) + "…", base64.StdEncoding.EncodeToString(make([]byte, 3)): "AAAA"} {
		if got := Printable(text, 40); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestInstancesAreCompared: what another instance finds is held against the first one's findings, errors included.
func TestInstancesAreCompared(t *testing.T) {
	ctx := context.Background()
	st, err := (&Settings{}).stage(ctx, module(honest()))
	if err != nil {
		t.Fatal(err)
	}
	sub, err := st.with(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &conformance{stage: st, sub: sub, rep: &CheckReport{}}
	samples := []sample{{"quiet", "quiet"}, {"loud", "a!"}}
	right := []outcome{whole(ctx, sub.first, "quiet"), whole(ctx, sub.first, "a!")}
	if err := c.again(ctx, sub.second, samples, right); err != nil {
		t.Error(err)
	}
	for name, wrong := range map[string][]outcome{
		"unexpected": {right[0], {}}, "missing": {right[1], right[1]}, "no error": {right[0], {err: errors.New("late")}},
	} {
		if err := c.again(ctx, sub.second, samples, wrong); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := st.close(ctx); err != nil {
		t.Error(err)
	}
	if got := whole(ctx, sub.second, "x"); differ(got, right[0], "x") == "" {
		t.Error("an error passes for the same as no findings")
	}
}

// TestSchemaFaultsAskForNoSettings: settings cannot mend a schema, so nobody is told to give any.
func TestSchemaFaultsAskForNoSettings(t *testing.T) {
	if err := unset(nil, schemaFault{}); err == nil || strings.Contains(err.Error(), howToSet) {
		t.Errorf("an error of the schema: %v", err)
	}
	if err := unset(nil, &host.ConfigError{Err: errors.New("missing words")}); !strings.Contains(err.Error(), howToSet) {
		t.Errorf("an error of the settings: %v", err)
	}
}

type schemaFault struct{}

func (schemaFault) Error() string       { return "config_schema is odd" }
func (schemaFault) SchemaPlace() string { return "#/x" }
