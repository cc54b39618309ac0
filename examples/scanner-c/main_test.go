// Package main_test builds the example's module, and the one that uses all of the SDK, from source as an author would,
// and runs the vectors that all languages share through the gateway's sandbox. It works on copies, so that nothing is
// written to the folders of the sources.
package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestVectors(t *testing.T) {
	if os.Getenv("YETT_GUESTS") != "1" {
		t.Skip("set YETT_GUESTS=1 to build the modules; that takes clang and wasm-ld")
	}
	dir := t.TempDir()
	for _, file := range []string{"sdk/scanner/c/yett.h", "sdk/scanner/c/probe/main.c",
		"examples/scanner-c/ticket-ids/main.c"} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for project, name := range map[string]string{"examples/scanner-c/ticket-ids": "ticket-ids.yaml",
		"sdk/scanner/c/probe": "sdk.yaml"} {
		vectors := filepath.Join("../../sdk/testdata/vectors/scanner", name)
		if _, err := os.ReadFile(vectors); err != nil { // so that a cached result does not outlive a change of them
			t.Fatal(err)
		}
		out, err := exec.Command("go", "run", "../../cmd/yett", "scanner", "test", filepath.Join(dir, project), "--vectors",
			vectors).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", project, err, out)
		}
	}
}
