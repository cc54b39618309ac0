//go:build linux

package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/testkit"
)

func TestMain(m *testing.M) {
	supervise.Launch()
	os.Exit(m.Run())
}

// shelf is a log of three sealed files; the export of a range is so many bytes behind its name.
type shelf struct {
	bytes  int
	broken error
}

func (shelf) Sealed() []log.Range {
	return []log.Range{{From: 1, To: 10}, {From: 11, To: 20}, {From: 21, To: 30}}
}

func (s shelf) Export(w io.Writer, _ *log.Signer, r log.Range) error {
	if s.broken != nil {
		return s.broken
	}
	_, err := fmt.Fprint(w, r.FileName(), strings.Repeat("x", s.bytes))
	return err
}

// of is an archive whose program is a script, with the directory that this writes to as its argument.
func of(t *testing.T, l Log, script string) (a *Archive, dir string) {
	t.Helper()
	dir = t.TempDir()
	at := filepath.Join(t.TempDir(), "program")
	if err := testkit.WriteProgram(at, []byte("#!/bin/sh\n"+script+"\n")); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("#!/bin/sh\n" + script + "\n"))
	return New(Settings{Program: config.Archive{Exec: config.Path(at), Args: []string{dir},
		Timeout: config.Duration(time.Minute), Digest: "sha256:" + hex.EncodeToString(sum[:])},
		Policy: confine.Policy{Write: []string{dir}, Children: true}, Log: l}), dir
}

const takes = `cat >"$1/part" && mv "$1/part" "$1/$YETT_ARCHIVE_NAME" &&
	echo "$YETT_ARCHIVE_FROM $YETT_ARCHIVE_TO" >>"$1/runs"`

func runs(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "runs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// Whole files alone are given, each once; after a restart again, with the same name, so that none is ever missing.
func TestTaken(t *testing.T) {
	a, dir := of(t, shelf{bytes: 1 << 20}, takes)
	for _, c := range []struct{ through, last uint64 }{{9, 0}, {10, 10}, {25, 20}, {25, 20}, {15, 15}} {
		last, err := a.Through(t.Context(), c.through)
		if err != nil || last != c.last {
			t.Errorf("through %d: %d %v, want %d", c.through, last, err, c.last)
		}
	}
	if got := runs(t, dir); got != "1 10\n11 20\n" {
		t.Errorf("it was run for %q", got)
	}
	for _, r := range (shelf{}).Sealed()[:2] {
		b, err := os.ReadFile(filepath.Join(dir, r.FileName()))
		if err != nil || len(b) != len(r.FileName())+1<<20 || !strings.HasPrefix(string(b), r.FileName()) {
			t.Errorf("%s has %d bytes: %v", r.FileName(), len(b), err)
		}
	}
	again := New(a.set) // as after a crash between the archive and the removal
	if last, err := again.Through(t.Context(), 20); err != nil || last != 20 {
		t.Error(last, err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "yett-*")); len(files) != 2 {
		t.Errorf("there are %v", files)
	}
}

// What a program has not taken does not go, and what it took before that does.
func TestNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		script, want string
		log          shelf
		last         uint64
	}{
		"it fails":                {`cat >/dev/null; echo no bucket >&2; exit 3`, "no bucket", shelf{}, 0},
		"it fails at the second":  {`[ "$YETT_ARCHIVE_FROM" = 1 ] || exit 1; ` + takes, "records 11 to 20", shelf{}, 10},
		"it reads nothing":        {`exec <&-; sleep 0.1; exit 0`, "has not read all of its stdin", shelf{bytes: 1 << 20}, 0},
		"it reads none of little": {`exit 0`, "has not read all of its stdin", shelf{}, 0},
		"it reads a part":         {`head -c 5 >/dev/null`, "has not read all of its stdin", shelf{bytes: 16}, 0},
		"it stops in the middle":  {`head -c 200000 >/dev/null`, "has not read all of its stdin", shelf{bytes: 1 << 20}, 0},
		"the log is damaged":      {takes, "a bad block", shelf{broken: errors.New("a bad block")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := of(t, c.log, c.script)
			last, err := a.Through(t.Context(), 20)
			if err == nil || !strings.Contains(err.Error(), c.want) || last != c.last {
				t.Errorf("%d, %v; want %d and %q", last, err, c.last, c.want)
			}
		})
	}
}

// A program that takes too long is killed, and so is one whose gateway ends.
func TestTooSlow(t *testing.T) {
	a, _ := of(t, shelf{}, `cat >/dev/null; sleep 600`)
	a.set.Program.Timeout = config.Duration(50 * time.Millisecond)
	if last, err := a.Through(t.Context(), 10); err == nil || !strings.Contains(err.Error(), "it was killed") ||
		last != 0 {
		t.Error(last, err)
	}
	a, _ = of(t, shelf{}, `sleep 600`)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if last, err := a.Through(ctx, 10); !errors.Is(err, context.Canceled) || last != 0 {
		t.Error(last, err)
	}
}

// A program that is not the one that was named is never run.
func TestAnotherProgram(t *testing.T) {
	a, dir := of(t, shelf{}, takes)
	a.set.Program.Digest = "sha256:" + strings.Repeat("0", 64)
	if last, err := a.Through(t.Context(), 10); err == nil || last != 0 || runs(t, dir) != "" {
		t.Error(last, err)
	}
}
