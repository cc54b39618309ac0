package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/e2e"
)

// guide is a document whose pieces of text a test does as a reader would.
type guide struct {
	t    *testing.T
	text string
	dir  string
}

func newGuide(t *testing.T, file string) *guide {
	t.Helper()
	if os.Getenv("YETT_FULL") == "" {
		t.Skip("YETT_FULL is not set: it builds projects, for minutes on a busy machine")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(e2e.Binary(t), filepath.Join(bin, "yett")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", e2e.Cache())
	return &guide{t, string(text), dir}
}

// piece is the n-th block of a language, from 0.
func (g *guide) piece(language string, n int) string {
	g.t.Helper()
	var all []string
	var block strings.Builder
	open, of := false, ""
	for line := range strings.Lines(g.text) {
		fence, is := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case is && !open:
			open, of = true, fence
		case is:
			if of == language {
				all = append(all, block.String())
			}
			open = false
			block.Reset()
		case open:
			block.WriteString(line)
		}
	}
	if n >= len(all) {
		g.t.Fatalf("the guide has %d blocks %q, want %d", len(all), language, n+1)
	}
	return all[n]
}

// does runs commands as they stand, in a folder, and gives what they print.
func (g *guide) does(dir, commands string) string {
	g.t.Helper()
	cmd := exec.Command("sh", "-e", "-c", commands)
	cmd.Dir = filepath.Join(g.dir, dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.t.Fatalf("%s: %v\n%s", commands, err, out)
	}
	return string(out)
}

func (g *guide) says(out string, words ...string) {
	g.t.Helper()
	for _, w := range words {
		if !strings.Contains(out, w) {
			g.t.Errorf("no %q in\n%s", w, out)
		}
	}
}

// TestScannerGuide: every command of the guide works on the program that it begins with.
func TestScannerGuide(t *testing.T) {
	g := newGuide(t, "sdk/scanner/README.md")
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOPROXY", "off")
	g.does(".", "yett scanner new codename")
	write(t, filepath.Join(g.dir, "codename", "main.go"), g.piece("go", 0))
	g.says(g.does("codename", g.piece("", 0)), `"kind":"CODENAME","start":10,"end":18`)
	g.says(g.does("codename", g.piece("", 1)), "5 of 5 vectors pass", "is fit", "CODENAME  10", "MB/S",
		"codename.packaged.wasm")
	g.says(g.does("codename", "go run . -describe"), `"triggers":[{"literal":"bluebird","fold":true}]`)
}

// TestPluginGuide: the program of the guide becomes a plugin that conforms, by the commands that stand there.
func TestPluginGuide(t *testing.T) {
	g := newGuide(t, "sdk/plugin/README.md")
	lines := strings.SplitN(strings.TrimSpace(g.piece("sh", 0)), "\n", 2)
	g.does(".", lines[0])
	g.says(g.does("no-delete", lines[1]), "no-delete conforms (no-delete ")
	write(t, filepath.Join(g.dir, "no-delete", "main.go"), g.piece("go", 0))
	write(t, filepath.Join(g.dir, "no-delete", "calls.jsonl"), g.piece("json", 0))
	if err := os.Remove(filepath.Join(g.dir, "no-delete", "main_test.go")); err != nil {
		t.Fatal(err)
	}
	g.says(g.does("no-delete", lines[1]), "no-delete conforms (no-delete ")
	g.says(g.does("no-delete", g.piece("sh", 2)), `"name"`, "DENY     files/delete")
}
