//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/testkit/intruder"
)

// freePort is an address that nobody listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

var succeeded = regexp.MustCompile(`intruder succeeded with \[([^]]*)\]`)

// intrudes starts a gateway with an intruder as its plugin, which goes for the admin socket of another gateway too, has
// it try, and gives what succeeded and what the server says of itself.
func intrudes(t *testing.T, settings, admin string) (with []string, s *server) {
	t.Helper()
	path, digest := e2e.Fake(t)
	dir, data, console := t.TempDir(), t.TempDir(), freePort(t)
	target, err := json.Marshal(intruder.Target{Pid: -1, Own: ".", File: filepath.Join(data, "audit.key"),
		Dir: filepath.Join(data, "db"), Socket: filepath.Join(data, "admin", "sock"), Admin: admin, TCP: console})
	if err != nil {
		t.Fatal(err)
	}
	plugin := fmt.Sprintf("  spy: {kind: authorizer, exec: %s, digest: %q, env: {FAKE_MODE: intruder, FAKE_ARG: '%s'}, "+
		"limits: {timeout: 20s, start: 20s}%s}\n",
		path, digest, target, settings)
	file := writeConfig(t, dir, plugin, "      - {use: spy, on_error: deny}\n", "")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, regexp.MustCompile(`(?m)^console: .*`).ReplaceAll(text,
			fmt.Appendf(nil, "console: {listen: %q}", console)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s = startDev(t, nil, "--config", file, "--data", data)
	s.post(s.Keys.Agent, "/v1/authorize", `{"agent_id":"a","tool_id":"intrude/now","args":{}}`)
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); <-time.After(10 * time.Millisecond) {
		if m := succeeded.FindStringSubmatch(s.stderr.String()); m != nil {
			return strings.Fields(m[1]), s
		}
	}
	t.Fatalf("the intruder said nothing:\n%s", s.stderr)
	return nil, nil
}

func (s *server) readiness() string {
	s.t.Helper()
	r, err := s.client.Get(s.URL + "/readyz")
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// TestPluginCannotReachTheGateway: a hostile plugin of the gateway's own user gets at none of its files, its memory,
// its sockets or its console. Outside the confinement it does.
func TestPluginCannotReachTheGateway(t *testing.T) {
	testkit.Slow(t, "starts a plugin that tries everything")
	keeps := []string{"dev.write", "own.execute", "own.write", "system.read", "thread", "unix.listen"}
	if gaps := confine.Gaps(&confine.Policy{Network: &confine.Network{}}); len(gaps) > 0 {
		t.Logf("only the control: this kernel lacks %s", confine.Told(gaps))
	} else {
		got, s := intrudes(t, ", network: none", "")
		if !slices.Equal(got, keeps) {
			t.Errorf("it succeeded with %v", got)
		}
		ready := s.readiness()
		if !strings.Contains(ready, `{"name":"confinement","ok":true`) {
			t.Errorf("readyz: %s", ready)
		}
	}
	got, s := intrudes(t, ", confine: off", "")
	for _, name := range []string{"file.read", "file.mode", "dir.list", "dir.write", "tcp.connect", "fork", "limit",
		"signal.kill"} {
		if !slices.Contains(got, name) {
			t.Errorf("off: %s failed", name)
		}
	}
	if ready := s.readiness(); !strings.Contains(ready, `"name":"confinement","ok":false`) ||
		!strings.Contains(ready, "confine: off") {
		t.Errorf("readyz with confine: off: %s", ready)
	}
	if log := s.stderr.String(); !strings.Contains(log, "warning: plugins.spy: confine is off") {
		t.Errorf("the log does not warn:\n%s", log)
	}
	if os.Geteuid() != 0 && slices.Contains(got, "proc.environ") {
		t.Error("the gateway's environment was read")
	}
}

// TestPluginsOfOthersAreRefused: a plugin that has a network makes itself no key at another gateway of its user. That
// one tells it why, and writes it down. Its operator is let in as before.
func TestPluginsOfOthersAreRefused(t *testing.T) {
	testkit.Slow(t, "builds a plugin")
	data := t.TempDir()
	other := startDev(t, nil, "--data", data)
	socket := filepath.Join(data, "admin", "sock")
	for _, settings := range []string{"", ", confine: off"} {
		got, _ := intrudes(t, settings, socket)
		if slices.Contains(got, "admin.key") || !slices.Contains(got, "own.write") {
			t.Errorf("%q: it succeeded with %v", settings, got)
		}
	}
	const why = "is confined further than this server, and so administers nothing: a gateway has started it"
	if log := other.stderr.String(); !strings.Contains(log, why) { // the second one is counted, and told with the next
		t.Errorf("the log does not say it:\n%s", log)
	}
}
