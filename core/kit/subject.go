package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/core/wasmhost"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// patience is the wall-clock limit of one call and one start, far above any in production: how fast the author's machine is
// must not change what is found. What a module may spend is its fuel, which is the same everywhere.
const patience = time.Minute

// callFuel is what a call may spend: what belongs to the gateway's default time limit of the host.
var callFuel = uint64(wasmhost.DefaultTimeout.Milliseconds()) * wasmhost.FuelPerMillisecond

// subject is a module loaded twice with one configuration. The two share nothing but compiled code. It is not for
// concurrent use.
type subject struct {
	first, second *wasmhost.Module
	triggers      *prefilter.Automaton // nil: the module declares none and always runs
	found         prefilter.Found
}

// stage loads a module with as many configurations as a run asks for.
type stage struct {
	host    *wasmhost.Host
	module  Module
	loaded  map[string]*subject
	refused map[string]error // configurations that do not load
}

func (s *Settings) stage(ctx context.Context, m Module) (*stage, error) {
	host, err := s.host(ctx)
	if err != nil {
		return nil, err
	}
	return &stage{host: host, module: m, loaded: map[string]*subject{}, refused: map[string]error{}}, nil
}

func (st *stage) close(ctx context.Context) error { return st.host.Close(context.WithoutCancel(ctx)) }

func (st *stage) spec(config json.RawMessage) wasmhost.Spec {
	return wasmhost.Spec{Name: st.module.Name, Code: st.module.Code, Config: config, Instances: 1, Timeout: patience, Start: patience, Fuel: callFuel}
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

func (st *stage) load(ctx context.Context, spec wasmhost.Spec) (s *subject, err error) {
	s = &subject{}
	if s.first, err = st.host.Load(ctx, spec); err != nil {
		return nil, err
	}
	if s.second, err = st.host.Load(ctx, spec); err != nil {
		return nil, errors.Join(fmt.Errorf("a second instance: %w", err), s.first.Close(ctx))
	}
	if triggers := s.first.Metadata().Triggers; len(triggers) > 0 {
		if s.triggers, err = prefilter.Compile([][]abi.Trigger{triggers}); err != nil {
			return nil, errors.Join(err, s.close(ctx))
		}
	}
	return s, nil
}

func (s *subject) close(ctx context.Context) error {
	return errors.Join(s.first.Close(ctx), s.second.Close(ctx))
}

// outcome is what one run gave: findings or an error. skipped: none of the triggers occurred, so the module was not called.
type outcome struct {
	findings  []sdk.Finding
	err       error
	skipped   bool
	hostCalls int
	fuel      uint64
}

// whole scans a text without telling the module where its triggers are.
func whole(ctx context.Context, m *wasmhost.Module, text string) outcome {
	return scan(ctx, m, text, nil, false)
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
	return scan(ctx, s.first, text, hits, complete)
}

func scan(ctx context.Context, m *wasmhost.Module, text string, hits []prefilter.Hit, complete bool) outcome {
	r, err := m.ScanWindow(ctx, wasmhost.Window{Text: text, Hits: hits, Complete: complete, Flags: abi.FlagFirst | abi.FlagFinal})
	return outcome{findings: r.Findings, err: err, hostCalls: r.HostCalls, fuel: r.Fuel}
}

// Run scans one text as the gateway does. called is false when none of the module's triggers occurs in it.
func (s Settings) Run(ctx context.Context, m Module, config json.RawMessage, text string) (found []sdk.Finding, called bool, err error) {
	st, err := s.stage(ctx, m)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, st.close(ctx)) }()
	sub, err := st.with(ctx, config)
	if err != nil {
		return nil, false, err
	}
	o := sub.filtered(ctx, text)
	return o.findings, !o.skipped, o.err
}
