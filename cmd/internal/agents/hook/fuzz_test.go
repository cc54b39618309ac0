package hook

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/yett-dev/yett/sdk/exact"
)

func FuzzClaudeCode(f *testing.F) { fuzzRead(f, ClaudeCode) }
func FuzzCodex(f *testing.F)      { fuzzRead(f, Codex) }
func FuzzGemini(f *testing.F)     { fuzzRead(f, Gemini) }
func FuzzCopilot(f *testing.F)    { fuzzRead(f, Copilot) }
func FuzzCursor(f *testing.F)     { fuzzRead(f, Cursor) }
func FuzzVSCode(f *testing.F)     { fuzzRead(f, VSCode) }
func FuzzOpenCode(f *testing.F)   { fuzzRead(f, OpenCode) }
func FuzzCline(f *testing.F)      { fuzzRead(f, Cline) }
func FuzzWindsurf(f *testing.F)   { fuzzRead(f, Windsurf) }

// fuzzRead holds for any input: reading does not panic, what is not understood is refused in the agent's closed form,
// nothing but a Permit lets a call run, and no output is shown unless it passed.
func fuzzRead(f *testing.F, agent Agent) {
	files, err := filepath.Glob("testdata/" + string(agent) + "/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds for %s: %v", agent, err)
	}
	for _, name := range files {
		ar, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.TrimSuffix(ar.Files[0].Data, []byte("\n")))
	}
	f.Add([]byte(call(agent, Before, `{"n":1e400,"d":0.10,"s":"\ud834\udd1e"}`, "")))
	f.Add([]byte(call(agent, After, `{}`, `[{"type":"text","text":"SECRET"}]`)))
	f.Fuzz(func(t *testing.T, stdin []byte) {
		e, err := Read(agent, stdin)
		if err != nil {
			mistake, ok := err.(*Error)
			if !ok || e != nil {
				t.Fatalf("%T beside %v", err, e)
			}
			r := RefusalOf(agent, err)
			if why := closed(agent, mistake.Phase, r); why != "" || reasonless(r) {
				t.Fatalf("%s: %s", why, show(r))
			}
			return
		}
		switch e.Phase {
		case Before:
			fuzzCall(t, e)
		case Notice:
			if r := e.Quiet(); r.Exit != 0 || len(r.Stdout) > 2 {
				t.Fatalf("a notice is answered with %s", show(r))
			}
		case Unknown:
			t.Fatalf("an event without a phase: %s", showEvent(e))
		default:
			fuzzOutput(t, e)
		}
	})
}

func fuzzCall(t *testing.T, e *Event) {
	for _, d := range []Decision{{}, {Effect: Wait}, {Effect: Ask}, {Effect: Suspend}, {Effect: 7}} {
		d.Allow, d.Args, d.Scans = true, e.Args, scansOf(e, Pass)
		r := e.Answer(d)
		if r.Exit == 0 && asks(e.Agent, r) || e.Agent == Cursor && bytes.Contains(r.Stdout, []byte(`"permission":"ask"`)) {
			continue
		}
		if why := closed(e.Agent, Before, r); why != "" || reasonless(r) {
			t.Fatalf("effect %d: %s: %s", d.Effect, why, show(r))
		}
	}
	permit := e.Answer(Decision{Effect: Permit, Scans: scansOf(e, Pass)})
	if permit.Exit != 0 || len(permit.Stderr) != 0 {
		t.Fatalf("a permit is answered with %s", show(permit))
	}
	if len(e.Outputs) > 0 {
		if r := e.Answer(Decision{Effect: Permit}); closed(e.Agent, Before, r) != "" {
			t.Fatalf("a file that nobody scanned is read: %s", show(r))
		}
	}
	for what, json := range map[string][]byte{"args": e.Args, "asked": e.Asked, "context": e.Context} {
		var doc exact.Doc
		if err := doc.Parse(string(json), exact.DefaultLimits); err != nil || doc.Root().Kind() != exact.Object {
			t.Fatalf("%s: %v: %s", what, err, json)
		}
	}
	if len(e.Note) > MaxNote || len(e.CallID) > maxName || e.SessionID == "" || e.Tool == "" {
		t.Fatalf("not fit for the gateway: %s", showEvent(e))
	}
}

func fuzzOutput(t *testing.T, e *Event) {
	for _, o := range e.Outputs {
		if _, err := Strings(o.JSON); err != nil {
			t.Fatalf("output %s: %v", o.At, err)
		}
	}
	for _, scans := range [][]Scan{scansOf(e, Redacted), scansOf(e, Denied)} {
		hit := false
		for _, s := range scans {
			hit = hit || s.Verdict < Warned
		}
		r := e.Scanned(scans)
		if !hit {
			continue
		}
		if said, _ := Strings(r.Stdout); bytes.Contains(r.Stderr, []byte(secret)) || holds(said, secret) {
			t.Fatalf("the secret is shown: %s", show(r))
		}
		if r.Exit == 0 && len(r.Stdout) == 0 {
			t.Fatalf("no answer hides the output: %s", show(r))
		}
	}
	if len(e.Outputs) > 0 {
		if why := closed(e.Agent, e.Phase, e.Scanned(nil)); why != "" {
			t.Fatalf("%s: %s", why, show(e.Scanned(nil)))
		}
	}
}

func holds(texts []string, word string) bool {
	for _, s := range texts {
		if bytes.Contains([]byte(s), []byte(word)) {
			return true
		}
	}
	return false
}
