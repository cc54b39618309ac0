package core

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
	"github.com/yett-dev/yett/sdk/abi"
)

// TestReloadTellsWhichBytesRun: after a reload an operator knows of each module whether the file on disk is what runs,
// whichever way it is pinned.
func TestReloadTellsWhichBytesRun(t *testing.T) {
	build := func(w *world, version string) string {
		g := wasmgen.Finder()
		g.Meta = strings.Replace(wasmgen.GuestMeta, `"version":"1`, `"version":"`+version, 1)
		code := g.Encode()
		if err := os.WriteFile(filepath.Join(w.dir, "m.wasm"), code, 0o600); err != nil {
			t.Fatal(err)
		}
		return pin.Digest(code)
	}
	var one string
	module := func(w *world, pin string) {
		w.write(fmt.Sprintf("  m: {kind: scanner, wasm: %q, sandbox: inproc%s}\n", filepath.Join(w.dir, "m.wasm"), pin), "",
			"")
	}
	lock := func(w *world, digest string) {
		l := config.Lock{Version: 1, Plugins: map[string]config.LockedFile{"m": {Wasm: config.Path(filepath.Join(w.dir,
			"m.wasm")), Digest: digest}}}
		w.put("plugins.lock", string(l.Encode(w.dir)))
	}
	w := newWorld(t, func(w *world) {
		one = build(w, "1")
		module(w, fmt.Sprintf(", digest: %q", one))
	})
	row := func() admin.PluginChange {
		t.Helper()
		done, err := w.reload()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range done.Plugins {
			if p.Name == "m" {
				return p
			}
		}
		return admin.PluginChange{}
	}
	is := func(what, digest, was, why string, stale bool) {
		t.Helper()
		got := row()
		if got.What != what || got.Digest != digest || got.Was != was || !strings.Contains(got.Why, why) ||
			got.Stale != stale {
			t.Errorf("%+v, want %s %s (was %s) since …%s…, stale %v", got, what, digest, was, why, stale)
		}
		if m := w.g.gen.Load().Plugins["m"]; m != nil && m.Digest() != digest {
			t.Errorf("%s runs", m.Digest())
		}
	}
	is("kept", one, one, "nothing it is made of has changed", false)
	two := build(w, "2")
	is("kept", one, one, "m.wasm has changed: it has "+two+", pinned is "+one, true)
	module(w, fmt.Sprintf(", digest: %q", two))
	is("reloaded", two, one, "its file has changed", false)
	module(w, "")
	lock(w, two)
	is("kept", two, two, "nothing it is made of has changed", false)
	three := build(w, "3")
	is("kept", two, two, "run yett plugin lock", true)
	lock(w, three)
	is("reloaded", three, two, "its file has changed", false)
	module(w, ", limits: {timeout: 70ms}")
	is("reloaded", three, three, "its settings have changed", false)
	if err := os.Rename(filepath.Join(w.dir, "m.wasm"), filepath.Join(w.dir, "away.wasm")); err != nil {
		t.Fatal(err)
	}
	is("kept", three, three, "m.wasm is gone", true)
	w.write("", "", "")
	is("removed", "", three, "", false)
	build(w, "3")
	module(w, "")
	is("added", three, "", "", false)
}

// TestReloadLooksForNewWords: what an operator adds to a list that a module searches for is found from the reload on,
// and only the module's own triggers and these words bring a text to it.
func TestReloadLooksForNewWords(t *testing.T) {
	g := wasmgen.Finder()
	g.Meta = `{"name":"test","version":"1","abi":1,"kinds":[{"name":"TEST_KIND","severity":3},{"name":"OTHER_KIND","severity":1}],"stream":{"mode":"none"},"needs":{},` +
		`"config_schema":{"type":"object","properties":{"words":{"type":"array","items":{"type":"string"}}}},"triggers":[{"literal":"own"}],"triggers_from":[{"path":"/words","fold":true}]}`
	code := g.Encode()
	words := func(w *world, sandbox, list string) {
		w.put("yett.yaml", fmt.Sprintf("version: 1\nserver: {metrics: \"off\", drain: 20s}\nplugins:\n  m: {kind: "+
			"scanner, wasm: %q, digest: %q, sandbox: %s, limits: {timeout: 5s}, config: {words: %s}}\n"+
			"chains:\n  scan_output: {steps: [{use: m}], budget: 20s}\n  authorize: {budget: 30s, steps: [{name: house, "+
			"rules: [rules.yaml]}]}\n", filepath.Join(w.dir, "m.wasm"), pin.Digest(code), sandbox, list))
	}
	for _, sandbox := range []string{"inproc", "process"} {
		t.Run(sandbox, func(t *testing.T) {
			w := newWorld(t, func(w *world) {
				if err := os.WriteFile(filepath.Join(w.dir, "m.wasm"), code, 0o600); err != nil {
					t.Fatal(err)
				}
				words(w, sandbox, "[gnu]")
			})
			called := func(want string) {
				t.Helper()
				var got string
				for _, text := range []string{"own", "gnu", "a GNU!", "emu", "nothing"} {
					res := w.g.gen.Load().Scan.Run(context.Background(), &chain.Input{Text: text, ToolID: "t"})
					if err := res.Receipts[0].Err; err != nil {
						t.Fatal(err)
					}
					if !res.Receipts[0].Prefiltered {
						got += text + ", "
					}
				}
				if got != want {
					t.Errorf("called for %q, want %q", got, want)
				}
			}
			called("own, gnu, a GNU!, ")
			words(w, sandbox, "[gnu, Emu]")
			w.reloads()
			called("own, gnu, a GNU!, emu, ")
			words(w, sandbox, "[]")
			w.reloads()
			called("own, ")
			words(w, sandbox, `[gnu, ""]`)
			if _, err := w.reload(); err == nil || !strings.Contains(err.Error(), "words[1] is empty") ||
				!strings.Contains(err.Error(), "yett.yaml:4:") {
				t.Errorf("an empty word: %v", err)
			}
			words(w, sandbox, "[gnu,\n      7]")
			if _, err := w.reload(); err == nil || !strings.Contains(err.Error(), "yett.yaml:5:7: plugins.m: ") ||
				!strings.Contains(err.Error(), "config.words[1]: expected string, got number") {
				t.Errorf("a number among the words: %v", err)
			}
			called("own, ")
		})
	}
}

// TestModuleOfTheOtherKind: a module that exports both functions, as those in Go do, and takes one kind of input is
// refused as what it is not.
func TestModuleOfTheOtherKind(t *testing.T) {
	unsupported := wasmgen.I32(abi.StatusUnsupported)
	put := func(w *world, kind string, g wasmgen.Guest) error {
		code := g.Encode()
		if err := os.WriteFile(filepath.Join(w.dir, "m.wasm"), code, 0o600); err != nil {
			t.Fatal(err)
		}
		w.write(fmt.Sprintf("  m: {kind: %s, wasm: %q, digest: %q}\n", kind, filepath.Join(w.dir, "m.wasm"),
			pin.Digest(code)), "", "")
		_, err := w.reload()
		return err
	}
	w := newWorld(t, func(w *world) { w.write("", "", "") })
	scans, checks, both := wasmgen.Finder(), wasmgen.Finder(), wasmgen.Finder()
	scans.Check, both.Check = unsupported, wasmgen.I32(abi.StatusInternal)
	checks.Scan, checks.Check = unsupported, wasmgen.I32(abi.StatusInternal)
	for _, c := range []struct {
		kind string
		g    wasmgen.Guest
		want string
	}{
		{"authorizer", scans, "so it is no authorizer: did you mean kind: scanner?"},
		{"scanner", checks, "so it is no scanner: did you mean kind: authorizer?"},
		{"scanner", scans, ""}, {"authorizer", checks, ""}, {"scanner", both, ""}, {"authorizer", both, ""},
	} {
		if err := put(w, c.kind, c.g); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("as a %s: %v, want %q", c.kind, err, c.want)
		}
	}
}
