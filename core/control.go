package core

import (
	"context"

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
			row.Follower = &admin.FollowerRow{State: s.State, Cursor: s.Cursor, LagRecords: s.LagRecords, LagBytes: s.LagBytes, LagSeconds: s.Lag.Seconds(), Detail: f.trouble(s)}
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
	if f != nil && f.pump.Status().State == feed.StatePaused {
		if err := f.pump.Resume(ctx, asker(who), skip); err != nil {
			return sdk.FieldErrf(sdk.CodeInvalidField, "name", "%v", err)
		}
	} else if skip {
		return sdk.FieldErrf(sdk.CodeInvalidField, "skip", "%q is not paused at a record", name)
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
		return sdk.FieldErrf(sdk.CodeInvalidField, "from", "%v", err)
	}
	return nil
}

func asker(w store.Who) feed.Who {
	return feed.Who{Principal: w.Principal, Method: w.Method, Surface: w.Surface, Peer: w.Peer}
}
