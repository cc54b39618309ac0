package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/plugins/internal/policyfiles"
	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
	"github.com/yett-dev/yett/sdk"
)

func content() *policytest.Content[*engine] {
	const all = "(principal, action, resource);\n"
	return &policytest.Content[*engine]{
		New: newAuthorizer, Permit: "permit" + all, Forbid: "forbid" + all, Broken: "permitt" + all, File: "p.cedar",
		Config: func(dir string) map[string]any {
			return map[string]any{"policies": []string{filepath.Join(dir, "p.cedar")}}
		},
		Text: func(policy string) map[string]any { return with(policy) },
		Gone: "no such file",
	}
}

func TestReload(t *testing.T) { content().Reload(t) }

// The poll itself takes newer content, and ends with the plugin (goleak).
func TestPoll(t *testing.T) { content().Poll(t) }

// Validate has no effect: what is in force goes on, and nothing is begun.
func TestValidateHasNoEffect(t *testing.T) { content().ValidateHasNoEffect(t) }

// Entities and the schema are content as the policies are: a change of one alone is noticed.
func TestCompanionsAreWatched(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	const schema = "entity A;\nentity Agent;\nentity Tool;\naction go appliesTo { principal: [Agent], resource: " +
		"[Tool], context: {} };\n"
	a := configured(t, map[string]any{
		"policies": []string{put("p.cedar", "permit(principal, action, resource);")},
		"entities": put("e.json", "[]"), "schema": put("s.cedarschema", schema), "reload": "0s",
	})
	p := a.InForce()
	for name, text := range map[string]string{"e.json": `[{"uid":{"type":"A","id":"a"},"attrs":{},"parents":[]}]`,
		"s.cedarschema": schema + "entity B;\n"} {
		put(name, text)
		seen := p.Refresh(t.Context(), policyfiles.Sighting{})
		if !seen.Pending {
			t.Errorf("newer %s was not noticed", name)
		}
		if last := p.Refresh(t.Context(), seen); last.Pending || p.Refused() != "" {
			t.Errorf("newer %s was not taken: %s", name, p.Refused())
		}
	}
}

// A message about a directory behind a link names where it leads.
func TestEmptyDirectoryBehindALink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	policytest.Point(t, link, dir)
	policytest.Refuses(t, newAuthorizer(), map[string]any{"policies": []string{link}}, "no .cedar file in "+dir)
}

// A link to a directory of further policies is refused: a forbid in there would be missing. Named itself, and as a
// mount's switch, it is read. Where it appears later, what was in force before goes on, and the refusal says why.
func TestLinkedDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"p/permit.cedar":                   "permit(principal, action, resource);",
		"shared/forbid.cedar":              `@id("no") forbid(principal, action, resource);`,
		"mount/..2026/permit.cedar":        "permit(principal, action, resource);",
		"mount/..2026/shared/forbid.cedar": `@id("no") forbid(principal, action, resource);`,
	} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	policies := filepath.Join(dir, "p")
	a := configured(t, map[string]any{"policies": []string{policies}, "reload": "0s"})
	for link, to := range map[string]string{"p/more": "../shared", "mount/..data": "..2026",
		"mount/permit.cedar": "..data/permit.cedar", "mount/shared": "..data/shared"} {
		policytest.Point(t, filepath.Join(dir, link), to)
	}
	const want = "leads to a directory: links to directories are not followed"
	in := a.InForce()
	in.Refresh(t.Context(), policyfiles.Sighting{})
	if v, err := a.Check(t.Context(), call(`{}`)); err != nil || v.Effect != sdk.Permit ||
		!strings.Contains(in.Refused(), filepath.Join("p", "more")+" "+want) {
		t.Errorf("%+v, %v, refused %q", v, err, in.Refused())
	}
	policytest.Refuses(t, newAuthorizer(), map[string]any{"policies": []string{policies}}, want)
	policytest.Refuses(t, newAuthorizer(), map[string]any{"policies": []string{filepath.Join(dir, "mount")}}, want)
	for _, whole := range [][]string{{filepath.Join(dir, "mount", "..data")},
		{filepath.Join(dir, "p", "permit.cedar"), filepath.Join(dir, "p", "more")}} {
		if v, err := configured(t, map[string]any{"policies": whole}).Check(t.Context(), call(`{}`)); err != nil ||
			v.Effect != sdk.Deny || v.RuleID != "no" {
			t.Errorf("%s: %+v, %v; want DENY by no", whole, v, err)
		}
	}
}
