package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
)

// TestMain keeps every test away from the real home directories and from /etc.
func TestMain(m *testing.M) {
	forbidden = []string{"/etc", "/root", "/home"}
	if u, err := user.Current(); err == nil {
		forbidden = append(forbidden, u.HomeDir)
	}
	if home, err := os.UserHomeDir(); err == nil {
		forbidden = append(forbidden, home)
	}
	os.Exit(m.Run())
}

// gate is a gateway that counts its keys.
type gate struct {
	socket string
	mu     sync.Mutex
	live   map[string]string // id to name
	made   int
}

func (g *gate) Name() string                           { return "/data" }
func (g *gate) Socket(context.Context) (string, error) { return g.socket, nil }

func (g *gate) CreateKey(_ context.Context, name string, agents []string) (id, value string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made++
	id = fmt.Sprintf("key_%d", g.made)
	g.live[id] = name + " for " + strings.Join(agents, ",")
	return id, "value-of-" + id, nil
}

func (g *gate) RevokeKey(_ context.Context, id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.live[id] == "" {
		return errors.New("no such key")
	}
	delete(g.live, id)
	return nil
}

// bench is a machine of a test's own.
type bench struct {
	t    testing.TB
	root string
	gate *gate
	r    Request
}

func newBench(t testing.TB, agent hook.Agent, scope Scope) *bench {
	t.Helper()
	root, err := os.MkdirTemp("", "yc") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	b := &bench{t: t, root: root, gate: &gate{socket: filepath.Join(root, "s"), live: map[string]string{}}}
	for _, dir := range []string{"home", "etc", "project", "bin"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.program("bin/yett")
	l, err := net.Listen("unix", b.gate.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	b.r = Request{Agent: agent, Scope: scope, UID: os.Getuid(), Group: -1, Gateway: b.gate, Host: "here",
		Places:  Places{Home: b.path("home"), Etc: b.path("etc"), Project: b.path("project")},
		Command: hook.Command{Yett: b.path("bin/yett"), Timeout: "/usr/bin/timeout"}}
	if scope == Managed {
		b.r.Group = os.Getgid()
	}
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.root, name) }

func (b *bench) write(name, text string) {
	b.t.Helper()
	path := name
	if !filepath.IsAbs(name) {
		path = b.path(name)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) program(name string) {
	b.t.Helper()
	b.write(name, "#!/bin/sh\n")
	if err := os.Chmod(b.path(name), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(path string) string {
	b.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func (b *bench) site() site { return site{b.r.Agent, b.r.Scope, b.r.Places} }

func (b *bench) edits() []edit {
	b.t.Helper()
	edits, err := b.site().edits(b.r.Command)
	if err != nil {
		b.t.Fatal(err)
	}
	return edits
}

func (b *bench) connect() *Result {
	b.t.Helper()
	res, err := Connect(b.t.(interface{ Context() context.Context }).Context(), b.r)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

func (b *bench) undo() *Result {
	b.t.Helper()
	res, err := Undo(b.t.(interface{ Context() context.Context }).Context(), b.r)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// snapshot is every file and directory below the machine, with its text and permissions.
func (b *bench) snapshot() string {
	b.t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(b.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == b.gate.socket {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s %s", strings.TrimPrefix(path, b.root), info.Mode())
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			fmt.Fprintf(&out, " -> %s %v", to, err)
		case d.Type().IsRegular():
			fmt.Fprintf(&out, " %q", b.read(path))
		}
		out.WriteByte('\n')
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.String()
}

// sites are all agents in all their scopes.
func sites() []site {
	var out []site
	for _, agent := range hook.Agents() {
		for _, scope := range []Scope{User, Project, Managed} {
			if scope != Managed || noManaged(agent) == "" {
				out = append(out, site{agent: agent, scope: scope})
			}
		}
	}
	return out
}

// start is a text that a file may hold before.
type start struct {
	name, text string
	refused    string // what the error has; "" where it is taken
	cleared    string // what an undo leaves, where that is not text
	missing    bool
}

// old is a line of ours from another version.
func old(agent hook.Agent) string {
	return "/old/yett hook " + string(agent) + " --config /old.json || { echo 'yett: no decision' >&2; exit 2; }"
}

// jsonStarts are texts of a JSON file.
func jsonStarts(j *jsonFile) []start {
	d := j.dialect
	list := func(line string) string {
		if len(j.events) == 0 {
			return `{"chat.hookFilesLocations": {".github/hooks": false}}`
		}
		h := `{"type": "command", "command": "` + line + `"}`
		if grouped(j.agent) {
			h = `{"matcher": "Bash", "hooks": [` + h + `]}`
		}
		return `{"hooks": {"` + j.events[0].name + `": [` + h + `], "Other": []}, "x": [1.50, "\u00e9"]}`
	}
	pretty := "{\n  \"a\": [1, 2],\n  \"hooks\": {\n    \"Other\": [\n      {\"command\": \"theirs\"}\n    ]\n  }\n}\n"
	when := func(ok bool, what string) string {
		if ok {
			return ""
		}
		return what
	}
	out := []start{
		{name: "missing", missing: true}, {name: "empty", text: ""}, {name: "spaces", text: " \n"}, {name: "object", text: "{}"},
		{name: "dense", text: `{"a":1}`}, {name: "others", text: list("theirs")}, {name: "pretty", text: pretty},
		{name: "CRLF", text: strings.ReplaceAll(pretty, "\n", "\r\n")},
		{name: "no last line", text: strings.TrimSuffix(pretty, "\n")},
		{name: "tabs", text: strings.ReplaceAll(pretty, "  ", "\t")},
		{name: "mark", text: "\ufeff" + pretty, refused: when(d.BOM, "line 1, column 1: a byte order mark")},
		{name: "comment", text: "{\n  // mine\n  \"a\": 1 // one\n}\n", refused: when(d.Comments, "line 2, column 3: a comment")},
		{name: "block comment", text: "{ /* mine */ }", refused: when(d.Comments && !d.LinesOnly, "line 1, column 3: a ")},
		{name: "comment alone", text: "// mine\n", refused: when(d.Comments, "line 1, column 1: a comment")},
		{name: "trailing comma", text: "{\n  \"a\": 1,\n}\n", refused: when(d.TrailingCommas, "line 2, column 9: a comma")},
		{name: "broken", text: "{\n  \"a\": }\n", refused: "line 2, column 8: expected a value"},
		{name: "array", text: "[]", refused: "line 1, column 1: expected an object"},
	}
	if len(j.events) > 0 {
		out = append(out, start{name: "list of hooks", text: `{"hooks": []}`, refused: "line 1, column 11"},
			start{name: "one hook", text: `{"hooks": {"` + j.events[0].name + `": {}}}`, refused: "expected an array"})
		one := list(old(j.agent))
		out = append(out, start{name: "old entry", text: one, cleared: `{"hooks": {"` + j.events[0].name +
			`": [], "Other": []}, "x": [1.50, "\u00e9"]}`})
		if grouped(j.agent) {
			mixed := strings.Replace(one, `"hooks": [{`, `"hooks": [{"type": "command", "command": "theirs"}, {`, 1)
			out = append(out, start{name: "old entry in a group", text: mixed, cleared: list("theirs")})
		}
	} else {
		name := j.settings[0].path[1]
		out = append(out, start{name: "off", text: `{"chat.hookFilesLocations": {"` + name + `": false}}`,
			refused: "switched off"})
	}
	for _, o := range j.offs {
		value := o.value
		if o.path[len(o.path)-1] == "disabled" {
			value = "[" + value + "]"
		}
		text := value
		for _, name := range slices.Backward(o.path) {
			text = `{"` + name + `": ` + text + `}`
		}
		out = append(out, start{name: "off " + strings.Join(o.path, "."), text: text, refused: "switches Yett's hooks off"})
	}
	return out
}

func tomlStarts() []start {
	others := "# mine\nmodel = 'x'\n\n[hooks]\nmanaged_dir = \"/x\"\n[[hooks.PreToolUse]]\nmatcher = \"a\"\n" +
		"[[hooks.PreToolUse.hooks]]\ncommand = \"theirs\"\n"
	return []start{
		{name: "missing", missing: true}, {name: "empty", text: ""}, {name: "others", text: others},
		{name: "CRLF", text: strings.ReplaceAll(others, "\n", "\r\n")}, {name: "mark", text: "\ufeff" + others},
		{name: "no last line", text: strings.TrimSuffix(others, "\n")}, {name: "tabs", text: "[a]\n\tb = 1\t# c\n"},
		{name: "only", text: "allow_managed_hooks_only = true\n"}, {name: "not only", text: "allow_managed_hooks_only = false\n"},
		{name: "broken", text: "a = 1\nb = \n", refused: "line 2, column "},
		{name: "inline", text: "hooks = {}\n", refused: "line 1, column 1: hooks is written as a value"},
		{name: "static", text: "[hooks]\nPostToolUse = []\n", refused: "line 2, column 1: hooks.PostToolUse is written as a value"},
		{name: "hook without marks", text: "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ncommand = \"" + old(hook.Codex) + "\"\n",
			refused: "outside of the block"},
	}
}

func startsOf(e edit) []start {
	switch x := e.editor.(type) {
	case *jsonFile:
		return jsonStarts(x)
	case *tomlFile:
		return tomlStarts()
	}
	return []start{{name: "missing", missing: true}, {name: "empty", text: ""},
		{name: "somebody else's", text: "#!/bin/sh\necho\n", refused: "somebody else wrote this file"}}
}

// TestConnectAndUndo takes every file of every agent from every start and back, byte for byte.
func TestConnectAndUndo(t *testing.T) {
	for _, s := range sites() {
		if testing.Short() && s.scope == Project { // but for the place it is as User
			continue
		}
		b := newBench(t, s.agent, s.scope)
		for i, e := range b.edits() {
			for _, st := range startsOf(e) {
				t.Run(fmt.Sprintf("%s/%s/%d/%s", s.agent, s.scope, i, st.name), func(t *testing.T) {
					t.Parallel()
					thereAndBack(t, s, i, st)
				})
			}
		}
	}
}

func thereAndBack(t *testing.T, s site, i int, st start) {
	b := newBench(t, s.agent, s.scope)
	path := b.edits()[i].path
	if !st.missing {
		b.write(path, st.text)
	}
	before := b.snapshot()
	if st.refused != "" {
		_, err := Connect(t.Context(), b.r)
		if err == nil || !strings.Contains(err.Error(), st.refused) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, expected %s: %q", err, path, st.refused)
		}
		if after := b.snapshot(); after != before {
			t.Errorf("it changed\n%s\nto\n%s", before, after)
		}
		if b.gate.made > 0 {
			t.Error("a key was made for nothing")
		}
		return
	}
	b.connect()
	connected := b.snapshot()
	for _, e := range b.edits() {
		text := b.read(e.path)
		if _, is := e.editor.(*jsonFile); is && st.name == "tabs" && e.path == path && !strings.Contains(text, "\n\t\t") {
			t.Errorf("no tabs in %q", text)
		}
		if st.name == "CRLF" && e.path == path && strings.Count(text, "\n") != strings.Count(text, "\r\n") {
			t.Errorf("line ends differ in %q", text)
		}
		out, _, err := e.put([]byte(text))
		if err != nil || !bytes.Equal(out, []byte(text)) {
			t.Errorf("%s is not as it must be: %v\n%s", e.path, err, text)
		}
	}
	if res := b.connect(); slices.ContainsFunc(res.Files, func(f FileResult) bool { return f.Change != "unchanged" }) ||
		res.Hook != "unchanged" {
		t.Errorf("the second time it did %+v", res)
	}
	if again := b.snapshot(); again != connected {
		t.Errorf("the second time changed\n%s\nto\n%s", connected, again)
	}
	if len(b.gate.live) != 1 || b.gate.made != 1 {
		t.Errorf("keys: %v", b.gate.live)
	}
	b.undo()
	want := before
	if st.cleared != "" {
		want = strings.Replace(before, fmt.Sprintf("%q", st.text), fmt.Sprintf("%q", st.cleared), 1)
	}
	if after := b.snapshot(); after != want {
		t.Errorf("an undo left\n%s\nexpected\n%s", after, want)
	}
	if len(b.gate.live) != 0 {
		t.Errorf("keys left: %v", b.gate.live)
	}
	if res := b.undo(); len(res.Files) != 0 || res.Hook != "unchanged" {
		t.Errorf("a second undo did %+v", res)
	}
}

func TestHookFile(t *testing.T) {
	for _, s := range sites() {
		b := newBench(t, s.agent, s.scope)
		b.connect()
		f, err := hookfile.Load(b.site().hookFile())
		if err != nil {
			t.Fatal(err)
		}
		if f.Agent != string(s.agent) || f.Socket != b.gate.socket || *f.SocketOwner != uint32(os.Getuid()) ||
			f.Key != "value-of-key_1" {
			t.Errorf("%+v", f)
		}
		want := string(s.agent) + " on here for " + string(s.agent) + "," + string(s.agent) + "/*"
		if b.gate.live["key_1"] != want {
			t.Errorf("the key is %q, expected %q", b.gate.live["key_1"], want)
		}
		mode := map[bool]fs.FileMode{true: 0o640, false: 0o600}[s.scope == Managed]
		if info, err := os.Stat(b.site().hookFile()); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", s.scope, info.Mode(), err)
		}
		if strings.Contains(b.read(b.site().recordFile()), f.Key) {
			t.Error("the record holds the key")
		}
	}
}
