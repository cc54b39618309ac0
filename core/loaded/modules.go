package loaded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/trust"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
)

// loadModule loads a module.
func (g *Pool) loadModule(ctx context.Context, name string, p config.Plugin, policy trust.Policy) (*Plugin, error) {
	f, err := moduleBytes(p, policy)
	if err != nil {
		return nil, err
	}
	if f.Note != "" {
		g.warn("module %s: %s%s counts for nothing: %s", name, p.Wasm, trust.SignatureSuffix, f.Note)
	}
	spec := host.Spec{Name: name, Code: f.Bytes, Config: p.Config.JSON(), Hide: hiderOf(name, &p),
		Memory: uint64(p.Limits.Memory), Timeout: p.Limits.Timeout.Std(), Fuel: uint64(p.Limits.Fuel),
		Instances: p.Limits.Instances, Isolation: isolation(p.Isolation), RequireConfine: p.Confine == config.ConfineRequired}
	// Other people's modules are tried in a process of their own before: what makes a compiler run out of memory, or a
	// module that fails on every text, is to be known now. The built-ins are as much ours as the compiler is.
	if p.Builtin == "" {
		v, err := g.admitModule(ctx, spec)
		switch {
		case err != nil:
			return nil, err
		case p.Kind == config.KindScanner && v.Checks && !v.Scans:
			return nil, errors.New("the module takes calls to decide and no texts, so it is no scanner: did you mean kind: " +
				"authorizer?")
		case p.Kind == config.KindAuthorizer && v.Scans && !v.Checks:
			return nil, errors.New("the module takes texts to scan and no calls, so it is no authorizer: did you mean kind: " +
				"scanner?")
		}
	}
	load := g.loadHere
	if sandbox(p, f) == config.SandboxProcess {
		load = g.loadInWorker
	}
	l, scans, checks, err := load(ctx, spec)
	switch {
	case err != nil:
		return nil, err
	case p.Kind == config.KindScanner && !scans:
		err = errors.New("the module has no yett_scan, so it is no scanner")
	case p.Kind == config.KindAuthorizer && !checks:
		err = errors.New("the module has no yett_check, so it is no authorizer")
	}
	if err != nil {
		return nil, errors.Join(err, l.close(context.WithoutCancel(ctx)))
	}
	if entry := host.CasedBeyondASCII(l.triggers[len(l.meta.Triggers):]); entry != "" {
		g.warn("module %s: config: case is folded for A to Z only, and %q has other letters: list each spelling that is to "+
			"be found", name, spec.Hide.Hide(entry))
	}
	return l, nil
}

// hiderOf hides what a plugin is handed in secret.
func hiderOf(name string, p *config.Plugin) *chain.Hider {
	var all []chain.Handed
	for _, s := range p.Handed(name) {
		all = append(all, chain.Handed{Key: s.Key, Value: s.Value})
	}
	return chain.NewHider(all)
}

func (g *Pool) admitModule(ctx context.Context, spec host.Spec) (host.Verdict, error) {
	opts := host.AdmitOptions{CheckConfig: config.CheckModule, Log: g.moduleLog}
	if g.cacheDir != "" {
		opts.CacheDir = filepath.Join(g.cacheDir, "admitted")
	}
	v, err := host.Admit(ctx, opts, spec)
	for _, note := range v.Notes {
		g.warn("module %s: admission: %q", spec.Name, note)
	}
	return v, err
}

// loadHere loads a module into this process.
func (g *Pool) loadHere(ctx context.Context, spec host.Spec) (l *Plugin, scans, checks bool, err error) {
	m, err := g.host.Load(ctx, spec)
	if err != nil {
		return nil, false, false, err
	}
	return &Plugin{Scanner: m, checker: m, meta: m.Metadata(), triggers: m.Triggers(), Counts: moduleCounts(m.Stats),
			close: m.Close, state: func() (bool, string) { return true, m.About().Version + ", " + kept(m.Isolation()) }},
		m.Scans(), m.Checks(), nil
}

// loadInWorker loads a module in a worker process. This process never compiles it.
func (g *Pool) loadInWorker(ctx context.Context, spec host.Spec) (l *Plugin, scans, checks bool, err error) {
	w, err := g.host.Spawn(ctx, spec)
	if err != nil {
		return nil, false, false, err
	}
	return &Plugin{Scanner: w, checker: w, meta: w.Metadata(), triggers: w.Triggers(), Counts: moduleCounts(w.Stats),
		close: w.Close, Gaps: w.Gaps, state: func() (bool, string) { return workerState(w) }}, w.Scans(), w.Checks(), nil
}

func moduleCounts(stats func() host.Stats) func() Counts {
	return func() Counts {
		s := stats()
		return Counts{Calls: uint64(s.Calls), Errors: uint64(s.Errors), Discarded: uint64(s.Discarded), Fuel: uint64(s.Fuel)}
	}
}

// kept says how calls are kept apart, and why, if that is not what the configuration says.
func kept(isolation host.Isolation, why string) string {
	if why == "" {
		return isolation.String()
	}
	return fmt.Sprintf("%s (%s)", isolation, why)
}

func workerState(w *host.Worker) (ready bool, detail string) {
	s := w.State()
	detail = fmt.Sprintf("%s, %s, worker process %s", w.About().Version, kept(w.Isolation()), s.State)
	if s.Err != nil {
		detail += ": " + s.Err.Error()
	}
	return s.State == supervise.StateReady, detail
}

// sandbox says where a module runs: where the operator says, and if they do not, those signed with the operator's own
// key in this process and all others in one of their own.
func sandbox(p config.Plugin, f trust.File) string {
	switch {
	case p.Sandbox != "":
		return p.Sandbox
	case f.Own:
		return config.SandboxInproc
	}
	return config.SandboxProcess
}

func isolation(name string) host.Isolation {
	switch name {
	case config.IsolationPooled:
		return host.Pooled
	case config.IsolationFresh:
		return host.Fresh
	}
	return host.Reset
}

// moduleBytes reads a module once and checks those bytes: what runs is what was checked.
func moduleBytes(p config.Plugin, policy trust.Policy) (trust.File, error) {
	if p.Builtin != "" {
		code, ok := scanners.Builtin(p.Builtin)
		if !ok {
			return trust.File{}, fmt.Errorf("no scanner called %q is built in; there are %v", p.Builtin, scanners.Names())
		}
		return trust.File{Bytes: code, Digest: pin.Digest(code), Own: true}, nil
	}
	f, err := policy.Read(string(p.Wasm), p.Digest)
	if err != nil {
		return f, err
	}
	if p.Signer != "" && f.Signer != p.Signer {
		return trust.File{}, fmt.Errorf("%s is to be signed by %q, as plugins.lock says, and is signed by %q", p.Wasm,
			p.Signer, f.Signer)
	}
	return f, nil
}

// trustPolicy is what the configuration says about signatures.
func trustPolicy(cfg *config.Config) trust.Policy {
	p := trust.Policy{RequireSignature: cfg.Trust.RequireSignature}
	for name, k := range cfg.Trust.Keys {
		p.Keys = append(p.Keys, trust.Key{Name: name, Minisign: k.Minisign, Own: k.Own})
	}
	return p
}

// LockModules reads the file of every module and program that cfg names, holds it against the keys that cfg trusts, and
// gives what a lock must pin. It runs nothing. The error names every module that cannot be pinned.
func LockModules(ctx context.Context, cfg *config.Config) (config.Lock, error) {
	lock := config.Lock{Version: 1, Plugins: map[string]config.LockedFile{}}
	policy := trustPolicy(cfg)
	if err := policy.Check(); err != nil {
		return lock, fmt.Errorf("trust: %w", err)
	}
	var errs []error
	for name, p := range cfg.Plugins {
		if p.File() == "" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return lock, err
		}
		path, err := filepath.Abs(string(p.File()))
		if err != nil {
			return lock, err
		}
		read, entry := policy.Read, config.LockedFile{Wasm: config.Path(path)}
		if p.Exec != "" {
			read, entry = policy.ReadProgram, config.LockedFile{Exec: config.Path(path)}
		}
		f, err := read(path, p.Digest)
		if err != nil {
			errs = append(errs, fmt.Errorf("plugins.%s: %w", name, err))
			continue
		}
		entry.Digest, entry.Signer = f.Digest, f.Signer
		lock.Plugins[name] = entry
	}
	return lock, errors.Join(errs...)
}
