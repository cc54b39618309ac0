package shell

import (
	"bytes"
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReadsDoNothing runs lines that are of class read in a directory of its own. They change no file, and print
// nothing of a file that lies outside.
func TestReadsDoNothing(t *testing.T) {
	runLines(t, Read, func(string) bool { return true })
}

// TestWritesStayInside runs lines of class write. They change nothing but files of the project that are not hidden.
func TestWritesStayInside(t *testing.T) {
	runLines(t, Write, func(name string) bool {
		return !strings.HasPrefix(name, "p/") || strings.HasPrefix(name, "p/.git/config") ||
			strings.HasPrefix(name, "p/.git/hooks")
	})
}

// runLines runs lines of a class in a project of its own. The files that are kept do not change.
func runLines(t *testing.T, class Class, kept func(name string) bool) {
	t.Helper()
	bash := shells(t)[0]
	base := t.TempDir()
	project := filepath.Join(base, "p")
	for name, text := range map[string]string{"outside.txt": "OUTSIDE-TEXT\n", "p/a.go": "package a\nfoo\n",
		"p/src/b.go": "foo\n", "p/args": "../outside.txt\n", "p/x.json": `{"a":1}`} {
		file := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(line string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, bash, "-c", line)
		cmd.Dir = project
		cmd.Env = []string{"HOME=" + base, "PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_OPTIONAL_LOCKS=0", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a", "GIT_COMMITTER_NAME=a",
			"GIT_COMMITTER_EMAIL=a@a"}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if ctx.Err() != nil {
			t.Fatalf("%s\ndoes not end", line)
		}
		return out.String(), err
	}
	programs := []string{"ls", "cat", "head", "tail", "wc", "nl", "cut", "paste", "sort", "uniq", "tr", "fold", "expand",
		"od", "stat", "du", "diff", "readlink", "date", "grep", "find", "sed", "awk", "test", "printf", "seq", "basename",
		"mkdir", "touch", "cp", "mv", "rmdir", "tee", "chmod"}
	for _, other := range []string{"hexdump", "strings", "file", "column", "tree", "jq", "rg", "fd", "shasum", "gawk"} {
		if _, err := exec.LookPath(other); err == nil {
			programs = append(programs, other)
		}
	}
	if out, err := run("git init -q . && git add -A && git commit -qm one && echo foo >> a.go"); err == nil {
		for key := range declaredCommands(t) {
			if strings.HasPrefix(key, "git ") {
				programs = append(programs, key)
			}
		}
	} else {
		t.Logf("git is left out: %v\n%s", err, out)
	}
	slices.Sort(programs)
	before, batch := tree(t, base, kept), 25
	lines := riskyLines(t, class, programs)
	lines = lines[:min(len(lines), 900)]
	if testing.Short() {
		lines = lines[:len(lines)/5]
	}
	for part := range slices.Chunk(lines, batch) {
		out, _ := run("{ " + strings.Join(part, "\n") + "\n} </dev/null")
		if strings.Contains(out, "OUTSIDE-TEXT") {
			t.Errorf("one of these prints a file from outside:\n%s", strings.Join(part, "\n"))
		}
		if changed := changes(before, tree(t, base, kept)); len(changed) > 0 {
			t.Fatalf("one of these changes %q:\n%s", changed, strings.Join(part, "\n"))
		}
	}
}

// riskyLines are lines of a class in random order: each option of each program with values that would read or write
// outside, and random words.
func riskyLines(t *testing.T, class Class, programs []string) (lines []string) {
	t.Helper()
	add := func(key string, words ...string) {
		if line := wordsLine(append(strings.Fields(key), words...)); ReadLine(line, home).Class == class {
			lines = append(lines, line)
		}
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, key := range programs {
		entries := declaredCommands(t)[key]
		for _, d := range entries {
			for _, o := range d.words {
				add(key, o)
				for _, v := range []string{"../F", "../outside.txt", "--output=../F", "-o../F"} {
					add(key, o+v, "a.go")
					add(key, o+"="+v, "a.go")
					add(key, o, v, "a.go")
					add(key, "a.go", o, v)
				}
			}
		}
		for range 200 {
			words := randomWords(rnd, entries, entries)
			for range rnd.IntN(3) {
				words = append(words, []string{"a.go", "src", "../outside.txt", "@args", "foo", "HEAD", "1"}[rnd.IntN(7)])
			}
			add(key, words...)
		}
	}
	if len(lines) < 500 {
		t.Fatalf("only %d lines", len(lines))
	}
	rnd.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return lines
}

// tree are the kept files of a directory with their modes and times. Git notes in its index what it has looked at.
func tree(t *testing.T, dir string, kept func(name string) bool) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, dir+"/")
		if err != nil || name == "p/.git/index" || !kept(name) {
			return err
		}
		if d.IsDir() {
			out[name] = "a directory"
			return nil
		}
		info, err := d.Info()
		if err == nil {
			out[name] = info.Mode().String() + " " + info.ModTime().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// changes are the files that differ.
func changes(before, after map[string]string) (out []string) {
	for name := range before {
		if after[name] != before[name] {
			out = append(out, name)
		}
	}
	for name := range after {
		if before[name] == "" {
			out = append(out, name)
		}
	}
	return out
}
