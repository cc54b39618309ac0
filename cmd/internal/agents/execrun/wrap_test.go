package execrun

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/wrap"
)

// shells are the shells that the machine has. bash must be there.
func shells(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"bash", "zsh"} {
		path, err := exec.LookPath(name)
		if err == nil {
			out[name] = path
		} else if name == "bash" {
			t.Fatal(err)
		} else {
			t.Logf("%s is not installed: its half of wrap.sh is not tested here", name)
		}
	}
	return out
}

// TestWrapState holds that a command acts on the shell that it stands in as it would alone, with its output scanned.
func TestWrapState(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, command, out, err string }{
		{"print", "echo a; echo b >&2", "a\n", "b\n"},
		{"a secret", "echo " + secret + "; echo e" + secret + " >&2", redacted + "\n", "e" + redacted + "\n"},
		{"a secret in halves", "printf sec_; printf abcd; echo 1234", redacted + "\n", ""},
		{"cd and export", "cd sub && export V=1; W=2", "", ""},
		{"cd that fails", "cd nowhere 2>/dev/null", "", ""},
		{"status", "(exit 7)", "", ""},
		{"not found", "nosuch-command 2>/dev/null", "", ""},
		{"exit", "echo before; exit 3; echo after", "before\n", ""},
		{"exit in a subshell", "(echo sub; exit 4)", "sub\n", ""},
		{"set -e", "set -e; echo one; false; echo two", "one\n", ""},
		{"set -e that holds", "set -e; true", "", ""},
		{"set -u", "set -u; : \"${NONE-}\"", "", ""},
		{"a function", "f() { echo called; return 5; }; f", "called\n", ""},
		{"a comment", "echo c # a comment", "c\n", ""},
		{"a heredoc", "cat <<E\nline 'with \"quotes\n$((1+1))\nE", "line 'with \"quotes\n2\n", ""},
		{"a heredoc at the end", "cat <<'E'\nx\nE\n", "x\n", ""},
		{"quotes", `printf '%s|' "it's" 'a "b"' \$x`, `it's|a "b"|$x|`, ""},
		{"lines", "echo 1\necho 2\n\necho 3\n", "1\n2\n3\n", ""},
		{"no line end", "printf x", "x", ""},
		{"nothing", ":", "", ""},
		{"a pipe", "echo a | tr a b; echo x | grep -q y", "b\n", ""},
		{"wait", "sleep 0 & wait; echo waited", "waited\n", ""},
		{"stdin", "cat", "given\n", ""},
		{"another program", "echo a; exec sh -c 'echo b; exit 6'", "a\nb\n", ""},
		{"a trap", "trap 'echo bye' EXIT; exit 2", "bye\n", ""},
		{"positional", "echo \"$#:$1:${2-}\"", "2:p 1:p2\n", ""},
		{"an array", "a=(1 2); echo ${a[1]-}", "", ""},
		{"descriptors", "exec 5>f5; echo five >&5; exec 5>&-; cat f5", "five\n", ""},
	} {
		for name, path := range shells(t) {
			t.Run(name+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				f := newFake(t)
				plain, wrapped := filepath.Join(f.dir, "plain"), filepath.Join(f.dir, "wrapped")
				run := func(dir, line string) (result, string) {
					if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
						t.Fatal(err)
					}
					after := "\n__s=$?; { echo \"status $__s\"; pwd; echo \"V=${V-} W=${W-}\"; export -p; set -o; typeset -f f; } >" +
						dir + "/state"
					cmd := exec.Command(path, "-c", line+after, "zero", "p 1", "p2")
					if name == "zsh" {
						cmd.Args = append([]string{path, "-f"}, cmd.Args[1:]...)
					}
					cmd.Dir, cmd.Stdin = dir, strings.NewReader("given\n")
					r := collect(t, cmd)
					state, _ := os.ReadFile(dir + "/state")
					return r, strings.ReplaceAll(string(state), dir, "DIR")
				}
				got, state := run(wrapped, f.line(row.command, name))
				if strings.Contains(row.command, "sec_") {
					got.want(t, row.name, row.out, row.err, got.code)
					return
				}
				alone, stateAlone := run(plain, row.command)
				got.want(t, row.name, alone.out, alone.err, alone.code)
				if row.name != "an array" && row.name != "a trap" {
					got.want(t, row.name, row.out, row.err, got.code)
				}
				if state != stateAlone {
					t.Error("the shell is left in another state: " + differ(stateAlone, state))
				}
				if n := len(f.requests()); (got.out+got.err == "") != (n == 0) {
					t.Errorf("%d requests for %+v", n, got)
				}
			})
		}
	}
}

// differ are the lines of which only one text has as many.
func differ(a, b string) string {
	count := map[string]int{}
	for line := range strings.Lines(a) {
		count[line]++
	}
	for line := range strings.Lines(b) {
		count[line]--
	}
	out := ""
	for line, n := range count {
		if n != 0 {
			out += fmt.Sprintf("%+d %s", -n, line)
		}
	}
	return out
}

// runIn runs a line in a shell.
func (f *fake) runIn(path, line string) result {
	f.t.Helper()
	cmd := exec.Command(path, "-c", line)
	if filepath.Base(path) == "zsh" {
		cmd.Args = []string{path, "-f", "-c", line}
	}
	cmd.Dir = f.dir
	return collect(f.t, cmd)
}

// TestWrapRefuses holds that nothing of a command runs which cannot be parsed whole, whose ticket was used, or whose
// hook's file is not to be trusted.
func TestWrapRefuses(t *testing.T) {
	t.Parallel()
	for name, path := range shells(t) {
		f := newFake(t)
		refused := func(what string, got result, want string) {
			t.Helper()
			left, _ := os.ReadDir(wrap.Tickets(f.file))
			if _, err := os.Stat(filepath.Join(f.dir, "ran")); err == nil || got.code != 126 || got.out != "" ||
				!strings.Contains(got.err, want) || !strings.Contains(got.err, "nothing has run") {
				t.Errorf("%s %s: %+v, %d left", name, what, got, len(left))
			}
		}
		for _, command := range []string{"echo x >ran\necho 'open", "echo x >ran\necho \"open", "echo x >ran\n(",
			"echo x >ran\n}", "echo x >ran\n; fi", "echo x >ran\necho $(open", "'; echo x >ran; '\"",
			"'; echo x >ran #'\"'\"'", "\\\n'"} {
			refused(command, f.runIn(path, f.line(command, name)), "syntax error")
		}
		line := f.line("echo again", name)
		f.runIn(path, line).want(t, name, "again\n", "", 0)
		refused("again", f.runIn(path, line), "was used")
		line = f.line("echo x >ran", name)
		refused("another command", f.runIn(path, strings.Replace(line, "echo x >ran", "echo y >ran", 1)), "another command")
		line = f.line("echo x >ran", name)
		if err := os.Chmod(f.file, 0o606); err != nil {
			t.Fatal(err)
		}
		refused("an open file", f.runIn(path, line), "written by others")
	}
}

// TestWrapLeaves holds what becomes of a command's traps and processes once it is over.
func TestWrapLeaves(t *testing.T) {
	t.Parallel()
	for name, path := range shells(t) {
		f := newFake(t)
		got := f.runIn(path, "trap 'echo of the agent; echo x >agent' EXIT\n"+f.line(": ; echo "+secret, name)+"; echo end")
		got.want(t, name+": the agent's own trap stays", redacted+"\nend\nof the agent\n", "", 0)

		got = f.runIn(path, f.line("trap 'echo x >ran; echo bye "+secret+"' EXIT; echo a", name)+"; echo end")
		if _, err := os.Stat(filepath.Join(f.dir, "ran")); err != nil || got.code != 0 ||
			got.out != "a\nend\n" && got.out != "a\nbye "+redacted+"\nend\n" { // zsh runs it at the command's end
			t.Errorf("%s: a trap that stays: %+v, %v", name, got, err)
		}
		if name == "bash" {
			got = f.runIn(path, f.line("trap 'echo x >>traps; echo t "+secret+"' ERR USR1; trap '' USR2; echo a", name)+
				"; false; kill -USR1 $$; kill -USR2 $$; trap -p USR2")
			if text, _ := os.ReadFile(filepath.Join(f.dir, "traps")); string(text) != "x\nx\n" {
				t.Errorf("the traps that stay have run: %q", text)
			}
			got.want(t, "traps that stay", "a\ntrap -- '' SIGUSR2\n", "", 0)
		} else {
			got = f.runIn(path, f.line("trap 'echo t "+secret+"' ZERR DEBUG; echo a", name)+"; false; echo end")
			if got.code != 0 || !strings.HasSuffix(got.out, "end\n") { // and collect looks for the secret
				t.Errorf("%s: traps that stay: %+v", name, got)
			}
		}

		got = f.runIn(path, f.line("trap 'echo bye "+secret+"' EXIT; echo a; exit 3", name)+"; echo end")
		got.want(t, name+": a trap and an exit", "a\nbye "+redacted+"\n", "", 3)
	}
}

// TestWrapStays holds that a process which a command leaves behind neither holds it up nor ends with it.
func TestWrapStays(t *testing.T) {
	t.Parallel()
	for name, path := range shells(t) {
		f := newFake(t)
		fifo := filepath.Join(f.dir, "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		got := f.runIn(path, f.line("sh -c 'cat fifo; echo "+secret+"; echo x >survived' & echo c", name)+"; echo end")
		got.want(t, name, "c\nend\n", stillRuns+"\n", 0)
		w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // the process that stays reads it
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		eventually(t, name, func() bool { return exists(filepath.Join(f.dir, "survived")) })
	}
}

// TestWrapFails holds that the output of a shell is withheld when the gateway fails, and that the command goes on.
func TestWrapFails(t *testing.T) {
	t.Parallel()
	for name, path := range shells(t) {
		f := newFake(t)
		f.Close()
		got := f.runIn(path, f.line("echo "+secret+"; echo e"+secret+" >&2; cd /; echo $PWD >"+f.dir+"/at; (exit 5)", name)+
			"\necho $? $PWD")
		n := notice("the gateway cannot be reached")
		got.want(t, name, n+"5 /\n", n, 0)
	}
}

// TestWrapOneFile holds that stdout and stderr of a shell are one text where the agent reads them from one file.
func TestWrapOneFile(t *testing.T) {
	t.Parallel()
	for name, path := range shells(t) {
		f := newFake(t)
		got := f.runIn(path, "{ "+f.line("echo 1; printf sec_ab >&2; echo cd1234; echo 2 >&2; echo 3", name)+"; } 2>&1")
		got.want(t, name, "1\n"+redacted+"\n2\n3\n", "", 0)
	}
}

// TestWrapInPlace puts wrapped lines where agents put command lines.
func TestWrapInPlace(t *testing.T) {
	t.Parallel()
	for name, path := range shells(t) {
		f := newFake(t)
		const command = "cd sub && echo " + secret + " # it's here"
		if err := os.Mkdir(filepath.Join(f.dir, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		sub := filepath.Join(f.dir, "sub")
		// Claude Code keeps the directory by what follows the command
		got := f.runIn(path, "eval "+wrap.Quote(f.line(command, name))+" < /dev/null && pwd -P >| "+f.dir+"/cwd")
		got.want(t, name+" in eval", redacted+"\n", "", 0)
		if at, _ := os.ReadFile(filepath.Join(f.dir, "cwd")); strings.TrimSpace(string(at)) != sub {
			t.Errorf("%s: the shell is in %s", name, at)
		}
		got = f.runIn(path, "{ "+f.line(command, name)+"; }; code=$?; pwd; exit $code") // Gemini CLI
		got.want(t, name+" in braces", redacted+"\n"+sub+"\n", "", 0)
		got = f.runIn(path, "("+f.line(command+"\nexit 3", "")+"); echo $?; pwd")
		got.want(t, name+" in a subshell", redacted+"\n3\n"+f.dir+"\n", "", 0)
		got = f.runIn(path, f.line(command, name)+"\n"+f.line("pwd", name))
		got.want(t, name+" twice", redacted+"\n"+sub+"\n", "", 0)
		got = f.runIn(path, "x=$("+f.line("echo "+secret, name)+"); echo \"<$x>\"")
		got.want(t, name+" in a substitution", "<"+redacted+">\n", "", 0)
	}
}

// TestWrapChild holds that other shells run the command in a child.
func TestWrapChild(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for _, shell := range []string{"", "sh", "/bin/dash"} {
		got := f.runIn("sh", f.line("cd / && echo "+secret+" 'it''s' && exit 3", shell)+"; echo $? $PWD")
		if filepath.Base(shell) == "." {
			shell = "sh"
		}
		got.want(t, shell, redacted+" its\n3 "+f.dir+"\n", "", 0)
	}
}

// TestWrapKilled holds that what a shell has printed comes out when it is killed.
func TestWrapKilled(t *testing.T) {
	t.Parallel()
	for name, path := range shells(t) {
		f := newFake(t)
		cmd := exec.Command(path, "-c", f.line("echo "+secret+"; kill -9 $$", name))
		cmd.Dir = f.dir
		got := collect(t, cmd)
		got.want(t, name, redacted+"\n", "", -1)
	}
}

// TestWrapHides holds that the children of a command have no way to the agent's own stdout and stderr.
func TestWrapHides(t *testing.T) {
	t.Parallel()
	for name, path := range shells(t) {
		f := newFake(t)
		// what the test itself was given has high numbers
		const probe = `for fd in /proc/self/fd/*; do n=${fd##*/}; ` +
			`[ "$n" -gt 2 ] && [ "$n" -lt 100 ] && [ -p "$fd" ] && echo ` + secret + ` >&"$n"; done 2>/dev/null; true`
		got := f.runIn(path, f.line("bash -c "+wrap.Quote(probe), name)+"; echo $?")
		if got.code != 0 || !strings.HasSuffix(got.out, "0\n") { // and collect looks for the secret
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWrapArguments(t *testing.T) {
	t.Parallel()
	good := wrap.Line{Yett: "/usr/bin/yett", Config: "/etc/h.json", Ticket: "ab12"}
	for _, row := range []struct {
		command, shell string
		change         func(l *wrap.Line)
		want           string
	}{
		{"ls", "bash", func(*wrap.Line) {}, ""},
		{"", "bash", func(*wrap.Line) {}, "no command"},
		{"a\x00b", "bash", func(*wrap.Line) {}, "NUL"},
		{"a\xff", "bash", func(*wrap.Line) {}, "not UTF-8"},
		{"ls", "fish", func(*wrap.Line) {}, `"fish"`},
		{"ls", "pwsh", func(*wrap.Line) {}, `"pwsh"`},
		{"ls", "bash", func(l *wrap.Line) { l.Yett = "yett" }, "absolute"},
		{"ls", "bash", func(l *wrap.Line) { l.Config = "/etc/../h" }, "absolute"},
		{"ls", "bash", func(l *wrap.Line) { l.Ticket = "a b" }, "ticket"},
		{"ls", "bash", func(l *wrap.Line) { l.Ticket = "" }, "ticket"},
	} {
		l := good
		row.change(&l)
		_, err := wrap.Wrap(row.command, row.shell, l)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%q in %s: %v, want %q", row.command, row.shell, err, row.want)
		}
	}
	got, err := wrap.Wrap("it's", "dash", wrap.Line{Yett: "/o'p/yett", Config: "/h.json", Ticket: "ab"})
	if want := `'/o'\''p/yett' exec --config '/h.json' --ticket ab -- sh -c 'it'\''s'`; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// TestWrapPosix holds that bash in its POSIX mode, which it takes when it is called sh, runs commands as well.
func TestWrapPosix(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	run := func(line string) result {
		cmd := exec.Command("bash", "--posix", "-c", line)
		cmd.Dir = f.dir
		return collect(t, cmd)
	}
	line := f.line("trap 'echo x >"+f.dir+"/ran' EXIT; cd /; echo "+secret, "")
	run(line+"\necho $PWD").want(t, "a trap", redacted+"\n/\n", "", 0)
	run(f.line("echo a; exit 3", "")).want(t, "exit", "a\n", "", 3)
	if !exists(filepath.Join(f.dir, "ran")) {
		t.Error("the trap has not run")
	}
}
