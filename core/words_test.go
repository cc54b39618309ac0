package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/obs"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/subscribers"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// TestPluginsWords: what a plugin says before it ends is the operator's to read. Agents, whoever asks for /readyz, and
// the log hear the host's words only.
func TestPluginsWords(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:one"), guestStep, "") })
	p := w.g.gen.Load().Plugins["guest"].Process
	w.until("it is given up", func() bool {
		if got := w.ask("guest/die"); !strings.HasPrefix(got, "DENY ") || strings.Contains(got, lastWords) {
			t.Errorf("an agent: %s", got)
		}
		return p.Status().State == supervise.StateQuarantined
	})
	row := w.row("guest")
	if want := "(ended with exit status 3); it says: " + lastWords; !strings.Contains(row.Why, want) ||
		!strings.Contains(row.Replicas[0].Detail, want) {
		t.Errorf("an operator: %+v", row)
	}
	for _, part := range w.g.ready() {
		if part.Name == "plugin guest" && (part.OK || !part.Beside || part.State != "quarantined" ||
			!strings.Contains(part.Detail, "exit status 3")) {
			t.Errorf("/readyz: %+v", part)
		}
		if strings.Contains(part.Detail, lastWords) {
			t.Errorf("/readyz quotes it: %+v", part)
		}
	}
	w.until("the last state is recorded", func() bool {
		return strings.Contains(strings.Join(w.recorded("plugin_state"), ""), `"to":"quarantined"`)
	})
	for _, record := range w.recorded("plugin_state") {
		if strings.Contains(record, lastWords) || !strings.Contains(record, `"policy_version":"`+w.g.gen.Load().Policy+`"`) ||
			!strings.Contains(record, `"at":"20`) {
			t.Errorf("a record: %s", record)
		}
	}
	if got := w.metric("yett_plugin_state"); got != `module="guest",state="quarantined"` {
		t.Errorf("the metric: %s", got)
	}
}

// TestReloadSaysTheWords: who reloads is told why, also by the plugin; what everybody may read is not.
func TestReloadSaysTheWords(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:one"), guestStep, "") })
	w.write(w.guest("authorizer", "speaks"), guestStep, "")
	_, err := w.reload()
	var e *sdk.Error
	if !errors.As(err, &e) || !strings.Contains(e.Msg, "exit status 3") ||
		!strings.Contains(e.Msg, "it says: "+lastWords) {
		t.Errorf("the reload: %v", err)
	}
	if got := w.g.Config().Error; !strings.Contains(got, "it says: "+lastWords) {
		t.Errorf("the console: %s", got)
	}
	if got := w.part("config"); !strings.Contains(got, "exit status 3") || strings.Contains(got, lastWords) {
		t.Errorf("/readyz: %s", got)
	}
	if got := w.recorded("config_refused"); len(got) != 1 || strings.Contains(got[0], lastWords) {
		t.Errorf("the record: %v", got)
	}
	if got := w.ask("guest/x"); got != "DENY one" {
		t.Errorf("the old one: %s", got)
	}
}

// TestFailuresWords: what a plugin says of a check that failed is in the record of the decision, and not in the answer.
func TestFailuresWords(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:one"), guestStep, "") })
	if got := w.ask("guest/fail"); !strings.HasPrefix(got, "DENY ") ||
		!strings.Contains(got, "plugin guest: the plugin's answer is an error") || strings.Contains(got, lastWords) {
		t.Errorf("an agent: %s", got)
	}
	if got := w.recorded("decision"); len(got) != 1 ||
		strings.Count(got[0], "the plugin's answer is an error; it says: "+lastWords) != 1 {
		t.Errorf("the record: %v", got)
	}
}

// TestPluginsQuoteNoSecret: what a plugin says of a call may quote it. No record and no operator's list has the secret
// in it, found by a scanner or an API key of ours.
func TestPluginsQuoteNoSecret(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:one"), guestStep, "") })
	made, err := w.g.Service().CreateKey(context.Background(), ops.KeySpec{Name: "leaked", Preset: "agent"}, operator)
	if err != nil {
		t.Fatal(err)
	}
	tokens := []string{"gh" + "p_" + "x7Kq2mV9tR4wZ1nB8cY5" + "dL3fH6jP0sGaT2uE", made.Value}
	for _, token := range tokens {
		for _, tool := range []string{"guest/quote", "guest/fail-quoting"} {
			resp, err := newCaller(t, w.g, w.key, "authorize",
				fmt.Sprintf(`{"agent_id":"a","tool_id":%q,"args":{"token":%q}}`, tool, token)).call()
			if err != nil || resp.(*wire.AuthorizeResponse).Effect != "DENY" {
				t.Fatalf("%s: %v %+v", tool, err, resp)
			}
		}
	}
	records := w.recorded("decision")
	for _, record := range records {
		if !strings.Contains(record, "cannot read token [") {
			t.Errorf("a record: %s", record)
		}
	}
	for _, token := range tokens {
		p := w.g.gen.Load().Plugins["guest"].Process
		crashes := p.Stats().Starts
		if _, err := newCaller(t, w.g, w.key, "authorize",
			fmt.Sprintf(`{"agent_id":"a","tool_id":"guest/die","args":{"token":%q}}`, token)).call(); err != nil {
			t.Fatal(err)
		}
		w.until("an operator hears its last words", func() bool {
			return p.Stats().Starts > crashes || strings.Contains(w.row("guest").Why+w.row("guest").Replicas[0].Detail,
				lastWords)
		})
		row := w.row("guest")
		if strings.Contains(row.Why+row.Replicas[0].Detail, token) {
			t.Errorf("an operator: %+v", row)
		}
		if text := strings.Join(append(w.recorded("decision"), w.recorded("plugin_state")...), "\n"); strings.Contains(text,
			token) {
			t.Errorf("the records: %s", text)
		}
		w.until("it is back", func() bool { return p.Status().State == supervise.StateReady })
	}
}

// metric gives the labels of a metric's series that are not 0.
func (w *world) metric(name string) string {
	w.t.Helper()
	w.g.processGauges() // metrics are off
	var out []string
	for line := range strings.Lines(w.scrape()) {
		if labels, value, ok := strings.Cut(strings.TrimPrefix(line, name+"{"), "} "); ok &&
			strings.HasPrefix(line, name+"{") && value != "0\n" {
			out = append(out, labels)
		}
	}
	return strings.Join(out, "; ")
}

// scrape is what Prometheus would read.
func (w *world) scrape() string {
	w.t.Helper()
	s, err := w.g.metrics.Listen("127.0.0.1:0", obs.Access{}, w.t.Logf)
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	defer func() {
		if err := errors.Join(s.Close(context.Background()), <-done); err != nil {
			w.t.Error(err)
		}
	}()
	resp, err := http.Get(s.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// TestSubscribersWords: why a subscriber refuses a record is in its own words, which /readyz does not quote.
func TestSubscribersWords(t *testing.T) {
	s := feed.Status{State: feed.StatePaused, LagRecords: 3, Poison: 5, PoisonTries: 5, PoisonError: lastWords,
		Detail: "record 5: " + lastWords}
	r := &subscribers.Subscriber{}
	if got := r.Detail(s); got != "paused, 3 records behind: stuck at record 5" {
		t.Errorf("/readyz: %s", got)
	}
	if got := r.Trouble(s); !strings.Contains(got, lastWords) {
		t.Errorf("an operator: %s", got)
	}
}

// TestRulesSayWhatTheySay: what an operator wrote into rules is not masked, also where the args are scanned before.
func TestRulesSayWhatTheySay(t *testing.T) {
	why := `set it as db_password = "` + strings.Join([]string{"k3", "mvr0q"}, "!") + `" does`
	w := newWorld(t, func(w *world) {
		w.put("own.yaml", "rules: [{id: own, tools: ['own/**'], effect: deny, reason: '"+why+"'}]")
		w.write("", `, {name: plain, rules: [own.yaml], match: {tools: ["own/plain"]}}, {name: scanned, rules: [own.yaml], scan_args: true, match: {tools: ["own/scanned"]}}`, "")
	})
	for _, tool := range []string{"own/plain", "own/scanned"} {
		resp, err := newCaller(t, w.g, w.key, "authorize",
			fmt.Sprintf(`{"agent_id":"a","tool_id":%q,"args":{"n":1}}`, tool)).call()
		if err != nil {
			t.Fatal(err)
		}
		if d := resp.(*wire.AuthorizeResponse); d.Effect != "DENY" || d.Reason != why || d.RuleID != "own" {
			t.Errorf("%s: %+v", tool, d)
		}
	}
}
