package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/x/exp/schema"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/plugins/internal/policyfiles"
	"github.com/yett-dev/yett/sdk"
)

const actors = "entity Agent; entity Tool; action go appliesTo { principal: [Agent], resource: [Tool], context: {} };\n"

// chain is a schema of n common types, each made of the one before it as body says, and of what uses the last one.
func chain(n int, first, body, use string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "type T0 = %s;\n", first)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "type T%d = %s;\n", i, strings.ReplaceAll(body, "T", fmt.Sprintf("T%d", i-1)))
	}
	return b.String() + strings.ReplaceAll(use, "LAST", fmt.Sprintf("T%d", n)) + "\n" + actors
}

// numbered is a text n times, with its number for each #.
func numbered(n int, text, between string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(text, "#", fmt.Sprint(i))
	}
	return strings.Join(all, between)
}

// Short schemas that come to much are refused, whichever way they do it, in both forms. Large schemas that come to
// little are not.
func TestSchemaSize(t *testing.T) {
	const much, deep, double, use = "more than 200000 parts", "more than 1000 levels", "{a: T, b: T}",
		"entity E { x: LAST };"
	for name, c := range map[string]struct{ text, want string }{
		"doubling":           {chain(26, "Long", double, use), much},
		"doubling in sets":   {chain(26, "Long", "{a: Set<T>, b: T}", use), much},
		"doubling in tags":   {chain(26, "Long", double, "entity E tags LAST;"), much},
		"doubling context":   {chain(26, "Long", double, "action a appliesTo { principal: [Agent], resource: [Tool], context: LAST };"), much},
		"doubling, optional": {chain(26, "Long", "{a?: T, b?: T}", use), much},
		"in a namespace":     {"namespace N::M { " + chain(26, "Long", double, use) + " }", much},
		"across namespaces":  {"namespace N { " + chain(26, "Long", double, "") + " }\nnamespace M { entity E { x: N::T26 }; }", much},
		"many small uses":    {chain(10, "Long", double, numbered(100, "entity E# { x: LAST };", "\n")), much},
		"chain":              {chain(5_000, "Long", "T", use), deep},
		"chain of records":   {chain(1_000, "Long", "{a: T}", use), deep},
		"chain of sets":      {chain(1_000, "Long", "Set<T>", use), deep},
		"chain met twice":    {chain(900, "Long", "T", use+"\n"+strings.ReplaceAll("type U = T; entity D { x: U };", "T", strings.Repeat("Set<", 200)+"T900"+strings.Repeat(">", 200))), deep},
		"nested":             {"entity E { x: " + strings.Repeat("Set<", 1_000) + "Long" + strings.Repeat(">", 1_000) + " };" + actors, deep},
		"long names":         {chain(500, "Long", fmt.Sprintf("{%q: T}", strings.Repeat("n", 200)), use), deep},
		"pairs":              {numbered(500, "entity P#;", "") + "action a appliesTo { principal: [" + numbered(500, "P#", ",") + "], resource: [" + numbered(500, "P#", ",") + "] };" + actors, much},
		"actions":            {"action a0;" + numbered(110_000, "action b# in a0;", ""), much},
		"cycle":              {"type A = {a: B, b: B}; type B = {a: A}; entity E { x: A };" + actors, "cycle detected"},
		"long cycle":         {chain(100, "T100", "{a: T, b: Long}", use), "cycle detected"},
		"undefined":          {"type A = {a: B}; entity E { x: A };" + actors, "undefined type"},
		"just fits":          {chain(16, "Long", double, use), ""},
		"long, unused":       {chain(5_000, "Long", "T", ""), ""},
		"many types":         {numbered(20_000, "type T# = {a: Long}; entity E# in [Agent] { x: T# };", "\n") + actors, ""},
		"same name, small":   {"namespace N { " + chain(26, "Long", double, "") + " }\nnamespace M { type T26 = Long; entity E { x: T26 }; }", ""},
		"same name, large":   {"namespace M { type T26 = Long; }\nnamespace N { " + chain(26, "Long", double, use) + " }", much},
	} {
		if testkit.Quick() && c.want != deep {
			continue // up to 200 000 parts
		}
		t.Run(name, func(t *testing.T) {
			refused := func(form, text string) {
				t.Helper()
				_, err := (&engine{config: &config{}}).useSchema([]byte(text))
				if c.want == "" && err != nil || c.want != "" &&
					(err == nil || !strings.Contains(err.Error(), "schema: ") || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%s: %v; want %q", form, err, c.want)
				}
			}
			refused("text", c.text)
			var s schema.Schema
			if err := s.UnmarshalCedar([]byte(c.text)); err != nil {
				t.Fatal(err)
			}
			text, err := s.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			refused("json", string(text))
		})
	}
}

// A newer schema that comes to too much leaves the policies of before in force.
func TestSchemaGrowsTooLarge(t *testing.T) {
	p, s := filepath.Join(t.TempDir(), "p.cedar"), filepath.Join(t.TempDir(), "s.cedarschema")
	put := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(p, "permit(principal, action, resource);")
	put(s, actors+"entity E;")
	a := configured(t, map[string]any{
		"policies": []string{p}, "schema": s, "reload": "0s", "context_from": "/args",
		"action": map[string]string{"type": "Action", "id": "operation"},
	})
	in := a.InForce()
	put(s, chain(26, "Long", "{a: T, b: T}", "entity E { x: LAST };"))
	in.Refresh(t.Context(), in.Refresh(t.Context(), policyfiles.Sighting{}))
	ask := call(`{}`)
	ask.Operation = "go"
	if v, err := a.Check(t.Context(), ask); err != nil || v.Effect != sdk.Permit ||
		!strings.Contains(in.Refused(), "schema: more than 200000 parts") {
		t.Errorf("%+v, %v, refused %q", v, err, in.Refused())
	}
}
