package connect

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/wrap"
	"github.com/yett-dev/yett/core/testkit"
)

// TestWrap holds that the choice to wrap stays until it is changed, that a program which others can write is refused,
// and that an undo leaves no tickets.
func TestWrap(t *testing.T) {
	b := newBench(t, hook.Cline, User)
	before := ""
	held := func() string {
		t.Helper()
		f, err := hookfile.Parse([]byte(b.read(b.site().hookFile())))
		if err != nil {
			t.Fatal(err)
		}
		return f.Wrap
	}
	b.program("bin/new")
	before = b.snapshot()
	program, none := b.path("bin/yett"), ""
	b.r.Wrap = &program
	if res := b.connect(); held() != program || res.Open[len(res.Open)-1] != WrapWay {
		t.Errorf("wrapped in %q, said %+v", held(), res.Open)
	}
	b.r.Wrap = nil
	if b.connect(); held() != program {
		t.Errorf("connected again: wrapped in %q", held())
	}
	if b.r.Program = b.path("bin/new"); b.connect().Hook != "changed" || held() != b.r.Program {
		t.Errorf("connected by another program: wrapped in %q", held())
	}
	if _, err := wrap.Issue(b.site().hookFile(), wrap.Ticket{Command: "x", Tool: "t"}); err != nil {
		t.Fatal(err)
	}
	b.r.Wrap = &none
	if res := b.connect(); held() != "" || res.Hook != "changed" {
		t.Errorf("taken back: wrapped in %q, the file is %s", held(), res.Hook)
	}
	b.undo()
	if after := b.snapshot(); after != before {
		t.Errorf("an undo leaves\n%s\nwhere was\n%s", after, before)
	}
	b.r.Wrap = &program
	if err := os.Chmod(program, 0o757); err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(t.Context(), b.r); err == nil || !strings.Contains(err.Error(), "written by others") {
		t.Errorf("a program that others can write: %v", err)
	}
}

// TestSameBuild holds that a hook's program of another build is not taken.
func TestSameBuild(t *testing.T) {
	dir := t.TempDir()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := sameBuild(me); err != nil {
		t.Error(err)
	}
	other := filepath.Join(dir, "yett-hook")
	if err := testkit.WriteProgram(other, []byte("#!/bin/sh\n")); err != nil {
		t.Fatal(err)
	}
	if err := sameBuild(other); err == nil || !strings.Contains(err.Error(), "not a program of Yett") {
		t.Error(err)
	}
	if err := sameBuild(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	of := func(version, revision, modified string) string {
		return buildOf(&debug.BuildInfo{Main: debug.Module{Version: version}, Settings: []debug.BuildSetting{
			{Key: "GOOS", Value: "linux"}, {Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}})
	}
	first := of("v1.0.0", "ab", "false")
	for _, other := range []string{of("v1.0.1", "ab", "false"), of("v1.0.0", "cd", "false"), of("v1.0.0", "ab", "true")} {
		if other == first {
			t.Errorf("%s is taken for %s", other, first)
		}
	}
}
