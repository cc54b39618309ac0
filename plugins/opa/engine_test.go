package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// engineCommand is Open Policy Agent's own command: YETT_OPA, or built here, outside the tree, from the version in use.
func engineCommand(t *testing.T) string {
	t.Helper()
	if os.Getenv("YETT_ENGINES") == "" {
		t.Skip("YETT_ENGINES is not set: this asks the engine's own command")
	}
	if p := os.Getenv("YETT_OPA"); p != "" {
		return p
	}
	_, version := opaModule(t)
	dir := t.TempDir()
	module := "module engine\n\ngo 1.26\n\nrequire github.com/open-policy-agent/opa " + version +
		"\n\ntool github.com/open-policy-agent/opa\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "opa")
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "-o", bin, "github.com/open-policy-agent/opa"}} {
		c := exec.Command("go", args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args[0], err, out)
		}
	}
	return bin
}

// askEngine asks the engine's command for the decision on the same bundle and the same input document.
func (c *publishedCase) askEngine(t *testing.T, command, bundle string) answer {
	t.Helper()
	in, err := inputOf(c.call())
	if err != nil {
		return answer{err: err.Error()}
	}
	args := []string{"eval", "--format", "json", "--bundle", bundle, "--stdin-input"}
	if c.strict {
		args = append(args, "--strict-builtin-errors")
	}
	cmd := exec.Command(command, append(args, "data.yett.published.decision")...)
	cmd.Stdin = strings.NewReader(in.String())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", command, err)
	}
	var got struct {
		Errors []struct{ Code, Message string }
		Result []struct {
			Expressions []struct {
				Value struct {
					Effect string `json:"effect"`
					Reason string `json:"reason"`
				} `json:"value"`
			} `json:"expressions"`
		}
	}
	if jsonErr := json.Unmarshal(out, &got); jsonErr != nil {
		return answer{err: fmt.Sprintf("%v: %s%s", err, out, stderr.String())}
	}
	switch {
	case len(got.Errors) > 0:
		return answer{err: got.Errors[0].Code + ": " + got.Errors[0].Message}
	case err != nil:
		return answer{err: fmt.Sprintf("%v: %s", err, stderr.String())}
	case len(got.Result) == 0:
		return answer{effect: "DENY", reason: "undefined"}
	}
	v := got.Result[0].Expressions[0].Value
	return answer{effect: v.Effect, reason: v.Reason}
}

// differ says in what two engines differ on a case. "" is agreement.
func (c *publishedCase) differ(got, engine answer) string {
	same := got.effect == engine.effect && (got.err == "") == (engine.err == "") &&
		(c.random || got.reason == engine.reason)
	if same {
		return ""
	}
	return fmt.Sprintf("the plugin: %v; the engine's command: %v", got, engine)
}

// ownRuntime are cases that the engine's command answers otherwise than its project publishes, with the reason.
var ownRuntime = map[string]string{
	"withkeyword/builtin-builtin: arity 0": "opa.runtime tells policies about the command's own process; the published " +
		"result is that it is empty",
}

// TestPublishedAgainstTheEngine puts every published case to the plugin and to the engine's own command.
func TestPublishedAgainstTheEngine(t *testing.T) {
	command := engineCommand(t)
	all, left := published(t)
	root := t.TempDir()
	work := make(chan *publishedCase)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for c := range work {
				dir := filepath.Join(root, c.id)
				c.write(t, dir)
				got := c.askPlugin(t, dir)
				differ := ""
				if ownRuntime[c.note] == "" {
					differ = c.differ(got, c.askEngine(t, command, dir))
				}
				for _, w := range []string{c.wrong(got), differ} {
					if w != "" {
						t.Errorf("%s: %s", c.note, w)
					}
				}
			}
		}()
	}
	for i := range all {
		work <- &all[i]
	}
	close(work)
	wg.Wait()
	n := left.report(t)
	for note, why := range ownRuntime {
		t.Logf("compared with the published result only: %s: %s", note, why)
	}
	t.Logf("%d cases: %d compared, %d not expressible", len(all)+n, len(all), n)
}
