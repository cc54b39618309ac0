package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompileCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "cache")
	for range 2 { // the second host compiles from the first one's files
		h := newHost(t, Options{CacheDir: dir})
		a := loadOn(t, h, finder(), nil)
		b := loadOn(t, h, finder(), func(s *Spec) { s.Memory = 32 << 20 })
		for _, m := range []*Module{a, b, a} {
			if got, err := scan(m, "!"); err != nil || len(got) != 1 {
				t.Fatalf("%v, %v", got, err)
			}
		}
		if err := a.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got, err := scan(b, "!!"); err != nil || len(got) != 2 {
			t.Errorf("after its sibling was closed: %v, %v", got, err)
		}
	}
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("cache directory: %v, %v", st, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "memory-*", "*", "*"))
	if err != nil || len(files) < 2 {
		t.Errorf("cached files: %q, %v", files, err)
	}
}

func TestCacheDirMustBePrivate(t *testing.T) {
	base := t.TempDir()
	mkdir := func(name string, mode os.FileMode) string {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	private := mkdir("private", 0o700)
	link := filepath.Join(base, "link")
	file := filepath.Join(base, "file")
	if err := os.Symlink(private, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"relative/dir":           "want an absolute path",
		mkdir("group", 0o750):    "mode 0750: want 0700",
		mkdir("everyone", 0o701): "mode 0701: want 0700",
		link:                     "is not a directory",
		file:                     "not a directory",
		private:                  "",
	}
	if os.Geteuid() == 0 {
		other := mkdir("other", 0o700)
		if err := os.Chown(other, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		cases[other] = "belongs to another user"
	}
	for dir, want := range cases {
		_, err := New(context.Background(), Options{CacheDir: dir})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", dir, err, want)
		}
	}
}
