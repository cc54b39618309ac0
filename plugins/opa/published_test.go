package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/test/cases"

	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

// The cases that Open Policy Agent publishes for other implementations (v1/test/cases) are read where the Go tool keeps
// the module, and turned into authorize calls: the case's modules and data become a bundle, its input and the wanted
// result the call's args, and a decision permits when the query gives exactly what is wanted. Its reason is a hash of
// what the query gave, so that two engines that agree on the verdict but not on the result are told apart.

// publishedCase is a case as an authorize call.
type publishedCase struct {
	note   string
	id     string            // of its own, fit for every field
	files  map[string]string // the bundle
	args   json.RawMessage
	strict bool   // errors of built-in functions end the evaluation
	fails  bool   // an error is wanted
	code   string // which one; "" for any
	random bool   // the result differs from one evaluation to the next
}

// inexpressible are the cases that cannot be put to /v1/authorize, by the reason.
type inexpressible map[string][]string

func (x inexpressible) add(reason, note string) { x[reason] = append(x[reason], note) }

// report lists what was left out. Nothing is left out silently.
func (x inexpressible) report(t *testing.T) (total int) {
	t.Helper()
	reasons := make([]string, 0, len(x))
	for r := range x {
		reasons = append(reasons, r)
	}
	slices.Sort(reasons)
	for _, r := range reasons {
		t.Logf("%d not expressible (%s): %s", len(x[r]), r, strings.Join(x[r], ", "))
		total += len(x[r])
	}
	return total
}

// opaModule is where the Go tool keeps Open Policy Agent, and its version.
func opaModule(t *testing.T) (dir, version string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}} {{.Version}}",
		"github.com/open-policy-agent/opa").Output()
	if err != nil {
		t.Fatalf("where is Open Policy Agent: %v", err)
	}
	dir, version, _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	return dir, version
}

// published are all published cases for this version of Rego.
func published(t *testing.T) ([]publishedCase, inexpressible) {
	t.Helper()
	dir, _ := opaModule(t)
	set, err := cases.Load(filepath.Join(dir, "v1", "test", "cases", "testdata", "v1"))
	if err != nil {
		t.Fatal(err)
	}
	left := inexpressible{}
	var all []publishedCase
	for i, tc := range set.Sorted().Cases {
		c, reason := adapt(t, tc, fmt.Sprintf("case-%d", i))
		if reason != "" {
			left.add(reason, tc.Note)
			continue
		}
		all = append(all, c)
	}
	if len(set.Cases) < 2000 {
		t.Fatalf("only %d cases in %s", len(set.Cases), dir)
	}
	return all, left
}

// leftOut are cases that cannot be put to /v1/authorize, with the reason.
var leftOut = map[string]string{
	"every/domain undefined (input)":                                  noInput,
	"inputvalues/loopback undefined":                                  noInput,
	"virtualdocs/undefined: in array coprehension body":               noInput,
	"virtualdocs/undefined: in array literal":                         noInput,
	"virtualdocs/undefined: in set coprehension body":                 noInput,
	"virtualdocs/undefined: in set literal":                           noInput,
	"withkeyword/builtin-value: arity-1, input must still be defined": noInput,
	"baseandvirtualdocs/base/virtual: conflicts": "a rule and the data define the same path, " +
		"which a bundle may not",
	"time/time caching": "calls test.sleep, which only the engine's own tests have",
}

const noInput = "wants that there is no input document, and a call always is one"

// adapt makes an authorize call of a case, or says why that cannot be.
func adapt(t *testing.T, tc cases.TestCase, id string) (publishedCase, string) {
	t.Helper()
	c := publishedCase{note: tc.Note, id: id, files: map[string]string{}, strict: tc.StrictError}
	c.fails = tc.WantError != nil || tc.WantErrorCode != nil
	if tc.WantErrorCode != nil {
		c.code = *tc.WantErrorCode
	}
	switch {
	case tc.ExperimentalKeywords:
		return c, "needs experimental keywords, which the engine's command has off too"
	case len(tc.Env) > 0:
		return c, "needs the process's environment, which policies do not see"
	}
	if reason := leftOut[tc.Note]; reason != "" {
		return c, reason
	}
	if tc.Query == "data = x" {
		return c, "queries all of data, which holds the decision itself"
	}
	args := map[string]any{"input": map[string]any{}} // a call always is an input document
	switch {
	case tc.InputTerm != nil:
		if !json.Valid([]byte(*tc.InputTerm)) {
			return c, "its input is no JSON document"
		}
		args["input"] = json.RawMessage(*tc.InputTerm)
	case tc.Input != nil:
		args["input"] = *tc.Input
	}
	if tc.WantResult != nil {
		args["want"] = *tc.WantResult
	}
	names := resultNames(tc)
	var err error
	if c.args, err = json.Marshal(args); err != nil {
		t.Fatal(err)
	}
	for i, m := range tc.Modules {
		c.files[fmt.Sprintf("case/m%d.rego", i)] = m
		c.random = c.random || strings.Contains(m, "rand.intn") || strings.Contains(m, "uuid.") ||
			strings.Contains(m, "time.now_ns")
	}
	c.random = c.random || strings.Contains(tc.Query, "rand.intn") || strings.Contains(tc.Query, "uuid.") ||
		strings.Contains(tc.Query, "time.now_ns")
	if tc.Data != nil {
		data, err := json.Marshal(*tc.Data)
		if err != nil {
			t.Fatal(err)
		}
		c.files["data.json"] = string(data)
	}
	c.files["yett.rego"] = decisionModule(tc, id, names)
	return c, ""
}

// resultNames are the variables of the query that the wanted results bind.
func resultNames(tc cases.TestCase) []string {
	seen := map[string]bool{}
	if tc.WantResult != nil {
		for _, binding := range *tc.WantResult {
			for name := range binding {
				seen[name] = true
			}
		}
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// decisionModule is the policy that turns the case's query into a decision.
func decisionModule(tc cases.TestCase, id string, names []string) string {
	value := "v"
	if tc.SortBindings {
		value = "sort(v)"
	}
	pairs := make([]string, len(names))
	for i, n := range names {
		pairs[i] = fmt.Sprintf("%q: plain(%s)", n, n)
	}
	return `package yett.published

plain(t) := ` + value + ` if v := json.unmarshal(json.marshal(t))

results contains {` + strings.Join(pairs, ", ") + `} if {
	` + tc.Query + `
}

wanted contains w if some w in object.get(input.args, "want", [])

got := x if x := results with input as input.args.input

effect := "PERMIT" if got == wanted

effect := "DENY" if got != wanted

decision := {"effect": effect, "rule_id": "` + id + `", "reason": crypto.sha256(json.marshal(got))} if not input.args.probe

decision := {"effect": "DENY", "rule_id": "` + id + `", "reason": "probe"} if input.args.probe
`
}

// config is how the plugin runs a case.
func (c *publishedCase) config(bundle string) map[string]any {
	m := map[string]any{
		"bundle": bundle, "decision": "data.yett.published.decision", "reload": "0s", "builtin_errors": "undefined",
		// Some cases look up addresses; others put their own functions in place of those that are off.
		"allow_builtins": []string{"http.send", "net.lookup_ip_addr", "opa.runtime"},
		"allow_hosts":    []string{"localhost", "10.0.0.0", "::"},
	}
	if c.strict {
		m["builtin_errors"] = "fail"
	}
	return m
}

// write puts the case's bundle below dir.
func (c *publishedCase) write(t testing.TB, dir string) {
	t.Helper()
	for name, text := range c.files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *publishedCase) call() *plugin.Call {
	return &plugin.Call{AgentID: "published", ToolID: "published/case", Operation: "case", CallID: c.id, Args: c.args}
}

// answer is what an engine made of a case.
type answer struct {
	effect, reason, err string
	decision            string // through the gateway: of an error
}

func (a answer) String() string {
	return fmt.Sprintf("effect %q reason %q error %q", a.effect, a.reason, a.err)
}

// wrong says what is not as published. "" is agreement.
func (c *publishedCase) wrong(got answer) string {
	switch {
	case c.fails && got.err == "":
		return "an error is wanted, got " + got.String()
	case c.fails && !strings.Contains(got.err, c.code):
		return fmt.Sprintf("the error %q is wanted, got %q", c.code, got.err)
	case !c.fails && got.effect != "PERMIT":
		return "the published result is wanted, got " + got.String()
	}
	return ""
}

// askPlugin asks the plugin's own functions. TestPublishedEndToEnd asks the same through the gateway.
func (c *publishedCase) askPlugin(t *testing.T, bundle string) answer {
	t.Helper()
	a := newAuthorizer()
	if err := a.Configure(t.Context(), policytest.Settings(t, c.config(bundle))); err != nil {
		return answer{err: err.Error()}
	}
	defer func() { _ = a.Close(context.Background()) }()
	v, err := a.Check(t.Context(), c.call())
	if err != nil {
		if v.Effect == sdk.Permit {
			t.Fatalf("an error with a permit: %v", err)
		}
		return answer{err: err.Error()}
	}
	return answer{effect: v.Effect.String(), reason: v.Reason}
}

// TestPublishedCases puts every published case to the plugin and compares with the published result.
func TestPublishedCases(t *testing.T) {
	if testing.Short() {
		t.Skip("two thousand cases")
	}
	all, left := published(t)
	for i := range all {
		c := &all[i]
		t.Run(c.note, func(t *testing.T) {
			dir := t.TempDir()
			c.write(t, dir)
			if w := c.wrong(c.askPlugin(t, dir)); w != "" {
				t.Error(w)
			}
		})
	}
	n := left.report(t)
	t.Logf("%d cases: %d as published, %d not expressible", len(all)+n, len(all), n)
}
