package kit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// patience is the wall-clock limit of one call and one start, far above any in production: how fast the author's
// machine is must not change what is found. What a module may spend is its fuel, which is the same everywhere.
const patience = time.Minute

// DefaultFuel is what one call may spend in a gateway whose operator sets neither limits.fuel nor limits.timeout,
// units: what belongs to the 50 ms that are the configuration's default. The host's own default is longer, and for
// hosts without one.
const DefaultFuel = 50 * host.FuelPerMillisecond

// fuel is what one call may spend here.
func (s *Settings) fuel() uint64 { return cmp.Or(s.Fuel, DefaultFuel) }

// spentError is a call that used up its budget, with what can be done about it.
type spentError struct{ err error }

func (e *spentError) Error() string {
	return e.err.Error() + ": spend less for a text, or have limits.fuel or limits.timeout of the plugin raised in the " +
		"gateway's configuration and try with --fuel here"
}
func (e *spentError) Unwrap() error { return e.err }

// advised adds to an error what an author can do about it.
func advised(err error) error {
	if errors.Is(err, host.ErrFuel) {
		return &spentError{err}
	}
	return err
}

// subject is a module loaded twice with one configuration. The two share nothing but compiled code. It is not for
// concurrent use.
type subject struct {
	first, second *host.Module
	triggers      *prefilter.Automaton // nil: the module declares none and always runs
	found         prefilter.Found
}

// stage loads a module with as many configurations as a run asks for.
type stage struct {
	host    *host.Host
	module  Module
	fuel    uint64
	loaded  map[string]*subject
	refused map[string]error // configurations that do not load
}

func (s *Settings) stage(ctx context.Context, m Module) (*stage, error) {
	wasm, err := s.host(ctx)
	if err != nil {
		return nil, err
	}
	return &stage{host: wasm, module: m, fuel: s.fuel(), loaded: map[string]*subject{}, refused: map[string]error{}}, nil
}

func (st *stage) close(ctx context.Context) error { return st.host.Close(context.WithoutCancel(ctx)) }

func (st *stage) spec(config json.RawMessage) host.Spec {
	return host.Spec{Name: st.module.Name, Code: st.module.Code, Config: config, Instances: 1, Timeout: patience,
		Start: patience, Fuel: st.fuel}
}

// with gives the module with a configuration, loaded at the first time.
func (st *stage) with(ctx context.Context, config json.RawMessage) (*subject, error) {
	key := string(config)
	if err := st.refused[key]; err != nil {
		return nil, err
	}
	if s := st.loaded[key]; s != nil {
		return s, nil
	}
	s, err := st.load(ctx, st.spec(config))
	if err != nil {
		st.refused[key] = err
		return nil, err
	}
	st.loaded[key] = s
	return s, nil
}

func (st *stage) load(ctx context.Context, spec host.Spec) (s *subject, err error) {
	s = &subject{}
	if s.first, err = st.host.Load(ctx, spec); err != nil {
		return nil, err
	}
	if s.second, err = st.host.Load(ctx, spec); err != nil {
		return nil, errors.Join(fmt.Errorf("a second instance: %w", err), s.first.Close(ctx))
	}
	if triggers := s.first.Triggers(); len(triggers) > 0 {
		if s.triggers, err = prefilter.Compile([][]abi.Trigger{triggers}); err != nil {
			return nil, errors.Join(err, s.close(ctx))
		}
	}
	return s, nil
}

func (s *subject) close(ctx context.Context) error {
	return errors.Join(s.first.Close(ctx), s.second.Close(ctx))
}

// outcome is what one run gave: findings or an error. skipped: none of the triggers occurred, so the module was not
// called.
type outcome struct {
	findings  []sdk.Finding
	err       error
	skipped   bool
	hostCalls int
	fuel      uint64
}

// whole scans a text without telling the module where its triggers are.
func whole(ctx context.Context, m *host.Module, text string) outcome {
	return scanWindow(ctx, m, text, nil, false, abi.FlagFirst|abi.FlagFinal)
}

// filtered scans a text as the gateway does: not at all when no trigger occurs, with the hits otherwise.
func (s *subject) filtered(ctx context.Context, text string) outcome {
	if s.triggers == nil {
		return whole(ctx, s.first, text)
	}
	s.triggers.Find(text, &s.found)
	hits, complete := s.found.Hits(0)
	if complete && len(hits) == 0 {
		return outcome{skipped: true}
	}
	return scanWindow(ctx, s.first, text, hits, complete, abi.FlagFirst|abi.FlagFinal)
}

// Run scans one text as the gateway does. called is false when none of the module's triggers occurs in it.
func (s Settings) Run(ctx context.Context, m Module, config json.RawMessage, text string) (found []sdk.Finding,
	called bool, err error) {
	st, err := s.stage(ctx, m)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, st.close(ctx)) }()
	sub, err := st.with(ctx, config)
	if err != nil {
		return nil, false, unset(config, err)
	}
	o := sub.filtered(ctx, text)
	return o.findings, !o.skipped, o.err
}
