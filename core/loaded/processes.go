package loaded

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/trust"
)

// startProcess begins to start a plugin process; Generation.waitReady waits for it.
func (p *Pool) startProcess(ctx context.Context, name string, c config.Plugin, policy trust.Policy,
	generation string) (*Plugin, error) {
	spec, err := processSpec(name, c, generation)
	if err != nil {
		return nil, err
	}
	if c.Exec != "" {
		f, err := policy.ReadProgram(spec.Path, c.Digest)
		if err != nil {
			return nil, err
		}
		if f.Note != "" {
			p.warn("plugin %s: %s%s counts for nothing: %s", name, c.Exec, trust.SignatureSuffix, f.Note)
		}
		if c.Signer != "" && f.Signer != c.Signer {
			return nil, fmt.Errorf("%s is to be signed by %q, as plugins.lock says, and is signed by %q", c.Exec, c.Signer,
				f.Signer)
		}
	}
	if p.checking {
		return &Plugin{close: func(context.Context) error { return nil }}, prochost.Validate(ctx, p.options, spec)
	}
	h, err := prochost.Load(ctx, p.options, spec)
	if err != nil {
		return nil, err
	}
	return &Plugin{Scanner: h, checker: h, Process: h, Gaps: func() []confine.Gap {
		return h.Status().Gaps
	}, close: h.Close, Counts: func() Counts { s := h.Stats(); return Counts{Calls: s.Calls, Errors: s.Errors} }}, nil
}

var kinds = map[string]prochost.Kind{config.KindAuthorizer: prochost.Authorizer, config.KindScanner: prochost.Scanner,
	config.KindSubscriber: prochost.Subscriber}

func processSpec(name string, c config.Plugin, generation string) (prochost.Spec, error) {
	l := c.Limits
	s := prochost.Spec{Unconfined: c.Confine == config.ConfineOff, Confine: policyOf(&c),
		Name: name, Kind: kinds[c.Kind], Connect: c.Connect, Digest: c.Digest, Env: c.Environ(), Config: c.Config.JSON(),
		Hide: hiderOf(name, &c), Generation: generation, Replicas: l.Replicas, MaxInFlight: l.MaxInFlight, Queue: l.Queue,
		Timeout: l.Timeout.Std(), StartTimeout: l.Start.Std(), DrainTimeout: l.Drain.Std(),
		Limits: supervise.Limits{Data: uint64(l.Memory), Files: uint64(l.Files), FileSize: uint64(l.FileSize),
			Processes: uint64(l.Processes), Threads: uint64(l.Threads), Disk: uint64(l.Disk)},
		Breaker: prochost.Breaker{Off: c.Breaker.Failures == 0, Failures: c.Breaker.Failures, Calls: c.Breaker.Calls,
			Window: c.Breaker.Window.Std(), Delay: c.Breaker.Delay.Std()},
		Cache: prochost.Cache{Entries: c.Cache.Entries, MaxTTL: c.Cache.MaxTTL.Std()}}
	if len(c.Secrets) > 0 {
		s.Secrets = map[string][]byte{}
		for n, v := range c.Secrets {
			s.Secrets[n] = []byte(v.Value())
		}
	}
	if c.User.UID > 0 {
		s.User = &supervise.User{UID: uint32(c.User.UID), GID: uint32(c.User.GID)}
	}
	if c.Connect != "" {
		s.Peer = &prochost.Peer{CAFile: string(c.Peer.CA), CertFile: string(c.Peer.Cert), KeyFile: string(c.Peer.Key),
			ServerName: c.Peer.Name}
		if c.Peer.UID >= 0 {
			s.Peer.UID = new(uint32(c.Peer.UID))
		}
		return s, nil
	}
	path, err := filepath.Abs(string(c.Exec))
	s.Path = path
	return s, err
}

// Now is how a module or plugin is at one moment. s is the zero Status for a module, which has no process.
func (l *Plugin) Now() (up bool, detail string, s prochost.Status) {
	if l.Process == nil {
		up, detail = l.state()
		return up, detail, s
	}
	s = l.Process.Status()
	up, detail = processState(s, l.Process.About().Version)
	return up, detail, s
}

// processState says how a plugin process of a version is, for /readyz and operators.
func processState(s prochost.Status, version string) (ready bool, detail string) {
	up := 0
	for _, r := range s.Replicas {
		if r.State == supervise.StateReady {
			up++
		}
	}
	detail = string(s.State)
	if version != "" {
		detail = version + ", " + detail
	}
	if len(s.Replicas) > 1 {
		detail += fmt.Sprintf(", %d of %d replicas", up, len(s.Replicas))
	}
	if s.Breaker != "" && s.Breaker != "closed" {
		detail += ", breaker " + s.Breaker
	}
	if s.Detail != "" {
		detail += ": " + s.Detail
	}
	return s.State == supervise.StateReady, detail
}
