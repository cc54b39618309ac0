package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(CompiledDir()); err != nil {
			code = 1
		}
		os.Exit(code)
	}))
}

// CompiledDir is where the tests of the built-in scanners keep what compiling them gives: it takes a second each time.
var CompiledDir = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "yett-compiled")
	if err != nil {
		panic(err)
	}
	return dir
})

func newHost(t testing.TB, opts Options) *Host {
	t.Helper()
	h, err := New(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("close host: %v", err)
		}
	})
	return h
}

func load(t testing.TB, g guest, change func(*Spec)) *Module {
	t.Helper()
	return loadOn(t, newHost(t, Options{}), g, change)
}

func loadOn(t testing.TB, h *Host, g guest, change func(*Spec)) *Module {
	t.Helper()
	spec := Spec{Name: "mod", Code: g.wasm()}
	if change != nil {
		change(&spec)
	}
	m, err := h.Load(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func scan(m *Module, text string) ([]sdk.Finding, error) {
	return m.Scan(context.Background(), &chain.Input{Text: text})
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// golden compares got with a file of testdata; GOLDEN=write rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("GOLDEN") == "write" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s\nGOLDEN=write go test rewrites it", path, got, want)
	}
}

// loose is a call that no guest runs in, with time and fuel enough.
func loose(in *instance, p phase) *call {
	c := in.newCall(p)
	c.begin(context.Background(), time.Hour, MaxFuel)
	return c
}

// settled gives the counters when no instance is being started any more.
func settled(m *Module) Stats {
	waitFor(func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.warming == nil
	})
	return m.Stats()
}
