//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
)

// processorTime is what the server's process has used so far; its children are not in it.
func (s *server) processorTime() time.Duration {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	total := time.Duration(0)
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatalf("%v (%s)", err, text)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", s.cmd.Process.Pid, task.Name()))
		if err != nil {
			continue // a thread that ended: the Go runtime keeps its threads, so this is rare
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		total += time.Duration(ns)
	}
	return total
}

// BenchmarkMatchExcludes compares calls that a plugin's match excludes with the same calls of a gateway without
// plugins, side by side: processor time of the gateway's process per call, medians of the rounds.
func BenchmarkMatchExcludes(b *testing.B) {
	path, digest := e2e.Fake(b)
	without := startDev(b, nil, "--config", writeConfig(b, b.TempDir(), "", "", ""))
	with := startDev(b, nil, "--config", writeConfig(b, b.TempDir(), entitle(path, digest, "bench", "", 1), entitleStep,
		""))
	cost := func(s *server, n int) float64 {
		before := s.processorTime()
		atOnce(16, n, func(int) {
			if a, err := s.asked("files/read"); err != nil || a.str("effect") != "PERMIT" {
				b.Errorf("%v %s", err, a.body)
			}
		})
		return float64(s.processorTime()-before) / float64(n)
	}
	cost(without, 500)
	cost(with, 500)
	var plain, excluded, ratios []float64
	b.ResetTimer()
	for range max(b.N/1000, 1) {
		p, e := cost(without, 1000), cost(with, 1000)
		plain, excluded, ratios = append(plain, p), append(excluded, e), append(ratios, e/p)
	}
	b.ReportMetric(middle(plain), "ns-cpu/plain")
	b.ReportMetric(middle(excluded), "ns-cpu/excluded")
	b.ReportMetric(middle(ratios), "ratio")
}

// BenchmarkPluginAdds compares calls that a plugin is asked about with calls that it is not, in one gateway: latency of
// one caller, medians.
func BenchmarkPluginAdds(b *testing.B) {
	path, digest := e2e.Fake(b)
	s := startDev(b, nil, "--config", writeConfig(b, b.TempDir(), entitle(path, digest, "bench", "", 1), entitleStep, ""))
	took := map[string][]float64{}
	b.ResetTimer()
	for range max(b.N, 100) {
		for _, tool := range []string{"files/read", "fake/permit/x"} {
			start := time.Now()
			if a, err := s.asked(tool); err != nil || a.str("effect") != "PERMIT" {
				b.Fatalf("%v %s", err, a.body)
			}
			took[tool] = append(took[tool], float64(time.Since(start)))
		}
	}
	b.ReportMetric(middle(took["files/read"])/1000, "µs/without")
	b.ReportMetric((middle(took["fake/permit/x"])-middle(took["files/read"]))/1000, "µs/added")
}

func middle(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
