// Package observe has no code: its tests hold the dashboard and the alerts to the metrics that a gateway has. They run
// no Prometheus and no Grafana; promtool reads the files where YETT_PROMTOOL is set.
package observe

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// metric is a row of core/obs/METRICS.md.
type metric struct {
	kind   string
	labels []string
}

var row = regexp.MustCompile("(?m)^\\| `(yett_\\w+)` \\| (\\w+) \\| ([\\w, ]*) \\|")

// metrics gives what a gateway shows, with the series of histograms.
func metrics(t *testing.T) map[string]metric {
	t.Helper()
	out := map[string]metric{}
	for _, m := range row.FindAllStringSubmatch(read(t, filepath.FromSlash("../../core/obs/METRICS.md")), -1) {
		one := metric{m[2], strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' })}
		if one.kind != "histogram" {
			out[m[1]] = one
			continue
		}
		out[m[1]+"_sum"], out[m[1]+"_count"] = one, one
		one.labels = append(one.labels, "le")
		out[m[1]+"_bucket"] = one
	}
	if len(out) < 50 {
		t.Fatalf("METRICS.md has %d metrics", len(out))
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// query is one expression, with the texts that show its labels.
type query struct{ name, expr, shown string }

// panels gives the queries of the dashboard.
func panels(t *testing.T) (out []query) {
	t.Helper()
	type target struct{ Expr, LegendFormat string }
	var d struct {
		Panels []struct {
			Title, Description, Type string
			Targets                  []target
		}
		Annotations struct{ List []struct{ Name, Expr string } }
		Templating  struct {
			List []struct{ Query any }
		}
	}
	dec := json.NewDecoder(strings.NewReader(read(t, "dashboard.json")))
	if err := dec.Decode(&d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("the panel %q has no query or no description", p.Title)
		}
		for _, q := range p.Targets {
			out = append(out, query{"panel " + p.Title, q.Expr, q.LegendFormat})
		}
	}
	for _, a := range d.Annotations.List {
		out = append(out, query{"annotation " + a.Name, a.Expr, ""})
	}
	return out
}

var alert = regexp.MustCompile(`(?s)- alert: (\w+)\n\s+expr: (?:>-)?(.*?)\n\s+(?:for|labels):.*?(annotations:.*)`)

// alerts gives the queries of the alert rules.
func alerts(t *testing.T) (out []query) {
	t.Helper()
	rules := strings.SplitAfter(read(t, "rules.yaml"), "\n      - alert:")
	for _, one := range rules[1:] {
		m := alert.FindStringSubmatch("- alert:" + one)
		if m == nil {
			t.Fatalf("an alert has another form: %s", one)
		}
		expr, _, _ := strings.Cut(m[2], " #")
		out = append(out, query{"alert " + m[1], expr, m[3]})
	}
	return out
}

var (
	names    = regexp.MustCompile(`\byett_\w+`)
	matchers = regexp.MustCompile(`(\w+)\s*(?:=~|!=|!~|=)\s*"`)
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
	legends  = regexp.MustCompile(`{{\s*(?:\$labels\.)?(\w+)\s*}}`)
)

// problems says which metrics and labels of a query no gateway has.
func (q query) problems(all map[string]metric) (out []string) {
	has := []string{"instance", "job"} // of every scrape
	for _, name := range names.FindAllString(q.expr, -1) {
		m, ok := all[name]
		if !ok {
			out = append(out, fmt.Sprintf("%s: METRICS.md has no %s", q.name, name))
		}
		has = append(has, m.labels...)
	}
	var wants []string
	for _, m := range matchers.FindAllStringSubmatch(q.expr, -1) {
		wants = append(wants, m[1])
	}
	for _, m := range grouping.FindAllStringSubmatch(q.expr, -1) {
		wants = append(wants, strings.Split(strings.ReplaceAll(m[1], " ", ""), ",")...)
	}
	for _, m := range legends.FindAllStringSubmatch(q.shown, -1) {
		wants = append(wants, m[1])
	}
	for _, label := range wants {
		if !slices.Contains(has, label) {
			out = append(out, fmt.Sprintf("%s: none of its metrics has the label %s: %s", q.name, label, q.expr))
		}
	}
	return out
}

// TestMetricsExist: each metric and label that a panel, an alert or the README names is one that a gateway has.
func TestMetricsExist(t *testing.T) {
	all := metrics(t)
	queries := slices.Concat(panels(t), alerts(t))
	if len(queries) < 60 {
		t.Errorf("only %d queries were found", len(queries))
	}
	for _, q := range queries {
		for _, p := range q.problems(all) {
			t.Error(p)
		}
	}
	for _, name := range names.FindAllString(read(t, "README.md")+read(t, "rules_test.yaml"), -1) {
		if _, ok := all[name]; !ok {
			t.Errorf("METRICS.md has no %s", name)
		}
	}
	for _, q := range []query{
		{"gone", "yett_gone_total > 0", ""}, {"type", "rate(yett_store_up_bucket[5m])", ""},
		{"bare", "yett_store_sync_seconds > 1", ""}, {"label", `yett_store_up{plugin="x"}`, ""},
		{"by", "sum by (agent) (yett_store_up)", ""}, {"legend", "yett_store_up", "{{module}}"},
		{"annotation", "yett_store_up", "of {{ $labels.module }}"},
	} {
		if len(q.problems(all)) == 0 {
			t.Errorf("%s: nothing is wrong with %s", q.name, q.expr)
		}
	}
}

// TestAlertsAreTested: each alert fires in rules_test.yaml, which counts them.
func TestAlertsAreTested(t *testing.T) {
	tests := read(t, "rules_test.yaml")
	if want := fmt.Sprintf("value: %d}", len(alerts(t))); !strings.Contains(tests, want) {
		t.Errorf("rules_test.yaml does not expect that all %d alerts fire", len(alerts(t)))
	}
	bad, _, _ := strings.Cut(tests[strings.Index(tests, "everything is wrong"):], "promql_expr_test")
	seen := map[string]bool{}
	for _, q := range alerts(t) {
		for _, name := range names.FindAllString(q.expr, -1) {
			seen[name] = true
		}
	}
	for name := range maps.Keys(seen) {
		if !strings.Contains(bad, name+"{") {
			t.Errorf("rules_test.yaml has no series of %s", name)
		}
	}
}

// TestPromtool: Prometheus reads the alerts, its tests of them pass, and it takes each query of the dashboard.
func TestPromtool(t *testing.T) {
	if os.Getenv("YETT_PROMTOOL") == "" {
		t.Skip("YETT_PROMTOOL is not set: promtool takes minutes to build")
	}
	promtool := func(args ...string) {
		t.Helper()
		cmd := exec.Command("go", append([]string{"tool", "-modfile=" + filepath.FromSlash("../../cmd/promtool.mod"),
			"promtool"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	promtool("check", "config", "--lint-fatal", "prometheus.yaml")
	promtool("check", "rules", "--lint-fatal", "rules.yaml")
	promtool("test", "rules", "rules_test.yaml")
	var b strings.Builder
	b.WriteString("groups:\n- name: panels\n  rules:\n")
	for i, q := range panels(t) {
		expr := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(q.expr)
		fmt.Fprintf(&b, "  - {record: 'panel:%d', expr: '%s'}\n", i, expr)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool("check", "rules", file)
}
