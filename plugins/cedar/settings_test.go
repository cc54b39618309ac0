package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
)

func TestSettingsRefused(t *testing.T) {
	const permit = "permit(principal, action, resource);"
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.cedar")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config any
		want   string
	}{
		"nothing":            {map[string]any{}, "exactly one of policy and policies"},
		"both":               {with(permit, "policies", []string{empty}), "exactly one of policy and policies"},
		"unknown member":     {with(permit, "entites", 1), "entites"},
		"bad policy":         {with("permit(principal, action"), "policy"},
		"relative":           {map[string]any{"policies": []string{"p.cedar"}}, "/policies/0: not an absolute path"},
		"relative entities":  {with(permit, "entities", "e.json"), "/entities: not an absolute path"},
		"relative schema":    {with(permit, "schema", "s"), "/schema: not an absolute path"},
		"no such file":       {map[string]any{"policies": []string{filepath.Join(dir, "none")}}, "no such file"},
		"empty file":         {map[string]any{"policies": []string{empty}}, "the files hold no policy"},
		"empty directory":    {map[string]any{"policies": []string{filepath.Join(dir, "d")}}, "no .cedar file"},
		"same name twice":    {map[string]any{"policies": []string{empty, empty}}, "two policy files are called empty.cedar"},
		"a device":           {with(permit, "entities", "/dev/zero"), "not a regular file"},
		"bad type":           {with(permit, "principal", part{Type: "no type"}), "/principal/type"},
		"unknown field":      {with(permit, "action", part{ID: "tool"}), "/action/id"},
		"uid without types":  {with(permit, "resource", part{UID: "/args/r"}), "/resource/types"},
		"uid and id":         {with(permit, "resource", part{UID: "/args/r", ID: "tool_id", Types: []string{"T"}}), "/resource: either uid with types"},
		"types without uid":  {with(permit, "resource", part{ID: "tool_id", Types: []string{"T"}}), "/resource/types: only with uid"},
		"context elsewhere":  {with(permit, "context_from", "/agent"), "/context_from"},
		"escapes of a call":  {with(permit, "context_values", "cedar"), "/context_values: cedar needs context_from"},
		"decimals elsewhere": {with(permit, "decimals", []string{"amount"}), "/decimals/0"},
		"nulls":              {with(permit, "nulls", "zero"), "/nulls"},
		"policy errors":      {with(permit, "on_policy_error", "permit"), "/on_policy_error"},
		"no permit":          {with(permit, "on_no_permit", "permit"), "/on_no_permit"},
		"reload":             {with(permit, "reload", "1ms"), "/reload"},
		"long policy":        {with(strings.Repeat(" ", maxPolicyText+1)), "/policy: 262145 bytes; at most 262144"},
		"many files":         {map[string]any{"policies": make([]string, maxPaths+1)}, "/policies: 65 entries; at most 64"},
	} {
		t.Run(name, func(t *testing.T) {
			policytest.Refuses(t, newAuthorizer(), c.config, c.want)
		})
	}
}

func TestSourceLimits(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "big.cedar")
	f, err := os.Create(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(maxBytes + 1); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := newAuthorizer().Validate(t.Context(),
		policytest.Settings(t, map[string]any{"policies": []string{p}})); err == nil ||
		!strings.Contains(err.Error(), "more than 33554432 bytes") {
		t.Errorf("%v; want the limit of bytes", err)
	}
	many := strings.Repeat("permit(principal, action, resource);", maxPolicies+1)
	if err := os.WriteFile(p, []byte(many), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newAuthorizer().Validate(t.Context(),
		policytest.Settings(t, map[string]any{"policies": []string{p}})); err == nil ||
		!strings.Contains(err.Error(), "more than 10000 policies") {
		t.Errorf("%v; want the limit of policies", err)
	}
}

// The schema and parse agree on the example, and the schema refuses what parse refuses.
func TestSchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(configSchema))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		exampleConfig: true,
		`{"policies":["/p"],"principal":{"uid":"/args/p","types":["User"]}}`: true,
		`{"policies":["/p"],"on_policy_error":"permit"}`:                     false,
		`{"policies":["/p"],"polcy":1}`:                                      false,
		`{"policies":[]}`:                                                    false,
		`{}`:                                                                 false,
		`{"policy":"permit(principal,action,resource);","policies":["/p"]}`: false,
		`{"policies":["p"]}`: false,
		`{"policies":["/p"],"principal":{"uid":"/args/p"}}`:                                          false,
		`{"policies":["/p"],"principal":{"uid":"/args/p","types":["User"],"id":"/args/x"}}`:          false,
		`{"policies":["/p"],"principal":{"types":["User"]}}`:                                         false,
		`{"policies":["/p"],"principal":{"id":"nobody"}}`:                                            false,
		`{"policies":["/p"],"context_values":"cedar"}`:                                               false,
		`{"policies":["/p"],"context_values":"cedar","context_from":"/args"}`:                        true,
		`{"policies":["/p"],"context_values":"cedar","context_from":"/args","decimals":["/args/x"]}`: false,
		`{"policies":["/p"],"context_from":"/args","decimals":["/args/x"]}`:                          true,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != ok {
			t.Errorf("%.60s: %v; want ok %v", text, err, ok)
		}
	}
}
