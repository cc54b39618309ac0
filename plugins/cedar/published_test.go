package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

// Cedar's project publishes a corpus: thousands of policy sets and entities, each with eight requests and what its
// reference implementation answered. cedar-go carries it; it is read where the Go tool keeps the module. Each request
// becomes an authorize call whose args hold the request.

// corpusCase is one policy set with its entities and requests.
type corpusCase struct {
	name               string
	policies, entities []byte
	requests           []corpusRequest
}

type corpusRequest struct {
	Desc      string          `json:"description"`
	Principal uid             `json:"principal"`
	Action    uid             `json:"action"`
	Resource  uid             `json:"resource"`
	Context   json.RawMessage `json:"context"`
	Decision  string          `json:"decision"`
	Reasons   []string        `json:"reason"`
	Errors    []string        `json:"errors"`
}

type uid struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// cedarModule is where the Go tool keeps cedar-go.
func cedarModule(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cedar-policy/cedar-go").Output()
	if err != nil {
		t.Fatalf("where is cedar-go: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// corpus reads every nth case; 1 is all of them.
func corpus(t *testing.T, nth int) []corpusCase {
	t.Helper()
	files := untar(t, filepath.Join(cedarModule(t), "corpus-tests.tar.gz"))
	var names []string
	for name := range files {
		if strings.HasSuffix(name, ".json") && !strings.HasSuffix(name, ".entities.json") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) < 5000 {
		t.Fatalf("only %d cases", len(names))
	}
	var all []corpusCase
	for i := 0; i < len(names); i += nth {
		var tc struct {
			Policies string          `json:"policies"`
			Entities string          `json:"entities"`
			Requests []corpusRequest `json:"requests"`
		}
		if err := json.Unmarshal(files[names[i]], &tc); err != nil {
			t.Fatalf("%s: %v", names[i], err)
		}
		c := corpusCase{name: strings.TrimSuffix(path.Base(names[i]), ".json"), policies: files[tc.Policies],
			entities: files[tc.Entities], requests: tc.Requests}
		if c.entities == nil || len(c.requests) == 0 {
			t.Fatalf("%s: no entities or no requests", names[i])
		}
		all = append(all, c)
	}
	return all
}

func untar(t *testing.T, file string) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// inexpressible are the requests that cannot be put to /v1/authorize, by the reason.
type inexpressible map[string][]string

func (x inexpressible) add(reason, name string) { x[reason] = append(x[reason], name) }

// report lists what was left out. Nothing is left out silently.
func (x inexpressible) report(t *testing.T) (total int) {
	t.Helper()
	for _, r := range slices.Sorted(func(yield func(string) bool) {
		for r := range x {
			if !yield(r) {
				return
			}
		}
	}) {
		show := x[r]
		if len(show) > 5 {
			show = append(slices.Clone(show[:5]), "…")
		}
		t.Logf("%d not expressible (%s): %s", len(x[r]), r, strings.Join(show, ", "))
		total += len(x[r])
	}
	return total
}

// mapping is how a call carries a whole request: in args, with the entity types that may stand there.
func mapping(types map[string][]string) map[string]any {
	m := map[string]any{"context_from": "/args/context", "context_values": "cedar", "on_policy_error": "skip",
		"reload": "0s"}
	for _, name := range []string{"principal", "action", "resource"} {
		m[name] = map[string]any{"uid": "/args/" + name, "types": types[name]}
	}
	return m
}

// types are the entity types of all requests.
func typesOf(requests []corpusRequest) map[string][]string {
	out := map[string][]string{}
	add := func(name, typ string) {
		if !slices.Contains(out[name], typ) {
			out[name] = append(out[name], typ)
		}
	}
	for i := range requests {
		add("principal", requests[i].Principal.Type)
		add("action", requests[i].Action.Type)
		add("resource", requests[i].Resource.Type)
	}
	return out
}

func (r *corpusRequest) call(t *testing.T) *plugin.Call {
	t.Helper()
	args, err := json.Marshal(map[string]any{"principal": r.Principal, "action": r.Action, "resource": r.Resource,
		"context": r.Context})
	if err != nil {
		t.Fatal(err)
	}
	return &plugin.Call{AgentID: "corpus", ToolID: "corpus/case", Operation: "case", CallID: "c", Args: args}
}

// want is the verdict that the published answer means. file is in front of the ids where there are several files.
func (r *corpusRequest) want(file string) sdk.Verdict {
	ids := func(in []string) []string {
		out := make([]string, len(in))
		for i := range in {
			out[i] = file + in[i]
		}
		slices.Sort(out)
		return out
	}
	reasons := ids(r.Reasons)
	v := sdk.Verdict{Effect: sdk.Deny, Code: codeNoPermit, Reason: "no policy permits this call"}
	switch {
	case r.Decision == "allow":
		v = sdk.Verdict{Effect: sdk.Permit, Code: sdk.ReasonRulePermit, RuleID: reasons[0],
			Reason: "permitted by " + names(reasons)}
	case len(reasons) > 0:
		v = sdk.Verdict{Effect: sdk.Deny, Code: sdk.ReasonRuleDeny, RuleID: reasons[0],
			Reason: "forbidden by " + names(reasons)}
	}
	if len(r.Errors) > 0 {
		v.Reason += "; could not be evaluated: " + names(ids(r.Errors))
	}
	return v
}

// TestCorpus puts the corpus to the plugin's own functions: decision, determining policies and failing policies are as
// published. TestPublishedEndToEnd asks through the gateway.
func TestCorpus(t *testing.T) {
	nth := 1
	if testing.Short() {
		nth = 50
	}
	dir := t.TempDir()
	left := inexpressible{}
	compared, total := 0, 0
	for _, c := range corpus(t, nth) {
		total += len(c.requests)
		config := mapping(typesOf(c.requests))
		policies, entities := filepath.Join(dir, c.name+".cedar"), filepath.Join(dir, c.name+".json")
		for p, b := range map[string][]byte{policies: c.policies, entities: c.entities} {
			if err := os.WriteFile(p, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		config["policies"], config["entities"] = []string{policies}, entities
		a := newAuthorizer()
		if err := a.Configure(t.Context(), policytest.Settings(t, config)); err != nil {
			if !strings.Contains(err.Error(), "the files hold no policy") {
				t.Fatalf("%s: %v", c.name, err)
			}
			for i := range c.requests {
				if c.requests[i].Decision != "deny" {
					t.Fatalf("%s: nothing is permitted without policies", c.name)
				}
				left.add("a set without policies is refused at load, so that nothing is permitted either",
					c.name+" "+c.requests[i].Desc)
			}
			continue
		}
		for i := range c.requests {
			r := &c.requests[i]
			got, err := a.Check(t.Context(), r.call(t))
			if err != nil && strings.Contains(err.Error(), "a NUL character in a string") {
				left.add("a NUL character, which the gateway refuses in a call", c.name+" "+r.Desc)
				continue
			}
			if want := r.want(""); err != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
				t.Errorf("%s, %s: got %+v, %v; want %+v", c.name, r.Desc, got, err, want)
				continue
			}
			compared++
		}
		if err := a.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	n := left.report(t)
	t.Logf("%d requests: %d as published, %d not expressible", total, compared, n)
}
