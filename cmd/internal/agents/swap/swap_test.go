package swap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func rename(t testing.TB, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mustRead(t testing.TB, path string) *File {
	t.Helper()
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// alone fails if a directory holds more than these files.
func alone(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}

func TestWriteKeeps(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write(t, path, "before")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	attribute := unix.Setxattr(path, "user.note", []byte("kept"), 0)
	if err := os.MkdirAll(filepath.Join(dir, "links"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "links", "l")
	if err := os.Symlink("../f", link); err != nil {
		t.Fatal(err)
	}
	if err := mustRead(t, link).Write([]byte("after"), 0o600, -1); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 || read(t, path) != "after" {
		t.Errorf("the link became %v, the file %q: %v", info, read(t, path), err)
	}
	if f := mustRead(t, path); f.Mode() != 0o640 {
		t.Errorf("the permissions became %v", f.Mode())
	}
	if attribute == nil {
		buf := make([]byte, 16)
		if n, err := unix.Getxattr(path, "user.note", buf); err != nil || string(buf[:n]) != "kept" {
			t.Errorf("the attribute became %q: %v", buf[:max(n, 0)], err)
		}
	}
	alone(t, dir, "f", "links")
}

func TestNewAndRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f := mustRead(t, path)
	if f.Exists {
		t.Fatal("it exists")
	}
	if err := f.Write([]byte("new"), 0o600, -1); err != nil {
		t.Fatal(err)
	}
	if g := mustRead(t, path); g.Mode() != 0o600 || string(g.Text) != "new" {
		t.Errorf("%v %q", g.Mode(), g.Text)
	}
	if err := f.Write([]byte("again"), 0o600, -1); !errors.Is(err, ErrChanged) {
		t.Errorf("it was there: %v", err)
	}
	if err := mustRead(t, path).Remove(); err != nil {
		t.Fatal(err)
	}
	alone(t, dir)
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write(t, path, "x")
	for name, make := range map[string]func(p string) error{
		"a link to a file that does not exist": func(p string) error { return os.Symlink("nowhere", p) },
		"2 names":                              func(p string) error { return os.Link(path, p) },
		"not a regular file":                   func(p string) error { return os.Mkdir(p, 0o755) },
		"too many links":                       func(p string) error { return os.Symlink(filepath.Base(p), p) },
	} {
		p := filepath.Join(dir, "other")
		if err := make(p); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(p); err == nil || !strings.Contains(strings.ToLower(err.Error()), name) {
			t.Errorf("%v, expected %s", err, name)
		}
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(filepath.Join(dir, "d", "x", "f")); err == nil {
		t.Error("a directory that leads nowhere was taken")
	}
}

// Between any two steps another program may write: by a new file, or into the file. Its text stands.
func TestOthersBetweenSteps(t *testing.T) {
	ways := map[string]func(path string) error{
		"rename": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("theirs"), 0o644), os.Rename(path+".new", path))
		},
		"in place": func(path string) error { return os.WriteFile(path, []byte("theirs"), 0o644) },
	}
	for name, way := range ways {
		for _, step := range []string{"before", "compared"} {
			for _, do := range []string{"write", "remove"} {
				t.Run(strings.Join([]string{name, step, do}, " "), func(t *testing.T) {
					dir := t.TempDir()
					path := filepath.Join(dir, "f")
					write(t, path, "before")
					f := mustRead(t, path)
					var others sync.WaitGroup
					f.step = func(s string) {
						if s != step {
							return
						}
						ended := make(chan struct{})
						others.Go(func() {
							defer close(ended)
							if err := way(path); err != nil {
								t.Error(err)
							}
						})
						for f.held == nil || !f.held.wanted() { // it ends, or it waits for us
							select {
							case <-ended:
								return
							default:
								runtime.Gosched()
							}
						}
					}
					err := f.Remove
					if do == "write" {
						err = func() error { return f.Write([]byte("ours"), 0o600, -1) }
					}
					if err := err(); !errors.Is(err, ErrChanged) {
						t.Errorf("%v, expected ErrChanged", err)
					}
					others.Wait()
					if got := read(t, path); got != "theirs" {
						t.Errorf("the file holds %q", got)
					}
					alone(t, dir, "f")
				})
			}
		}
	}
}

// A program that has the file open for writing is waited for, and only for a while.
func TestOpenWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write(t, path, "before")
	f := mustRead(t, path)
	theirs, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func(d time.Duration) { patience = d }(patience)
	patience = 10 * time.Millisecond
	if err := f.Write([]byte("ours"), 0o600, -1); !errors.Is(err, ErrBusy) || read(t, path) != "before" {
		t.Errorf("%v, expected ErrBusy", err)
	}
	patience = time.Minute
	var done sync.WaitGroup
	f.step = func(s string) {
		if s == "before" {
			done.Go(func() {
				_, err := theirs.WriteString("theirs")
				if err := errors.Join(err, theirs.Close()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if err := f.Write([]byte("ours"), 0o600, -1); !errors.Is(err, ErrChanged) {
		t.Errorf("%v, expected ErrChanged", err)
	}
	done.Wait()
	if got := read(t, path); got != "theirs" {
		t.Errorf("the file holds %q", got)
	}
	alone(t, dir, "f")
}

// Others write during both swaps, by a new file or into ours: the last text stands.
func TestLastStands(t *testing.T) {
	for _, at := range []string{"swapped", "back"} {
		for _, how := range []string{"rename", "in place", "remove"} {
			t.Run(at+" "+how, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "f")
				write(t, path, "before")
				f := mustRead(t, path)
				var others sync.WaitGroup
				f.step = func(s string) {
					switch {
					case s == "compared":
						rename(t, path, "first")
					case s != at:
					case how == "rename":
						rename(t, path, "second")
					case how == "remove":
						if err := os.Remove(path); err != nil {
							t.Error(err)
						}
					default:
						file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
						if errors.Is(err, syscall.EAGAIN) { // it waits, as it must
							others.Go(func() { write(t, path, "second") })
							return
						}
						if err == nil {
							_, err = file.WriteString("second")
							err = errors.Join(err, file.Truncate(6), file.Close())
						}
						if err != nil {
							t.Error(err)
						}
					}
				}
				err := f.Write([]byte("ours"), 0o600, -1)
				others.Wait()
				if how == "remove" {
					if _, statErr := os.Stat(path); !errors.Is(err, ErrChanged) || !errors.Is(statErr, fs.ErrNotExist) {
						t.Errorf("%v, and the file is there: %v", err, statErr)
					}
					alone(t, dir)
					return
				}
				if !errors.Is(err, ErrChanged) || read(t, path) != "second" {
					t.Errorf("%v, and the file holds %q", err, read(t, path))
				}
				alone(t, dir, "f")
			})
		}
	}
}

// Others write by a new file at any steps of a swap that is undone: the last text stands.
func TestNewestStands(t *testing.T) {
	steps := []string{"swapped", "ours", "back", "yields", "released"}
	for set := range 1 << len(steps) {
		t.Run(fmt.Sprintf("%05b", set), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			write(t, path, "before")
			f := mustRead(t, path)
			last, left := "", set
			f.step = func(s string) {
				if i := slices.Index(steps, s); s == "compared" || i >= 0 && left&(1<<i) != 0 {
					if i >= 0 {
						left &^= 1 << i
					}
					last = "written when " + s
					rename(t, path, last)
				}
			}
			if err := f.Write([]byte("ours"), 0o600, -1); !errors.Is(err, ErrChanged) {
				t.Errorf("%v, expected ErrChanged", err)
			}
			if got := read(t, path); got != last {
				t.Errorf("the file holds %q, expected %q", got, last)
			}
			alone(t, dir, "f")
		})
	}
}

// A foreign writer reads, adds a line and writes, again and again, while we add and remove lines of ours. Whatever it
// has written it finds again, each time that it reads.
func TestConcurrentWriters(t *testing.T) {
	for name, store := range map[string]func(path, text string) error{
		"rename": func(path, text string) error {
			return errors.Join(os.WriteFile(path+".new", []byte(text), 0o644), os.Rename(path+".new", path))
		},
		"in place": func(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) },
	} {
		t.Run(name, func(t *testing.T) { concurrent(t, store) })
	}
}

func concurrent(t *testing.T, store func(path, text string) error) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write(t, path, "")
	rounds := 400
	if testing.Short() {
		rounds = 120
	}
	stop := make(chan struct{})
	tried := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for i := range rounds {
			if i%10 == 0 { // else it is always faster
				<-tried
				<-tried
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			for j := range i {
				if !strings.Contains(string(text), fmt.Sprintf("theirs-%d\n", j)) {
					t.Errorf("round %d: theirs-%d is lost", i, j)
				}
			}
			if err := store(path, string(text)+fmt.Sprintf("theirs-%d\n", i)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	won, lost := 0, 0
	for i := 0; ; i++ {
		select {
		case <-stop:
		default:
			f := mustRead(t, path)
			line := fmt.Sprintf("ours-%d\n", i%7)
			next := strings.ReplaceAll(string(f.Text), line, "")
			if next == string(f.Text) {
				next = line + next
			}
			switch err := f.Write([]byte(next), 0o644, -1); {
			case err == nil:
				won++
			case errors.Is(err, ErrChanged):
				lost++
			default:
				t.Error(err)
			}
			select {
			case tried <- struct{}{}:
			default:
			}
			continue
		}
		break
	}
	wg.Wait()
	t.Logf("%d swaps, %d times the other was faster", won, lost)
	if won == 0 {
		t.Error("nothing was written")
	}
	text := read(t, path)
	for i := range rounds {
		if !strings.Contains(text, fmt.Sprintf("theirs-%d\n", i)) {
			t.Errorf("theirs-%d is lost", i)
		}
	}
	alone(t, dir, "f")
}
