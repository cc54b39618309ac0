package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/jsontext"
	"pgregory.net/rapid"
)

// Others change a file after we did: an undo takes exactly our entries out.
func TestUndoAfterOthers(t *testing.T) {
	for name, row := range map[string]struct {
		agent         hook.Agent
		scope         Scope
		before, after string // missing where before is "-"
		change        func(s string) string
	}{
		"member in front": {hook.ClaudeCode, User, "{\n  \"a\": 1\n}\n", "{\n  \"z\": 0,\n  \"a\": 1\n}\n",
			func(s string) string { return strings.Replace(s, "{\n", "{\n  \"z\": 0,\n", 1) }},
		"hook behind ours": {hook.ClaudeCode, User, "-",
			"{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\"hooks\": [{\"type\": \"command\", " +
				"\"command\": \"theirs\"}]}\n    ]\n  }\n}\n",
			func(s string) string {
				theirs := "{\"hooks\": [{\"type\": \"command\", \"command\": \"theirs\"}]}"
				return strings.Replace(s, "\n    ],", ",\n      "+theirs+"\n    ],", 1)
			}},
		"nothing else left": {hook.ClaudeCode, User, "-", "-", func(s string) string { return s + "\n" }},
		"version is theirs": {hook.Copilot, User, "-", "{\n  \"version\": 1,\n  \"note\": \"mine\"\n}\n",
			func(s string) string {
				return strings.Replace(s, "\"version\": 1,", "\"version\": 1,\n  \"note\": \"mine\",", 1)
			}},
		"our hook is gone": {hook.Cursor, User, "{\n  \"version\": 1\n}\n", "{\n  \"version\": 1\n}\n",
			func(string) string { return "{\n  \"version\": 1\n}\n" }},
		"toml": {hook.Codex, Managed, "a = 1\n", "a = 1\n[b]\nc = 2\n", func(s string) string { return s + "[b]\nc = 2\n" }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, row.agent, row.scope)
			path := b.edits()[0].path
			if row.before != "-" {
				b.write(path, row.before)
			}
			b.connect()
			b.write(path, row.change(b.read(path)))
			res := b.undo()
			if row.after == "-" {
				if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the file is still there: %q", b.read(path))
				}
				return
			}
			got := b.read(path)
			if row.agent == hook.Copilot { // version stays where put and others wrote into the same object
				got = strings.Replace(got, "{\n  \"note\"", "{\n  \"version\": 1,\n  \"note\"", 1)
			}
			if got != row.after {
				t.Errorf("left %q\nexpected %q", got, row.after)
			}
			if row.change("x") != row.before && len(res.Notes) == 0 && row.before != row.after {
				t.Error("nothing was said about it")
			}
		})
	}
}

// Where nobody can say what is ours, nothing is changed.
func TestUndoRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		agent  hook.Agent
		scope  Scope
		change func(s string) string
		want   string
	}{
		"broken": {hook.ClaudeCode, User, func(s string) string { return s + "}" }, "more text behind the value"},
		"plugin": {hook.OpenCode, User, func(s string) string { return s + "// mine\n" }, "remove it by hand"},
		"script": {hook.Cline, User, func(s string) string { return s + "echo\n" }, "remove it by hand"},
		"into the block": {hook.Codex, Managed, func(s string) string {
			return strings.Replace(s, "# yett connect codex: end", "a = 1\n# yett connect codex: end", 1)
		}, "written into"},
		"below the block": {hook.Codex, Managed, func(s string) string { return s + "a = 1\n" }, "written into or directly below"},
		"half a block":    {hook.Codex, Managed, func(s string) string { return strings.Replace(s, "# yett connect codex: end", "", 1) }, "take the rest of the block out"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, row.agent, row.scope)
			b.connect()
			path := b.edits()[0].path
			b.write(path, row.change(b.read(path)))
			before := b.snapshot()
			_, err := Undo(t.Context(), b.r)
			if err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, expected %s: %q", err, path, row.want)
			}
			if after := b.snapshot(); after != before {
				t.Errorf("it changed\n%s\nto\n%s", before, after)
			}
		})
	}
}

// A new binary replaces our entries in place, and an undo still goes back to the start.
func TestUpdateInPlace(t *testing.T) {
	for _, s := range sites() {
		t.Run(string(s.agent)+"/"+string(s.scope), func(t *testing.T) {
			b := newBench(t, s.agent, s.scope)
			before := b.snapshot()
			b.connect()
			first := map[string]string{}
			for _, e := range b.edits() {
				first[e.path] = b.read(e.path)
			}
			oldYett := b.r.Command.Yett
			b.r.Command.Yett = b.path("bin/newer")
			b.program("bin/newer")
			b.connect()
			for path, text := range first {
				if want := strings.ReplaceAll(text, oldYett, b.r.Command.Yett); b.read(path) != want {
					t.Errorf("%s became\n%s\nexpected\n%s", path, b.read(path), want)
				}
			}
			b.undo()
			if err := os.Remove(b.r.Command.Yett); err != nil {
				t.Fatal(err)
			}
			if after := b.snapshot(); after != before {
				t.Errorf("an undo left\n%s\nexpected\n%s", after, before)
			}
			if b.gate.made != 1 || len(b.gate.live) != 0 {
				t.Errorf("keys: %d made, %v left", b.gate.made, b.gate.live)
			}
		})
	}
}

// Links stay links, and what they lead to keeps its permissions.
func TestLinks(t *testing.T) {
	b := newBench(t, hook.ClaudeCode, User)
	path := b.edits()[0].path
	b.write("dotfiles/claude.json", "{}\n")
	if err := errors.Join(os.Chmod(b.path("dotfiles/claude.json"), 0o640), os.MkdirAll(filepath.Dir(path), 0o755),
		os.Symlink("../../dotfiles/claude.json", path)); err != nil {
		t.Fatal(err)
	}
	before := b.snapshot()
	b.connect()
	info, err := os.Lstat(path)
	written := strings.Contains(b.read(b.path("dotfiles/claude.json")), "hook claude-code")
	if err != nil || info.Mode()&os.ModeSymlink == 0 || !written {
		t.Errorf("the link became %v: %v", info.Mode(), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the permissions became %v: %v", info.Mode(), err)
	}
	b.undo()
	if after := b.snapshot(); after != before {
		t.Errorf("an undo left\n%s\nexpected\n%s", after, before)
	}
}

// Codex wants its hooks in one kind of file.
func TestCodexChoice(t *testing.T) {
	hooks := "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ncommand = \"theirs\"\n"
	for name, row := range map[string]struct{ config, json, want, refused string }{
		"nothing": {want: "hooks.json"}, "no hooks": {config: "model = 'x'\n[hooks.state]\na = 1\n", want: "hooks.json"},
		"hooks": {config: hooks, want: "config.toml"}, "both": {config: hooks, json: "{}", want: "hooks.json"},
		"off": {config: "[features]\nhooks = false\n", refused: "hooks = false"}, "broken": {config: "a", refused: "config.toml: line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, hook.Codex, User)
			dir := b.path("home/.codex")
			for file, text := range map[string]string{"config.toml": row.config, "hooks.json": row.json} {
				if text != "" {
					b.write(filepath.Join(dir, file), text)
				}
			}
			before := b.snapshot()
			res, err := Connect(t.Context(), b.r)
			if row.refused != "" {
				if err == nil || !strings.Contains(err.Error(), row.refused) {
					t.Errorf("%v, expected %q", err, row.refused)
				}
				return
			}
			if err != nil || res.Files[0].Path != filepath.Join(dir, row.want) {
				t.Fatalf("%+v, %v", res, err)
			}
			if row.want == "config.toml" && strings.Contains(b.read(filepath.Join(dir, row.want)), onlyKey) {
				t.Error("a user's file says what managed hooks may")
			}
			b.write(filepath.Join(dir, "later"), "")
			if err := os.Remove(filepath.Join(dir, "later")); err != nil {
				t.Fatal(err)
			}
			b.undo()
			if after := b.snapshot(); row.config+row.json != "" && after != before {
				t.Errorf("an undo left\n%s\nexpected\n%s", after, before)
			}
		})
	}
}

// Codex's hooks stay in the file where they are, also when somebody makes the other one.
func TestCodexStays(t *testing.T) {
	b := newBench(t, hook.Codex, User)
	b.write("home/.codex/config.toml", "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ncommand = \"theirs\"\n")
	b.connect()
	b.write("home/.codex/hooks.json", "{}")
	before := b.snapshot()
	res := b.connect()
	if after := b.snapshot(); after != before || res.Files[0].Change != "unchanged" {
		t.Errorf("%+v changed\n%s\nto\n%s", res, before, after)
	}
}

// What others write below our block stays there: the block is not moved behind it.
func TestBlockStays(t *testing.T) {
	b := newBench(t, hook.Codex, Managed)
	b.connect()
	path := b.edits()[0].path
	b.write(path, b.read(path)+"[b]\nc = 2\n")
	text := b.read(path)
	if res := b.connect(); b.read(path) != text || res.Files[0].Change != "unchanged" {
		t.Errorf("%+v: %q\nbecame %q", res, text, b.read(path))
	}
	b.undo()
	if got := b.read(path); got != "[b]\nc = 2\n" {
		t.Errorf("left %q", got)
	}
}

// Another program adds members again and again while hooks are put in and taken out. It finds each of them again.
func TestConcurrentEditor(t *testing.T) {
	b := newBench(t, hook.ClaudeCode, User)
	path := b.edits()[0].path
	b.write(path, "{}\n")
	rounds := 150
	if testing.Short() {
		rounds = 60
	}
	turn, stop := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for i := range rounds {
			if i%8 == 0 {
				<-turn
			}
			var doc map[string]any
			text, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(text, &doc)
			}
			if err == nil {
				doc[fmt.Sprintf("k%d", i)] = i
				text, err = json.MarshalIndent(doc, "", "\t")
			}
			if err == nil && i%2 == 0 {
				err = os.WriteFile(path, text, 0o644)
			} else if err == nil {
				err = errors.Join(os.WriteFile(path+".tmp", text, 0o644), os.Rename(path+".tmp", path))
			}
			if err != nil {
				t.Errorf("round %d: %v", i, err)
				return
			}
		}
	})
	for done := false; !done; {
		for _, do := range []func() error{
			func() error { _, err := Connect(t.Context(), b.r); return err },
			func() error { _, err := Undo(t.Context(), b.r); return err },
		} {
			if err := do(); err != nil && !strings.Contains(err.Error(), "again and again") {
				t.Error(err)
			}
			select {
			case turn <- struct{}{}:
			case <-stop:
				done = true
			default:
			}
		}
	}
	wg.Wait()
	text := b.read(path)
	for i := range rounds {
		if !strings.Contains(text, fmt.Sprintf("\"k%d\": %d", i, i)) {
			t.Errorf("k%d is lost", i)
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".settings.json.yett-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// Many yetts at once make one key and one entry.
func TestConcurrentConnects(t *testing.T) {
	b := newBench(t, hook.Gemini, User)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := Connect(t.Context(), b.r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(b.read(b.edits()[0].path), "hook gemini"); n != 2 || b.gate.made != 1 {
		t.Errorf("%d lines and %d keys", n, b.gate.made)
	}
	before := b.snapshot()
	b.connect()
	if after := b.snapshot(); after != before {
		t.Errorf("it was not complete: %s\n%s", before, after)
	}
}

// TestPutTakeProperty puts our entries into any file of any agent and takes them out again: no other value changes, and
// where the file has lines of its own, no other byte.
func TestPutTakeProperty(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "hooks", "PreToolUse", "preToolUse", "BeforeTool", "version", "x y"})
	space := rapid.SampledFrom([]string{"", " ", "\n  ", "\n\t"})
	leaf := rapid.SampledFrom([]string{"1", "1.50", "null", `"theirs"`, `{"command": "theirs"}`,
		`{"hooks": [{"command": "x"}]}`, `{"command": "/o/yett hook cursor --config /x"}`,
		`{"hooks": [{"command": "/o/yett hook codex --config /x"}, 1]}`})
	var value func(t *rapid.T, depth int) string
	value = func(t *rapid.T, depth int) string {
		switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
		case depth > 3 || kind == 0:
			return leaf.Draw(t, "leaf")
		case kind < 3:
			var names, items []string
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				name := word.Draw(t, "name")
				if !slices.Contains(names, name) {
					names = append(names, name)
					items = append(items, space.Draw(t, "space")+`"`+name+`":`+space.Draw(t, "space")+value(t, depth+1))
				}
			}
			return "{" + strings.Join(items, ",") + space.Draw(t, "space") + "}"
		}
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			items = append(items, space.Draw(t, "space")+value(t, depth+1))
		}
		return "[" + strings.Join(items, ",") + space.Draw(t, "space") + "]"
	}
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		agent := rapid.SampledFrom([]hook.Agent{hook.ClaudeCode, hook.Codex, hook.Gemini, hook.Copilot, hook.Cursor,
			hook.Windsurf, hook.VSCode}).Draw(t, "agent")
		j := site{agent: agent, scope: User}.jsonFile(map[string]string{})
		for _, e := range j.events {
			j.entries[e.name] = entry(agent, e.phase, "/b/yett hook "+string(agent)+" --config /c")
		}
		text := []byte(value(t, 0))
		clean, err := j.take(text, nil)
		if err != nil {
			return // not an object
		}
		out, _, err := j.put(text)
		if err != nil {
			return // what it holds is refused
		}
		taken++
		if again, _, err := j.put(out); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q became %q and then %q: %v", text, out, again, err)
		}
		back, err := j.take(out, j.made(clean))
		if err != nil {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		if compact(t, back) != compact(t, clean) {
			t.Fatalf("%q became %q and then %q, expected %q", text, out, back, clean)
		}
	})
	if taken == 0 {
		t.Error("no text was taken")
	}
}

func compact(t *rapid.T, text []byte) string {
	d, err := jsontext.Parse(text, jsontext.Dialect{})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return string(d.Compact(d.Root))
}
