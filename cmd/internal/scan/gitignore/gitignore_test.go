package gitignore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var cases = []struct {
	text, path string
	dir        bool
	want       string // ignored, kept or nothing
}{
	{"*.log", "a/b.log", false, "ignored"},
	{"*.log\n!keep.log", "keep.log", false, "kept"},
	{"!keep.log\n*.log", "keep.log", false, "ignored"},
	{"build/", "build", false, "nothing"},
	{"build/", "a/build", true, "ignored"},
	{"/build", "a/build", true, "nothing"},
	{"a/b", "x/a/b", false, "nothing"},
	{"**/b", "x/a/b", false, "ignored"},
	{"**/b", "b", false, "ignored"},
	{"a/**/b", "a/b", false, "ignored"},
	{"a/**/b", "a/x/y/b", false, "ignored"},
	{"a/**", "a", true, "nothing"},
	{"a/**", "a/x/y", false, "ignored"},
	{"a/*", "a/x/y", false, "nothing"},
	{"a**c/d", "abc/d", false, "ignored"},
	{"#x", "#x", false, "nothing"},
	{`\#x`, "#x", false, "ignored"},
	{`\!x`, "!x", false, "ignored"},
	{"x ", "x", false, "ignored"},
	{`x\ `, "x ", false, "ignored"},
	{"x\t", "x", false, "nothing"},
	{"x\r\ny", "x", false, "ignored"},
	{"\ufeffx", "x", false, "ignored"},
	{"[a-c]x", "bx", false, "ignored"},
	{"[!a-c]x", "bx", false, "nothing"},
	{"[[:digit:]]x", "7x", false, "ignored"},
	{"[]x]", "]", false, "ignored"},
	{"[x", "[x", false, "nothing"},
	{`x\`, `x\`, false, "nothing"},
	{"/", "x", true, "nothing"},
	{"", "x", true, "nothing"},
	{"a**/d", "abc/x/d", false, "ignored"},
	{"a/x**/d", "a/xc/y/d", false, "ignored"},
	{"/a**/d", "abc/x/d", false, "ignored"},
	{"/*/d", "a/d", false, "ignored"},
	{"/*/d", "a/b/d", false, "nothing"},
	{"a/**/b/**/c", "a/x/b/y/z/c", false, "ignored"},
	{"**/a/**/b", "x/y/a/b", false, "ignored"},
	{"a/**b/c", "a/x/b/c", false, "nothing"},
	{"a?b/c", "a/b/c", false, "nothing"},
	{"a[/]b/c", "a/b/c", false, "nothing"},
	{"[a-b-z]x", "cx", false, "nothing"},
	{"[a-b-z]x", "-x", false, "ignored"},
	{"[[:digit:]-z]x", "ax", false, "nothing"},
	{"[[:digit:]-z]x", "-x", false, "ignored"},
	{"[a-]x", "-x", false, "ignored"},
	{`[\]]x`, "]x", false, "ignored"},
	{"[[:nope:]]x", "nx", false, "nothing"},
	{"[[:digit]x", "dx", false, "ignored"},
	{"**", "a/b", false, "ignored"},
	{"a/", "a/b", false, "nothing"},
	{`x\  `, "x ", false, "ignored"},
}

func TestMatch(t *testing.T) {
	for _, c := range cases {
		ignored, said := Parse(c.text).Match(c.path, c.dir)
		got := "nothing"
		if said {
			got = map[bool]string{true: "ignored", false: "kept"}[ignored]
		}
		if got != c.want {
			t.Errorf("%q says %s about %q (a folder: %t), want %s", c.text, got, c.path, c.dir, c.want)
		}
	}
}

// TestLinear: a pattern that makes naive matchers try every way to cut the text takes no time worth measuring. A
// matcher that does not remember does not end before the tests' own limit.
func TestLinear(t *testing.T) {
	text := strings.Repeat("a", 4000)
	for _, p := range []string{strings.Repeat("*a", 40) + "b", strings.Repeat("**/*a", 40) + "/b",
		strings.Repeat("a*/**/", 30) + "b"} {
		if Parse(p); match(p, text, true) || match(p, strings.ReplaceAll(text, "aa", "a/"), true) {
			t.Errorf("%.20q matches", p)
		}
	}
}

func FuzzMatch(f *testing.F) {
	for _, c := range cases {
		f.Add(c.text, c.path, c.dir)
	}
	f.Fuzz(func(t *testing.T, text, path string, dir bool) {
		if ignored, said := Parse(text).Match(path, dir); ignored && !said {
			t.Errorf("%q about %q: ignored, and nothing said", text, path)
		}
	})
}

// TestGit compares with git on random trees with random files .gitignore.
func TestGit(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: git is not run")
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		git(t, dir, "", "init", "-q")
		paths := plant(t, dir, r)
		lists := map[string]*List{}
		for _, p := range paths {
			if strings.HasSuffix(p, "/") && r.IntN(3) == 0 || p == "./" {
				text := randomPatterns(r, paths)
				folder := strings.TrimPrefix(p, "./")
				if err := os.WriteFile(filepath.Join(dir, folder, ".gitignore"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				lists[folder] = Parse(text)
			}
		}
		var asked bytes.Buffer
		for _, p := range paths {
			if p != "./" {
				fmt.Fprintf(&asked, "%s\x00", strings.TrimSuffix(p, "/"))
			}
		}
		says := map[string]bool{}
		for f := strings.Split(git(t, dir, asked.String(), "check-ignore", "-z", "--stdin", "--no-index"), "\x00"); len(f) >
			1; f = f[1:] {
			says[f[0]] = true
		}
		for _, p := range paths {
			name := strings.TrimSuffix(p, "/")
			if p == "./" || ignoredIn(lists, name, name != p) == says[name] {
				continue
			}
			t.Errorf("seed %d: %q: git says %t", seed, p, says[name])
			for folder := range lists {
				text, _ := os.ReadFile(filepath.Join(dir, folder, ".gitignore"))
				t.Logf("%s.gitignore: %q", folder, text)
			}
		}
	}
}

// TestCases has git look at the cases of TestMatch, each in a folder of its own.
func TestCases(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: git is not run")
	}
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	var asked bytes.Buffer
	for i, c := range cases {
		at := filepath.Join(dir, fmt.Sprint(i))
		file := filepath.Join(at, filepath.FromSlash(c.path))
		folder := file
		if !c.dir {
			folder = filepath.Dir(file)
		}
		err := os.MkdirAll(folder, 0o700)
		if err == nil && !c.dir {
			err = os.WriteFile(file, nil, 0o600)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(at, ".gitignore"), []byte(c.text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&asked, "%d/%s\x00", i, c.path)
	}
	says := git(t, dir, asked.String(), "check-ignore", "-z", "--stdin", "--no-index")
	for i, c := range cases {
		got := strings.Contains("\x00"+says, fmt.Sprintf("\x00%d/%s\x00", i, c.path))
		if want := ignoredIn(map[string]*List{"": Parse(c.text)}, c.path, c.dir); got != want {
			t.Errorf("%q of %q: git says %t", c.path, c.text, got)
		}
	}
}

// ignoredIn is what a walk from the top down would find.
func ignoredIn(lists map[string]*List, path string, dir bool) bool {
	for at := 0; at < len(path); {
		end := strings.IndexByte(path[at:], '/')
		is := true
		if end < 0 {
			end, is = len(path), dir
		} else {
			end += at
		}
		for from := strings.LastIndexByte(path[:end], '/') + 1; ; from = strings.LastIndexByte(path[:from-1], '/') + 1 {
			if l := lists[path[:from]]; l != nil {
				if ignored, said := l.Match(path[from:end], is); said {
					if ignored {
						return true
					}
					break
				}
			}
			if from == 0 {
				break
			}
		}
		at = end + 1
	}
	return false
}

var names = []string{"a", "b", "ab", "a.log", "b.log", "#x", "!x", "x ", "[a]", "a-b", "build", "é", "A"}

// plant makes a tree, and gives its paths; those of folders end with a slash.
func plant(t *testing.T, dir string, r *rand.Rand) []string {
	paths := []string{"./"}
	var grow func(at string, depth int)
	grow = func(at string, depth int) {
		for _, n := range names {
			switch k := r.IntN(6); {
			case k == 0 && depth < 3:
				if err := os.Mkdir(filepath.Join(dir, at, n), 0o700); err != nil {
					t.Fatal(err)
				}
				paths = append(paths, at+n+"/")
				grow(at+n+"/", depth+1)
			case k == 1:
				if err := os.WriteFile(filepath.Join(dir, at, n), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				paths = append(paths, at+n)
			}
		}
	}
	grow("", 0)
	return paths
}

var parts = []string{"a", "b", "*", "**", "?", "/", "[ab]", "[!a]", "[[:alpha:]]", `\`, "!", "#", " ", "[", "]", "-",
	"**/", "/**", "/**/", "[a-b]", "[^b", "[b-]", "[a-b-z]", "[[:digit:]-z]", "[]a]", `[\a-b]`, "[a[:alpha:]", "[:alpha:]"}

// randomPatterns makes patterns out of paths that there are, so that many of them match.
func randomPatterns(r *rand.Rand, paths []string) string {
	var b strings.Builder
	for range 1 + r.IntN(5) {
		if r.IntN(4) == 0 {
			b.WriteByte('!')
		}
		path := strings.TrimSuffix(paths[r.IntN(len(paths))], "/")
		for range r.IntN(3) {
			_, path, _ = strings.Cut(path, "/")
		}
		for _, c := range []byte(path) {
			switch r.IntN(20) {
			case 0:
				b.WriteString(parts[r.IntN(len(parts))])
			case 1:
				b.WriteString(parts[r.IntN(len(parts))] + string(c))
			case 2:
				b.WriteString(`\` + string(c))
			case 3:
				b.WriteString("[" + string(c) + "]")
			default:
				b.WriteByte(c)
			}
		}
		b.WriteString([]string{"\n", "\n", "\n", "/\n", "*\n", " \n", "\r\n", `\ ` + "\n", "/**\n"}[r.IntN(9)])
	}
	return b.String()
}

func git(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 || args[0] != "check-ignore") {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
