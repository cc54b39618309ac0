package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/plugins/internal/policyfiles"
	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
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
	put(policies, permit+" when {\n"+strings.Repeat("(", 500_000)+"true"+strings.Repeat(")", 500_000)+" };")
	p.Refresh(t.Context(), p.Refresh(t.Context(), policyfiles.Sighting{}))
	if v, err := a.Check(t.Context(), call(`{}`)); err != nil || v.Effect != sdk.Permit ||
		!strings.Contains(p.Refused(), "p.cedar: line 2: nested more than 10000 deep") {
		t.Errorf("%+v, %v, refused %q", v, err, p.Refused())
	}
	put(policies, permit+";")
	put(schema, "entity A { a: "+strings.Repeat("Set<", 500_000)+"Long"+strings.Repeat(">", 500_000)+" };")
	policytest.Refuses(t, newAuthorizer(), map[string]any{"policies": []string{policies}, "schema": schema},
		"schema: line 1: nested more than 10000 deep")
}

func TestCountTokens(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, " \n\t": 0, "permit(principal);": 5, "[1, 234]": 5, `"a // b" c`: 2, "a // b c": 1, "/* a b */ c /* d": 1,
		"1 22 a1": 3, "a==b": 4, "é": 2,
	} {
		if n := countTokens([]byte(text)); n != want {
			t.Errorf("%q has %d tokens; want %d", text, n, want)
		}
	}
}

// Texts that are only long would take many times their size. All files of policies count together, the schema by
// itself.
func TestManyTokens(t *testing.T) {
	testkit.Long(t, "two million tokens")
	dir := t.TempDir()
	list := "permit(principal, action, resource) when { [" + strings.Repeat("1,", maxTokens/4) + "1].contains(1) };\n"
	enum := "entity E enum [" + strings.Repeat(`"a",`, maxTokens/2) + `"a"];`
	for name, text := range map[string]string{"a.cedar": list, "b.cedar": list, "one/c.cedar": list,
		"one/fits.cedar": "// " + strings.Repeat("a ", 2*maxTokens), "schema": enum} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	policytest.Refuses(t, newAuthorizer(), map[string]any{"policies": []string{dir}},
		"b.cedar: more than 2000000 tokens in all policies")
	policytest.Refuses(t, newAuthorizer(), map[string]any{"policies": []string{filepath.Join(dir, "one")},
		"schema": filepath.Join(dir, "schema")}, "schema: more than 2000000 tokens")
	configured(t, map[string]any{"policies": []string{filepath.Join(dir, "one")}})
}

// A directory may hold so many files of policies, and no more.
func TestManyPolicyFiles(t *testing.T) {
	testkit.Long(t, "thousands of files")
	dir := t.TempDir()
	for i := range maxFiles + 1 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("a", i%200+1)+string(rune('a'+i/200))+".cedar"), nil,
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	policytest.Refuses(t, newAuthorizer(), map[string]any{"policies": []string{dir}}, "more than 1000 files of policies")
}
