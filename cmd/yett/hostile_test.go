package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
)

// hostileModules is the table, made once for all tests.
var hostileModules = sync.OnceValue(wasmgen.All)

// offered is one module in a configuration.
type offered struct {
	name      string // of the plugin, its step and the tool whose outputs it sees
	code      []byte
	timeout   time.Duration // of one call; 0 is a second
	isolation string        // "" is the default
	sandbox   string        // "" is inproc
	instances int           // 0 is 1
}

// offering writes a configuration in which every module looks at the outputs of the tool of its name, beside the
// built-in secrets, and gives the file's path.
func offering(t testing.TB, modules ...offered) string {
	t.Helper()
	return configuration(t, "  secrets: {kind: scanner, builtin: secrets, limits: {timeout: 30s}}\n",
		"      - {use: secrets}\n", modules...)
}

// alone is offering without secrets, which takes a second to compile.
func alone(t testing.TB, m offered) string {
	t.Helper()
	return configuration(t, "", "", m)
}

// configuration writes a file with the modules behind other plugins and steps.
func configuration(t testing.TB, first, firstSteps string, modules ...offered) string {
	t.Helper()
	dir := t.TempDir()
	var plugins, steps strings.Builder
	for _, m := range modules {
		path := filepath.Join(dir, m.name+".wasm")
		if err := os.WriteFile(path, m.code, 0o600); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(m.code)
		isolation := ""
		if m.isolation != "" {
			isolation = ", isolation: " + m.isolation
		}
		fmt.Fprintf(&plugins, "  %s: {kind: scanner, wasm: %s, digest: \"sha256:%s\", sandbox: %s%s, limits: {timeout: "+
			"%v, instances: %d}}\n", m.name,
			path, hex.EncodeToString(sum[:]), cmp.Or(m.sandbox, "inproc"), isolation, cmp.Or(m.timeout, time.Second),
			cmp.Or(m.instances, 1))
		fmt.Fprintf(&steps, "      - {use: %s, match: {tools: [%s]}}\n", m.name, m.name)
	}
	file := filepath.Join(dir, "yett.yaml")
	text := "version: 1\nserver: {metrics: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\"}\nplugins:\n" +
		first + plugins.String() + "chains:\n  scan_output:\n    budget: 60s\n    steps:\n" + firstSteps + steps.String() +
		"    actions:\n      - {action: redact, replacement: \"[{kind}]\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// ended is how a command of the real binary ended.
type ended struct {
	code   int // 2 is how a Go program dies
	stderr string
	took   time.Duration
	memory int64 // most that was resident, bytes, of it or a child of it
}

// runBinary runs the real binary with a cache of its own.
func runBinary(t testing.TB, args ...string) ended {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(e2e.Binary(t), args...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+e2e.Cache())
	cmd.Stderr = &stderr
	start := time.Now()
	timer := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	err := cmd.Run()
	timer.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	e := ended{code: cmd.ProcessState.ExitCode(), stderr: stderr.String(), took: time.Since(start)}
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		e.memory = use.Maxrss << 10
	}
	return e
}

// crash is what a Go program says when it dies.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |runtime: |goroutine \d+ \[|SIG[A-Z]+: )`)

const (
	hostileMemory = 1 << 30          // most that judging one module may have resident, bytes
	hostileTime   = 45 * time.Second // longest that judging one module may take on a busy machine
)

// judged checks that a command ended by saying something, in bounds.
func judged(t testing.TB, e ended) {
	t.Helper()
	if crash.MatchString(e.stderr) || e.code < 0 || e.code == 2 {
		t.Errorf("it crashed: exit %d\n%.2000s", e.code, e.stderr)
	}
	if e.took > hostileTime {
		t.Errorf("it took %v", e.took)
	}
	if e.memory > hostileMemory {
		t.Errorf("it took %d MiB", e.memory>>20)
	}
}

// TestHostileModulesAreRefused offers every module that must not be taken into service: the configuration is bad, the
// reason names the plugin, and nothing crashes. That their twins are good is seen in TestTwinsAnswer.
func TestHostileModulesAreRefused(t *testing.T) {
	e2e.Binary(t)
	n := 0
	for _, h := range hostileModules() {
		if h.Want != wasmgen.Refused {
			continue
		}
		n++
		if !testkit.Every(n-1, 10) {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			if strings.HasSuffix(h.Name, "-without-end") || strings.HasSuffix(h.Name, "-for-ever") {
				testkit.Slow(t, "waits for what never ends")
			}
			e := runBinary(t, "config", "check", alone(t, offered{name: "m-" + h.Name, code: h.Module}))
			judged(t, e)
			if e.code != cli.ExitFailure || !strings.Contains(e.stderr, "m-"+h.Name) {
				t.Errorf("exit %d, want %d and a reason that names the plugin: %s", e.code, cli.ExitFailure, e.stderr)
			}
			if reason := strings.TrimSpace(e.stderr); len(reason) > 2000 || strings.ContainsAny(reason, "\x1b\x00") {
				t.Errorf("the reason is long, or not text: %.3000q", reason)
			}
		})
	}
	if n < 100 {
		t.Errorf("only %d modules", n)
	}
}

// TestHostileModulesStopTheStart offers one module of each kind to a gateway that starts: it does not, and says why.
func TestHostileModulesStopTheStart(t *testing.T) {
	e2e.Binary(t)
	for _, name := range []string{"count-of-imports-in-15-bytes", "count-of-locals-in-41-bytes", "import-of-tick",
		"metadata-member-twice", "init-traps",
		"describe-puts-garbage"} {
		t.Run(name, func(t *testing.T) {
			h := hostileModule(t, name)
			file := alone(t, offered{name: "m-" + name, code: h.Module})
			e := runBinary(t, "serve", "--config", file, "--data", t.TempDir(), "--listen", "127.0.0.1:0")
			judged(t, e)
			if e.code != cli.ExitConfig || !strings.Contains(e.stderr, "m-"+name) {
				t.Errorf("exit %d, want %d and a reason that names the plugin: %s", e.code, cli.ExitConfig, e.stderr)
			}
		})
	}
}

func hostileModule(t testing.TB, name string) wasmgen.Hostile {
	t.Helper()
	for _, h := range hostileModules() {
		if h.Name == name {
			return h
		}
	}
	t.Fatalf("there is no hostile module %q", name)
	return wasmgen.Hostile{}
}

// TestSwappedModule changes a module's file after it was pinned.
func TestSwappedModule(t *testing.T) {
	e2e.Binary(t)
	file := alone(t, offered{name: "mine", code: wasmgen.Before(nil).Encode()})
	if e := runBinary(t, "config", "check", file); e.code != 0 {
		t.Fatalf("the pinned file: exit %d: %s", e.code, e.stderr)
	}
	other := wasmgen.Before(wasmgen.Nop).Encode()
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "mine.wasm"), other, 0o600); err != nil {
		t.Fatal(err)
	}
	e := runBinary(t, "config", "check", file)
	judged(t, e)
	if sum := sha256.Sum256(other); e.code != cli.ExitFailure || !strings.Contains(e.stderr, "mine") ||
		!strings.Contains(e.stderr, hex.EncodeToString(sum[:])) {
		t.Errorf("exit %d, want a refusal with the digest that is there: %s", e.code, e.stderr)
	}
}

// TestWideCacheDirectory starts a gateway on a directory of compiled modules that others may write to: what lies there
// is native code, guarded by a checksum only.
func TestWideCacheDirectory(t *testing.T) {
	testkit.Slow(t, "starts many gateways")
	e2e.Binary(t)
	for _, c := range []struct {
		mode os.FileMode
		good bool
	}{{0o700, true}, {0o770, false}, {0o707, false}, {0o777, false}} {
		t.Run(fmt.Sprintf("%o", c.mode), func(t *testing.T) {
			cache := t.TempDir()
			modules := filepath.Join(cache, "yett", "modules")
			if err := os.MkdirAll(modules, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(modules, c.mode); err != nil { // past the umask
				t.Fatal(err)
			}
			if c.good {
				startDev(t, []string{"XDG_CACHE_HOME=" + cache}).stop()
				return
			}
			var stderr bytes.Buffer
			cmd := exec.Command(e2e.Binary(t), "dev", "-o", "json", "--listen", "127.0.0.1:0")
			cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
			cmd.Stderr = &stderr
			timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
			if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() < 1 || crash.MatchString(stderr.String()) ||
				!strings.Contains(stderr.String(), modules) {
				t.Errorf("%v: want a refusal that names %s: %s", err, modules, &stderr)
			}
		})
	}
}
