package shell

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// printer makes a shell print the words of a line to descriptor 9 in place of running it.
const printer = `p() { printf '%s\0' "$@" >&9; }
p `

// shellWords are the words that a real shell makes of a simple line. Nothing runs: the shell's own printf prints.
func shellWords(t testing.TB, shell, dir, line string) ([]string, bool) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(shell, "-c", printer+strings.TrimLeft(line, " \n")) // p takes the line's first words
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "PATH=/nonexistent", "LC_ALL=C.UTF-8"}
	cmd.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, w} // 3 to 9
	err = cmd.Run()
	w.Close()
	out := new(bytes.Buffer)
	if _, readErr := out.ReadFrom(r); readErr != nil {
		t.Fatal(readErr)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\x00"), "\x00"), err == nil
}

// sandbox is a directory with names that expansions would find.
func sandbox(t testing.TB) string {
	dir := t.TempDir()
	for _, name := range []string{"a.go", "b c", "-rf", "a", "ab", "HEAD~1", "x=y", "{a,b}", "rg"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shells are those of this machine. bash has to be there, others may.
func shells(t testing.TB) []string {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatalf("bash is needed to hold words against: %v", err)
	}
	out := []string{bash}
	for _, other := range []string{"dash", "zsh", "busybox-sh"} {
		if path, err := exec.LookPath(other); err == nil {
			out = append(out, path)
		}
	}
	return out
}

func agree(t testing.TB, shell, dir, text string, line Line) {
	t.Helper()
	if got, ok := shellWords(t, shell, dir, text); !ok || !slices.Equal(got, line.Words) {
		t.Errorf("%s\nwe read %q\n%s reads %q (%v)", text, line.Words, shell, got, ok)
	}
}

// TestShellsAgree holds the words of each simple line against real shells: those of lines.txt, and lines put together
// from what is tricky.
func TestShellsAgree(t *testing.T) {
	dir, list := sandbox(t), shells(t)
	simple := 0
	for _, c := range cases(t) {
		if line := ReadLine(c[1], home); line.Simple {
			simple++
			for _, shell := range list {
				agree(t, shell, dir, c[1], line)
			}
		}
	}
	if simple < 150 {
		t.Fatalf("only %d lines are simple", simple)
	}
	rnd, tried := rand.New(rand.NewPCG(1, 2)), 0
	want := 400
	if testing.Short() {
		want = 60
	}
	for simple = 0; simple < want; tried++ {
		text := randomLine(rnd)
		line := ReadLine(text, home)
		if !line.Simple {
			continue
		}
		simple++
		agree(t, list[simple%len(list)], dir, text, line)
	}
	if tried < simple*2 {
		t.Errorf("of %d lines %d are simple: they are not tricky enough", tried, simple)
	}
}

// tricky is what shells expand, quote, split or join.
var tricky = []string{"a", "b c", "ls", "-rf", "'", "'", `"`, `"`, `\`, " ", "  ", "\n", "$", "$HOME", "${a}", "$(a)",
	"`a`", "*", "?", "[ab]", "{a,b}", "~", "~/x", "HEAD~1", "x^", "^x", "=", "x=y", "=ls", "a=~", "#", "a#b", "!", "!!",
	`\!`, ";", "&", "&&", "|", "||", "|&", "<", ">", ">>", "2>&1", ">/dev/null", "2>/dev/null", "&>", "<<",
	"<<<", "(", ")", "{", "}",
	"%", "%1", "@", "+", ",", ":", ".", "/", "..", "é", "\u00a0", "\t", "\r", "\\\n", "$'a'", `$"a"`, "@(a)",
	"+(a)", "!(a)", "time", "if", "2", "1>x", "0",
	`'a"b'`, `"a'b"`, `"a\b"`, `"a\"b"`, `\'`, `\"`, `\ `, `\\`, "''", `""`}

func randomLine(rnd *rand.Rand) string {
	var b strings.Builder
	b.WriteString("ls ")
	for range 1 + rnd.IntN(7) {
		b.WriteString(tricky[rnd.IntN(len(tricky))])
		if rnd.IntN(3) == 0 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// FuzzReadLine: no line panics or takes long, what is simple is what it says, and what has a class is made of plain
// commands.
func FuzzReadLine(f *testing.F) {
	for _, c := range cases(f) {
		f.Add(c[1], home)
	}
	for _, s := range tricky {
		f.Add("ls "+s, "")
	}
	f.Add(strings.Repeat("$(", 5000), "")
	f.Add(strings.Repeat("ls|", 5000), "")
	f.Add(strings.Repeat("\\", MaxLine), "")
	dir, bash := sandbox(f), shells(f)[0]
	f.Fuzz(func(t *testing.T, text, project string) {
		line := ReadLine(text, project)
		if line.Class == "" || len(line.Mentions) == 0 {
			t.Fatalf("%+v", line)
		}
		proven := slices.Contains([]Class{Read, Write, Test, Network, Install, Push}, line.Class)
		if proven && strings.ContainsAny(withoutQuoted(text), "$`(){}*?[]!#") {
			t.Fatalf("%q is %s", text, line.Class)
		}
		if line.Simple && !strings.Contains(text, "\x00") {
			agree(t, bash, dir, text, line)
		}
		File(text, project)
		_, _ = PatchFiles(text)
	})
}

// withoutQuoted leaves out what stands in single quotes or double quotes or behind a backslash.
func withoutQuoted(text string) string {
	var out strings.Builder
	var quote rune
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
