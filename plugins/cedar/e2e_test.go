package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
)

const lanes = 6 // plugins side by side

// job is one policy set with its entities, as files, and what is asked of it.
type job struct {
	id, name           string
	policies, entities []byte
	requests           []corpusRequest
	reasons            bool // the published answer names policies
}

// TestPublishedEndToEnd puts the samples of Cedar's command and every nth case of the corpus through /v1/authorize of
// the real gateway, and compares with the published answer and with the command on the same files. YETT_CORPUS_NTH is n
// (50).
func TestPublishedEndToEnd(t *testing.T) {
	command, crate := engineCommand(t)
	nth := 50
	if s := os.Getenv("YETT_CORPUS_NTH"); s != "" {
		var err error
		if nth, err = strconv.Atoi(s); err != nil || nth < 1 {
			t.Fatalf("YETT_CORPUS_NTH is %q", s)
		}
	}
	jobs, left := published(t, crate, nth)
	root := t.TempDir()
	var requests []corpusRequest
	for i := range jobs {
		requests = append(requests, jobs[i].requests...)
	}
	types := typesOf(requests)
	types["principal"] = append(types["principal"], "Marker")
	first := job{id: "none", policies: []byte("forbid(principal, action, resource);"), entities: []byte("[]")}
	first.write(t, filepath.Join(root, "none"))
	links, configs := make([]string, lanes), make([]map[string]any, lanes)
	for i := range lanes {
		links[i] = filepath.Join(root, fmt.Sprintf("now%d", i))
		policytest.Point(t, links[i], filepath.Join(root, "none"))
		configs[i] = mapping(types)
		configs[i]["policies"], configs[i]["entities"], configs[i]["reload"] = []string{filepath.Join(links[i], "policies")},
			filepath.Join(links[i], "entities.json"), "100ms"
	}
	g := policytest.StartGateway(t, root, "github.com/yett-dev/yett/plugins/cedar", configs)
	l := &lane{g: g, command: command, root: root, left: left}
	work := make(chan *job)
	var wg sync.WaitGroup
	for i := range lanes {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range work {
				l.run(t, j, links[i], fmt.Sprintf("p%d/case", i))
			}
		}()
	}
	for i := range jobs {
		work <- &jobs[i]
	}
	close(work)
	wg.Wait()
	n := left.report(t)
	t.Logf("%d requests of %d policy sets: %d through /v1/authorize, %d not expressible", l.done+n, len(jobs), l.done, n)
}

// published are the samples and every nth case of the corpus.
func published(t *testing.T, crate string, nth int) ([]job, inexpressible) {
	t.Helper()
	all, left := samples(t, crate)
	var jobs []job
	for i := range all {
		s := &all[i]
		policies, err := os.ReadFile(s.policies)
		if err != nil {
			t.Fatal(err)
		}
		entities, err := os.ReadFile(s.entities)
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job{id: fmt.Sprintf("job-%d", len(jobs)), name: s.name, policies: policies, entities: entities,
			requests: []corpusRequest{s.request}})
	}
	for _, c := range corpus(t, nth) {
		if strings.TrimSpace(string(c.policies)) == "" {
			for i := range c.requests {
				left.add("a set without policies is refused at load, so that nothing is permitted either",
					c.name+" "+c.requests[i].Desc)
			}
			continue
		}
		jobs = append(jobs, job{fmt.Sprintf("job-%d", len(jobs)), c.name, c.policies, c.entities, c.requests, true})
	}
	return jobs, left
}

// write puts the files of a job below dir. The marker is a policy of its own, for a principal that nobody else is.
func (j *job) write(t *testing.T, dir string) {
	t.Helper()
	marker := fmt.Sprintf("@id(\" %s \") forbid(principal == Marker::\"probe\", action, resource);", j.id)
	for name, b := range map[string][]byte{"policies/case.cedar": j.policies, "policies/marker.cedar": []byte(marker),
		"entities.json": j.entities} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// lane is what the lanes share.
type lane struct {
	g             *policytest.Gateway
	command, root string

	mu   sync.Mutex
	left inexpressible
	done int
}

func (l *lane) run(t *testing.T, j *job, link, tool string) {
	t.Helper()
	dir := filepath.Join(l.root, j.id)
	j.write(t, dir)
	policytest.Point(t, link, dir)
	probe := j.requests[0]
	probe.Principal, probe.Context = uid{"Marker", "probe"}, json.RawMessage("{}")
	probe.Action.ID, probe.Resource.ID = "probe", "probe"
	if !l.g.Await(t, tool, probe.call(t).Args, " "+j.id+" ") {
		t.Errorf("%s never came into force", j.name)
		return
	}
	for i := range j.requests {
		l.compare(t, j, &j.requests[i], dir, tool)
	}
}

// compare asks the gateway and the command the same question.
func (l *lane) compare(t *testing.T, j *job, r *corpusRequest, dir, tool string) {
	t.Helper()
	d := l.g.Authorize(t, tool, r.call(t).Args)
	l.mu.Lock()
	switch {
	case d.Status != http.StatusOK:
		_, why, _ := strings.Cut(d.Detail, ": ")
		l.left.add("the gateway refuses the call: "+why, j.name+" "+r.Desc)
	default:
		l.done++
	}
	l.mu.Unlock()
	if d.Status != http.StatusOK {
		return
	}
	if published := map[string]string{"allow": "PERMIT", "deny": "DENY"}[r.Decision]; d.Effect != published {
		t.Errorf("%s, %s: got %+v; published is %s", j.name, r.Desc, d, published)
	}
	if j.reasons {
		if want := r.want("case.cedar:"); d.ReasonCode != want.Code || d.RuleID != want.RuleID || d.Reason != want.Reason {
			t.Errorf("%s, %s: got %+v; published is %+v", j.name, r.Desc, d, want)
		}
	}
	decision, said := r.askEngine(t, l.command, l.root, filepath.Join(dir, "policies", "case.cedar"),
		filepath.Join(dir, "entities.json"))
	if effect := map[string]string{"allow": "PERMIT", "deny": "DENY"}[decision]; effect != d.Effect {
		t.Errorf("%s, %s: the gateway says %s, the engine's command %s: %s", j.name, r.Desc, d.Effect, decision, said)
	}
	if rule, ok := strings.CutPrefix(d.RuleID, "case.cedar:"); ok && !slices.Contains(strings.Fields(said), rule) {
		t.Errorf("%s, %s: the gateway names %s, the engine's command says %s", j.name, r.Desc, rule, said)
	}
}
