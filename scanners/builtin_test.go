package scanners_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/scanners"
)

func TestBuiltin(t *testing.T) {
	if !slices.Contains(scanners.Names(), "secrets") || !slices.Contains(scanners.Names(), "injection") {
		t.Fatalf("names are %v", scanners.Names())
	}
	for _, name := range scanners.Names() {
		wasm, ok := scanners.Builtin(name)
		if !ok || !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
			t.Errorf("%s is not a module", name)
		}
	}
	for _, name := range []string{"", "nope", "../scanners", "secrets/secrets", "."} {
		if _, ok := scanners.Builtin(name); ok {
			t.Errorf("there is a module of the name %q", name)
		}
	}
}

// What programs hold are the committed modules, and every one of them. GOLDEN=write packs them.
func TestPacked(t *testing.T) {
	files, err := filepath.Glob("*/*.wasm")
	if err != nil || len(files) == 0 {
		t.Fatalf("modules: %v %v", files, err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(file))
		if file != name+"/"+name+".wasm" {
			t.Errorf("%s is not named after its folder", file)
		}
		got, _ := scanners.Builtin(name)
		switch {
		case bytes.Equal(got, want):
		case os.Getenv("GOLDEN") == "write":
			pack(t, file+".gz", want)
		default:
			t.Errorf("%s.gz is not what %s packs to: run go generate ./scanners", file, file)
		}
	}
	for _, name := range scanners.Names() {
		if !slices.Contains(files, name+"/"+name+".wasm") {
			t.Errorf("%s/%s.wasm.gz has no module beside it: remove it", name, name)
		}
	}
}

func pack(t *testing.T, file string, wasm []byte) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(wasm); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The committed modules are what their sources build to.
func TestModulesAreUpToDate(t *testing.T) {
	if testing.Short() {
		t.Skip("builds every module; not in -short")
	}
	readSources(t)
	for _, name := range scanners.Names() {
		built := filepath.Join(t.TempDir(), name+".wasm")
		cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o",
			built, "./"+name)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWASM=", "CGO_ENABLED=0", "GOEXPERIMENT=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
		fresh, err := os.ReadFile(built)
		if err != nil {
			t.Fatal(err)
		}
		committed, err := os.ReadFile(name + "/" + name + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		if sha256.Sum256(fresh) != sha256.Sum256(committed) {
			t.Errorf("%s.wasm is not what its sources build to: run go generate ./scanners", name)
		}
	}
}

// readSources reads what the modules are built from, so that the test cache, which does not see what a child process
// reads, knows that this test depends on it.
func readSources(t *testing.T) {
	seen := 0
	for _, dir := range []string{".", "../sdk/abi", "../sdk/scanner", "../go.mod"} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "go.mod") {
				return err
			}
			seen++
			_, err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 20 {
		t.Fatalf("only %d sources: where are they?", seen)
	}
}
