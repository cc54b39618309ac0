package conform

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/author/project"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/testkit"
)

// root is our own module, as a project is made of it.
const root = "../../../.."

func TestScaffold(t *testing.T) {
	for _, c := range []struct{ kind, lang, main string }{
		{"authorizer", "go", "main.go"}, {"scanner", "go", "main.go"}, {"subscriber", "go", "main.go"}, {"authorizer", "python", "authorizer.py"},
	} {
		dir := filepath.Join(t.TempDir(), "deep", "demo")
		files, err := Scaffold("Demo-1", c.kind, c.lang, dir, os.DirFS(root))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{c.main, "README.md"} {
			if !slices.Contains(files, want) {
				t.Errorf("%s %s: no %s among %v", c.lang, c.kind, want, files)
			}
		}
		for _, guide := range []string{"README.md", "SCANNERS.md", "SUBSCRIBERS.md", "OTHER-LANGUAGES.md"} {
			if c.lang == "go" && !slices.Contains(files, "yett-sdk/sdk/plugin/"+guide) {
				t.Errorf("%s %s: no %s, which the guide links to", c.lang, c.kind, guide)
			}
		}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(dir, f))
			if err != nil || strings.Contains(string(text), project.Name) || strings.Contains(string(text), project.Lower) ||
				strings.HasSuffix(f, project.Suffix) ||
				strings.HasPrefix(f, "yett-sdk/") && strings.HasSuffix(f, "_test.go") {
				t.Errorf("%s %s: %s: %v", c.lang, c.kind, f, err)
			}
		}
		if _, err := Scaffold("Demo-1", c.kind, c.lang, dir, os.DirFS(root)); err == nil ||
			!strings.Contains(err.Error(), "not empty") {
			t.Errorf("%s %s: written over: %v", c.lang, c.kind, err)
		}
	}
}

func TestScaffoldRefuses(t *testing.T) {
	for _, c := range [][3]string{{"", "authorizer", "go"}, {"1a", "authorizer", "go"}, {"a-", "authorizer", "go"},
		{"a/b", "authorizer", "go"}, {"..", "authorizer", "go"},
		{"a\n", "authorizer", "go"}, {strings.Repeat("a", 41), "authorizer", "go"}, {"a", "wizard", "go"}, {"a", "scanner", "cobol"}, {"a", "scanner", "python"}, {"yett-sdk", "scanner", "go"}} {
		dir := filepath.Join(t.TempDir(), "x")
		if _, err := Scaffold(c[0], c[1], c[2], dir, os.DirFS(root)); err == nil {
			t.Errorf("%q is taken", c)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: something was written", c)
		}
	}
	if _, err := Scaffold("a", "authorizer", "go", filepath.Join(t.TempDir(), "x"), os.DirFS(t.TempDir())); err == nil ||
		!strings.Contains(err.Error(), "the SDK's source") {
		t.Errorf("made without the SDK: %v", err)
	}
}

// offline runs the go command in a project as somebody without a network would.
func offline(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=off", "GOTOOLCHAIN=local", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestProjects builds each Go project offline as it is, runs its tests, and holds the program to the protocol.
func TestProjects(t *testing.T) {
	testkit.Slow(t, "builds plugins")
	if testing.Short() {
		t.Skip("-short: nothing is built")
	}
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "demo")
			if _, err := Scaffold("demo", kind, "go", dir, os.DirFS(root)); err != nil {
				t.Fatal(err)
			}
			offline(t, dir, "vet", "./...")
			offline(t, dir, "test", "./...")
			offline(t, dir, "build", "-o", "demo", ".")
			rep, err := Run(context.Background(), Options{Path: filepath.Join(dir, "demo"), CheckConfig: schemaCheck,
				Timeout: 5 * time.Second})
			if err != nil || !rep.Pass {
				t.Fatalf("%v %s\n%s", err, rep.Reason, lines(rep))
			}
		})
	}
}

// TestPythonProject needs a Python with the packages of requirements.txt.
func TestPythonProject(t *testing.T) {
	if os.Getenv("YETT_PYTHON") == "" {
		t.Skip("YETT_PYTHON is not set: it names a Python with grpcio, grpcio-tools and cryptography")
	}
	dir := filepath.Join(t.TempDir(), "demo")
	if _, err := Scaffold("demo", "authorizer", "python", dir, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(dir, "build.sh")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rep, err := Run(context.Background(), Options{Path: filepath.Join(dir, "demo"), CheckConfig: schemaCheck,
		Timeout: 5 * time.Second, Confine: confine.Policy{Read: installations(t, os.Getenv("YETT_PYTHON"))}})
	if err != nil || !rep.Pass {
		t.Fatalf("%v %s\n%s", err, rep.Reason, lines(rep))
	}
}

// TestPythonBuild: the project's build is the example's, and finds in the project what the example finds in our tree.
func TestPythonBuild(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	if _, err := Scaffold("Demo-1", "authorizer", "python", dir, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(t.TempDir(), "python")
	const fake = "#!/bin/sh\necho \"$*\" >>\"$0.asked\"\n" +
		"while [ $# -gt 1 ]; do [ \"$1\" = --output ] && touch \"$2\"; shift; done\n"
	if err := testkit.WriteProgram(python, []byte(fake)); err != nil {
		t.Fatal(err)
	}
	for build, proto := range map[string]string{filepath.Join(dir, "build.sh"): dir,
		filepath.Join(root, "examples/authorizer-python/build.sh"): "/sdk/proto/v1"} {
		out := filepath.Join(dir, "Demo-1")
		args := []string{}
		if proto != dir {
			out = filepath.Join(dir, "given")
			args = append(args, out)
		}
		cmd := exec.Command(build, args...)
		cmd.Env = append(os.Environ(), "YETT_PYTHON="+python)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", build, err, text)
		}
		asked, err := os.ReadFile(python + ".asked")
		if err != nil || !strings.Contains(string(asked), proto+"/plugin.proto") {
			t.Errorf("%s asked for %s, %v", build, asked, err)
		}
		if _, err := os.Stat(out); err != nil {
			t.Error(err)
		}
		if err := os.Remove(python + ".asked"); err != nil {
			t.Fatal(err)
		}
	}
}

// installations are the directories of an interpreter: that of its virtual environment, and that of the Python behind
// it.
func installations(t *testing.T, interpreter string) []string {
	behind, err := filepath.EvalSymlinks(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	return []string{filepath.Dir(filepath.Dir(interpreter)), filepath.Dir(filepath.Dir(behind))}
}

// TestModuleVersions holds the versions that a project is built with against our own. GOLDEN=write takes them over.
func TestModuleVersions(t *testing.T) {
	ours := versions(t, filepath.Join(root, "go.mod"))
	for _, file := range []string{"template/module/go.mod.tmpl", "template/module/yett-sdk/go.mod.tmpl"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := string(text)
		for module, version := range versions(t, file) {
			switch want := ours[module]; {
			case module == "github.com/yett-dev/yett":
			case want == "":
				t.Errorf("%s: %s is no module of ours any more: remove it", file, module)
			case want != version:
				changed = strings.ReplaceAll(changed, module+" "+version, module+" "+want)
			}
		}
		if changed == string(text) {
			continue
		}
		if os.Getenv("GOLDEN") != "write" {
			t.Errorf("%s has other versions than go.mod: run GOLDEN=write go test ./cmd/internal/author/conform, and look at "+
				"what TestProjects says", file)
		} else if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
			t.Error(err)
		}
	}
	if os.Getenv("GOLDEN") == "write" {
		writeSums(t)
	}
}

// versions are the modules that a go.mod requires.
func versions(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(f) >= 2 && strings.Contains(f[0], ".") && strings.HasPrefix(f[1], "v") {
			out[f[0]] = f[1]
		}
	}
	return out
}

// writeSums takes over the sums of what a project of each kind needs, from the module cache.
func writeSums(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	files, err := filesOf("demo", "authorizer", "go", os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for file := range files {
		if file == "go.mod" || file == "yett-sdk/go.mod" {
			text, err := os.ReadFile("template/module/" + file + ".tmpl") // the embedded one is of before
			if err != nil {
				t.Fatal(err)
			}
			files[file] = []byte(strings.ReplaceAll(string(text), project.Name, "demo"))
		}
	}
	if _, err := project.Write(dir, files); err != nil {
		t.Fatal(err)
	}
	offline(t, dir, "vet", "-mod=mod", "./...")
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("template/module/go.sum.tmpl", sums, 0o644); err != nil {
		t.Fatal(err)
	}
}
