// Package prochost hosts plugins that run as processes of their own: authorizers, scanners and subscribers. It owns
// their life (verify, start, handshake, probe, health, back-off, quarantine, drain), the limits of what is asked of
// them at once, the breaker, the decision cache and the strict reading of what they answer. It must never turn an error
// into a verdict, wait for a plugin beyond a call's deadline, hand on anything of the gateway's environment, or let a
// plugin block the gateway. Specs come from the configuration through package core; calls come from chains; verdicts
// and findings go back to them.
//
// The handshake is go-plugin's, so that plugins built with it run as they are, but the client is our own: go-plugin's
// holds its lock during the whole start, dials without a deadline, and its Kill and Ping wait for a plugin that was
// stopped.
package prochost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/supervise"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// Kind says what a plugin is used for.
type Kind int

// The kinds.
const (
	Authorizer Kind = iota + 1
	Scanner
	Subscriber
)

// String gives the kind's name in the configuration.
func (k Kind) String() string {
	switch k {
	case Authorizer:
		return "authorizer"
	case Scanner:
		return "scanner"
	case Subscriber:
		return "subscriber"
	}
	return fmt.Sprintf("kind %d", int(k))
}

func (k Kind) wire() pluginv1.Kind {
	switch k {
	case Authorizer:
		return pluginv1.Kind_KIND_AUTHORIZER
	case Scanner:
		return pluginv1.Kind_KIND_SCANNER
	case Subscriber:
		return pluginv1.Kind_KIND_SUBSCRIBER
	}
	return pluginv1.Kind_KIND_UNSPECIFIED
}

// Spec is one plugin of the operator's. A zero number or duration has the default that stands beside it.
type Spec struct {
	Name string // the operator's name: 1 to 64 of a-z A-Z 0-9 . _ -
	Kind Kind   // which of its services is used

	Path   string // absolute; runs only if its bytes have the digest
	Digest string // "sha256:" and 64 hex digits; empty with Connect

	Connect string // unix:///path: a plugin that somebody else starts
	Peer    *Peer  // with Connect, and required there: whom we take for the plugin

	User    *supervise.User   // nil: the gateway's own
	Env     map[string]string // all that it gets, beside what the handshake needs
	Secrets map[string][]byte // name → value; reach it as files, never in its environment or arguments. Not with Connect
	Hide    *chain.Hider      // hides its secrets in all that it says; nil hides nothing

	Config     []byte // JSON object; empty is {}
	Generation string // of the operator's configuration

	Replicas    int // processes; 1, at most 16
	MaxInFlight int // calls at once over all replicas, masking included; 64, at most 4 096. The plugin may ask for less
	Queue       int // calls that wait for a place; 256, at most 65 536; negative: none

	Timeout      time.Duration // of one call; 50 ms
	StartTimeout time.Duration // from the start of the process until it is ready; 10 s
	DrainTimeout time.Duration // for what is in flight at Close; 30 s

	Limits supervise.Limits
	// what it keeps beside the system's directories and its own. Limits.Processes lets it start processes
	Confine    confine.Policy
	Unconfined bool // the kernel takes nothing from it

	Breaker Breaker
	Cache   Cache
	NoSmoke bool // do not try one check or scan before the plugin counts as ready
}

// Peer says whom we take for the plugin at the other end of Connect. All that is set must hold.
type Peer struct {
	UID *uint32 // its user, as the kernel says before the first byte

	// PEM files for mutual TLS: who signs the plugin's certificate, and our own certificate and key. All three or none.
	CAFile, CertFile, KeyFile string
	ServerName                string // in the plugin's certificate; "localhost"
}

// Breaker says when calls are refused without asking, since too many of late failed. Zero fields have their defaults.
type Breaker struct {
	Off      bool
	Failures float64       // share of the calls within Window; 0.5
	Calls    int           // so many calls at least within Window; 20
	Window   time.Duration // 10 s
	Delay    time.Duration // how long calls are refused before some are tried; 5 s
	Trials   int           // so many of those must succeed, one after the other; 3
}

// Cache says what is kept of answers. PERMIT and DENY are kept, with the ttl the plugin gave, for calls that are the
// same in the fields the plugin declared.
type Cache struct {
	Entries int           // 0: no cache; at most 1 048 576
	MaxTTL  time.Duration // 1 min, whatever the plugin says
}

// Options are the same for all plugins of a gateway.
type Options struct {
	// CheckConfig holds settings against a plugin's JSON Schema; nil: only the plugin judges them.
	CheckConfig func(schema string, config []byte) error
	// Log gets a plugin's lines: stderr with LevelStderr, stdout with LevelStdout, at most 50 a second of 1 KiB each, and
	// what the host has to say about it with LevelHost. It is called by several goroutines and must not wait. nil:
	// nothing.
	Log func(plugin string, level int, line string)
	// Notify gets each change of a replica's state, in order for one replica. It must not wait nor call Close. nil:
	// nobody.
	Notify      func(Change)
	Now         func() time.Time // nil: time.Now
	HostVersion string           // told to plugins
}

// Levels of Options.Log.
const (
	LevelStdout = 1
	LevelStderr = 2
	LevelHost   = 3
)

// Refused is an error that goes away only when the operator changes something: the file, its digest, the settings.
type Refused struct {
	Plugin string
	Err    error
}

// Error names the plugin and says what is wrong.
func (r *Refused) Error() string { return fmt.Sprintf("plugin %s: %v", r.Plugin, r.Err) }

// Unwrap gives the reason.
func (r *Refused) Unwrap() error { return r.Err }

// refusal marks what a probe found as the operator's business. Load and Wait make a *Refused of it.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refusef(format string, args ...any) error {
	return &refusal{err: fmt.Errorf(format, args...)}
}

// named adds the plugin's name to an error, hides what the plugin was handed in secret, and makes a *Refused of a
// refusal.
func (s *Spec) named(err error) error {
	if err == nil {
		return nil
	}
	err = s.Hide.Error(err)
	var r *refusal
	if errors.As(err, &r) {
		return &Refused{Plugin: s.Name, Err: err}
	}
	return fmt.Errorf("plugin %s: %w", s.Name, err)
}

// tooSlow ends a start.
func tooSlow(limit time.Duration) error {
	return fmt.Errorf("it was not ready within %v: %w", limit, context.DeadlineExceeded)
}

// hiding returns the Options of one plugin, whose log and notices show no secret of the plugin.
func (o Options) hiding(h *chain.Hider) Options {
	if h == nil {
		return o
	}
	log, notify := o.Log, o.Notify
	o.Log = func(plugin string, level int, line string) { log(plugin, level, h.Hide(line)) }
	o.Notify = func(c Change) {
		c.Reason = h.Hide(c.Reason)
		notify(c)
	}
	return o
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = func(string, int, string) {}
	}
	if o.Notify == nil {
		o.Notify = func(Change) {}
	}
	return o
}

// Open starts one process (or dials Connect), goes through verification and handshake, and nothing more: no Info, no
// Configure, no health. It is for conformance tests and debugging. ctx and StartTimeout bound it. The caller closes the
// Session. Replicas, queue, breaker and cache have no meaning here.
func Open(ctx context.Context, o Options, s Spec) (*Session, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, s.named(err)
	}
	o = o.withDefaults().hiding(s.Hide)
	ctx, cancel := context.WithTimeoutCause(ctx, s.StartTimeout, tooSlow(s.StartTimeout))
	defer cancel()
	if err := verify(ctx, &s); err != nil {
		return nil, s.named(err)
	}
	b, err := newBirth(&o, &s)
	if err != nil {
		return nil, s.named(err)
	}
	p, err := b.start(ctx)
	if err != nil {
		b.release()
		return nil, s.named(err)
	}
	session, err := b.handshake(ctx, p)
	if err != nil {
		p.Kill()
		return nil, s.named(errors.Join(err, session.finish()))
	}
	return session, nil
}
