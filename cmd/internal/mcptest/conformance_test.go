package mcptest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// passing are how many checks go-sdk's server passes without a gateway, in each revision.
var passing = map[string]int{rawmcp.Modern: 165, rawmcp.Legacy: 82}

// TestConformance runs the official runner directly, through a forwarder that keeps Host, and through one that hides
// it, where exactly the check of foreign hosts fails: the server can no longer see them, so that a gateway has to.
func TestConformance(t *testing.T) {
	for revision, want := range passing {
		t.Run(revision, func(t *testing.T) {
			url := StartEverything(t, revision)
			direct := Conformance(t, url, revision)
			if got := len(direct.Passed()); got != want || direct.Exit != 0 {
				t.Errorf("direct: %d checks pass, want %d; exit %d\n%s", got, want, direct.Exit, direct.Output)
			}
			kept := Conformance(t, Forward(t, url, Bearer("a-key")), revision)
			if got := Compare(direct, kept); len(got) != 0 {
				t.Errorf("a forwarder that keeps Host differs: %q", got)
			}
			hidden := Conformance(t, ForwardOwnHost(t, url), revision)
			const foreign = "dns-rebinding-protection/localhost-host-rebinding-rejected: SUCCESS direct, FAILURE through"
			if got := Compare(direct, hidden); !slices.Equal(got, []string{foreign}) {
				t.Errorf("a forwarder that hides Host differs in %q", got)
			}
		})
	}
}

// TestEverythingStdio speaks to go-sdk's server as a program, in both eras.
func TestEverythingStdio(t *testing.T) {
	for _, era := range []string{rawmcp.Modern, rawmcp.Legacy} {
		c := StartStdio(t, era, nil, EverythingProgram(t))
		if _, err := c.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		messages, err := do(t.Context(), c, Call(era, "7", "test_simple_text", "{}"))
		if err != nil || !strings.Contains(Text(messages[len(messages)-1]), "simple text") {
			t.Errorf("%s: %q, %v", era, messages, err)
		}
	}
}

// checks writes a result file of the runner.
func checks(t *testing.T, dir, scenario, content string) {
	t.Helper()
	dir = filepath.Join(dir, "server-"+scenario+"-2026-11-28T06-50-40-093Z")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "checks.json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadResults(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadResults(dir); err == nil {
		t.Error("a run without checks is no error")
	}
	checks(t, dir, "ping", `[{"id":"a","status":"FAILURE"}]`)
	if _, err := ReadResults(dir); err == nil {
		t.Error("a run in which nothing passes is no error")
	}
	checks(t, dir, "tools-list", `[{"id":"a","status":"SUCCESS"},{"id":"a","status":"SUCCESS"},{"id":"b","status":"INFO"}]`)
	r, err := ReadResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	const want = "map[ping/a:FAILURE tools-list/a:SUCCESS tools-list/a#2:SUCCESS tools-list/b:INFO]"
	if got := fmt.Sprint(r.Checks); got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	for name, content := range map[string]string{"broken": `[`, "nameless": `[{"status":"SUCCESS"}]`} {
		bad := t.TempDir()
		checks(t, bad, name, content)
		if _, err := ReadResults(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCompareResults(t *testing.T) {
	results := func(exit int, pairs ...string) *Results {
		r := &Results{Exit: exit, Checks: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			r.Checks[pairs[i]] = pairs[i+1]
		}
		return r
	}
	direct := results(0, "a", "SUCCESS", "b", "FAILURE", "c", "WARNING")
	for _, c := range []struct {
		through *Results
		want    string
	}{
		{results(0, "a", "SUCCESS", "b", "FAILURE", "c", "INFO"), "[]"},
		{results(0, "a", "FAILURE", "b", "FAILURE"), "[a: SUCCESS direct, FAILURE through]"},
		{results(0, "b", "FAILURE"), "[a: SUCCESS direct, none through]"},
		{results(0, "a", "SUCCESS", "b", "SUCCESS"), "[b: FAILURE direct, SUCCESS through]"},
		{results(0, "a", "SUCCESS", "d", "SUCCESS"), "[d: none direct, SUCCESS through]"},
		{results(1, "a", "SUCCESS"), "[exit 0 direct, 1 through]"},
	} {
		if got := fmt.Sprint(Compare(direct, c.through)); got != c.want {
			t.Errorf("%v: %s, want %s", c.through.Checks, got, c.want)
		}
	}
}
