package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/types"
)

// cliVersion is the version of cedar-policy-cli that the plugin is compared with.
const cliVersion = "4.14.1"

// engineCommand is Cedar's own command and the directory of its crate, which holds samples: YETT_CEDAR and
// YETT_CEDAR_CRATE, or built and fetched here by cargo, outside the tree.
func engineCommand(t *testing.T) (command, crate string) {
	t.Helper()
	if os.Getenv("YETT_ENGINES") == "" {
		t.Skip("YETT_ENGINES is not set: this asks the engine's own command")
	}
	command, crate = os.Getenv("YETT_CEDAR"), os.Getenv("YETT_CEDAR_CRATE")
	if command == "" {
		root := t.TempDir()
		cmd := exec.Command("cargo", "install", "cedar-policy-cli", "--version", cliVersion, "--root", root)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cargo install: %v\n%s", err, out)
		}
		command = filepath.Join(root, "bin", "cedar")
	}
	if crate == "" {
		home := os.Getenv("CARGO_HOME")
		if home == "" {
			home = filepath.Join(os.Getenv("HOME"), ".cargo")
		}
		found, err := filepath.Glob(filepath.Join(home, "registry", "src", "*", "cedar-policy-cli-"+cliVersion))
		if err != nil || len(found) == 0 {
			t.Fatalf("no source of cedar-policy-cli %s below %s", cliVersion, home)
		}
		crate = found[0]
	}
	return command, crate
}

// askEngine asks the engine's command: its decision, and what it says about policies.
func (r *corpusRequest) askEngine(t *testing.T, command, dir, policies, entities string) (decision, said string) {
	t.Helper()
	literal := func(u uid) string { return types.NewEntityUID(types.EntityType(u.Type), types.String(u.ID)).String() }
	request, err := json.Marshal(map[string]any{
		"principal": literal(r.Principal), "action": literal(r.Action), "resource": literal(r.Resource), "context": r.Context,
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(dir, "request-*.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if _, err := f.Write(request); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command, "authorize", "--verbose", "--policies", policies, "--entities", entities,
		"--request-json", f.Name())
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "allow", string(out)
	case errors.As(err, &exit) && exit.ExitCode() == 2:
		return "deny", string(out)
	}
	return "failure", fmt.Sprintf("%v: %s", err, out)
}

// sample is one run of `cedar authorize` among the command's own tests.
type sample struct {
	name, policies, entities string
	request                  corpusRequest // Decision is what the test wants
}

var (
	sampleCall = regexp.MustCompile(`(?s)\n    run_authorize_test(\w*)\((.*?)CedarExitCode::(\w+),?\s*\);`)
	sampleArg  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|Some\(&linked_file_name\)`)
	entityUID  = regexp.MustCompile(`^([\w:]+)::"(.*)"$`)
)

// samples reads the crate's tests and its sample data.
func samples(t *testing.T, crate string) (out []sample, left inexpressible) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(crate, "tests", "sample.rs"))
	if err != nil {
		t.Fatal(err)
	}
	left = inexpressible{}
	_, calls, ok := strings.Cut(string(src), "fn test_authorize_samples()")
	if !ok {
		t.Fatal("the command's tests are not as they were")
	}
	for i, m := range sampleCall.FindAllStringSubmatch(calls, -1) {
		var args []string
		for _, a := range sampleArg.FindAllString(m[2], -1) {
			if s, err := strconv.Unquote(a); err == nil {
				a = s
			}
			args = append(args, a)
		}
		name := fmt.Sprintf("sample.rs run %d (%s)", i, strings.Join(args, " "))
		s, reason := sampleOf(t, crate, m[1], args, m[3])
		if reason != "" {
			left.add(reason, name)
			continue
		}
		s.name = name
		out = append(out, s)
	}
	combined, err := filepath.Glob(filepath.Join(crate, "sample-data", "tiny_sandboxes", "*", "tests-combined.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range combined {
		out = append(out, combinedSamples(t, file)...)
	}
	if len(out) < 40 {
		t.Fatalf("only %d samples in %s", len(out), crate)
	}
	return out, left
}

func sampleOf(t *testing.T, crate, kind string, args []string, want string) (s sample, leftOut string) {
	t.Helper()
	if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "doesnotexist") || a == "invalid" }) {
		return s, "names a file that is not there or no entity: no call comes of it"
	}
	s.policies, s.entities = filepath.Join(crate, args[0]), filepath.Join(crate, args[1])
	text, err := os.ReadFile(s.policies)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "?principal") {
		return s, "policy templates, which cedar-go has not: refused at load"
	}
	s.request.Decision = map[string]string{"Success": "allow", "AuthorizeDeny": "deny"}[want]
	s.request.Context = json.RawMessage("{}")
	uids := args[2:]
	switch kind {
	case "_json":
		s.request = jsonRequest(t, filepath.Join(crate, args[2]), s.request.Decision)
		return s, ""
	case "_context":
		b, err := os.ReadFile(filepath.Join(crate, args[5]))
		if err != nil {
			t.Fatal(err)
		}
		s.request.Context = b
	}
	s.request.Principal, s.request.Action, s.request.Resource = parseUID(t, uids[0]), parseUID(t, uids[1]),
		parseUID(t, uids[2])
	return s, ""
}

func parseUID(t *testing.T, text string) uid {
	t.Helper()
	m := entityUID.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no entity: %s", text)
	}
	return uid{m[1], m[2]}
}

type textRequest struct {
	Principal string          `json:"principal"`
	Action    string          `json:"action"`
	Resource  string          `json:"resource"`
	Context   json.RawMessage `json:"context"`
}

func (r *textRequest) corpus(t *testing.T, decision string) corpusRequest {
	t.Helper()
	return corpusRequest{Principal: parseUID(t, r.Principal), Action: parseUID(t, r.Action),
		Resource: parseUID(t, r.Resource), Context: r.Context, Decision: decision}
}

func jsonRequest(t *testing.T, file, decision string) corpusRequest {
	t.Helper()
	var r textRequest
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.corpus(t, decision)
}

// combinedSamples are requests that bring their entities along.
func combinedSamples(t *testing.T, file string) (out []sample) {
	t.Helper()
	var all []struct {
		Request  textRequest     `json:"request"`
		Entities json.RawMessage `json:"entities"`
		Decision string          `json:"decision"`
	}
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		entities := filepath.Join(t.TempDir(), "entities.json")
		if err := os.WriteFile(entities, all[i].Entities, 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, sample{
			name:     fmt.Sprintf("%s run %d", filepath.Base(filepath.Dir(file)), i),
			policies: filepath.Join(filepath.Dir(file), "policy.cedar"), entities: entities,
			request: all[i].Request.corpus(t, all[i].Decision),
		})
	}
	return out
}
