package loaded

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/supervise"
)

// TestPluginsAreBoundedByDefault: a plugin of which the configuration says nothing has a limit of everything, starts no
// process, and is confined.
func TestPluginsAreBoundedByDefault(t *testing.T) {
	cfg, err := config.Load(config.Sources{Default: []byte(`version: 1
plugins:
  entitle: {kind: authorizer, exec: /opt/entitle, digest: "sha256:` + strings.Repeat("0", 64) + `"}
  tickets: {kind: scanner, exec: /opt/tickets, digest: "sha256:` + strings.Repeat("0", 64) + `"}
  siem: {kind: subscriber, exec: /opt/siem, digest: "sha256:` + strings.Repeat("0", 64) + `"}
chains:
  authorize: {steps: [{use: entitle}]}
  scan_output: {steps: [{use: tickets}]}
audit: {subscribers: [{use: siem}]}
`)})
	if err != nil {
		t.Fatal(err)
	}
	want := supervise.Limits{Data: 1 << 30, Files: 1024, FileSize: 1 << 30, Threads: 1024, Disk: 1 << 30}
	for _, name := range []string{"entitle", "tickets", "siem"} {
		s, err := processSpec(name, cfg.Plugins[name], "")
		if err != nil || s.Limits != want || s.Unconfined || s.Confine.Children {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}
