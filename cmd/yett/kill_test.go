package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/cmd/internal/cli"
)

// terminal is a new pseudo-terminal: what is written to keys is typed at screen.
func terminal(t *testing.T) (keys, screen *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	return keys, screen
}

// TestKillEverythingAsks: at a terminal a global kill has to be confirmed; what is not confirmed goes no further.
func TestKillEverythingAsks(t *testing.T) {
	t.Setenv("YETT_API_KEY", "")
	for _, c := range []struct {
		name, typed string
		args        []string
		asked, done bool // done: it went on, to a server that is not there
	}{
		{"no", "no\n", []string{"--global"}, true, false},
		{"y is not yes", "y\n", []string{"--global"}, true, false},
		{"nothing", "\n", []string{"--global"}, true, false},
		{"yes", "yes\n", []string{"--global"}, true, true},
		{"said on the command line", "", []string{"--global", "--yes"}, false, true},
		{"one agent", "", []string{"--agent", "a"}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys, screen := terminal(t)
			if _, err := keys.WriteString(c.typed); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr strings.Builder
			code := run(context.Background(), append([]string{"kill", "--data", t.TempDir()}, c.args...), screen, &stdout,
				&stderr)
			said := stderr.String()
			if code != cli.ExitFailure || strings.Contains(said, "Type yes") != c.asked ||
				strings.Contains(said, "no running server") != c.done || strings.Contains(said, "not confirmed") == c.done {
				t.Errorf("exit %d: %s", code, said)
			}
		})
	}
}

// TestKillWithoutATerminal: a script is not asked; it says --yes, or nothing is done.
func TestKillWithoutATerminal(t *testing.T) {
	t.Setenv("YETT_API_KEY", "")
	var stdout, stderr strings.Builder
	code := run(context.Background(), []string{"kill", "--global", "--data", t.TempDir()}, strings.NewReader(""), &stdout,
		&stderr)
	if said := stderr.String(); code != cli.ExitUsage ||
		!strings.Contains(said, "Add --yes to confirm it; nothing was done") || strings.Contains(said, "Type yes") {
		t.Errorf("exit %d: %s", code, &stderr)
	}
}

func TestWidthOfATerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	_, screen := terminal(t)
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 77, Row: 20}); err != nil {
		t.Fatal(err)
	}
	if got := cli.WidthOf(screen); got != 77 {
		t.Errorf("%d, want 77", got)
	}
	if got := cli.WidthOf(&strings.Builder{}); got != 0 {
		t.Errorf("no terminal: %d, want 0", got)
	}
	t.Setenv("COLUMNS", "40")
	if got := cli.WidthOf(screen); got != 40 {
		t.Errorf("COLUMNS: %d, want 40", got)
	}
}
