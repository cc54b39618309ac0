package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/plugins/internal/policyfiles"
	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
	"github.com/yett-dev/yett/sdk"
)

func content() *policytest.Content[*engine] {
	const decision = "package yett.authz\n\ndecision := "
	return &policytest.Content[*engine]{
		New: newAuthorizer, Permit: decision + "true\n", Forbid: decision + "false\n", Broken: decision + "tru\n",
		File: "p.rego", Config: func(dir string) map[string]any { return map[string]any{"bundle": dir} },
		Text: func(policy string) map[string]any { return map[string]any{"policy": policy} },
		Gone: "nothing in the policies defines",
	}
}

func TestReload(t *testing.T) { content().Reload(t) }

// The poll itself takes newer content, and ends with the plugin (goleak).
func TestPoll(t *testing.T) { content().Poll(t) }

// Validate has no effect: what is in force goes on, and nothing is begun.
func TestValidateHasNoEffect(t *testing.T) { content().ValidateHasNoEffect(t) }

// References so long that they would end the process, and loose files over the limit, are refused as all that does not
// load: what was in force before goes on.
func TestTooMuch(t *testing.T) {
	testkit.Long(t, "policies of tens of megabytes")
	file := filepath.Join(t.TempDir(), "p.rego")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const head = "package yett.authz\n\ndecision := "
	put(head + "true\n")
	a := configured(t, map[string]any{"paths": []string{file}, "reload": "0s"})
	p := a.InForce()
	for text, want := range map[string]string{
		head + "true if input" + strings.Repeat(".a", 4_000_000) +
			"\n": "p.rego:3: a reference of 4000001 steps; at most 10000",
		head + "true\n" + strings.Repeat("\n", maxBytes-len(head)-len("true\n")+1): "more than 67108864 bytes",
	} {
		put(text)
		p.Refresh(t.Context(), p.Refresh(t.Context(), policyfiles.Sighting{}))
		if v, err := a.Check(t.Context(), call(`{}`)); err != nil || v.Effect != sdk.Permit ||
			!strings.Contains(p.Refused(), want) {
			t.Errorf("%+v, %v, refused %.200q; want %q", v, err, p.Refused(), want)
		}
	}
}

// A problem with the content names the member of the settings that it comes from.
func TestProblemsNameTheSource(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, map[string]string{"p.rego": "package other\n"})
	for field, config := range map[string]map[string]any{
		"/policy": {"policy": "package other"}, "/bundle": {"bundle": dir}, "/paths": {"paths": []string{filepath.Join(dir, "p.rego")}},
	} {
		policytest.Refuses(t, newAuthorizer(), config, field+": nothing in the policies defines")
	}
}

// Data under another name is not found, as in every bundle. The operator is told.
func TestUnreadData(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, map[string]string{"p.rego": "package yett.authz\n\ndecision := true\n", "roles.json": `{"a": 1}`,
		"data.json": `{"b": 1}`})
	var out bytes.Buffer
	s := policytest.Settings(t, map[string]any{"bundle": dir, "reload": "0s"})
	s.Log = slog.New(slog.NewTextHandler(&out, nil))
	a := newAuthorizer()
	if err := a.Configure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "files=1 first=/roles.json") {
		t.Errorf("the log says nothing of it: %s", out.String())
	}
	two := map[string]any{"paths": []string{filepath.Join(dir, "roles.json"), filepath.Join(dir, "data.json")}}
	if err := a.Validate(t.Context(), policytest.Settings(t, two)); err == nil ||
		!strings.Contains(err.Error(), "one JSON and one YAML document at most") {
		t.Errorf("two documents for the root: %v", err)
	}
}
