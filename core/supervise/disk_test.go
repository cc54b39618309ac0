//go:build linux && (amd64 || arm64)

package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/testkit"
)

func init() {
	modes["fills-closed"] = func([]string) {
		must(unix.Mkdir("closed", 0o300)) // whoever knows the names in it may open them
		for n := range 4 {
			must(os.WriteFile(fmt.Sprintf("closed/%d", n), make([]byte, 16<<20), 0o600))
		}
		hang()
	}
	modes["nests"] = func([]string) { nest(".", 4*diskDepth); hang() }
	modes["removes"] = func([]string) { removeNested() }
}

// nest makes directories in each other, from the innermost on, so that each takes the kernel as long as the first.
func nest(dir string, depth int) {
	at := func(name string) string { return filepath.Join(dir, name) }
	must(os.Mkdir(at("in"), 0o700))
	for range depth {
		must(os.Mkdir(at("out"), 0o700))
		must(os.Rename(at("in"), at("out/in")))
		must(os.Rename(at("out"), at("in")))
	}
}

// removeNested removes a directory with more directories in each other than it may open, and tells what is left.
func removeNested() {
	const most = 512
	must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}))
	dir, err := MakeDir("nested", nil)
	must(err)
	nest(dir, 4*most)
	must(os.WriteFile(filepath.Join(dir, strings.Repeat("in/", sweepDepth), "file"), nil, 0o400))
	must(os.Chmod(filepath.Join(dir, strings.Repeat("in/", sweepDepth+1)), 0o500))
	RemoveDir(dir)
	fmt.Print(exists(dir))
}

// TestDiskIsMeasured: limits.disk holds for a process that hides files from the gateway, and one that makes measuring
// long is ended too.
func TestDiskIsMeasured(t *testing.T) {
	testkit.Long(t, "processes that fill their directory")
	closed := "its working directory has a directory that the gateway cannot read, so limits.disk cannot be measured"
	if os.Geteuid() == 0 {
		closed = "limited to 32 MiB (limits.disk)" // root reads it
	}
	for mode, want := range map[string]string{
		"fills-closed": closed,
		"nests": fmt.Sprintf("its working directory has directories that are nested more than %d deep, the most "+
			"for which limits.disk is measured", diskDepth),
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := begins(t, Command{Args: []string{mode}, Limits: Limits{Disk: 32 << 20},
				Confine: &confine.Policy{Network: &confine.Network{}}})
			if e := ends(t, p); e.Cause != CauseLimit || !strings.Contains(e.Err, want) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestHiddenFilesCountAlone: removed files that a process keeps are held to limits.disk also while its directory is not
// looked at, since that took long the last time.
func TestHiddenFilesCountAlone(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "hidden"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	for most, over := range map[uint64]bool{0: false, 1 << 20: true, 1 << 30: false} {
		p := &Process{pid: os.Getpid(), limits: Limits{Disk: most}}
		p.alone.Store(true)
		l := &looking{dir: dir, own: dir, sockets: map[uint32]uint64{}, disk: rest{until: time.Now().Add(time.Hour)}}
		if got := p.overStock(l); strings.Contains(got, "limits.disk") != over {
			t.Errorf("at most %d: %q", most, got)
		}
	}
}

// TestDiskWaitsForNobody: a pipe that takes a directory's place while it is measured is not opened, which would wait
// for a writer.
func TestDiskWaitsForNobody(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errors.Join(os.Mkdir(a, 0o700), unix.Mkfifo(b, 0o600)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		for range 3000 {
			if _, err := diskOf(dir); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for limit := time.Now().Add(patience); ; {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(limit) {
			for _, path := range []string{a, b} { // who waits goes on
				if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
					defer f.Close()
				}
			}
			t.Fatalf("it waits for somebody to write to a pipe: %v", <-done)
		}
	}
}

// TestRemoveNested: a directory goes at its process's end however deep directories are nested in it, and takes few
// descriptors for that.
func TestRemoveNested(t *testing.T) {
	testkit.Long(t, "thousands of directories in each other")
	t.Setenv("TMPDIR", t.TempDir())
	if said := runs(t, nil, "removes"); said != "false" {
		t.Errorf("is it still there: %s", said)
	}
}
