package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/yett-dev/yett/core/testkit"
)

// TestPluginAuthor runs the commands of a plugin's author, as the README of sdk/plugin has them. The scripts have,
// beside what TestScripts has, $ROOT (our source), and Go's caches, from which a project is built without a network.
func TestPluginAuthor(t *testing.T) {
	testkit.Slow(t, "builds plugins")
	yett := Binary(t)
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules, builds, _ := strings.Cut(strings.TrimSpace(string(caches)), "\n")
	fetch(t, yett, root)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "plugin"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(yett)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("XDG_CACHE_HOME", Cache())
			env.Setenv("TMPDIR", scriptTemp(env))
			env.Setenv("ROOT", root)
			env.Setenv("GOMODCACHE", modules)
			env.Setenv("GOCACHE", builds)
			for name, value := range map[string]string{"GOPROXY": "off", "GOSUMDB": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local",
				"GOWORK": "off"} {
				env.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": scriptExits,
			"running": scriptRunning, "filled": scriptFilled, "socket": scriptSocket},
	})
}

// fetch has the go command look up, on the network if need be, what the scripts want to have at hand without one: go
// doc and go mod tidy look at more of the modules than building does, down to the tests of others.
func fetch(t *testing.T, yett, root string) {
	t.Helper()
	made, hand := filepath.Join(t.TempDir(), "made"), t.TempDir()
	for _, c := range []struct {
		dir  string
		args []string
	}{
		{hand, []string{yett, "plugin", "new", "made", "--sdk", root, "--dir", made}},
		{made, []string{"go", "list", "-m", "all"}},
		{hand, []string{"cp", filepath.Join(root, "examples", "authorizer-go", "main.go"), "."}},
		{hand, []string{"go", "mod", "init", "example.com/hand"}},
		{hand, []string{"go", "mod", "edit", "-require", "github.com/yett-dev/yett@v0.0.0", "-replace", "github.com/yett-dev/yett=" + root}},
		{hand, []string{"go", "mod", "tidy"}},
	} {
		cmd := exec.Command(c.args[0], c.args[1:]...)
		cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(c.args, " "), err, out)
		}
	}
}

// scriptSocket waits until there is a socket: socket FILE.
func scriptSocket(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "socket FILE")
	awaitFile(ts, args[0])
}

func awaitFile(ts *testscript.TestScript, name string) {
	scriptUntil(ts, func(context.Context) error {
		_, err := os.Stat(ts.MkAbs(name))
		return err
	})
}
