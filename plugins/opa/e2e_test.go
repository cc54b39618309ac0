package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
)

const lanes = 6 // plugins side by side; the last one is for cases that want strict errors

// TestPublishedEndToEnd puts every published case through /v1/authorize of the real gateway and compares with the
// published result and with the engine's own command on the same bundle and input. The plugins load one case after the
// other, as newer content of their bundles.
func TestPublishedEndToEnd(t *testing.T) {
	command := engineCommand(t)
	all, left := published(t)
	total := len(all)
	for _, notes := range left {
		total += len(notes)
	}
	root := t.TempDir()
	bundles := make([]string, lanes)
	configs := make([]map[string]any, lanes)
	first := publishedCase{id: "none", files: map[string]string{"yett.rego": "package yett.published\n\ndecision " +
		":= false\n"}}
	first.write(t, filepath.Join(root, "none"))
	for i := range lanes {
		bundles[i] = filepath.Join(root, fmt.Sprintf("bundle%d", i))
		policytest.Point(t, bundles[i], filepath.Join(root, "none"))
		c := publishedCase{strict: i == lanes-1}
		configs[i] = c.config(bundles[i])
		configs[i]["reload"] = "100ms"
	}
	g := policytest.StartGateway(t, root, "github.com/yett-dev/yett/plugins/opa", configs)

	var mu sync.Mutex
	failed := map[string]*publishedCase{} // by decision
	var wg sync.WaitGroup
	normal, strict := make(chan *publishedCase), make(chan *publishedCase)
	for i := range lanes {
		work := normal
		if i == lanes-1 {
			work = strict
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			for c := range work {
				dir := filepath.Join(root, c.id)
				c.write(t, dir)
				policytest.Point(t, bundles[i], dir)
				got, refused := c.askGateway(t, g, fmt.Sprintf("p%d/case", i))
				if refused != "" {
					mu.Lock()
					left.add("the gateway refuses the call: "+refused, c.note)
					mu.Unlock()
					continue
				}
				if got.decision != "" { // which error it is stands in the record
					mu.Lock()
					failed[got.decision] = c
					mu.Unlock()
					got.err += c.code
				}
				problems := []string{c.wrong(got)}
				if ownRuntime[c.note] == "" {
					problems = append(problems, c.differ(got, c.askEngine(t, command, dir)))
				}
				for _, p := range problems {
					if p != "" {
						t.Errorf("%s: %s", c.note, p)
					}
				}
			}
		}()
	}
	feedCases(all, normal, strict)
	wg.Wait()
	said := g.Failures(t)
	if len(failed) == 0 {
		t.Error("no case ended in an error")
	}
	for id, c := range failed {
		if !strings.Contains(said[id], "; it says: ") || !strings.Contains(said[id], c.code) {
			t.Errorf("%s: the error %q is wanted in the record, it has %q", c.note, c.code, said[id])
		}
	}
	n := left.report(t)
	t.Logf("%d cases: %d through /v1/authorize, %d not expressible", total, total-n, n)
}

func feedCases(all []publishedCase, normal, strict chan<- *publishedCase) {
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for i := range all {
			if all[i].strict {
				strict <- &all[i]
			}
		}
		close(strict)
	}()
	for i := range all {
		if !all[i].strict {
			normal <- &all[i]
		}
	}
	close(normal)
	wg.Wait()
}

// askGateway asks the gateway once the case is in force. refused is why the gateway did not take the call at all.
func (c *publishedCase) askGateway(t *testing.T, g *policytest.Gateway, tool string) (got answer, refused string) {
	t.Helper()
	if !g.Await(t, tool, json.RawMessage(`{"probe":true}`), c.id+" ") {
		return answer{err: "the case never came into force"}, ""
	}
	d := g.Authorize(t, tool, c.args)
	switch {
	case d.Status != http.StatusOK:
		return answer{}, d.Detail
	case slices.Contains([]string{"STEP_ERROR", "STEP_TIMEOUT", "STEP_UNAVAILABLE"}, d.ReasonCode):
		if d.Effect != "DENY" {
			t.Errorf("%s: a failed check ended in %s", c.note, d.Effect)
		}
		return answer{err: d.Reason, decision: d.DecisionID}, ""
	case !strings.Contains(d.RuleID+" ", c.id+" "):
		return answer{err: fmt.Sprintf("answered by %q: %+v", d.RuleID, d)}, ""
	}
	return answer{effect: d.Effect, reason: d.Reason}, ""
}
