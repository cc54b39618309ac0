package plugin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// documents are the guide: README.md and those that it sends some readers to.
var documents = []string{"README.md", "SCANNERS.md", "SUBSCRIBERS.md", "OTHER-LANGUAGES.md"}

func document(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func readme(t *testing.T) string {
	t.Helper()
	return document(t, "README.md")
}

// fenced gives what all documents have in one language.
func fenced(t *testing.T, language string) (out []string) {
	t.Helper()
	for _, name := range documents {
		for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(document(t, name),
			-1) {
			out = append(out, m[1])
		}
	}
	return out
}

// TestReadmeCompiles vets every program of the documents, and wants every other piece of Go in a project that yett
// plugin new makes, which is built and tested.
func TestReadmeCompiles(t *testing.T) {
	var made strings.Builder
	projects, err := filepath.Glob("../../cmd/internal/author/conform/template/go-*/*.go.tmpl")
	if err != nil || len(projects) == 0 {
		t.Fatal(projects, err)
	}
	for _, name := range projects {
		made.WriteString(document(t, name))
	}
	var programs []string
	for _, b := range fenced(t, "go") {
		if strings.Contains(b, "package main\n") {
			programs = append(programs, b)
			continue
		}
		for part := range strings.SplitSeq(b, "\n\n") {
			if !strings.Contains(made.String(), strings.Trim(part, "\n")) {
				t.Errorf("no project has:\n%s", part)
			}
		}
	}
	if len(programs) != 3 {
		t.Fatalf("%d programs, want 3", len(programs))
	}
	if programs[0] != document(t, "../../examples/authorizer-go/main.go") {
		t.Error("the first program is not examples/authorizer-go/main.go")
	}
	if testing.Short() {
		t.Skip("starts the compiler")
	}
	for i, b := range programs {
		name := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(name, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "vet", name).CombinedOutput(); err != nil {
			t.Errorf("program %d: %v\n%s", i, err, out)
		}
	}
}

// TestReadmeCommandsAreRun wants each command of the documents in a script of cmd/internal/e2e, which runs it, and the
// configurations and calls that they show beside it.
func TestReadmeCommandsAreRun(t *testing.T) {
	scripts, err := filepath.Glob("../../cmd/internal/e2e/testdata/plugin/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	var run strings.Builder
	for _, name := range scripts {
		run.WriteString(document(t, name))
	}
	asRun := strings.NewReplacer("/path/to/yett", "$ROOT")
	commands := 0
	for _, block := range fenced(t, "sh") {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), "   #")
			for command := range strings.SplitSeq(line, " && ") {
				commands++
				if !strings.Contains(run.String(), asRun.Replace(command)) {
					t.Errorf("no script runs: %s", asRun.Replace(command))
				}
			}
		}
	}
	if commands < 10 {
		t.Errorf("the documents have %d commands, want 10 or more", commands)
	}
	for _, language := range []string{"yaml", "json"} {
		blocks := fenced(t, language)
		if len(blocks) == 0 {
			t.Errorf("no block is %s", language)
		}
		for _, block := range blocks {
			if !strings.Contains(run.String(), block) {
				t.Errorf("no script has:\n%s", block)
			}
		}
	}
}

// TestReadmeNamesTheLimits holds the table of limits against the constants.
func TestReadmeNamesTheLimits(t *testing.T) {
	_, table, _ := strings.Cut(readme(t), "## Limits\n")
	for what, values := range map[string][]int{
		"one gRPC message":    {maxMessage >> 20},
		"`Info.ConfigSchema`": {maxSchema >> 10, maxExample >> 10},
		"`Info.Secrets`":      {maxSecrets, maxKinds, maxCacheFields},
		"`Info.MaxInFlight`":  {maxInFlight, defaultMost},
		"one secret":          {maxSecret >> 20},
		"problems of one":     {maxProblems, maxLine},
		"`Verdict.Code`":      {maxName},
		"`Verdict.Reason`":    {maxLine},
		"`Verdict.RuleID`":    {maxRule},
		"`Verdict.Approvals`": {maxApprovals, maxFrom, maxRule},
		"`Verdict.TTL`":       {int(maxLong / (24 * time.Hour))},
		"findings of one":     {maxFindings, maxReplace >> 10},
		"records of one":      {maxRecords},
		"the end after":       {int(drainTime.Seconds()), int(closeTime.Seconds())},
	} {
		m := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(what) + `.*?\| (.*) \|$`).FindStringSubmatch(table)
		if m == nil {
			t.Errorf("no row begins with %s", what)
			continue
		}
		cell := regexp.MustCompile(`(\d) (\d{3})`).ReplaceAllString(m[1], "$1$2")
		for _, v := range values {
			if !regexp.MustCompile(fmt.Sprintf(`\b%d\b`, v)).MatchString(cell) {
				t.Errorf("%s: %q does not say %d", what, m[1], v)
			}
		}
	}
	for name, s := range map[string]string{
		"OTHER-LANGUAGES.md": CookieKey + "=" + CookieValue,
		"README.md":          "`plugin.ProtocolVersion` is " + fmt.Sprint(ProtocolVersion),
	} {
		if !strings.Contains(document(t, name), s) {
			t.Errorf("%s does not say %s", name, s)
		}
	}
}
