package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/shell"
	"github.com/yett-dev/yett/sdk"
)

func TestShellFunctions(t *testing.T) {
	const dir = `{"cwd":"/srv/me/p"}`
	for _, c := range []struct{ when, args, context, want string }{
		{`shell(args.command).simple`, `{"command":"ls -la"}`, dir, "true"},
		{`shell(args.command).simple`, `{"command":"ls | wc"}`, dir, "false"},
		{`shell(args.command).class == "read"`, `{"command":"ls | wc"}`, dir, "true"},
		{`shell(args.command).class in ["read", "test"]`, `{"command":"go test ./..."}`, dir, "true"},
		{`shell(args.command).words == ["ls", "a b"]`, `{"command":"ls 'a b'"}`, dir, "true"},
		{`shell(args.command).words[0] == "ls" && size(shell(args.command).words) == 1`, `{"command":"ls"}`, dir, "true"},
		{`shell(args.command).words.exists(w, w.startsWith("--"))`, `{"command":"ls --all"}`, dir, "true"},
		{`"config" in shell(args.command).mentions`, `{"command":"x=$(yett kill)"}`, dir, "true"},
		{`has(shell(args.command).words)`, `{"command":"$x"}`, dir, "true"},
		{`shell(args.command) == shell(args.again)`, `{"command":"ls  -l","again":"ls -l"}`, dir, "true"},
		{`shell("ls").simple`, `{}`, dir, "true"},
		{`args.commands.all(c, shell(c).class == "read")`, `{"commands":["ls","pwd"]}`, dir, "true"},
		{`args.commands.all(c, shell(c).class == "read")`, `{"commands":["ls","rm x"]}`, dir, "false"},
		{`shell(args.command).class == "read"`, `{"command":"cat /srv/me/p/a"}`, dir, "true"},
		{`shell(args.command).class == "read"`, `{"command":"cat /srv/me/p/a"}`, `{"directory":"/srv/me/p"}`, "true"},
		{`shell(args.command).class == "read"`, `{"command":"cat /srv/me/p/a"}`, `{"workspaceRoots":["/srv/me/p"]}`, "true"},
		{`shell(args.command).class == "read"`, `{"command":"cat /srv/me/p/a"}`, `{"workspace_roots":["/srv/me/p"]}`, "true"},
		{`shell(args.command).class == "unknown"`, `{"command":"ls"}`, `{"workspace_roots":[]}`, "true"},
		{`shell(args.command).class == "unknown"`, `{"command":"ls"}`, `{"workspace_roots":"/srv/me/p"}`, "true"},
		{`shell(args.command).class == "unknown"`, `{"command":"ls"}`, `{}`, "true"},
		{`shell(args.command).class == "unknown"`, `{"command":"ls"}`, `{"cwd":"p"}`, "true"},
		{`shell(args.command).class == "unknown"`, `{"command":"ls"}`, `{"cwd":"C:\\p"}`, "true"},
		{`shell(args.command).class == "unknown"`, `{"command":"ls"}`, `{"cwd":["/srv/me/p"]}`, "true"},
		{`shell(args.command).class == "unknown"`, `{"command":"ls"}`, `{"cwd":null,"directory":"/srv/me/p"}`, "true"},
		{`shell(args.command).class == "unknown"`, `{"command":"ls"}`, `{"workspaceRoots":["/srv/me/p","/srv/me/q"]}`, "true"},
		{`shell(args.command).class == "outside"`, `{"command":"ls"}`, `{"cwd":"/root"}`, "true"},
		{`file(args.path) == "outside"`, `{"path":"a.go"}`, `{}`, "true"},
		{`file(args.path) == "project"`, `{"path":"/srv/me/p/a.go"}`, dir, "true"},
		{`file(args.path) == "secrets"`, `{"path":".env"}`, `{}`, "true"},
		{`patch(args.p).all(f, file(f) == "project")`, `{"p":"*** Add File: a\n*** Update File: b/c"}`, dir, "true"},
		{`patch(args.p).all(f, file(f) == "project")`, `{"p":"*** Add File: a\n*** Update File: ../c"}`, dir, "false"},

		{`shell(args.command).simple`, `{"command":["ls"]}`, dir, "no such overload"},
		{`shell(args.command).simple`, `{"command":1}`, dir, "no such overload"},
		{`shell(args.command).simple`, `{}`, dir, "no such key"},
		{`file(args.path) == "project"`, `{"path":null}`, dir, "no such overload"},
		{`patch(args.input) == []`, `{"input":"hello"}`, dir, "not a patch"},
		{`shell(args.command).words[3] == "x"`, `{"command":"ls"}`, dir, "index out of bounds"},
	} {
		cond, faults := compileCondition(c.when)
		if len(faults) > 0 {
			t.Errorf("%s: %s", c.when, faults[0].Msg)
			continue
		}
		call := callWith(t, c.args)
		call.Context = document(t, c.context)
		sc := newScope(t.Context(), call)
		holds, err := cond.eval(sc)
		sc.release()
		got := fmt.Sprint(holds)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.when, c.args, got, c.want)
		}
	}
}

// TestShellErrors: an error keeps a permit from matching, and makes a deny and a defer match.
func TestShellErrors(t *testing.T) {
	for effect, want := range map[sdk.Effect]sdk.Effect{sdk.Permit: sdk.Abstain, sdk.Deny: sdk.Deny,
		sdk.Defer: sdk.Defer} {
		for _, when := range []string{`shell(args.command).class == "read"`, `file(args.command) == "project"`,
			`size(patch(args.command)) > 0`} {
			s := compileOne(t, Rule{When: when, Effect: effect})
			v, err := s.Check(t.Context(), callWith(t, `{"command":[1]}`))
			if err != nil || v.Effect != want {
				t.Errorf("%s with %s: %s, %v", effect, when, v.Effect, err)
			}
		}
	}
}

// TestShellTypes: what is wrong with a condition is said when it is loaded.
func TestShellTypes(t *testing.T) {
	for when, want := range map[string]string{
		`shell(args.command).simpel`:               "undefined field 'simpel'",
		`shell(args.command)`:                      "not a bool",
		`shell(args.command).class`:                "not a bool",
		`shell(args.command).words`:                "not a bool",
		`shell()`:                                  "shell does not take",
		`shell(1).simple`:                          "shell does not take int",
		`shell("ls", "/x").simple`:                 "shell does not take",
		`args.command.shell().simple`:              "shell does not take",
		`shell(args.command).words.startsWith("")`: "startsWith does not take",
		`shell(args.command).class > 1`:            "does not take string and int",
		`yett.Line{simple: true}.simple`:           "comes from shell() only",
		`file(true) == ""`:                         "file does not take bool",
		`file(args.path).class == ""`:              "does not support field selection",
		`patch(args.path).all(f, f)`:               "expected type 'bool'",
		`@shell(args.command, 1)`:                  "@",
		`shell("ls", @reader).simple`:              "@",
	} {
		_, faults := compileCondition(when)
		if len(faults) == 0 || !strings.Contains(faults[0].Msg, want) {
			t.Errorf("%s: %v, want %q", when, faults, want)
		}
	}
}

// TestShellBudget: many long lines end in an error before they take long.
func TestShellBudget(t *testing.T) {
	long := strings.Repeat("a/b ", shell.MaxLine/4-2)
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf(`"ls %c%s"`, 'a'+i%26, long[i:]))
	}
	args := `{"commands":[` + strings.Join(lines, ",") + `]}`
	when := `args.commands.all(c, shell(c).class == "unknown")` // no directory is given
	if got := outcome(t, when, args); got != errBudget.Error() {
		t.Errorf("%d long lines: %s", len(lines), got)
	}
	args = `{"commands":[` + strings.Join(slices.Repeat([]string{lines[0]}, 40), ",") + `]}`
	if got := outcome(t, when, args); got != "true" {
		t.Errorf("one long line again and again: %s", got)
	}
	files := slices.Repeat([]string{`"` + strings.Repeat("a/", shell.MaxPath) + `"`}, 60)
	args = `{"f":[` + strings.Join(files, ",") + `]}`
	if got := outcome(t, `args.f.all(c, file(c) == "outside")`, args); got != errBudget.Error() {
		t.Errorf("long paths: %s", got)
	}
	c, faults := compileCondition(when)
	if len(faults) > 0 || !c.metered {
		t.Error("a loop over lines runs without the meter")
	}
}

// FuzzShellCondition: whatever a call sends, a condition ends, and an error is one of the known classes.
func FuzzShellCondition(f *testing.F) {
	f.Add(`{"command":"ls -la"}`, `{"cwd":"/srv/me/p"}`)
	f.Add(`{"command":"*** Add File: a"}`, `{"cwd":1}`)
	f.Add(`{"command":["ls"]}`, `{}`)
	c, faults := compileCondition(`shell(args.command).simple || file(args.command) == "project" || ` +
		`patch(args.command).all(f, file(f) == "project") || "config" in shell(args.command).mentions`)
	if len(faults) > 0 {
		f.Fatal(faults[0].Msg)
	}
	f.Fuzz(func(t *testing.T, args, context string) {
		a, ok := tryDocument(args)
		ctx, okToo := tryDocument(context)
		if !ok || !okToo {
			return
		}
		call := callWith(t, "{}")
		call.Args, call.Context = a, ctx
		sc := newScope(t.Context(), call)
		defer sc.release()
		if _, err := c.eval(sc); err == errOther {
			t.Fatal(err)
		}
	})
}
