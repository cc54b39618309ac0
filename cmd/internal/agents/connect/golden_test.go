package connect

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/jsontext"
	"github.com/yett-dev/yett/cmd/internal/agents/swap"
	"github.com/yett-dev/yett/cmd/internal/agents/tomltext"
	"github.com/yett-dev/yett/cmd/internal/cli"
)

// TestGolden holds what is written into new files of every agent. The guard lines are package hook's, which holds them.
func TestGolden(t *testing.T) {
	for _, s := range sites() {
		s.places = Places{Home: "/u", Etc: "/machine", Project: "/p"}
		c := hook.Command{Yett: "/usr/bin/yett", Timeout: "/usr/bin/timeout"}
		edits, err := s.edits(c)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		for _, e := range edits {
			text, _, err := e.put(nil)
			if err != nil {
				t.Fatal(err)
			}
			if s.agent == hook.OpenCode { // package hook holds the plugin's own text
				text = append(bytes.Join(bytes.SplitAfter(text, []byte("\n"))[:8], nil), "…\n"...)
			}
			c.Config = s.hookFile()
			for _, ev := range eventsOf[s.agent] {
				line, err := hook.Guard(s.agent, ev.phase, c)
				if err != nil {
					t.Fatal(err)
				}
				name := []byte("guard line " + ev.phase.String())
				for _, form := range []string{string(jsontext.CompactOf(line)), tomltext.String(line), line} {
					text = bytes.ReplaceAll(text, []byte(form), name)
				}
			}
			fmt.Fprintf(&got, "-- %s %v --\n%s", e.path, e.mode, text)
			if s.agent == hook.Cursor && bytes.Contains(text, []byte("//")) {
				t.Error("Cursor cuts lines at two slashes")
			}
		}
		file := filepath.Join("testdata", string(s.agent)+"-"+string(s.scope)+".golden")
		if os.Getenv("GOLDEN") == "write" {
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s has changed: run GOLDEN=write go test and read the difference (%v)\ngot:\n%s", file, err, got.Bytes())
		}
	}
}

func TestDiff(t *testing.T) {
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	for name, row := range map[string]struct {
		before, after string
		missing, gone bool
		want          string
	}{
		"same":    {before: ten, after: ten, want: ""},
		"new":     {missing: true, after: "a\nb\n", want: "--- /dev/null\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"removed": {before: "a\n", gone: true, want: "--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"},
		"middle": {before: ten, after: strings.Replace(ten, "5\n", "five\n", 1),
			want: "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"},
		"both ends": {before: ten, after: "0\n" + ten + "11", want: "--- f\n+++ f\n@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n" +
			"@@ -8,3 +9,4 @@\n 8\n 9\n 10\n+11\n\\ No newline at end of file\n"},
		"near": {before: "1\n2\n3\n", after: "1\nx\n2\n3\ny\n", want: "--- f\n+++ f\n@@ -1,3 +1,5 @@\n 1\n+x\n 2\n 3\n+y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &swap.File{Exists: !row.missing, Text: []byte(row.before)}
			if got := unified("f", f, []byte(row.after), !row.gone); got != row.want {
				t.Errorf("got\n%s\nexpected\n%s", got, row.want)
			}
		})
	}
}

// With Print nothing is written, and no key is made.
func TestPrint(t *testing.T) {
	for _, s := range sites() {
		b := newBench(t, s.agent, s.scope)
		before := b.snapshot()
		b.r.Print = true
		res := b.connect()
		if after := b.snapshot(); after != before || b.gate.made > 0 {
			t.Errorf("%s %s changed\n%s\nto\n%s", s.agent, s.scope, before, after)
		}
		for _, f := range res.Files {
			if f.Change != "created" || !strings.HasPrefix(f.Diff, "--- /dev/null\n+++ "+f.Path+"\n@@ -0,0 +1,") {
				t.Errorf("%+v", f)
			}
		}
		b.r.Print = false
		b.connect()
		connected := b.snapshot()
		b.r.Print = true
		if res := b.undo(); b.snapshot() != connected || len(res.Files) == 0 || res.Hook != "removed" ||
			!strings.Contains(res.Files[0].Diff, "+++ /dev/null\n") {
			t.Errorf("undo: %+v", res)
		}
		if res := b.connect(); res.Hook != "unchanged" || res.Files[0].Diff != "" {
			t.Errorf("again: %+v", res)
		}
	}
}

// What is told never holds the key, and names every file.
func TestText(t *testing.T) {
	for _, s := range sites() {
		b := newBench(t, s.agent, s.scope)
		res := b.connect()
		var out bytes.Buffer
		if err := res.Text(&out, false, false, false); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, f := range append(res.Files, FileResult{Path: res.HookFile}) {
			if !strings.Contains(text, f.Path) {
				t.Errorf("%s is not named in\n%s", f.Path, text)
			}
		}
		if advisory := strings.Contains(text, "These hooks are advisory"); advisory != (s.scope != Managed) {
			t.Errorf("%s %s: advisory %v in\n%s", s.agent, s.scope, advisory, text)
		}
		if strings.Contains(text, "value-of-") || !strings.Contains(text, "key_1") || !strings.Contains(text, "Next: ") {
			t.Errorf("unexpected text\n%s", text)
		}
		for _, g := range hook.Gaps(s.agent) {
			if told := strings.Contains(text, g.What); told == (s.scope == Managed && closedHere(g)) {
				t.Errorf("%s %s: %q is told: %v", s.agent, s.scope, g.What, told)
			}
		}
	}
}

// The command refuses what makes no sense before it looks at any file. No row here may reach one.
func TestCommandRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"":                                  "accepts 1 arg",
		"emacs":                             "unknown agent",
		"codex --user --project":            "give one of --user, --project and --managed",
		"codex --group x":                   "--group needs --managed",
		"codex --data a --config b":         "not both",
		"codex --socket /a --url https://x": "give --socket or --url",
		"codex --pin sha256/x":              "--pin needs --url",
		"codex --no-key --key-file x":       "--no-key works over a socket only",
		"codex --agent-id a/b":              "--agent-id",
		"windsurf --wrap":                   "cannot change a command",
		"copilot --wrap":                    "asks its user",
		"codex -o xml":                      "-o xml",
		"codex --key-file /nowhere/x":       "--key-file",
	} {
		cmd := Command(Options{Gateway: func(data, config string) (Gateway, error) {
			if data != "" && config != "" {
				return nil, cli.Usage("give --data or --config, not both")
			}
			return nil, fmt.Errorf("no gateway")
		}})
		root := &cobra.Command{Use: "yett"}
		root.AddCommand(cmd)
		var out, errs bytes.Buffer
		code := cli.Run(context.Background(), root, append([]string{"connect"}, strings.Fields(line)...), nil, &out, &errs)
		if code == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: %d %q, expected %q", line, code, errs.String(), want)
		}
	}
}

// Places that tests must not touch are refused, so no test can change the real ones.
func TestForbidden(t *testing.T) {
	b := newBench(t, hook.Codex, User)
	for _, dir := range forbidden {
		b.r.Places.Home = dir
		if _, err := Connect(t.Context(), b.r); err == nil || !strings.Contains(err.Error(), "must not be touched") {
			t.Errorf("%s: %v", dir, err)
		}
		if _, err := Undo(t.Context(), b.r); err == nil || !strings.Contains(err.Error(), "must not be touched") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// FuzzPut puts hooks into any text and takes them out: what is taken still reads as it did.
func FuzzPut(f *testing.F) {
	for _, s := range []string{"", "{}", `{"hooks":{"PreToolUse":[]}}`, "{\n\t\"a\": 1, // b\n}", "a = 1\n[hooks]\n",
		"[[hooks.PreToolUse]]\nhooks = []\n",
		"{\"hooks\":{\"PreToolUse\":[{\"hooks\":[{\"command\":\"yett hook codex\"},{}]}]}}",
		"hooks.a = 1", "\ufeff{}"} {
		for agent := range hook.Agents() {
			f.Add([]byte(s), uint8(agent))
			f.Add([]byte(s), uint8(agent)|128)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, which uint8) {
		agent := hook.Agents()[int(which)%len(hook.Agents())]
		lines := map[string]string{}
		for _, e := range eventsOf[agent] {
			lines[e.name] = "/b/yett hook " + string(agent) + " --config /c"
		}
		var e editor = site{agent: agent, scope: User}.jsonFile(lines)
		if which >= 128 {
			e = &tomlFile{lines: lines, only: true, undo: "undo"}
		} else if eventsOf[agent] == nil || agent == hook.Cline {
			return
		}
		clean, err := e.take(text, nil)
		if err != nil {
			return
		}
		out, _, err := e.put(text)
		if err != nil {
			return
		}
		again, _, err := e.put(out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q became %q and then %q: %v", text, out, again, err)
		}
		back, err := e.take(out, e.made(clean))
		if err != nil {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		if twice, err := e.take(back, nil); err != nil || !bytes.Equal(twice, back) {
			t.Fatalf("%q became %q: something of ours is left", text, back)
		}
		switch x := e.(type) {
		case *tomlFile:
			if !bytes.Equal(back, clean) {
				t.Fatalf("%q became %q and then %q, expected %q", text, out, back, clean)
			}
		case *jsonFile:
			was, err := x.root(clean)
			now, backErr := x.root(back)
			if err != nil || backErr != nil || was.Root != nil && !bytes.Equal(was.Compact(was.Root), now.Compact(now.Root)) {
				t.Fatalf("%q became %q and then %q, expected %q", text, out, back, clean)
			}
		}
	})
}

// The home directory is the user database's, whatever HOME says.
func TestHomeOfUser(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	p, err := placesOf(&Request{Agent: hook.Codex, Scope: User, UID: os.Getuid()})
	if err != nil || p.Etc != "/etc" || !filepath.IsAbs(p.Home) || strings.HasPrefix(p.Home, os.TempDir()) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := placesOf(&Request{Agent: hook.Codex, Scope: User, UID: 1 << 30}); err == nil {
		t.Errorf("an unknown user lives in %+v", p)
	}
}
