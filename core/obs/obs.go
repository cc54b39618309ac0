// Package obs owns the metrics: their names, labels and the listener that shows them. It only counts what it is told
// and reads what it is given functions for; it must never see a request's content, a key or an argument, and nothing
// waits for it. Counts come from core/ops through its Observer; Prometheus comes for them over HTTP.
package obs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/yett-dev/yett/core/edge"
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

// connections is how many may be open at once; another one closes the oldest that is not being answered.
const connections = 64

// Server shows the metrics on a listener of its own.
type Server struct {
	ln   net.Listener
	http *http.Server
}

// Listen opens the listener; Serve answers on it. log gets what goes wrong there.
func (m *Metrics) Listen(addr string, log func(format string, args ...any)) (*Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("server.metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{}))
	return &Server{edge.NewDoor(connections, connections).Listen(ln, edge.NewAcceptor("metrics", log), nil, nil),
		&http.Server{Handler: edge.Served(edge.Exact(mux, http.NotFound)), ConnContext: edge.ConnContext,
			ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
			MaxHeaderBytes: 16 << 10}}, nil
}

// URL is where the metrics are.
func (s *Server) URL() string { return "http://" + s.ln.Addr().String() + "/metrics" }

// Serve answers until Close.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Close ends the listener and waits for what runs until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if lnErr := s.ln.Close(); lnErr != nil && !errors.Is(lnErr, net.ErrClosed) {
		err = errors.Join(err, lnErr)
	}
	return err
}
