package policyfiles

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A walk goes through a link at its root, leaves out what mounted configuration hides, and ends with the first error.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tree/b", "tree/sub/a", "tree/.hidden", "tree/..data", "tree/..2026/b",
		"tree/sub/..old/x"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "..now") // the root's own name hides nothing
	if err := os.Symlink("tree", link); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := Walk(link, func(p, name string) error {
		if _, err := os.Stat(p); err != nil {
			t.Error(err)
		}
		got = append(got, name)
		return nil
	}); err != nil || strings.Join(got, " ") != ".hidden b sub/a" {
		t.Errorf("%q, %v", got, err)
	}
	stop := errors.New("enough")
	n := 0
	if err := Walk(link, func(string, string) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%d files, %v", n, err)
	}
	if err := Walk(filepath.Join(dir, "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// A link to a directory is refused wherever it is, since what it leads to would be missing. So is one that leads
// nowhere. Links to files are followed, as mounted configuration has them, also into what is left out.
func TestWalkLinks(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"to a directory":            {"tree/more", "../other", "tree/more leads to a directory: links to directories are not followed"},
		"to a directory, further":   {"tree/sub/more", "../../other", "tree/sub/more leads to a directory"},
		"through another link":      {"tree/more", "../again", "tree/more leads to a directory"},
		"to itself from below":      {"tree/sub/more", "..", "tree/sub/more leads to a directory"},
		"to a hidden directory":     {"tree/more", "..data/sub", "tree/more leads to a directory"},
		"nowhere":                   {"tree/more", "none", "tree/more: no such file or directory"},
		"in a circle":               {"tree/more", "more", "tree/more: too many levels of symbolic links"},
		"to a file":                 {"tree/more", "../other/x", ""},
		"to a hidden file":          {"tree/more", "..data/b", ""},
		"hidden, to a directory":    {"tree/..more", "../other", ""},
		"hidden, and leads nowhere": {"tree/..more", "none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"tree/a", "tree/..2026/b", "tree/..2026/sub/c", "tree/sub/d", "other/x"} {
				p := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			for from, to := range map[string]string{"tree/..data": "..2026", "again": "other", c.from: c.to} {
				if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			err = Walk(filepath.Join(dir, "tree"), func(_, name string) error { got = append(got, name); return nil })
			want := "a more sub/d"
			if strings.Contains(c.from, "..") {
				want = "a sub/d"
			}
			switch {
			case c.want == "" && (err != nil || strings.Join(got, " ") != want):
				t.Errorf("%q, %v; want %s", got, err, want)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), filepath.Join(dir, c.want))):
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
}

// The version that a mount's switch points to can be walked: it holds the directories themselves.
func TestWalkMount(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"..2026/a", "..2026/sub/b"} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..2026", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := Walk(filepath.Join(dir, "..data"), func(_, name string) error {
		got = append(got, name)
		return nil
	}); err != nil || strings.Join(got, " ") != "a sub/b" {
		t.Errorf("%q, %v", got, err)
	}
}

// A tree may hold so many names, whatever they are and wherever they stand, and not one more. (With fewer of them than
// Walk allows: to make that many takes a quarter of a minute.)
func TestWalkEntries(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "..hidden/not-counted", "sub/b", "sub/c", "sub/empty/"} { // 6 in all that are seen
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o700)
		if strings.HasSuffix(name, "/") {
			err = errors.Join(err, os.Mkdir(p, 0o700))
		} else {
			err = errors.Join(err, os.WriteFile(p, nil, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for most, want := range map[int]string{6: "", 5: "more than 100000 files and directories", 2: "more than 100000",
		0: "more than 100000"} {
		w := walk{root: dir, left: most, take: func(string, string) error { return nil }}
		if err := w.dir(""); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), dir+" holds "+want) {
			t.Errorf("at most %d: %v; want %q", most, err, want)
		}
	}
}
