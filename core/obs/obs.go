// Package obs owns the metrics: their names, labels and the listener that shows them. It only counts what it is told
// and reads what it is given functions for; it must never see a request's content, a key or an argument, and nothing
// waits for it. Counts come from core/ops through its Observer; Prometheus comes for them over HTTP.
package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/yett-dev/yett/sdk"
)

// Metrics counts. Safe for concurrent use.
type Metrics struct {
	reg       *prometheus.Registry
	decisions map[string]prometheus.Counter // by effect
	scans     map[string]prometheus.Counter // by outcome
	refused   *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	steps     *prometheus.HistogramVec
	modules   *prometheus.HistogramVec
	withheld  *prometheus.CounterVec
	keys      *prometheus.CounterVec
}

// New makes the metrics of one gateway.
func New(version string) *Metrics {
	m := &Metrics{reg: prometheus.NewRegistry(), decisions: map[string]prometheus.Counter{},
		scans: map[string]prometheus.Counter{}}
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "yett_decisions_total",
		Help: "Decisions answered, by effect."}, []string{"effect"})
	scans := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "yett_scans_total",
		Help: "Scans answered, by outcome."}, []string{"outcome"})
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "yett_refused_total",
		Help: "Operations that ended in an error, by operation and code."}, []string{"operation", "code"})
	m.latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "yett_operation_seconds",
		Help:    "Time of one operation, from the parsed request to the answer.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16)}, []string{"operation"})
	m.steps = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "yett_step_seconds",
		Help:    "Time that one step of a chain took, by its name; result says whether it ran to its end.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10)}, []string{"chain", "step", "result"})
	m.modules = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "yett_module_seconds",
		Help: "Time that a module or plugin took for one step of a chain, with the time that the step waited for it; " +
			"result says whether it ran to its end.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10)}, []string{"module", "result"})
	m.keys = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "yett_keys_refused_total",
		Help: "API keys that were not let in, by listener and code."}, []string{"listener", "code"})
	m.withheld = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "yett_withheld_total",
		Help: "Texts that were kept as their digest and not shown, since they could not be masked, by where, cause and " +
			"scanner."}, []string{"where", "cause", "scanner"})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "yett_build_info", Help: "1, with the version."},
		[]string{"version"})
	build.WithLabelValues(version).Set(1)
	m.reg.MustRegister(decisions, scans, m.refused, m.latency, m.steps, m.modules, m.keys, m.withheld, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, e := range []sdk.Effect{sdk.Permit, sdk.Deny, sdk.Defer} {
		m.decisions[e.String()] = decisions.WithLabelValues(e.String())
	}
	for _, o := range []string{"PASS", "WARNED", "REDACTED", "DENIED"} {
		m.scans[o] = scans.WithLabelValues(o)
	}
	for _, listener := range []string{"http", "socket"} { // from the start, so that the first burst shows in a rate
		for _, code := range []sdk.Code{sdk.CodeUnauthenticated, sdk.CodeKeyRevoked, sdk.CodeKeyExpired} {
			m.keys.WithLabelValues(listener, string(code))
		}
	}
	return m
}

// Operated counts one operation. result is the effect of a decision or the outcome of a scan, "" for all others; code
// is the error's, "" without one.
func (m *Metrics) Operated(operation, result string, code sdk.Code, took time.Duration) {
	m.latency.WithLabelValues(operation).Observe(took.Seconds())
	if code != "" {
		m.refused.WithLabelValues(operation, string(code)).Inc()
		return
	}
	if c := m.decisions[result]; c != nil {
		c.Inc()
	}
	if c := m.scans[result]; c != nil {
		c.Inc()
	}
}

// Asked counts one step of a chain, "authorize" or "scan", and the plugin that it called, "" if it called none. The
// names of both are the operator's, so there are few.
func (m *Metrics) Asked(chain, step, plugin string, failed bool, took time.Duration) {
	result := "ok"
	if failed {
		result = "failed"
	}
	m.steps.WithLabelValues(chain, step, result).Observe(took.Seconds())
	if plugin != "" {
		m.modules.WithLabelValues(plugin, result).Observe(took.Seconds())
	}
}

// Refused counts one API key that was not let in.
func (m *Metrics) Refused(listener string, code sdk.Code) {
	m.keys.WithLabelValues(listener, string(code)).Inc()
}

// Kept counts what could not be masked, and is withheld: in a record, a view, an action, its result, or what a
// subscriber is given.
func (m *Metrics) Kept(where, cause, scanner string) {
	m.withheld.WithLabelValues(where, cause, scanner).Inc()
}
