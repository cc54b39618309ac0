package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk"
)

var _ admin.Control = (*Gateway)(nil)

// Plugins implements admin.Control.
func (g *Gateway) Plugins() []admin.PluginRow {
	var out []admin.PluginRow
	for _, m := range g.gen.Load().loaded() {
		ready, detail := m.state()
		c := m.counts()
		row := admin.PluginRow{Name: m.name, Kind: m.kind, Ready: ready, State: "down", Detail: detail, Calls: c.calls, Errors: c.errors, Starts: c.starts}
		if ready {
			row.State = "ready"
		}
		if m.process != nil {
			s := m.process.Status()
			row.State = string(s.State)
			for i, r := range s.Replicas {
				row.Replicas = append(row.Replicas, admin.ReplicaState{Replica: i, State: string(r.State), Detail: r.Detail, Pid: r.Pid, Crashes: r.Crashes})
			}
		}
		if f := g.feeds.find(m.name); f != nil {
			s := f.pump.Status()
			row.Follower = &admin.FollowerRow{State: s.State, Cursor: s.Cursor, LagRecords: s.LagRecords, LagBytes: s.LagBytes, LagSeconds: s.Lag.Seconds(), StuckAt: s.Poison, Detail: f.trouble(s)}
		}
		out = append(out, row)
	}
	return out
}

// ResumePlugin implements admin.Control.
func (g *Gateway) ResumePlugin(ctx context.Context, who store.Who, name string, skip bool) error {
	m := g.gen.Load().modules[name]
	if m == nil {
		return sdk.FieldErrf(sdk.CodeInvalidField, "name", "no plugin %q is loaded", name)
	}
	f := g.feeds.find(name)
	switch {
	case m.process == nil:
		return sdk.FieldErrf(sdk.CodeInvalidField, "name", "%q is a module: it is never given up, so there is nothing to resume", name)
	case skip && f == nil:
		return sdk.FieldErrf(sdk.CodeInvalidField, "skip", "%q is no subscriber, so there is no record to skip", name)
	}
	// A record that ends the process does not pause its subscriber, it brings the plugin into quarantine: that one can be skipped too.
	if f != nil && (skip || f.pump.Status().State == feed.StatePaused) {
		if err := f.pump.Resume(ctx, asker(who), skip); err != nil {
			return pumpError(err, "name", name)
		}
	}
	if m.process.Status().State != supervise.StateReady {
		if err := g.service.NoteBy(ctx, who, "plugin_resumed", [2]string{"plugin", name}); err != nil {
			return err
		}
	}
	m.process.Resume()
	return nil
}

// ReplayPlugin implements admin.Control.
func (g *Gateway) ReplayPlugin(ctx context.Context, who store.Who, name string, from uint64) error {
	f := g.feeds.find(name)
	if f == nil {
		return sdk.FieldErrf(sdk.CodeInvalidField, "name", "no subscriber %q is given the log", name)
	}
	if err := f.pump.Replay(ctx, asker(who), from); err != nil {
		return pumpError(err, "from", name)
	}
	return nil
}

// pumpError says whose fault a refusal is: the disk's, the moment's, or that of what was asked for.
func pumpError(err error, field, name string) error {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return &sdk.Error{Code: e.Code, Msg: fmt.Sprintf("subscriber %q: %v", name, err)}
	}
	if errors.Is(err, feed.ErrClosed) {
		return sdk.Errf(sdk.CodeConflict, "subscriber %q is being replaced or ended; try again", name)
	}
	return sdk.FieldErrf(sdk.CodeInvalidField, field, "subscriber %q: %v", name, err)
}

func asker(w store.Who) feed.Who {
	return feed.Who{Principal: w.Principal, Method: w.Method, Surface: w.Surface, Peer: w.Peer}
}
