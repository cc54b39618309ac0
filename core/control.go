package core

import (
	"context"
	"slices"

	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/console"
	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/status"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk"
)

var (
	_ admin.Control   = (*Gateway)(nil)
	_ console.Plugins = (*Gateway)(nil)
)

// Plugins implements admin.Control and console.Plugins.
func (g *Gateway) Plugins() []status.Plugin {
	var out []status.Plugin
	for _, m := range g.gen.Load().Sorted() {
		ready, detail, s := m.Now()
		c := m.Counts()
		row := status.Plugin{Name: m.Name, Kind: m.Kind, Ready: ready, State: "down", Detail: detail, Calls: c.Calls,
			Errors: c.Errors}
		about := m.Scanner.About()
		row.Version, row.Digest = about.Version, about.Digest
		if m.Gaps != nil {
			row.Open = confine.Told(m.Gaps())
		}
		switch {
		case ready:
			row.State = status.Ready
		case m.Process == nil:
			row.Why = detail
		}
		if m.Process != nil {
			row.State, row.Why, row.Breaker, row.Starts = string(s.State), g.withWords(s.Detail, s.Words), s.Breaker,
				m.Process.Stats().Starts
			for i, r := range s.Replicas {
				row.Replicas = append(row.Replicas, status.Replica{Replica: i, State: string(r.State),
					Detail: g.withWords(r.Detail, r.Words), Pid: r.Pid, Crashes: r.Crashes})
			}
		}
		if f := g.feeds.Find(m.Name); f != nil {
			s := f.Status()
			row.Subscriber = &status.Subscriber{State: s.State, Cursor: s.Cursor, LagRecords: s.LagRecords, LagBytes: s.LagBytes,
				LagSeconds: s.Lag.Seconds(), StuckAt: s.Poison, Detail: f.Trouble(s)}
		}
		out = append(out, row)
	}
	return out
}

// withWords is a reason with what a plugin said of it, masked: its last words may quote a call.
func (g *Gateway) withWords(why, words string) string {
	return chain.WithWords(why, g.service.Said(context.Background(), words))
}

// ResumePlugin implements admin.Control and console.Plugins.
func (g *Gateway) ResumePlugin(ctx context.Context, who store.Who, name string, skip bool) error {
	m := g.gen.Load().Plugins[name]
	if m == nil {
		return sdk.FieldErrf(sdk.CodeInvalidField, "name", "no plugin %q is loaded", name)
	}
	f := g.feeds.Find(name)
	switch {
	case m.Process == nil:
		return sdk.FieldErrf(sdk.CodeInvalidField, "name",
			"%q is a module: it is never given up, so there is nothing to resume", name)
	case skip && f == nil:
		return sdk.FieldErrf(sdk.CodeInvalidField, "skip", "%q is no subscriber, so there is no record to skip", name)
	}
	// A record that ends the process does not pause its subscriber, it brings the plugin into quarantine: that one can be
	// skipped too.
	if f != nil && (skip || f.Status().State == feed.StatePaused) {
		if err := f.Resume(ctx, who, skip); err != nil {
			return err
		}
	}
	if down(m.Process.Status()) {
		if err := g.service.NoteBy(ctx, who, "plugin_resumed", [2]string{"plugin", name},
			[2]string{"policy_version", g.gen.Load().Policy}); err != nil {
			return err
		}
	}
	m.Process.Resume()
	return nil
}

// down reports whether resuming a plugin changes anything: one replica of several may have been given up, and a breaker
// may be open while all of them run.
func down(s prochost.Status) bool {
	return s.State != supervise.StateReady || s.Breaker != "" && s.Breaker != "closed" ||
		slices.ContainsFunc(s.Replicas, func(r prochost.ReplicaStatus) bool { return r.State != supervise.StateReady })
}

// ReplayPlugin implements admin.Control.
func (g *Gateway) ReplayPlugin(ctx context.Context, who store.Who, name string, from uint64) error {
	f := g.feeds.Find(name)
	if f == nil {
		return sdk.FieldErrf(sdk.CodeInvalidField, "name", "no subscriber %q is given the log", name)
	}
	return f.Replay(ctx, who, from)
}

// ForgetPlugin implements admin.Control.
func (g *Gateway) ForgetPlugin(ctx context.Context, who store.Who, name string) (uint64, error) {
	return g.feeds.Forget(ctx, who, name)
}

// Config implements console.Plugins.
func (g *Gateway) Config() console.Config {
	out := console.Config{Policy: g.gen.Load().Policy}
	out.Reloaded, _ = g.reloads.Last()
	out.Error = g.reloads.WhyMasked()
	return out
}
