package connect

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
)

// What somebody else could change, or what would not work, is refused, and nothing is written.
func TestRefusesUnsafe(t *testing.T) {
	for name, row := range map[string]struct {
		scope   Scope
		prepare func(b *bench)
		want    string // "" where it is taken
	}{
		"another user's home":       {User, func(b *bench) { b.r.UID++ }, "run this as that user"},
		"binary of everybody":       {User, func(b *bench) { b.chmod("bin/yett", 0o757) }, "bin/yett can be written by others"},
		"binary of a group":         {User, func(b *bench) { b.chmod("bin/yett", 0o775) }, ""},
		"binary's folder":           {User, func(b *bench) { b.chmod("bin", 0o777) }, "bin can be written by others"},
		"managed: binary":           {Managed, func(b *bench) { b.chmod("bin/yett", 0o775) }, "bin/yett can be written by others"},
		"managed: binary of root":   {Managed, func(b *bench) { b.chmod("bin/yett", 0o700) }, "bin/yett cannot be run"},
		"managed: folder":           {Managed, func(b *bench) { b.write("etc/claude-code/x", ""); b.chmod("etc/claude-code", 0o775) }, "claude-code can be written by others"},
		"managed: file":             {Managed, func(b *bench) { b.managed("{}"); b.chmod("etc/claude-code/managed-settings.json", 0o664) }, "can be written by others"},
		"managed: file is hidden":   {Managed, func(b *bench) { b.managed("{}"); b.chmod("etc/claude-code/managed-settings.json", 0o600) }, "cannot be read by the users"},
		"managed: link":             {Managed, func(b *bench) { b.managedLink() }, "elsewhere can be written by others"},
		"managed: hooks of others":  {Managed, func(b *bench) { b.managed(`{"allowManagedHooksOnly": false}`) }, ""},
		"managed: switched off":     {Managed, func(b *bench) { b.managed(`{"disableAllHooks": true}`) }, ""},
		"no gateway, no key":        {User, func(b *bench) { b.r.Gateway = nil }, "where is the gateway?"},
		"no key":                    {User, func(b *bench) { b.r.Given.Socket, b.r.Gateway = b.gate.socket, nil }, "there is no key yet"},
		"socket is off":             {User, func(b *bench) { b.gate.socket = "" }, "has no socket for agents"},
		"socket is a file":          {User, func(b *bench) { b.r.Given.Socket = b.path("bin/yett") }, "is not a socket"},
		"socket is missing":         {User, func(b *bench) { b.r.Given.Socket = b.path("nowhere") }, "is it running?"},
		"url without pin":           {User, func(b *bench) { b.r.Given.URL = "https://gate.example" }, "pins: expected 1 to 8"},
		"url without TLS":           {User, func(b *bench) { b.r.Given.URL, b.r.Given.Pins = "http://gate.example", pins }, "expected https"},
		"url":                       {User, func(b *bench) { b.r.Given.URL, b.r.Given.Pins = "https://gate.example", pins }, ""},
		"project that is not there": {Project, func(b *bench) { b.r.Places.Project += "/x" }, "is not a directory"},
		"project by a relative way": {Project, func(b *bench) { b.r.Places.Project = "." }, "clean absolute path"},
		"hook file is broken":       {User, func(b *bench) { b.write("home/.config/yett/hooks/claude-code.json", "{") }, "correct it, or remove it"},
		"record is broken":          {User, func(b *bench) { b.write("home/.config/yett/hooks/claude-code.connect.json", "{") }, "move it away"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, hook.ClaudeCode, row.scope)
			row.prepare(b)
			before := b.snapshot()
			_, err := Connect(t.Context(), b.r)
			if row.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, expected %q", err, row.want)
			}
			if after := b.snapshot(); after != before || b.gate.made > 0 {
				t.Errorf("%d keys, and it changed\n%s\nto\n%s", b.gate.made, before, after)
			}
		})
	}
}

var pins = []string{"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}

func (b *bench) chmod(name string, mode os.FileMode) {
	b.t.Helper()
	if err := os.Chmod(b.path(name), mode); err != nil {
		b.t.Fatal(err)
	}
}

// managedLink makes the managed file a link into a folder of everybody.
func (b *bench) managedLink() {
	b.t.Helper()
	b.write("elsewhere/x.json", "{}")
	b.chmod("elsewhere", 0o777)
	b.write("etc/claude-code/x", "")
	if err := os.Symlink(b.path("elsewhere/x.json"), b.path("etc/claude-code/managed-settings.json")); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) managed(text string) {
	b.t.Helper()
	b.write("etc/claude-code/managed-settings.json", text)
}

// No place for managed hooks is made up.
func TestNoManaged(t *testing.T) {
	for _, agent := range hook.Agents() {
		b := newBench(t, agent, Managed)
		if _, err := Connect(t.Context(), b.r); (err != nil) != (noManaged(agent) != "") {
			t.Errorf("%s: %v", agent, err)
		}
	}
}

// A socket that the agent's users cannot use is told, and a group that changes gets the file.
func TestManagedReaders(t *testing.T) {
	b := newBench(t, hook.Codex, Managed)
	if err := os.Chmod(b.gate.socket, 0o600); err != nil {
		t.Fatal(err)
	}
	if res := b.connect(); len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "set socket.mode") {
		t.Errorf("%q", res.Notes)
	}
	if err := os.Chmod(b.gate.socket, 0o660); err != nil {
		t.Fatal(err)
	}
	if res := b.connect(); len(res.Notes) != 0 || res.Hook != "unchanged" {
		t.Errorf("%+v", res)
	}
	b.r.NoKey = true
	if res := b.connect(); res.Hook != "changed" || res.Reader != "everybody: it holds no key" {
		t.Errorf("%+v", res)
	}
	f, err := hookfile.Load(b.site().hookFile())
	if info, statErr := os.Stat(b.site().hookFile()); err != nil || statErr != nil || f.Key != "" ||
		info.Mode().Perm() != 0o644 {
		t.Errorf("%+v, %v, %v", f, err, statErr)
	}
}

// A key is given or made once, kept while the gateway is the same, and made anew for another gateway.
func TestKeys(t *testing.T) {
	b := newBench(t, hook.Codex, User)
	key := func() string {
		t.Helper()
		f, err := hookfile.Load(b.site().hookFile())
		if err != nil {
			t.Fatal(err)
		}
		return f.Key
	}
	b.connect()
	b.r.Gateway = nil // it is not needed again
	b.connect()
	if key() != "value-of-key_1" || b.gate.made != 1 {
		t.Errorf("%q, %d made", key(), b.gate.made)
	}
	b.r.Given.Key = "given"
	b.connect()
	if key() != "given" {
		t.Errorf("%q", key())
	}
	b.r.Given.Key, b.r.Gateway = "", b.gate
	b.r.Given.URL, b.r.Given.Pins = "https://gate.example", pins
	b.connect()
	if key() != "value-of-key_2" || len(b.gate.live) != 1 || b.gate.live["key_2"] == "" {
		t.Errorf("%q, %v", key(), b.gate.live)
	}
	b.r.Gateway = nil
	res := b.undo()
	if len(b.gate.live) != 1 || len(res.Notes) != 1 ||
		!strings.Contains(res.Notes[0], "yett keys revoke key_2 --data /data") {
		t.Errorf("%v, %q", b.gate.live, res.Notes)
	}
}

// A directory that cannot be written stops everything before a key is made.
func TestNothingHalf(t *testing.T) {
	b := newBench(t, hook.Cline, User)
	b.write("home/.cline/hooks/PostToolUse", "#!/bin/sh\necho mine\n") // the second of two files
	before := b.snapshot()
	_, err := Connect(t.Context(), b.r)
	if err == nil || !strings.Contains(err.Error(), "move this one to ~/Documents/Cline/Hooks/PostToolUse") {
		t.Errorf("%v", err)
	}
	if after := b.snapshot(); after != before || b.gate.made > 0 {
		t.Errorf("%d keys, and it changed\n%s\nto\n%s", b.gate.made, before, after)
	}
}

// A backup that was changed is not trusted: our entries are taken out instead.
func TestChangedBackup(t *testing.T) {
	b := newBench(t, hook.Gemini, User)
	path := b.edits()[0].path
	b.write(path, "{\n  \"a\": 1\n}\n")
	b.connect()
	b.write(b.site().backup(0), "{}")
	res := b.undo()
	if got := b.read(path); got != "{\n  \"a\": 1\n}\n" || !strings.Contains(strings.Join(res.Notes, " "), "backup") {
		t.Errorf("%q, %q", got, res.Notes)
	}
	if _, err := os.Stat(filepath.Dir(b.site().hookFile())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files of ours are left: %v", err)
	}
}

// Without its record, the text tells what is ours.
func TestLostRecord(t *testing.T) {
	for _, s := range []site{{agent: hook.Copilot, scope: User}, {agent: hook.Codex, scope: Managed}} {
		b := newBench(t, s.agent, s.scope)
		path := b.edits()[0].path
		text := map[hook.Agent]string{hook.Copilot: "{\n  \"a\": 1\n}\n", hook.Codex: "a = 1\n"}[s.agent]
		b.write(path, text)
		b.connect()
		if err := os.Remove(b.site().recordFile()); err != nil {
			t.Fatal(err)
		}
		b.undo()
		left := ",\n  \"version\": 1,\n  \"hooks\": {\n    \"preToolUse\": [\n    ],\n    \"postToolUse\": [\n    ]\n  }"
		got := strings.Replace(b.read(path), left, "", 1)
		if got != text {
			t.Errorf("left %q", b.read(path))
		}
	}
}

// TestLeadsAway holds that a variable which names the usual folder is no reason to refuse.
func TestLeadsAway(t *testing.T) {
	for _, name := range elsewhere {
		for value, want := range map[string]bool{"": false, "/h/" + usual[name]: false, "/h/" + usual[name] + "/": false,
			"/h/other": true, usual[name]: true} {
			t.Setenv(name, value)
			if got := leadsAway(name, "/h"); got != want {
				t.Errorf("%s=%s: %v", name, value, got)
			}
		}
		if usual[name] == "" {
			t.Errorf("%s: the usual folder is not known", name)
		}
	}
	if leadsAway("", "/h") {
		t.Error("no variable leads away")
	}
}

// TestPlaced holds which sockets are believed to be the gateway's, by who could have put them there.
func TestPlaced(t *testing.T) {
	me, other := os.Getuid(), os.Getuid()+1
	dir := filepath.Join(t.TempDir(), "run")
	for _, row := range []struct {
		mode  os.FileMode
		owner int
		want  string
	}{
		{0o755, me, ""},
		{0o700, me, ""},
		{0o755, other, "everybody can write to"}, // the temporary directory above it
		{0o777, me, "everybody can write to " + dir},
		{os.ModeSticky | 0o777, me, ""},
		{os.ModeSticky | 0o777, other, "everybody can write to " + dir},
	} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, row.mode)); err != nil {
			t.Fatal(err)
		}
		err := placed(filepath.Join(dir, "s"), row.owner, me)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%v, owner %d: %v, want %q", row.mode, row.owner, err, row.want)
		}
	}
	if os.Getuid() == 0 {
		if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, other+1, -1)); err != nil {
			t.Fatal(err)
		}
		if err := placed(filepath.Join(dir, "s"), me, me); err == nil || !strings.Contains(err.Error(), "belongs to user") {
			t.Errorf("another user's directory: %v", err)
		}
	}
}

// TestLookSaysWhatWeakens holds that a file which others can change, and a setting that lets other hooks run, are told.
func TestLookSaysWhatWeakens(t *testing.T) {
	etc, home := t.TempDir(), t.TempDir()
	places := Places{Home: home, Etc: etc}
	c := hook.Command{Yett: "/opt/yett", Timeout: "/usr/bin/timeout"}
	path := filepath.Join(etc, "claude-code", "managed-settings.json")
	own := filepath.Join(etc, "yett", "hooks", "claude-code.json")
	for name, text := range map[string]string{path: `{"allowManagedHooksOnly": false}`, own: "{}"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Look(hook.ClaudeCode, places, os.Getuid(), c)
	if err != nil || len(found) != 1 || len(found[0].Notes) != 1 || found[0].Err != nil ||
		!strings.Contains(found[0].Notes[0], "allowManagedHooksOnly") {
		t.Fatalf("%+v %v", found, err)
	}
	if err := os.Chmod(own, 0o666); err != nil {
		t.Fatal(err)
	}
	found, err = Look(hook.ClaudeCode, places, os.Getuid(), c)
	if err != nil || len(found) != 1 || found[0].Err == nil || !strings.Contains(found[0].Err.Error(), own) {
		t.Errorf("%+v %v", found, err)
	}
}
