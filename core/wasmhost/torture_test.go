package wasmhost

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

func gunzip(t *testing.T, file string) io.Reader {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestTorture offers every module of the WebAssembly test suite as a scanner. None may get in or crash us. What wazero
// would compile, inspect must be able to read; what inspect lets through and the suite calls malformed, wazero refuses.
func TestTorture(t *testing.T) {
	dir := os.Getenv("YETT_DATA")
	if dir == "" {
		t.Skip("YETT_DATA is not set: it names the directory with wasm_torture.tar.gz")
	}
	expect := map[string]string{}
	lines := bufio.NewScanner(gunzip(t, filepath.Join(dir, "wasm_torture.jsonl.gz")))
	for lines.Scan() {
		var row struct{ File, Expect string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		expect[row.File] = row.Expect
	}
	ctx := context.Background()
	h := newHost(t, Options{})
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2))
	defer rt.Close(ctx)
	files := tar.NewReader(gunzip(t, filepath.Join(dir, "wasm_torture.tar.gz")))
	seen, read, compiled := 0, 0, 0
	for {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(head.Name)
		want, listed := expect[name]
		if !listed {
			continue
		}
		wasm, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		seen++
		var refused *RefusedError
		if _, err := h.Load(ctx, Spec{Name: "mod", Code: wasm}); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
		s, err := inspect(wasm)
		if err == nil {
			read++
			wasm = s.code
		}
		m, cerr := rt.CompileModule(ctx, wasm)
		if cerr == nil {
			compiled++
			m.Close(ctx)
		}
		switch {
		case err != nil && cerr == nil:
			t.Errorf("%s (%s) compiles, but: %v", name, want, err)
		case err == nil && cerr == nil && want == "malformed":
			t.Errorf("%s is malformed and compiles", name)
		}
	}
	t.Logf("%d modules offered, %d readable, %d compile", seen, read, compiled)
	if seen < 1000 {
		t.Errorf("only %d modules offered", seen)
	}
}
