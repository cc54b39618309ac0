package hook

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestGolden holds what each agent sends and is answered. A file has the input, its source in the first line, and
// perhaps changed arguments; the rest is written with GOLDEN=write.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) < 80 {
		t.Fatalf("expected the golden files of nine agents, got %d (%v)", len(files), err)
	}
	seen := map[Agent]bool{}
	for _, name := range files {
		t.Run(strings.TrimSuffix(name, ".txtar"), func(t *testing.T) {
			agent, err := ParseAgent(filepath.Base(filepath.Dir(name)))
			if err != nil {
				t.Fatal(err)
			}
			seen[agent] = true
			golden(t, agent, name)
		})
	}
	for _, a := range Agents() {
		if !seen[a] {
			t.Errorf("%s has no golden file", a)
		}
	}
}

func golden(t *testing.T, agent Agent, name string) {
	ar, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var stdin, args []byte
	for _, f := range ar.Files {
		switch f.Name {
		case "stdin":
			stdin = bytes.TrimSuffix(f.Data, []byte("\n"))
		case "args":
			args = bytes.TrimSuffix(f.Data, []byte("\n"))
		}
	}
	unrun := agent == Cursor || agent == VSCode || agent == Windsurf
	if unrun != strings.Contains(string(ar.Comment), "Not run.") {
		t.Errorf("the first line must say whether the agent was run, got %q", ar.Comment)
	}
	out := &txtar.Archive{Comment: ar.Comment, Files: []txtar.File{{Name: "stdin", Data: append(stdin, '\n')}}}
	if args != nil {
		out.Files = append(out.Files, txtar.File{Name: "args", Data: append(args, '\n')})
	}
	add := func(name, text string) { out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(text)}) }
	e, err := Read(agent, stdin)
	if err != nil {
		add("error", fmt.Sprintf("%s: %v\n", err.(*Error).Phase, err))
		add("refused", show(RefusalOf(agent, err)))
	} else {
		add("event", showEvent(e))
		for _, s := range scenes(e, args) {
			add(s.name, show(s.reply))
		}
		add("refused", show(Refusal(agent, e.Phase, "The gateway does not answer.")))
	}
	got := txtar.Format(out)
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed: run GOLDEN=write go test and read the difference\ngot:\n%s", name, got)
	}
}

type scene struct {
	name  string
	reply Reply
}

// scenes are all answers to one event.
func scenes(e *Event, args []byte) []scene {
	switch e.Phase {
	case Before:
		clean := scansOf(e, Pass)
		out := []scene{
			{"permit", e.Answer(Decision{Effect: Permit, Scans: clean})},
			{"permit and allow", e.Answer(Decision{Effect: Permit, Scans: clean, Allow: true})},
			{"deny", e.Answer(Decision{Text: "Denied by rule 'refunds' (dec_1)."})},
			{"wait", e.Answer(Decision{Effect: Wait, Text: "Waits for approval apr_1."})},
			{"ask", e.Answer(Decision{Effect: Ask, Text: "Waits for approval apr_1."})},
			{"suspend", e.Answer(Decision{Effect: Suspend, Text: "Waits for approval apr_1."})},
		}
		if args != nil {
			out = append(out, scene{"permit with args", e.Answer(Decision{Effect: Permit, Args: args, Scans: clean})})
		}
		if len(e.Outputs) > 0 {
			out = append(out,
				scene{"permit redacted", e.Answer(Decision{Effect: Permit, Scans: scansOf(e, Redacted)})},
				scene{"permit unscanned", e.Answer(Decision{Effect: Permit})})
		}
		return out
	case After, AfterBatch, Prompt:
		return []scene{
			{"pass", e.Scanned(scansOf(e, Pass))},
			{"warned", e.Scanned(scansOf(e, Warned))},
			{"redacted", e.Scanned(scansOf(e, Redacted))},
			{"denied", e.Scanned(scansOf(e, Denied))},
			{"unscanned", e.Scanned(nil)},
		}
	}
	return []scene{{"quiet", e.Quiet()}}
}

const secret = "SECRET"

// scansOf is what a scanner would say that finds the word SECRET: the verdict where it stands, Pass elsewhere.
func scansOf(e *Event, v Verdict) []Scan {
	out := make([]Scan, len(e.Outputs))
	for i, o := range e.Outputs {
		out[i].Verdict = Pass
		if !bytes.Contains(o.JSON, []byte(secret)) {
			continue
		}
		out[i].Verdict = v
		switch v {
		case Redacted:
			texts, err := Strings(o.JSON)
			if err != nil {
				continue
			}
			for j := range texts {
				texts[j] = strings.ReplaceAll(texts[j], secret, "[REDACTED]")
			}
			out[i].JSON, _ = PutBack(o.JSON, texts)
		case Denied:
			out[i].Notice = "Output withheld by rule 'keys'."
		case Warned:
			out[i].Notice = "This output may try to instruct you."
		}
	}
	return out
}

func show(r Reply) string {
	s := fmt.Sprintf("exit %d\n", r.Exit)
	if len(r.Stdout) > 0 {
		s += "stdout: " + string(r.Stdout) + "\n"
	}
	if len(r.Stderr) > 0 {
		s += "stderr: " + string(r.Stderr)
	}
	if r.Uncovered != "" {
		s += "uncovered: " + r.Uncovered + "\n"
	}
	return s
}

func showEvent(e *Event) string {
	s := fmt.Sprintf("%s %s\nsession: %s\n", e.Phase, e.Name, e.SessionID)
	for _, row := range [][2]string{{"subagent", e.Subagent}, {"call", e.CallID}, {"tool", e.Tool},
		{"args", string(e.Args)}, {"asked", string(e.Asked)}, {"context", string(e.Context)}, {"note", e.Note}} {
		if row[1] != "" {
			s += row[0] + ": " + row[1] + "\n"
		}
	}
	for _, o := range e.Outputs {
		s += fmt.Sprintf("output %s of %q: %s\n", o.At, o.Tool, o.JSON)
	}
	return s
}
