// Package policyfiles is what authorizers whose policies are files have in common: it reads files within bounds, looks
// for newer content, puts into force what loads, and keeps what was before when it does not, saying why. It knows no
// policy language: an engine is its caller's. It never takes content that is still being written or that does not load,
// never waits for a file that is no regular one, and never answers a call itself. Files come from the paths of the
// settings; verdicts from engines.
package policyfiles

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

// Engine is one loaded set of policies. It is never changed, and may be asked by many at once.
type Engine interface {
	Decide(context.Context, *plugin.Call) (sdk.Verdict, error)
}

// Source is everything that an engine is made of, as it was read: what is hashed is what is loaded.
type Source[E Engine] interface {
	Digest() [sha256.Size]byte
	// Load makes an engine. An error is for the operator: nothing of the source was put to use.
	Load(context.Context) (E, error)
}

// Origin is where the settings say that policies come from.
type Origin[E Engine] struct {
	Field string        // of the settings that problems with the content are reported at; "" is all of them
	Every time.Duration // how often newer content is looked for; 0 is never
	Read  func() (Source[E], error)
	Tell  func(*slog.Logger, E) // what else the operator is told of an engine that came into force; nil is nothing
}

// load reads and loads what the settings point to.
func (o *Origin[E]) load(ctx context.Context) (s Source[E], e E, err error) {
	if s, err = o.Read(); err == nil {
		e, err = s.Load(ctx)
	}
	if err != nil {
		return nil, e, plugin.Problem{Field: o.Field, Message: err.Error()}
	}
	return s, e, nil
}

// Authorizer is the plugin's state: nothing before Configure. Its methods are those of a plugin.Authorizer.
type Authorizer[E Engine] struct {
	parse func(plugin.Settings) (*Origin[E], error)
	in    atomic.Pointer[Policies[E]]
}

// New makes an authorizer. parse reads the settings and checks all that can be checked without opening a file.
func New[E Engine](parse func(plugin.Settings) (*Origin[E], error)) *Authorizer[E] {
	return &Authorizer[E]{parse: parse}
}

// Plugin is the authorizer as plugin.Serve takes it.
func (a *Authorizer[E]) Plugin(info plugin.Info) plugin.Authorizer {
	return plugin.Authorizer{Info: info, Validate: a.Validate, Configure: a.Configure, Check: a.Check, Close: a.Close}
}

// Validate loads what the settings point to, and puts nothing into force.
func (a *Authorizer[E]) Validate(ctx context.Context, s plugin.Settings) error {
	o, err := a.parse(s)
	if err != nil {
		return err
	}
	_, _, err = o.load(ctx)
	return err
}

// Configure puts into force what the settings point to. What was in force before goes on when they cannot be read or
// loaded.
func (a *Authorizer[E]) Configure(ctx context.Context, s plugin.Settings) error {
	o, err := a.parse(s)
	if err != nil {
		return err
	}
	p, err := start(ctx, o, s.Log)
	if err != nil {
		return err
	}
	if old := a.in.Swap(p); old != nil {
		return old.close(ctx)
	}
	return nil
}

// Check asks the engine that is in force.
func (a *Authorizer[E]) Check(ctx context.Context, c *plugin.Call) (sdk.Verdict, error) {
	p := a.in.Load()
	if p == nil {
		return sdk.Verdict{}, errors.New("not configured")
	}
	return p.now.Load().engine.Decide(ctx, c)
}

// Close ends the looking for newer content and waits for it.
func (a *Authorizer[E]) Close(ctx context.Context) error {
	if p := a.in.Swap(nil); p != nil {
		return p.close(ctx)
	}
	return nil
}

// InForce is what Configure put into force, nil before it.
func (a *Authorizer[E]) InForce() *Policies[E] { return a.in.Load() }
