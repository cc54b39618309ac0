package main

import (
	"crypto/ed25519"
	"encoding/base64"
	le "encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
)

// minisignPair makes a key as minisign -G -W writes it: the public one for a configuration, and the secret one's file.
// The format: algorithm, key derivation (none), checksum algorithm, 48 bytes for a salt, the id, the Ed25519 key, 32
// for a sum.
func minisignPair(t *testing.T, id uint64) (public, secretFile string) {
	t.Helper()
	pub, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	number := le.LittleEndian.AppendUint64(nil, id)
	b := append([]byte("Ed\x00\x00B2"), make([]byte, 48)...)
	b = append(append(append(b, number...), secret...), make([]byte, 32)...)
	path := filepath.Join(t.TempDir(), "minisign.key")
	text := "untrusted comment: a key of a test\n" + base64.StdEncoding.EncodeToString(b) + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(append(append([]byte("Ed"), number...), pub...)), path
}

// yett runs the program in a directory and gives what it said.
func yett(t *testing.T, dir string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(e2e.Binary(t), args...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); ok {
		return string(text), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text), 0
}

// children are the processes that a process started.
func children(t *testing.T, pid int) (out []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(lists) == 0 {
		t.Fatalf("the children of %d cannot be listed: %v", pid, err)
	}
	for _, path := range lists {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for _, f := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}

// Who signed a module decides where it runs, unless the operator says otherwise; a signature that does not hold, or is
// not by whom the lock says, keeps the gateway from starting.
func TestTrustDecidesWhereAModuleRuns(t *testing.T) {
	testkit.Slow(t, "starts many gateways")
	ours, oursFile := minisignPair(t, 7)
	vendor, vendorFile := minisignPair(t, 8)
	for _, c := range []struct {
		name, key, sandbox string
		workers            int
	}{
		{"signed with our own key", oursFile, "", 0},
		{"signed by a vendor", vendorFile, "", 1},
		{"not signed", "", "", 1},
		{"not signed, and the operator wants it inside", "", "sandbox: inproc, ", 0},
		{"signed with our own key, and the operator wants it outside", oursFile, "sandbox: process, ", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "raw.wasm"), wasmgen.Finder().Encode(), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"scanner", "package", "raw.wasm", "--out", "m.wasm"}
			if c.key != "" {
				args = append(args, "--sign", c.key)
			}
			if out, code := yett(t, dir, args...); code != 0 {
				t.Fatalf("package: exit %d: %s", code, out)
			}
			config := filepath.Join(dir, "yett.yaml")
			text := fmt.Sprintf("version: 1\ntrust: {keys: {ours: {minisign: %q, own: true}, acme: {minisign: %q}}}\n"+
				"plugins: {secrets: {kind: scanner, builtin: secrets}, finder: {kind: scanner, wasm: m.wasm, %slimits: "+
				"{timeout: 20s}}}\n"+
				"chains: {scan_output: {budget: 30s, steps: [{use: secrets, match: {tools: [neighbour]}}, {use: finder}], "+
				"actions: [{action: redact}]}}\n", ours, vendor, c.sandbox)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, code := yett(t, dir, "plugin", "lock", "--config", config); code != 0 {
				t.Fatalf("plugin lock: exit %d: %s", code, out)
			}
			s := startDev(t, nil, "--config", config)
			if err := s.right("finder", texts[0]); err != nil {
				t.Error(err)
			}
			workers := children(t, s.cmd.Process.Pid)
			if len(workers) != c.workers {
				t.Errorf("%d child processes, want %d", len(workers), c.workers)
			}
			if c.workers > 0 {
				s.workerDies(t, workers[0])
			}
			s.stop()
			if c.key == "" {
				return
			}
			// The same bytes without the signature that the lock pins.
			if err := os.Remove(filepath.Join(dir, "m.wasm.minisig")); err != nil {
				t.Fatal(err)
			}
			if out, code := yett(t, dir, "config", "check", config); code != 1 || !strings.Contains(out, "is to be signed by") {
				t.Errorf("without its signature: exit %d: %s", code, out)
			}
		})
	}
}

// workerDies kills a worker: texts are denied until another one runs, and then the answers are right again.
func (s *server) workerDies(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); ; {
		a, _, err := s.scanned("finder", texts[0])
		if err != nil {
			t.Fatal(err)
		}
		if a.str("outcome") == "REDACTED" && len(children(t, s.cmd.Process.Pid)) > 0 &&
			children(t, s.cmd.Process.Pid)[0] != pid {
			break
		}
		if out, released := a.json["sanitized_output"]; a.str("outcome") == "PASS" || released && out != sanitized(texts[0]) {
			t.Fatalf("while its worker was dead: %s", a.body)
		}
		if time.Since(begun) > patience {
			t.Fatalf("no worker came back: %s", a.body)
		}
	}
	if err := s.right("finder", texts[2]); err != nil {
		t.Error(err)
	}
}
