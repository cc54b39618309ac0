package mesh_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	authz "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	proc "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"github.com/yett-dev/yett/config"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
)

// What the README tells people to write is what the programs read.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n# ")[1:]
	seen := map[string]int{}
	for _, block := range blocks {
		title, body, _ := strings.Cut(block, "\n")
		body, _, _ = strings.Cut(body, "```")
		seen[title]++
		switch title {
		case "yett.yaml":
			c, err := config.Load(config.Sources{File: "yett.yaml", Files: map[string][]byte{"yett.yaml": []byte(body)}})
			if err != nil {
				t.Fatal(err)
			}
			if d := c.Doors; !d.ExtAuthz.Enabled || !d.ExtAuthz.HTTP || !d.ExtProc.Enabled || !d.ExtMCP.Enabled {
				t.Errorf("%+v", d)
			}
		case "envoy: http_filters":
			filters(t, body)
		case "agentgateway: policies of an MCP backend":
			var any map[string]any
			if err := yaml.Unmarshal([]byte(body), &any); err != nil || any["mcpGuardrails"] == nil {
				t.Errorf("%v, %v", any, err)
			}
		default:
			t.Errorf("what is %q?", title)
		}
	}
	if seen["yett.yaml"] != 1 || seen["envoy: http_filters"] != 2 || len(seen) != 3 {
		t.Errorf("%v", seen)
	}
}

// filters reads filters as Envoy does, and looks whether they are closed.
func filters(t *testing.T, body string) {
	t.Helper()
	var list []struct {
		Config map[string]any `yaml:"typed_config"`
	}
	if err := yaml.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		text, err := json.Marshal(f.Config)
		if err != nil {
			t.Fatal(err)
		}
		packed := new(anypb.Any)
		if err := protojson.Unmarshal(text, packed); err != nil {
			t.Fatal(err)
		}
		m, err := packed.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := m.(interface{ ValidateAll() error }); !ok || v.ValidateAll() != nil {
			t.Errorf("%v", v.ValidateAll())
		}
		switch m := m.(type) {
		case *authz.ExtAuthz:
			if m.GetFailureModeAllow() || m.GetWithRequestBody().GetAllowPartialMessage() {
				t.Errorf("open: %v", m)
			}
		case *proc.ExternalProcessor:
			if m.GetFailureModeAllow() || m.GetProcessingMode().GetResponseBodyMode() != proc.ProcessingMode_BUFFERED {
				t.Errorf("open: %v", m)
			}
		default:
			t.Errorf("%T", m)
		}
	}
}
