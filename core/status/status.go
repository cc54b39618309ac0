// Package status owns what an operator is told of a plugin that runs: its state, its processes, and how far it has come
// in the audit log. The console and the admin socket show the same rows. It must never ask a plugin anything: whoever
// loads plugins fills the rows.
package status

import "slices"

// The words that more than one reader of a status compares.
const (
	Ready  = "ready"
	Paused = "paused"
)

// Plugin is one plugin or module as it is now.
type Plugin struct {
	Name       string      `json:"name"`
	Kind       string      `json:"kind"`
	State      string      `json:"state"` // ready, down, or what its supervisor says
	Ready      bool        `json:"ready"`
	Detail     string      `json:"detail"`
	Why        string      `json:"why,omitempty"`        // it is not ready
	Version    string      `json:"version,omitempty"`    // "" until it has said
	Digest     string      `json:"digest,omitempty"`     // of what was checked; "" for one that somebody else starts
	Breaker    string      `json:"breaker,omitempty"`    // closed, open or half-open; "" without one
	Open       string      `json:"unconfined,omitempty"` // what the kernel does not take from its processes
	Calls      uint64      `json:"calls"`
	Errors     uint64      `json:"errors"` // of the calls
	Starts     uint64      `json:"starts"`
	Subscriber *Subscriber `json:"subscriber,omitempty"` // nil: it is given no log
	Replicas   []Replica   `json:"replicas,omitempty"`
}

// Replica is one process of a plugin.
type Replica struct {
	Replica int    `json:"replica"`
	State   string `json:"state"`
	Detail  string `json:"detail,omitempty"`
	Pid     int    `json:"pid,omitempty"` // 0 without a process
	Crashes int    `json:"crashes"`
}

// Subscriber is how far a plugin has come in the audit log.
type Subscriber struct {
	State      string  `json:"state"` // paused, or what its pump says
	Cursor     uint64  `json:"cursor"`
	LagRecords uint64  `json:"lag_records"`
	LagBytes   uint64  `json:"lag_bytes"`
	LagSeconds float64 `json:"lag_seconds"`
	StuckAt    uint64  `json:"stuck_at,omitempty"` // the record that failed, or was on its way when the stream ended last
	Detail     string  `json:"detail,omitempty"`
}

// Process reports whether the plugin has processes: then it can be given up, and resumed.
func (p *Plugin) Process() bool { return len(p.Replicas) > 0 }

// Serves reports whether the plugin takes calls as a whole, whatever its replicas do.
func (p *Plugin) Serves() bool { return p.State == Ready }

// NeedsResume reports whether there is something that resuming the plugin changes.
func (p *Plugin) NeedsResume() bool {
	if !p.Process() {
		return false
	}
	down := slices.ContainsFunc(p.Replicas, func(r Replica) bool { return r.State != Ready })
	return down || !p.Serves() || p.Breaker == "open" ||
		p.Subscriber != nil && (p.Subscriber.Paused() || p.Subscriber.StuckAt > 0)
}

// Paused reports whether the subscriber waits for an operator.
func (s *Subscriber) Paused() bool { return s.State == Paused }
