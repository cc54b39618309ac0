// Package lint holds the house rules as tests, so that a rule is broken in a test run and not in a review. It reads
// every file of the repository and nothing else; each failure is a sentence that says what to do. TestHouse runs the
// rules on the repository, TestRulesCatch proves on planted sources that each of them can fail. staticcheck runs from
// here too, once .ci/run has fetched it.
package lint

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A rule reads the tree and says what is wrong with it, one sentence a line, each with the place in front.
type rule struct {
	name  string
	check func(*tree) []string
}

var rules = []rule{
	{"gofmt", gofmt},
	{"imports", imports},
	{"package comment", packageComments},
	{"package name", packageNames},
	{"size", sizes},
	{"init", noInit},
	{"panic", noPanic},
	{"clock", noClock},
	{"print", noPrint},
	{"todo", noTodo},
	{"skip", noSkip},
	{"sleep", noSleep},
	{"written program", writtenPrograms},
	{"secret", noSecrets},
	{"machine path", noMachinePaths},
	{"file name", fileNames},
	{"error codes", errorCodes},
	{"scanner folder", scannerFolders},
	{"settings", settings},
	{"key spaces", keySpaces},
	{"generated", generated},
	{"columns", columns},
	{"documents", documents},
	{"English", english},
}

func TestHouse(t *testing.T) {
	repo, err := load(root(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(repo.files) < 100 {
		t.Fatalf("only %d files: where is the repository?", len(repo.files))
	}
	for _, r := range rules {
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			for _, problem := range r.check(repo) {
				t.Error(problem)
			}
		})
	}
}

// staticcheck is a module of its own (cmd/tools.mod), which a plain go test does not fetch.
func TestStaticcheck(t *testing.T) {
	if testing.Short() {
		t.Skip("staticcheck takes a minute; not in -short")
	}
	if os.Getenv("YETT_TOOLS") == "" {
		t.Skip("YETT_TOOLS is not set: .ci/run sets it once the tools of cmd/tools.mod are downloaded")
	}
	repo, err := load(root(t)) // opens every source, so that the test cache knows of them
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "tool", "-modfile=cmd/tools.mod", "staticcheck", "./...")
	cmd.Dir = repo.root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("staticcheck: %v: fix what it names\n%s", err, out)
	}
}
