package host

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"testing"
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

// TestTorture offers every module of the WebAssembly test suite as a scanner. None may get in or crash us.
func TestTorture(t *testing.T) {
	dir := os.Getenv("YETT_DATA")
	if dir == "" {
		t.Skip("YETT_DATA is not set: it names the directory with wasm_torture.tar.gz")
	}
	h := newHost(t, Options{})
	files := tar.NewReader(gunzip(t, filepath.Join(dir, "wasm_torture.tar.gz")))
	seen := 0
	for {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if path.Ext(head.Name) != ".wasm" {
			continue
		}
		wasm, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		seen++
		var refused *RefusedError
		if _, err := h.Load(context.Background(), Spec{Name: "mod", Code: wasm}); !errors.As(err, &refused) {
			t.Errorf("%s: %v", head.Name, err)
		}
	}
	if seen < 1000 {
		t.Errorf("only %d modules offered", seen)
	}
}
