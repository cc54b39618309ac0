package scan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
)

func TestMain(m *testing.M) {
	if is, err := host.Child(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	} else if is {
		return
	}
	dir, err := os.MkdirTemp("", "yett-scan-")
	if err == nil {
		err = errors.Join(os.Setenv("XDG_CACHE_HOME", dir), os.Setenv("GIT_CONFIG_GLOBAL", os.DevNull),
			os.Setenv("GIT_CONFIG_NOSYSTEM", "1"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// value is something that the scanner finds behind a name. It is no secret, and this file does not look as if it had
// one.
func value(n int) string { return fmt.Sprintf("k3%cmvr0q%d", '!', n) }

// assigned is a line with it.
func assigned(n int) string { return `db_password = "` + value(n) + `"` }

// ran is what a run of the command came to.
type ran struct {
	code        int
	stdout, err string
}

// run runs the command in a directory.
func run(t *testing.T, dir, stdin string, args ...string) ran {
	t.Helper()
	return runIn(t, t.Context(), dir, strings.NewReader(stdin), args...)
}

func runIn(t *testing.T, ctx context.Context, dir string, stdin io.Reader, args ...string) ran {
	t.Helper()
	t.Chdir(dir)
	root := &cobra.Command{Use: "yett"}
	root.AddCommand(Command())
	var out, said bytes.Buffer
	if !slices.Contains(args, "--scanner") && !slices.Contains(args, "--wasm") { // one starts faster than all
		args = append([]string{"--scanner", "secrets"}, args...)
	}
	code := cli.Run(ctx, root, append([]string{"scan"}, args...), stdin, &out, &said)
	if strings.ContainsAny(out.String()+said.String(), "\x1b\r") {
		t.Errorf("what is no terminal gets progress: %q %q", out.String(), said.String())
	}
	return ran{code, out.String(), said.String()}
}

// want fails unless the run ended so and said all of it.
func (r ran) want(t *testing.T, code int, stdout string, said ...string) {
	t.Helper()
	if r.code != code || r.stdout != stdout {
		t.Errorf("exit %d, printed:\n%swant exit %d and:\n%s", r.code, r.stdout, code, stdout)
	}
	for _, s := range said {
		if !strings.Contains(r.err, s) {
			t.Errorf("stderr has no %q:\n%s", s, r.err)
		}
	}
	if t.Failed() {
		t.Logf("stderr:\n%s", r.err)
	}
}

// slow leaves a test out of the quick ones: each run of the command starts a sandbox.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it starts many sandboxes")
	}
}

// must fails the test for any error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// plant writes files.
func plant(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(files[name]), 0o600))
	}
}

// judged is what the scanner makes of an assigned line. How sure it is, and how bad that is, is its own affair.
var judged = sync.OnceValue(func() sdk.Finding {
	s, err := builtin("secrets")
	if err != nil {
		panic(err)
	}
	e, err := start(context.Background(), []chosen{s}, 1, sdk.Flag, sdk.Info)
	if err != nil {
		panic(err)
	}
	defer e.close(context.Background())
	res := e.chain.Run(context.Background(), &chain.Input{Text: assigned(1)})
	if len(res.Findings) != 1 || res.Findings[0].Severity < sdk.Medium {
		panic(fmt.Sprintf("%q: %+v", assigned(1), res.Findings))
	}
	return res.Findings[0]
})

// found is the line of the report about one assigned line.
func found(file string, line, n int) string {
	f := judged()
	return fmt.Sprintf("%s:%d:16: %s %s [%d characters] (secrets, confidence %.3g)\n", file, line, f.Severity, f.Kind,
		len(value(n)), f.Confidence)
}

// TestAll: without a choice all scanners that are built in run.
func TestAll(t *testing.T) {
	all, err := new(options).choose(t.Context())
	var names []string
	for _, s := range all {
		names = append(names, s.module.Name)
	}
	if err != nil || !slices.Equal(names, scanners.Names()) {
		t.Errorf("%v, %v, want %v", names, err, scanners.Names())
	}
}

// TestUsage: a mistake is exit 2 and says what to do; nothing is printed.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a": "x", "bad.json": `{"version":2}`, "key": "short"})
	for _, c := range []struct {
		args string
		said string
	}{
		{"", "nothing to scan: give files"},
		{"--format xml a", "--format xml: must be one of text, json, sarif"},
		{"--min-severity big a", "must be one of info, low, medium, high, critical"},
		{"--max-size 3 a", "--max-size"},
		{"--max-size 0B a", "at least 1B"},
		{"--jobs 0 a", "--jobs 0: must be 1 to 256"},
		{"--staged a", "leave out a"},
		{"--redact a", "--redact needs -"},
		{"--redact --format json -", "neither --format nor --baseline"},
		{"--show --format sarif a", "never shows values"},
		{"--write-baseline a", "need --baseline FILE"},
		{"--baseline none.json a", "no such file"},
		{"--baseline bad.json a", "version 2, expected 1"},
		{"--baseline bad.json --baseline-key key a", "the key has 5 bytes, expected at least 16"},
		{"--scanner nope a", "unknown scanner: must be one of"},
		{"--scanner secrets --scanner secrets a", "two scanners are named secrets"},
		{"--wasm none.wasm a", "no such file"},
		{"--scanner secrets --config {\"nope\":1} a", "nope"},
		{"--set nope a", "expected NAME.KEY=VALUE"},
		{"--set other.key=1 a", "expected NAME.KEY=VALUE"},
		{"--scanner secrets --set secrets.min_entropy=99 a", "min_entropy"},
		{"- -", "give - once"},
	} {
		r := run(t, dir, "", strings.Fields(c.args)...)
		if r.code != cli.ExitUsage || r.stdout != "" || !strings.Contains(r.err, c.said) {
			t.Errorf("yett scan %s: exit %d, printed %q, said %q, want %q", c.args, r.code, r.stdout, r.err, c.said)
		}
	}
}

// TestExits: what was found, what was skipped and what could not be scanned are told apart. Nothing of it is silent.
func TestExits(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"clean": "hello\n", "dirty": assigned(1) + "\n", "bin": "a\x00b",
		"wide": "\xff\xfea\x00", "large": strings.Repeat("x", 2000), "out/x": "1"})
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Symlink("dirty", filepath.Join(dir, "link")))
	run(t, dir, "", "clean").want(t, 0, "", "scanned 1 file, 6 bytes: 0 findings")
	run(t, dir, "", "clean", "dirty").want(t, 1, found("dirty", 1, 1), "scanned 2 files")
	run(t, dir, "", "link").want(t, 1, found("link", 1, 1)) // the user names where it leads
	run(t, dir, assigned(2), "-").want(t, 1, found("-", 1, 2))
	for name, why := range map[string]string{"bin": "a NUL byte", "wide": "UTF-16", "pipe": "not a regular file",
		"none": "no such file"} {
		run(t, dir, "", name, "dirty").want(t, 3, found("dirty", 1, 1), "NOT SCANNED "+name, why)
	}
	run(t, dir, "", "--max-size", "1000B", "large").want(t, 3, "", "NOT SCANNED large", "larger than --max-size")
	run(t, dir, strings.Repeat("x", 1001), "--max-size", "1000B", "-").want(t, 3, "", "larger than --max-size")
	run(t, dir, strings.Repeat("x", 1000), "--max-size", "1000B", "-").want(t, 0, "", "1000 bytes")
	run(t, dir, "a\x00", "-").want(t, 3, "", "NOT SCANNED -")
	r := run(t, dir, "", "--max-size", "1000B", "--verbose", ".")
	r.want(t, 1, found("dirty", 1, 1), "scanned 3 files", "skipped 5:", "1 binary", "1 UTF-16", "1 larger than",
		"1 symbolic", "1 pipe, socket", "skipped bin: binary", "skipped link: symbolic link")
	if judged().Severity < sdk.Critical {
		run(t, dir, "", "--min-severity", "critical", "dirty").want(t, 0, "", "0 findings, 1 below critical")
	}
	run(t, dir, "", "--show", "dirty").want(t, 1, strings.Replace(found("dirty", 1, 1), fmt.Sprintf("[%d characters]",
		len(value(1))), value(1), 1))
}

// TestUnreadable: what a folder does not let us see is not clean.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 { // root reads everything: a file that goes away between list and open is the same error
		dir := t.TempDir()
		plant(t, dir, map[string]string{"a": "x", "b": "y"})
		var open opened
		var errs []error
		for it := range folder(t.Context(), dir, false, &open) {
			must(t, os.Remove(it.name))
			_, _, err := it.open(t.Context())
			errs = append(errs, err)
		}
		if err := open.close(); err != nil || len(errs) != 2 || !errors.Is(errs[0], os.ErrNotExist) {
			t.Errorf("%v, %v", errs, err)
		}
		return
	}
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a": "x", "b/c": "y"})
	must(t, os.Chmod(filepath.Join(dir, "a"), 0), os.Chmod(filepath.Join(dir, "b"), 0))
	run(t, dir, "", ".").want(t, 3, "", "NOT SCANNED a: permission denied", "NOT SCANNED b: ")
	must(t, os.Chmod(filepath.Join(dir, "b"), 0o700))
}
