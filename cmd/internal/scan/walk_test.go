package scan

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// listed is what a walk gives: names of files, and "name: reason" of what is skipped.
func listed(t *testing.T, dir string, all bool) (out []string) {
	t.Helper()
	var open opened
	for it := range folder(t.Context(), dir, all, &open) {
		name, err := filepath.Rel(dir, it.name)
		must(t, err)
		switch {
		case it.err != nil:
			name += ": error " + it.err.Error()
		case it.skip != "":
			name += ": " + it.skip
		}
		out = append(out, name)
	}
	must(t, open.close())
	return out
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWalk: a folder gives its files sorted. What lies outside is not reached, what is no file is not opened, and what
// git ignores is skipped by the rules of all folders.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{
		"secret":                 "outside",
		"repo/.git/info/exclude": "/excluded\n",
		"repo/.git/config":       "",
		"repo/.gitignore":        "*.log\n/build/\n!keep.log\nsub/deep/no\n",
		"repo/a.log":             "", "repo/keep.log": "", "repo/build/x": "", "repo/excluded": "",
		"repo/sub/.gitignore": "!a.log\n*.tmp\n",
		"repo/sub/a.log":      "", "repo/sub/b.log": "", "repo/sub/c.tmp": "", "repo/sub/build/x": "",
		"repo/sub/deep/no": "", "repo/sub/deep/yes": "", "repo/sub/deep/.git": "gitdir: x",
		"repo/sub/deep/linked/other/x": "",
	})
	repo := filepath.Join(dir, "repo")
	must(t, os.Symlink("../secret", filepath.Join(repo, "out")), os.Symlink("..", filepath.Join(repo, "up")),
		os.Symlink("sub", filepath.Join(repo, "in")), syscall.Mkfifo(filepath.Join(repo, "pipe"), 0o600),
		os.Symlink("../../secret", filepath.Join(repo, "sub/deep/linked/.gitignore")))
	tail := []string{"sub/.gitignore", "sub/a.log", "sub/b.log: ignored", "sub/build/x", "sub/c.tmp: ignored",
		"sub/deep/.git: git", "sub/deep/linked/.gitignore: symlink", "sub/deep/linked/other/x", "sub/deep/no: ignored",
		"sub/deep/yes"}
	same(t, "repo", listed(t, repo, false), append([]string{".git: git", ".gitignore", "a.log: ignored", "build: ignored",
		"excluded: ignored", "in: symlink", "keep.log", "out: symlink", "pipe: special"}, append(append([]string{}, tail...),
		"up: symlink")...)...)
	var below []string
	for _, name := range tail {
		below = append(below, strings.TrimPrefix(name, "sub/"))
	}
	same(t, "repo/sub", listed(t, filepath.Join(repo, "sub"), false), below...)
	same(t, "repo/build, which is named", listed(t, filepath.Join(repo, "build"), false), "x")
	same(t, "all of repo/sub", listed(t, filepath.Join(repo, "sub"), true), ".gitignore", "a.log", "b.log", "build/x",
		"c.tmp", "deep/.git: git", "deep/linked/.gitignore: symlink", "deep/linked/other/x", "deep/no", "deep/yes")
}

// TestSwapped: a file that is replaced between the list and the read leads nowhere else, and nothing waits for a pipe.
func TestSwapped(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"secret": assigned(1), "repo/a": "", "repo/b": "", "repo/c/d": "", "repo/e": ""})
	repo := filepath.Join(dir, "repo")
	var open opened
	var got []string
	for it := range folder(t.Context(), repo, false, &open) {
		at := it.name
		must(t, os.Remove(at))
		switch filepath.Base(at) {
		case "a":
			must(t, os.Symlink(filepath.Join(dir, "secret"), at))
		case "b":
			must(t, syscall.Mkfifo(at, 0o600))
		case "d":
			must(t, os.Remove(filepath.Dir(at)), os.Symlink("..", filepath.Dir(at)), os.WriteFile(filepath.Join(dir, "d"),
				[]byte(assigned(2)), 0o600))
		case "e":
			must(t, os.Mkdir(at, 0o700))
		}
		r, _, err := it.open(t.Context())
		if err == nil {
			got = append(got, "opened "+at)
			must(t, r.Close())
		}
	}
	must(t, open.close())
	same(t, "opened", got)
}

// TestDirectoryArguments: names in a report are those that the user would type.
func TestDirectoryArguments(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a/b/c": assigned(1) + "\n", "a/\xff\n": assigned(2) + "\n"})
	run(t, dir, "", "a").want(t, 1, found("a/b/c", 1, 1)+`a/\xff\n`+found("", 1, 2))
	run(t, dir, "", "./a/b/").want(t, 1, found("a/b/c", 1, 1))
	run(t, filepath.Join(dir, "a", "b"), "", "..").want(t, 1, found("../b/c", 1, 1)+`../\xff\n`+found("", 1, 2))
	run(t, dir, "", filepath.Join(dir, "a", "b")).want(t, 1, found(filepath.Join(dir, "a/b/c"), 1, 1))
	run(t, dir, "", "a", "a/b/c").want(t, 1, found("a/b/c", 1, 1)+`a/\xff\n`+found("", 1, 2)+found("a/b/c", 1, 1))
}

// TestManyWorkers: results come in the order of the files, however many are scanned at a time.
func TestManyWorkers(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	files := map[string]string{}
	want := ""
	for i := range 300 {
		name := string(rune('a'+i/100)) + "/" + string(rune('0'+i/10%10)) + string(rune('0'+i%10))
		files[name] = strings.Repeat("x\n", i*37%1000) + assigned(i) + "\n"
		want += found(name, i*37%1000+1, i)
	}
	plant(t, dir, files)
	for _, jobs := range []string{"1", "2", "7"} {
		run(t, dir, "", "--jobs", jobs, ".").want(t, 1, want, "scanned 300 files")
	}
}

// gitIn runs git in a directory.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.invalid"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestStaged: what is scanned is what the next commit would change, byte by byte as it is in the index.
func TestStaged(t *testing.T) {
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q", "-b", "main")
	plant(t, dir, map[string]string{"new": assigned(1) + "\n", "a b\n\"c\xff": assigned(2) + "\n", "clean": "x\n",
		"not-added": assigned(3), "sub/deep": assigned(4) + "\n", ".gitattributes": "*.enc filter=upper diff=upper\n"})
	must(t, os.Symlink("not-added", filepath.Join(dir, "link")))
	gitIn(t, dir, "add", "new", "clean", "sub", "a b\n\"c\xff", "link", ".gitattributes")
	must(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o600), os.Remove(filepath.Join(dir, "sub/deep")))
	all := `a b\n"c\xff` + found("", 1, 2) + found("new", 1, 1) + found("sub/deep", 1, 4)
	run(t, dir, "", "--staged").want(t, 1, all, "scanned 5 files", "1 symbolic link")
	run(t, filepath.Join(dir, "sub"), "", "--staged").want(t, 1, all)

	gitIn(t, dir, "commit", "-q", "-m", "x")
	run(t, dir, "", "--staged").want(t, 0, "", "scanned 0 files")
	plant(t, dir, map[string]string{"clean": "y\n"})
	run(t, dir, "", "--staged").want(t, 0, "", "scanned 0 files") // changed, not staged
	gitIn(t, dir, "mv", "a b\n\"c\xff", "moved")
	gitIn(t, dir, "rm", "-q", "-f", "sub/deep")
	run(t, dir, "", "--staged").want(t, 1, found("moved", 1, 2), "scanned 1 file")
	gitIn(t, dir, "commit", "-q", "-m", "y")

	// nothing of a repository's configuration runs, and no other bytes are read in place of those of the index
	gitIn(t, dir, "config", "core.fsmonitor", "touch "+filepath.Join(dir, "ran")+"; false")
	gitIn(t, dir, "config", "diff.upper.textconv", "touch "+filepath.Join(dir, "ran")+"; true")
	gitIn(t, dir, "config", "diff.relative", "true") // would leave out what is staged elsewhere
	must(t, os.Mkdir(filepath.Join(dir, "apart"), 0o700))
	gitIn(t, dir, "config", "diff.external", "touch "+filepath.Join(dir, "ran")+"; true")
	plant(t, dir, map[string]string{"x.enc": assigned(5) + "\n"})
	gitIn(t, dir, "-c", "core.fsmonitor=false", "add", "x.enc")
	blob := strings.TrimSpace(gitIn(t, dir, "-c", "core.fsmonitor=false", "rev-parse", ":x.enc"))
	other := strings.TrimSpace(gitIn(t, dir, "-c", "core.fsmonitor=false", "rev-parse", "HEAD:clean"))
	gitIn(t, dir, "replace", blob, other)
	run(t, dir, "", "--staged").want(t, 1, found("x.enc", 1, 5))
	run(t, filepath.Join(dir, "apart"), "", "--staged").want(t, 1, found("x.enc", 1, 5))
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a program of the repository's configuration ran")
	}
	gitIn(t, dir, "-c", "core.fsmonitor=false", "update-index", "--add", "--cacheinfo", "160000,"+blob+",module")
	run(t, dir, "", "--staged").want(t, 1, found("x.enc", 1, 5), "1 submodule")
	gitIn(t, dir, "-c", "core.fsmonitor=false", "update-index", "--add", "--cacheinfo", "100644,"+strings.Repeat("a",
		40)+",lost")
	run(t, dir, "", "--staged").want(t, 3, found("x.enc", 1, 5), "NOT SCANNED lost: git cat-file has no such blob")
	run(t, t.TempDir(), "", "--staged").want(t, 3, "", "not a git repository")
}

// TestUnmerged: a conflict cannot be scanned.
func TestUnmerged(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q", "-b", "main")
	commit := func(text string) {
		plant(t, dir, map[string]string{"a": text})
		gitIn(t, dir, "add", "a")
		gitIn(t, dir, "commit", "-q", "-m", "x")
	}
	commit("1\n")
	gitIn(t, dir, "checkout", "-q", "-b", "other")
	commit("2\n")
	gitIn(t, dir, "checkout", "-q", "main")
	commit("3\n")
	cmd := exec.Command("git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "merge", "-q", "other")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("no conflict: %s", out)
	}
	run(t, dir, "", "--staged").want(t, 3, "", "NOT SCANNED a: it is unmerged")
}

// TestHookIndex: a hook of git commit -a has an index of its own.
func TestHookIndex(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q", "-b", "main")
	plant(t, dir, map[string]string{"a": "x\n"})
	gitIn(t, dir, "add", "a")
	gitIn(t, dir, "commit", "-q", "-m", "x")
	plant(t, dir, map[string]string{"a": assigned(1) + "\n"})
	must(t, os.Rename(filepath.Join(dir, ".git/index"), filepath.Join(dir, ".git/kept")))
	t.Setenv("GIT_INDEX_FILE", filepath.Join(dir, ".git", "another"))
	gitIn(t, dir, "add", "a")
	run(t, dir, "", "--staged").want(t, 1, found("a", 1, 1))
}

// FuzzRaw: what git prints is read or refused.
func FuzzRaw(f *testing.F) {
	f.Add(":100644 100755 a b M\x00path\x00")
	f.Add(":100644\x00\x00")
	f.Fuzz(func(t *testing.T, out string) {
		all, err := parseRaw(out)
		for _, e := range all {
			if err != nil || e.path == "" || e.blob == "" || strings.Contains(e.path, "\x00") {
				t.Errorf("%q: %+v, %v", out, e, err)
			}
		}
	})
}

// TestBlobCutShort: a blob whose process ends within it is not a shorter blob.
func TestBlobCutShort(t *testing.T) {
	r := &blobReader{c: &catFile{out: bufio.NewReader(strings.NewReader("half"))}, left: 8}
	n, final, err := fill(r, make([]byte, 16))
	if final || !errors.Is(err, errCut) {
		t.Errorf("%d bytes, the end: %v, %v", n, final, err)
	}
}
