package kit

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTorture checks every module of a set that was made to break decoders: the answer is always a report.
func TestTorture(t *testing.T) {
	data := os.Getenv("YETT_DATA")
	if data == "" {
		t.Skip("YETT_DATA is not set: it names the folder with wasm_torture.tar.gz")
	}
	f, err := os.Open(filepath.Join(data, "wasm_torture.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files, fit, reasons := 0, 0, map[string]int{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		code, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := Settings{}.Check(context.Background(), Module{Name: "torture", Path: h.Name, Code: code}, nil, nil)
		switch {
		case err != nil:
			t.Errorf("%s: %v", h.Name, err)
			continue
		case rep.Fit:
			fit++
		case rep.Reason == "":
			t.Errorf("%s is refused without a reason", h.Name)
		}
		files++
		word, _, _ := strings.Cut(rep.Reason, ":")
		reasons[word]++
	}
	if files < 1000 {
		t.Errorf("only %d files", files)
	}
	t.Logf("%d files, %d fit; refused at %v", files, fit, reasons)
}
