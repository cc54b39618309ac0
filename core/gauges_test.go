package core

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/yett-dev/yett/sdk"
)

const metricsDoc = "obs/METRICS.md"

// TestMetricsAreDocumented: the document lists what a gateway shows, no more and no less.
func TestMetricsAreDocumented(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.write(w.guest("subscriber", "waits"), "", strings.Replace(fmt.Sprintf(everything, "full"), "{", fmt.Sprintf(
			"{checkpoints: {files: [%q]}, ", filepath.Join(w.dir, "checkpoints")), 1))
	})
	w.g.gauges() // metrics are off
	w.ask("nothing/x")
	w.g.metrics.Operated("authorize", "", sdk.CodeConflict, time.Millisecond)
	w.g.metrics.Asked("scan", "secrets", "secrets", false, time.Millisecond)
	w.g.metrics.Refused("http", sdk.CodeUnauthenticated)
	w.g.expiries["http"] = time.Unix(1_900_000_000, 0)
	w.g.machine.look(time.Now())
	w.g.metrics.Kept("record", "timeout", "secrets")
	scrape := w.scrape()
	problems, err := promlint.New(strings.NewReader(scrape)).Lint()
	if err != nil {
		t.Error(err)
	}
	for _, p := range problems {
		t.Errorf("%s does not follow the conventions of Prometheus: %s", p.Metric, p.Text)
	}
	got := metricsTable(t, scrape)
	text, err := os.ReadFile(metricsDoc)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(text), "| metric |")
	if !ok {
		t.Fatalf("%s has no table", metricsDoc)
	}
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(metricsDoc, []byte(head+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := string(text)[len(head):]; want != got {
		t.Errorf("%s differs (GOLDEN=write rewrites it):\n%s", metricsDoc, got)
	}
}

// A plugin's time is its own, whatever its step is called; a key that is not let in is counted where it came.
func TestPluginsAndKeysAreCounted(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.write(w.guest("authorizer", "good:one"), ", {name: gate, use: guest, match: {tools: [\"guest/**\"]}}", "")
	})
	for _, tool := range []string{"guest/x", "files/read"} {
		w.ask(tool)
	}
	for _, text := range []string{"nothing of interest", `db_password = \"k3!mvr0q\"`} { // the first one needs no scanner
		if _, err := newCaller(t, w.g, w.key, "scan_output", `{"tool_id":"x","output":"`+text+`"}`).call(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.g.service.Authenticate("Bearer nothing")
	w.g.service.Refused(context.Background(), err, "http", "somebody")
	w.g.service.Refused(context.Background(), err, "http", "somebody") // too soon for a record of its own
	scrape := w.scrape()
	for _, want := range []string{`yett_module_seconds_count{module="guest",result="ok"} 1`,
		`yett_module_seconds_count{module="secrets",result="ok"} 1`,
		`yett_step_seconds_count{chain="scan",result="ok",step="secrets"} 2`,
		`yett_step_seconds_count{chain="authorize",result="ok",step="gate"} 1`,
		`yett_keys_refused_total{code="unauthenticated",listener="http"} 2`} {
		if !strings.Contains(scrape, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

var (
	help   = regexp.MustCompile(`(?m)^# HELP (yett_\w+) (.*)\n# TYPE \w+ (\w+)\n\w+(\{.*\})? `)
	labels = regexp.MustCompile(`(\w+)="`)
)

// metricsTable makes the document's table of a scrape.
func metricsTable(t *testing.T, scrape string) string {
	t.Helper()
	rows := []string{}
	for _, m := range help.FindAllStringSubmatch(scrape, -1) {
		var names []string
		for _, l := range labels.FindAllStringSubmatch(m[4], -1) {
			if l[1] != "le" {
				names = append(names, l[1])
			}
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", m[1], m[3], strings.Join(names, ", "), m[2]))
	}
	if n := strings.Count(scrape, "# HELP yett_"); n != len(rows) || n == 0 {
		t.Errorf("%d metrics are shown, %d of them with a value", n, len(rows))
	}
	slices.Sort(rows)
	return "| metric | type | labels | what |\n|---|---|---|---|\n" + strings.Join(rows, "")
}
