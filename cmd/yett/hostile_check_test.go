package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
)

// authorizing writes a configuration in which every module is asked about the tools below its name, beside rules that
// permit the tool "open" of each and say nothing about "closed". Nobody but the rules is asked about "neighbour".
func authorizing(t *testing.T, modules ...offered) string {
	t.Helper()
	dir := t.TempDir()
	var plugins, steps strings.Builder
	for _, m := range modules {
		path := filepath.Join(dir, m.name+".wasm")
		if err := os.WriteFile(path, m.code, 0o600); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(m.code)
		fmt.Fprintf(&plugins, "  %s: {kind: authorizer, wasm: %s, digest: \"sha256:%s\", sandbox: inproc, limits: "+
			"{timeout: %v, instances: 1}}\n",
			m.name, path, hex.EncodeToString(sum[:]), m.timeout)
		fmt.Fprintf(&steps, "      - {use: %s, match: {tools: [\"%s/**\"]}, timeout: %v}\n", m.name, m.name, m.timeout)
	}
	write(t, filepath.Join(dir, "rules.yaml"), "rules:\n  - {id: open, tools: [\"*/open\"], effect: permit}\n"+
		"  - {id: neighbour, tools: [\"neighbour/**\"], effect: permit}\n")
	file := filepath.Join(dir, "yett.yaml")
	write(t, file, "version: 1\nserver: {metrics: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\"}\nplugins:\n"+
		"  secrets: {kind: scanner, builtin: secrets, limits: {timeout: 30s}}\n"+plugins.String()+
		"chains:\n  authorize:\n    budget: 60s\n    steps:\n"+steps.String()+"      - {name: house, rules: [rules.yaml]}\n")
	return file
}

// decided asks about one call and checks the effect, that the code is one of those given, if any, and that it came in
// time.
func (s *server) decided(agent, tool, effect string, codes ...string) error {
	start := time.Now()
	a, err := s.send("POST", "/v1/authorize", s.Keys.Agent,
		text(map[string]any{"agent_id": agent, "tool_id": tool, "args": map[string]any{"n": 1}}))
	if err != nil {
		return err
	}
	if err := a.wellFormed(); err != nil {
		return err
	}
	if a.status != 200 || a.str("effect") != effect || len(codes) > 0 && !slices.Contains(codes, a.str("reason_code")) {
		return fmt.Errorf("%s, %s: status %d, want %s %q: %.500s", agent, tool, a.status, effect, codes, a.body)
	}
	if took := time.Since(start); took > hostileTimeout+hostileSlack {
		return fmt.Errorf("%s, %s: answered after %v", agent, tool, took)
	}
	return nil
}

// honest asks a module that is not armed: it permits what nobody else does, has no opinion otherwise, and denies
// nothing that the rules permit.
func (s *server) honest(tool string) error {
	for _, c := range []struct {
		agent, tool, effect string
		codes               []string
	}{
		{wasmgen.PermittedAgent, "closed", "PERMIT", []string{wasmgen.CheckCode}},
		{wasmgen.OtherAgent, "open", "PERMIT", nil},
		{wasmgen.OtherAgent, "closed", "DENY", []string{"UNMATCHED_DENY"}},
	} {
		if err := s.decided(c.agent, tool+"/"+c.tool, c.effect, c.codes...); err != nil {
			return err
		}
	}
	return nil
}

// authorizers are the modules of the table that a gateway takes into service, or the others.
func authorizers(refused bool) (out []wasmgen.Hostile) {
	for _, h := range wasmgen.Authorizers() {
		if (h.Want == wasmgen.Refused) == refused {
			out = append(out, h)
		}
	}
	return out
}

// TestHostileAuthorizers asks every hostile module, in one gateway with rules beside them: what fails denies, although
// the rules permit and although most say permit before they fail; the next call is answered rightly, and so are the
// neighbours.
func TestHostileAuthorizers(t *testing.T) {
	testkit.Slow(t, "waits for modules that hang")
	e2e.Binary(t)
	modules := authorizers(false)
	if len(modules) < 35 {
		t.Errorf("only %d modules", len(modules))
	}
	s := startDev(t, nil, "--config", authorizing(t, offers(modules, nil)...))
	over, done := make(chan struct{}), make(chan int)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				done <- i
				return
			default:
			}
			if err := s.decided("a", "neighbour/x", "PERMIT"); err != nil {
				t.Error(err)
			}
		}
	}()
	for _, h := range modules {
		t.Run(h.Name, func(t *testing.T) {
			tool := "m-" + h.Name
			for round := range 2 {
				for _, below := range []string{"/open", "/closed"} {
					var err error
					if h.Want == wasmgen.Fails {
						err = s.decided(wasmgen.ArmedAgent, tool+below, "DENY", "STEP_ERROR", "STEP_TIMEOUT")
					} else {
						err = s.decided(wasmgen.ArmedAgent, tool+below, h.Effect, wasmgen.CheckCode)
					}
					if err != nil {
						t.Errorf("round %d: %v", round, err)
					}
				}
				if err := s.honest(tool); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			}
		})
	}
	close(over)
	t.Logf("%d modules, %d calls of neighbours", len(modules), <-done)
	if crash.MatchString(s.stderr.String()) {
		t.Errorf("%.3000s", s.stderr)
	}
}

// TestAuthorizersTwin is its control: the module that all of them are next to, asked as the armed one is.
func TestAuthorizersTwin(t *testing.T) {
	e2e.Binary(t)
	twin := authorizers(false)[0].Twin
	s := startDev(t, nil, "--config", authorizing(t, offered{name: "twin", code: twin, timeout: patientTimeout}))
	for range 3 {
		if err := s.honest("twin"); err != nil {
			t.Error(err)
		}
		if err := s.decided(wasmgen.ArmedAgent, "twin/open", "PERMIT"); err != nil {
			t.Error(err)
		}
	}
}

// TestHostileAuthorizersAreRefused offers those that are wrong about every call.
func TestHostileAuthorizersAreRefused(t *testing.T) {
	testkit.Slow(t, "waits for modules that hang")
	e2e.Binary(t)
	for _, h := range authorizers(true) {
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			e := runBinary(t, "config", "check", authorizing(t,
				offered{name: "m-" + h.Name, code: h.Module, timeout: hostileTimeout}))
			judged(t, e)
			if e.code != cli.ExitFailure || !strings.Contains(e.stderr, "m-"+h.Name) {
				t.Errorf("exit %d, want %d and a reason that names the plugin: %s", e.code, cli.ExitFailure, e.stderr)
			}
		})
	}
}
