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

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReadmeCompiles vets every program of the document, and runs the test that it shows.
func TestReadmeCompiles(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(readme(t), -1)
	if len(blocks) != 5 {
		t.Fatalf("%d blocks of Go, want 5", len(blocks))
	}
	example, err := os.ReadFile("../../examples/authorizer-go/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if blocks[0][1] != string(example) {
		t.Error("the first program is not examples/authorizer-go/main.go")
	}
	if testing.Short() {
		t.Skip("starts the compiler")
	}
	var dir string
	for i, b := range blocks {
		name, verb := "main_test.go", "test"
		if strings.Contains(b[1], "func main()") {
			name, verb, dir = "main.go", "vet", filepath.Join(t.TempDir(), fmt.Sprint(i))
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", append([]string{verb}, files...)...).CombinedOutput(); err != nil {
			t.Errorf("block %d: %v\n%s", i, err, out)
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
	for _, s := range []string{CookieKey + "=" + CookieValue, "`plugin.ProtocolVersion` is " + fmt.Sprint(ProtocolVersion)} {
		if !strings.Contains(readme(t), s) {
			t.Errorf("the document does not say %s", s)
		}
	}
}
