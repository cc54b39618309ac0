package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

var made = commit{"v1.2.3", time.Unix(1_700_000_000, 0).UTC()}

// TestArchiveIsReproducible: the same files give the same bytes, whoever owns them and whenever they were written.
func TestArchiveIsReproducible(t *testing.T) {
	archive := func(age time.Duration, mode os.FileMode) []byte {
		t.Helper()
		path := filepath.Join(t.TempDir(), "yett")
		if err := os.WriteFile(path, []byte("a binary"), mode); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := writeArchive(&b, "yett_v1", []entry{{"yett", path, 0o755}}, made.at); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	one, two := archive(0, 0o600), archive(time.Hour, 0o644)
	if !bytes.Equal(one, two) {
		t.Error("two archives of the same file differ")
	}
	zip, err := gzip.NewReader(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	in := tar.NewReader(zip)
	head, err := in.Next()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil || string(text) != "a binary" || head.Name != "yett_v1/yett" || head.Mode != 0o755 || head.Uid != 0 ||
		head.Uname != "" || !head.ModTime.Equal(made.at) {
		t.Errorf("%+v, %q, %v", head, text, err)
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("more than one file: %v", err)
	}
}

// TestModules: each module of a binary is listed once, one that was replaced as what replaced it.
func TestModules(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "github.com/yett-dev/yett"},
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.0.0+incompatible", Sum: "h1:abc="},
			{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/c", Version: "v2.0.0"}},
		}}
	text, err := modules(info, made, "sha256:00ff")
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, c := range got.Components {
		refs = append(refs, c.PURL)
	}
	want := "pkg:golang/std@go1.26.8 pkg:golang/example.com/a@v1.0.0%2Bincompatible pkg:golang/example.com/c@v2.0.0"
	if strings.Join(refs, " ") != want || got.Metadata.Component.Hashes[0].Content != "00ff" ||
		got.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("%s", text)
	}
	if _, err := modules(&debug.BuildInfo{}, made, ""); err == nil {
		t.Error("a binary that names no module is listed")
	}
}

// TestFilesBeside: what an archive holds beside the binary is there.
func TestFilesBeside(t *testing.T) {
	for _, name := range beside {
		if st, err := os.Stat(filepath.Join("../../..", name)); err != nil || !st.Mode().IsRegular() {
			t.Errorf("%s: %v", name, err)
		}
	}
}
