package main

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/scanner"
)

const vectors = "../../sdk/testdata/vectors/scanner/ticket-ids.yaml"

type vector struct {
	Name     string
	Text     string
	Base64   string
	Repeat   struct{ Text, Times any }
	Config   map[string]any
	Error    string
	Findings []struct {
		Kind        string
		Start, End  int
		Confidence  float32
		Severity    string
		Action      string
		Replacement string
	}
}

func (v *vector) text(t *testing.T) []byte {
	t.Helper()
	if times, ok := v.Repeat.Times.(int); ok {
		return []byte(strings.Repeat(v.Repeat.Text.(string), times))
	}
	raw, err := base64.StdEncoding.DecodeString(v.Base64)
	if err != nil {
		t.Fatal(err)
	}
	return append(raw, v.Text...)
}

// wanted writes the findings as sdk.Finding does.
func (v *vector) wanted() []sdk.Finding {
	var all []sdk.Finding
	for _, f := range v.Findings {
		one := sdk.Finding{Kind: f.Kind, Scanner: spec.Name, Start: f.Start, End: f.End, Confidence: f.Confidence,
			Replacement: f.Replacement}
		for one.Severity.String() != f.Severity && one.Severity < sdk.Critical {
			one.Severity++
		}
		for one.Suggested.String() != f.Action && one.Suggested < 8 {
			one.Suggested++
		}
		all = append(all, one)
	}
	return all
}

// The scanner runs here, in the test's process: the vectors say what every language's must find.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []vector }
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 60 {
		t.Fatalf("only %d vectors", len(file.Vectors))
	}
	defaults := config
	t.Cleanup(func() { config = defaults })
	for i := range file.Vectors {
		v := &file.Vectors[i]
		t.Run(v.Name, func(t *testing.T) {
			config = defaults
			doc, err := json.Marshal(v.Config)
			if err != nil {
				t.Fatal(err)
			}
			if v.Config == nil {
				doc = nil
			}
			run, err := scanner.New(spec, doc)
			if refused := err != nil; refused || v.Error == "refused" {
				if !refused || v.Error != "refused" {
					t.Fatalf("configuration %s: %v, want error %q", doc, err, v.Error)
				}
				return
			}
			got, err := run.Scan(v.text(t))
			if failed := err != nil; failed != (v.Error == "status") {
				t.Fatalf("got error %v, want %q", err, v.Error)
			}
			if !slices.Equal(got, v.wanted()) {
				t.Errorf("got %+v\nwant %+v", got, v.wanted())
			}
		})
	}
}

// Code names of the operator's are found like the one that the scanner knows, and what is none is refused.
func TestCodenames(t *testing.T) {
	run, err := scanner.New(spec, []byte(`{"codenames":["Nightjar","owl"]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := run.Scan([]byte("ask NIGHTJAR, or Bluebird"))
	if err != nil || len(got) != 2 || got[0].Kind != "CODENAME" || got[0].Start != 4 || got[0].End != 12 ||
		got[1].Start != 17 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := run.Scan([]byte("ask nobody")); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, config := range []string{`{"codenames":"owl"}`, `{"codenames":[""]}`, `{"codenames":[1]}`} {
		if _, err := scanner.New(spec, []byte(config)); err == nil {
			t.Errorf("%s is taken", config)
		}
	}
}

// The module gives the same in the gateway's sandbox, whole and as a stream cut at every byte.
func TestModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the module and yett; not in -short")
	}
	module := filepath.Join(t.TempDir(), "ticket-ids.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o",
		module, ".")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if out, err := exec.Command("go", "run", "../../cmd/yett", "scanner", "test", module, "--vectors",
		vectors).CombinedOutput(); err != nil {
		t.Errorf("yett scanner test: %v\n%s", err, out)
	}
}
