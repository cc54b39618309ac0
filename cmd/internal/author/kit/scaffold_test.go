package kit

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/author/project"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/testkit"
)

func TestScaffold(t *testing.T) {
	for _, lang := range Languages {
		dir := filepath.Join(t.TempDir(), "deep", "demo")
		files, err := Scaffold("demo-1", lang, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{recipes[lang].main, "README.md", "testdata/vectors.yaml"} {
			if !slices.Contains(files, want) {
				t.Errorf("%s: no %s among %v", lang, want, files)
			}
		}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(dir, f))
			if err != nil || strings.Contains(string(text), project.Name) || strings.HasSuffix(f, project.Suffix) ||
				strings.HasSuffix(f, "_test.go") {
				t.Errorf("%s: %s: %v", lang, f, err)
			}
		}
		if got, err := LanguageOf(dir); err != nil || got != lang {
			t.Errorf("%s is taken for %s: %v", lang, got, err)
		}
		if _, err := ReadVectors(filepath.Join(dir, "testdata", "vectors.yaml")); err != nil {
			t.Error(err)
		}
		if _, err := Scaffold("demo-1", lang, dir); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("%s: written over: %v", lang, err)
		}
	}
	for _, name := range []string{"", "-", "a-", "1a", "a/b", "..", "a b", strings.Repeat("a", 41), "a\n"} {
		dir := filepath.Join(t.TempDir(), "x")
		if _, err := Scaffold(name, "go", dir); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: something was written", name)
		}
	}
}

func TestLanguageOf(t *testing.T) {
	dir := t.TempDir()
	if _, err := LanguageOf(dir); err == nil || !strings.Contains(err.Error(), "holds no scanner project") {
		t.Errorf("an empty folder: %v", err)
	}
	for _, f := range []string{"main.c", "main.rs"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LanguageOf(dir); err == nil || !strings.Contains(err.Error(), "rust, c") {
		t.Errorf("two languages: %v", err)
	}
}

// TestGuests builds each template from source, twice, and runs it through everything.
func TestGuests(t *testing.T) {
	testkit.Slow(t, "builds scanners")
	if testing.Short() {
		t.Skip("-short: nothing is built")
	}
	for _, lang := range Languages {
		t.Run(lang, func(t *testing.T) {
			if lang != "go" && os.Getenv("YETT_GUESTS") == "" {
				t.Skip("YETT_GUESTS is not set: it says that rustc, clang and asc are here")
			}
			ctx, dir := context.Background(), filepath.Join(t.TempDir(), "demo")
			if _, err := Scaffold("demo", lang, dir); err != nil {
				t.Fatal(err)
			}
			m, err := Build(ctx, dir)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Build(ctx, dir)
			if err != nil || pin.Digest(again.Code) != pin.Digest(m.Code) {
				t.Errorf("built twice it differs: %v", err)
			}
			files, err := FindVectors(dir)
			if err != nil || len(files) != 1 {
				t.Fatalf("vectors %v, %v", files, err)
			}
			vectors, err := ReadVectors(files[0])
			if err != nil {
				t.Fatal(err)
			}
			rep, err := Settings{}.Test(ctx, m, []*Vectors{vectors})
			if err != nil || !rep.OK || len(rep.Results) < 3 {
				t.Errorf("%+v %v", rep, err)
			}
			check, err := Settings{}.Check(ctx, m, nil, []*Vectors{vectors})
			if err != nil || !check.Fit {
				t.Errorf("%+v %v", check, err)
			}
		})
	}
}
