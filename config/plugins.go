package config

import "sort"

// The kinds of plugins.
const (
	KindScanner    = "scanner"
	KindAuthorizer = "authorizer"
)

// The ways in which calls of one module are kept apart.
const (
	IsolationReset  = "reset"
	IsolationFresh  = "fresh"
	IsolationPooled = "pooled"
)

// Where a module's sandbox runs.
const (
	SandboxInproc  = "inproc"
	SandboxProcess = "process"
)

// Plugin is one module and how it is run.
type Plugin struct {
	Kind      string       `koanf:"kind" req:"true" enum:"scanner|authorizer" later:"subscriber" example:"scanner" doc:"What the module does: scanner or authorizer."`
	Builtin   string       `koanf:"builtin" format:"name" example:"secrets" doc:"Name of a module that comes with Yett. Exactly one of builtin and wasm is set."`
	Wasm      Path         `koanf:"wasm" example:"/etc/yett/acme-ids.wasm" doc:"File of a WASM module."`
	Digest    string       `koanf:"digest" format:"digest" example:"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" doc:"SHA-256 of the wasm file. Required with wasm, here or in plugins.lock (yett plugin lock). A file that differs is never run."`
	Sandbox   string       `koanf:"sandbox" enum:"inproc|process" example:"process" doc:"Where the sandbox runs: inproc, in the server itself, or process, in a worker process of its own. If not given, a builtin and a module signed with a key of trust.keys that is our own run inproc, all others in a process."`
	Isolation string       `koanf:"isolation" enum:"reset|fresh|pooled" example:"reset" doc:"How calls are kept apart: reset (memory and globals are put back after each call), fresh (a new instance each) or pooled (instances serve many calls; for modules that are trusted). A builtin is pooled, a wasm file reset unless said otherwise."`
	Limits    PluginLimits `koanf:"limits" doc:"What one module may use."`
	Config    Values       `koanf:"config" doc:"The module's own settings, passed to it as JSON. Secrets by reference: ${file:path} or ${env:NAME}."`
	Signer    string       `koanf:"-"` // whose signature plugins.lock pins; "" for none
	Pos       Pos          `koanf:"-"`
}

// reserved lists the keys that later versions will know.
func (Plugin) reserved() []string { return []string{"exec", "secrets", "connect", "user"} }

// PluginLimits bound one module.
type PluginLimits struct {
	Memory    Size     `koanf:"memory" default:"64MiB" min:"1MiB" max:"4GiB" doc:"Most memory of one instance."`
	Timeout   Duration `koanf:"timeout" default:"50ms" min:"1ms" max:"30s" doc:"How long one call of the module may take."`
	Fuel      int      `koanf:"fuel" min:"10000" max:"1000000000000" example:"100000000" doc:"Work that one call of a WASM module may do, in units of about one instruction; it ends a call at the same point on every machine. Derived from timeout if not given."`
	Instances int      `koanf:"instances" default:"4" min:"1" max:"256" doc:"Most instances that run at once."`
}

// reserved lists the keys that later versions will know.
func (PluginLimits) reserved() []string { return []string{"max_in_flight", "replicas"} }

func (p *Plugin) validate(r *report, key string, builtins []string, unlocked bool) {
	switch {
	case p.Builtin == "" && p.Wasm == "":
		r.errorf(key, "needs builtin (the name of a module that comes with Yett) or wasm (a file)")
	case p.Builtin != "" && p.Wasm != "":
		r.errorf(key, "has both builtin and wasm; exactly one of them says which module runs")
	case p.Wasm != "" && p.Digest == "" && !unlocked:
		r.errorf(join(key, "digest"), "is required with wasm: \"sha256:\" and 64 hex digits, as sha256sum prints them, or an entry in plugins.lock (yett plugin lock)")
	case p.Builtin != "" && p.Digest != "":
		r.errorf(join(key, "digest"), "goes with wasm only; a builtin is part of the program")
	case p.Builtin != "" && builtins != nil && !contains(builtins, p.Builtin):
		r.errorf(join(key, "builtin"), "no module %s comes with this version%s", quote(p.Builtin), meant(p.Builtin, builtins))
	}
	if p.Isolation == "" {
		p.Isolation = IsolationReset
		if p.Builtin != "" {
			p.Isolation = IsolationPooled
		}
	}
	if p.Sandbox == "" && p.Builtin != "" {
		p.Sandbox = SandboxInproc
	}
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
