// Package main holds no program: this example is a page of commands. The test looks that each of them exists, with all
// its flags. It runs only those that stay in a directory of their own; package live runs the others with a real agent.
package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commands are the lines of the page that run yett, without their comments.
func commands(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	inside := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			inside = !inside && strings.HasPrefix(line, "```sh")
			continue
		}
		line, _, _ = strings.Cut(line, " #")
		if fields := strings.Fields(strings.TrimPrefix(line, "sudo ")); inside && len(fields) > 0 && fields[0] == "yett" {
			out = append(out, fields[1:])
		}
	}
	return out
}

func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the real binary is not built")
	}
	dir := t.TempDir()
	yett := filepath.Join(dir, "yett")
	if out, err := exec.Command("go", "build", "-o", yett, "../../cmd/yett").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(yett, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("yett %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	all := commands(t)
	if len(all) < 10 {
		t.Fatalf("the page has %d commands", len(all))
	}
	for _, args := range all {
		run(append(args, "--help")...) // a flag that there is not is an error all the same
		if args[0] == "init" || args[0] == "rules" {
			run(args...)
		}
	}
}
