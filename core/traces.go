package core

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/trace"
)

// openTraces begins to send spans, if the configuration names a collector.
func (g *Gateway) openTraces(context.Context) error {
	c := g.cfg.Traces
	if !c.Enabled() {
		return nil
	}
	secured, err := tracesTLS(g.cfg)
	if err != nil {
		return err
	}
	g.tracer = trace.New(trace.Settings{Endpoint: c.Endpoint, TLS: secured, Token: c.Token.Value(), Share: c.Share,
		Version: g.opts.Version, Now: time.Now, Random: random, Log: g.warn})
	return nil
}

// tracesTLS is how the collector is trusted; nil where the machine's authorities do.
func tracesTLS(cfg *config.Config) (*tls.Config, error) {
	if cfg.Traces.CA == "" {
		return nil, nil
	}
	pool, err := authorities(cfg, "traces.ca", cfg.Traces.CA)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}

// follow begins to follow a request, or gives nil.
func (g *Gateway) follow(traceparent string) ops.Trace {
	if r := g.tracer.Begin(traceparent); r != nil {
		return r
	}
	return nil // no nil *Request in an interface
}
