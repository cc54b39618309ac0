package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/plugins/opa/policyfiles"
	"github.com/yett-dev/yett/plugins/opa/policyfiles/policytest"
	"github.com/yett-dev/yett/sdk"
)

// What is nested so deep that it would end the process is refused. What is only long is not.
func TestNesting(t *testing.T) {
	const head, n = "permit(principal, action, resource) when { ", 3 * maxNesting
	many := func(text string, n int) string { return strings.Repeat(text, n) }
	for name, c := range map[string]struct {
		text string
		deep bool
	}{
		"parentheses":    {head + many("(", n) + "true" + many(")", n) + " };", true},
		"unclosed":       {head + many("[", n), true},
		"records":        {head + many("{a: ", n) + "1" + many("}", n) + ".a == 1 };", true},
		"and":            {head + many("true && ", n) + "true };", true},
		"or":             {head + many("true || ", n) + "true };", true},
		"sum":            {head + many("1 + ", n) + "1 == 1 };", true},
		"not":            {head + many("!", n) + "true };", true},
		"members":        {head + "context" + many(".a", n) + " };", true},
		"indexes":        {head + "context" + many(`["a"]`, n) + " };", true},
		"calls":          {head + "context" + many(".isEmpty()", n) + " };", true},
		"ifs":            {head + many("if true then true else ", n) + "true };", true},
		"path":           {head + "principal == " + many("A::", n) + `"a" };`, true},
		"conditions":     {"permit(principal, action, resource) " + many("when { true } ", n) + ";", true},
		"and in between": {head + many("(true && ", maxNesting/2) + "true" + many(")", maxNesting/2) + many(" && true", n) + " };", true},
		"types":          {"entity A { a: " + many("Set<", n) + "Long" + many(">", n) + " };", true},
		"comment, and":   {head + many("true && // (\n", n) + "true };", true},
		"just fits":      {head + many("true && ", maxNesting/2) + "true };", false},
		"a list":         {head + "[" + many(`A::"a", `, n) + `A::"a"].contains(A::"b") };`, false},
		"policies":       {many("permit(principal, action, resource) when { !(context has a.b) };\n", n), false},
		"a string":       {head + `"` + many(`(\"`, n) + `" == "" };`, false},
		"a comment":      {head + "true // " + many("(", n) + "\n/* " + many("(", n) + " */ };", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkNesting([]byte(c.text))
			if (err != nil) != c.deep || c.deep && !strings.Contains(err.Error(), "nested more than 10000 deep") {
				t.Errorf("%v; want refused %v", err, c.deep)
			}
		})
	}
}

// A deep file is refused as any other one that does not load, and what was in force before goes on.
func TestDeepFiles(t *testing.T) {
	dir := t.TempDir()
	policies, schema := filepath.Join(dir, "p.cedar"), filepath.Join(dir, "s.cedarschema")
	put := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const permit = "permit(principal, action, resource)"
	put(policies, permit+";")
	a := configured(t, map[string]any{"policies": []string{policies}, "reload": "0s"})
	p := a.InForce()
	put(policies, permit+" when {\n"+strings.Repeat("(", 5_000_000)+"true"+strings.Repeat(")", 5_000_000)+" };")
	p.Refresh(t.Context(), p.Refresh(t.Context(), policyfiles.Sighting{}))
	if v, err := a.Check(t.Context(), call(`{}`)); err != nil || v.Effect != sdk.Permit || !strings.Contains(p.Refused(), "p.cedar: line 2: nested more than 10000 deep") {
		t.Errorf("%+v, %v, refused %q", v, err, p.Refused())
	}
	put(policies, permit+";")
	put(schema, "entity A { a: "+strings.Repeat("Set<", 5_000_000)+"Long"+strings.Repeat(">", 5_000_000)+" };")
	policytest.Refuses(t, newAuthorizer(), map[string]any{"policies": []string{policies}, "schema": schema}, "schema: line 1: nested more than 10000 deep")
}

// A directory may hold so many files of policies, and no more.
func TestManyPolicyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range maxFiles + 1 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("a", i%200+1)+string(rune('a'+i/200))+".cedar"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policytest.Refuses(t, newAuthorizer(), map[string]any{"policies": []string{dir}}, "more than 1000 files of policies")
}
