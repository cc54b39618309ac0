package conform

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"

	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/supervise"
)

// limits keep a plugin that has gone wrong from harming the machine it is tried on.
var limits = supervise.Limits{Data: 4 << 30, Files: 4096}

// hosted is a session of the gateway's own host.
type hosted struct{ *prochost.Session }

// Process is nil for a plugin that somebody else started.
func (h hosted) Process() *supervise.Process {
	if p := h.Session.Process(); p != nil && p.Pid() != 0 {
		return p
	}
	return nil
}

func (h hosted) Conn() grpc.ClientConnInterface { return h.Session.Conn() }

const maxPluginName = 64 // bytes

// name is what the plugin is called in errors: as its file.
func (o *Options) name() string {
	path := o.Path
	if path == "" {
		path = o.Connect
	}
	name := filepath.Base(path)
	return strings.ToValidUTF8(name[:min(len(name), maxPluginName)], "")
}

// host opens a session as the gateway would.
func (r *run) host(ctx context.Context) (Session, error) {
	spec := prochost.Spec{Name: r.opts.name(), Kind: prochost.Authorizer, Generation: generation, StartTimeout: startLimit,
		DrainTimeout: drainLimit, Limits: limits}
	if r.opts.Connect != "" {
		uid := uint32(os.Getuid())
		spec.Connect, spec.Peer = r.opts.Connect, &prochost.Peer{UID: &uid}
	} else {
		spec.Path, spec.Digest, spec.Env, spec.Secrets = r.opts.Path, r.digest, r.opts.Env, r.values
		spec.Confine, spec.Unconfined = r.policy(), r.opts.Unconfined
	}
	log := func(_ string, level int, line string) {
		if level != prochost.LevelHost {
			r.journal.line(line)
		}
	}
	s, err := prochost.Open(ctx, prochost.Options{Log: log, HostVersion: r.opts.Version}, spec)
	if err != nil {
		return nil, err
	}
	return hosted{s}, nil
}
