package config

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// The kinds of plugins.
const (
	KindScanner    = "scanner"
	KindAuthorizer = "authorizer"
	KindSubscriber = "subscriber"
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

// Plugin is one module or one plugin process, and how it is run.
type Plugin struct {
	Kind      string       `koanf:"kind" req:"true" enum:"scanner|authorizer|subscriber" example:"scanner" doc:"What it does: scanner, authorizer or (processes only) subscriber to the audit log."`
	Builtin   string       `koanf:"builtin" format:"name" example:"secrets" doc:"Name of a module that comes with Yett. Exactly one of builtin, wasm, exec and connect is set."`
	Wasm      Path         `koanf:"wasm" example:"/etc/yett/acme-ids.wasm" doc:"File of a WASM module."`
	Exec      Path         `koanf:"exec" example:"/usr/lib/yett/entitle" doc:"File of a program that runs as a process of its own (a plugin built with sdk/plugin)."`
	Connect   string       `koanf:"connect" format:"socket" example:"unix:///run/entitle/plugin.sock" doc:"Socket of a plugin that somebody else starts. peer says whom to trust there."`
	Digest    string       `koanf:"digest" format:"digest" example:"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" doc:"SHA-256 of the file. Required with wasm and exec, here or in plugins.lock (yett plugin lock). A file that differs is never run."`
	Sandbox   string       `koanf:"sandbox" enum:"inproc|process" example:"process" doc:"Where the sandbox runs: inproc, in the server itself, or process, in a worker process of its own. If not given, a builtin and a module signed with a key of trust.keys that is our own run inproc, all others in a process."`
	Isolation string       `koanf:"isolation" enum:"reset|fresh|pooled" example:"reset" doc:"How calls are kept apart: reset (memory and globals are put back after each call), fresh (a new instance each) or pooled (instances serve many calls; for modules that are trusted). A builtin is pooled, a wasm file reset unless said otherwise."`
	Limits    PluginLimits `koanf:"limits" doc:"What one module may use."`
	Config    Values       `koanf:"config" doc:"The module's own settings, passed to it as JSON. Secrets by reference: ${file:path} or ${env:NAME}. What the module says back of them is hidden as with secrets."`

	Secrets map[string]SecretRef `koanf:"secrets" doc:"With exec: secrets by name, which reach the plugin as files and never stand in its environment or arguments. Where the plugin says a value back (errors, reasons, its log lines), [secret of plugins.NAME.secrets.KEY] stands instead, also for quoted forms, single lines and cut ends of it; values under 4 bytes, and encodings such as base64, are not found."`
	Env     Values               `koanf:"env" doc:"With exec: the whole environment of the process, names and texts. Nothing of the server's own is handed on. No place for secrets."`
	User    PluginUser           `koanf:"user" idle:"ok" doc:"With exec: who the process runs as, where the server may switch (as root, or with the capabilities CAP_SETUID, CAP_SETGID, CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER and CAP_KILL). The server's own user if not given."`
	Confine string               `koanf:"confine" enum:"best_effort|required|off" example:"required" doc:"With exec and with modules that run in a process: what the kernel takes away. best_effort (if not given): all that this kernel can, and what is missing is told by yett config check, /readyz, the console and metrics. required: it does not start where something is missing. off (exec only): nothing is taken away but new privileges."`
	Paths   PluginPaths          `koanf:"paths" idle:"ok" doc:"With exec: files and directories that the process may use beside those of the system and its own working directory."`
	Network []Port               `koanf:"network" one:"ok" most:"256" example:"[443]" doc:"With exec: none, or the TCP ports that the process may connect to and listen on. Ports hold for every host, and UDP and Unix sockets stay open beside them; none closes all. Not restricted if not given."`
	Peer    Peer                 `koanf:"peer" idle:"ok" doc:"With connect: who may be at the other end of the socket."`
	Breaker Breaker              `koanf:"breaker" idle:"ok" doc:"With exec and connect: when a plugin that fails is left alone for a while."`
	Cache   Cache                `koanf:"cache" idle:"ok" doc:"With exec and connect, authorizers only: keep answers for as long as the plugin says. Off unless entries is given."`

	Signer string `koanf:"-"` // whose signature plugins.lock pins; "" for none
	Pos    Pos    `koanf:"-"`
}

// Forms are those of the texts here.
func (Plugin) Forms() map[string]strict.Form {
	return map[string]strict.Form{"socket": {Check: func(s string) error {
		if path, ok := strings.CutPrefix(s, "unix://"); !ok || !strings.HasPrefix(path, "/") || len(path) > MaxSocketPath ||
			strings.ContainsAny(path, "?#%") {
			return strict.Wants("unix:// and an absolute path of at most 107 bytes without ? # and %", s)
		}
		return strict.Printable(s, "")
	}}}
}

// Process says whether the plugin is a process, started by us or by somebody else, and no module.
func (p *Plugin) Process() bool { return p.Exec != "" || p.Connect != "" }

// File is the file that must have the digest, "" when there is none.
func (p *Plugin) File() Path {
	if p.Wasm != "" {
		return p.Wasm
	}
	return p.Exec
}

// PluginLimits bound one module.
type PluginLimits struct {
	Memory    Size     `koanf:"memory" idle:"ok" default:"64MiB" min:"1MiB" max:"64GiB" doc:"Most memory of one instance of a module (at most 1GiB), or of a process (its private memory, page tables, and what it and its children hold of the kernel's memory; 1GiB if not given)."`
	Timeout   Duration `koanf:"timeout" idle:"ok" default:"50ms" min:"1ms" max:"30s" doc:"How long one call of the plugin may take."`
	Fuel      int      `koanf:"fuel" min:"10000" max:"1000000000000" example:"100000000" doc:"Work that one call of a WASM module may do, in units of about one instruction; it ends a call at the same point on every machine. Derived from timeout if not given."`
	Instances int      `koanf:"instances" idle:"ok" default:"4" min:"1" max:"256" doc:"Most calls of a module that run at once. One more is for a key that has none running, and up to three are for masking."`

	Replicas    int      `koanf:"replicas" idle:"ok" default:"1" min:"1" max:"16" doc:"Processes of one plugin. Calls go to those that are ready."`
	MaxInFlight int      `koanf:"max_in_flight" idle:"ok" default:"64" min:"1" max:"4096" doc:"Most calls that a plugin works on at once, over all its replicas. Of several, the last one is kept for a key that has none, and an eighth of a scanner's (1 to 4) is for masking."`
	Queue       int      `koanf:"queue" idle:"ok" default:"256" min:"1" max:"65536" doc:"Most calls that wait for their turn at one plugin; what finds it full has not run and counts as on_error says. In a full one the key that has most waiting makes room. As many again may wait to be masked by a scanner."`
	Start       Duration `koanf:"start" idle:"ok" default:"10s" min:"100ms" max:"5m" doc:"How long a plugin process may take to be ready."`
	Drain       Duration `koanf:"drain" idle:"ok" default:"30s" min:"100ms" max:"5m" doc:"How long a plugin process that is to end may take to finish what it has begun."`
	Files       int      `koanf:"files" idle:"ok" default:"1024" min:"16" max:"1048576" doc:"Most files and connections that a plugin process may have open."`
	Processes   int      `koanf:"processes" min:"8" max:"1048576" example:"256" doc:"Lets a plugin process start others, and is the most processes and threads of the user that it runs as. Needs user where the server is root, since the kernel does not limit root. If not given it can start no process; threads are limited by threads."`
	Threads     int      `koanf:"threads" idle:"ok" default:"1024" min:"16" max:"1048576" doc:"Most threads of a plugin process. One that has more is killed; looked at five times a second."`
	FileSize    Size     `koanf:"file_size" idle:"ok" default:"1GiB" min:"1B" max:"1TiB" doc:"Largest file that a plugin process may write."`
	Disk        Size     `koanf:"disk" idle:"ok" default:"1GiB" min:"1MiB" max:"1TiB" doc:"Most that a plugin process may have in its private working directory, which is in the temporary directory of the server, removed files that it keeps open or mapped included. One that has more is killed; looked at once a second. What it writes to paths.write is not counted."`
}

func (p *Plugin) validate(r *strict.Report, key string, builtins []string, unlocked bool) {
	p.checkSource(r, key, unlocked)
	if p.Builtin != "" && builtins != nil && !slices.Contains(builtins, p.Builtin) {
		r.Errorf(strict.Join(key, "builtin"), "no module %s comes with this version%s", strict.Literal(p.Builtin),
			strict.Meant(p.Builtin, builtins))
	}
	if p.Process() {
		p.validateProcess(r, key)
		return
	}
	if p.Kind == KindSubscriber {
		r.Errorf(strict.Join(key, "kind"), "a subscriber is a process: it needs exec or connect; modules cannot subscribe")
	}
	p.refuse(r, key, "allowed only with exec or connect", "breaker", "cache", "limits.replicas", "limits.max_in_flight",
		"limits.queue", "limits.start", "limits.drain", "limits.files", "limits.processes", "limits.threads",
		"limits.file_size", "limits.disk")
	p.refuse(r, key, "allowed only with exec", "env", "user", "secrets", "paths", "network")
	p.refuse(r, key, "allowed only with connect", "peer")
	if p.Limits.Memory > 1<<30 {
		r.Errorf(strict.Join(key, "limits.memory"), "is more than 1GiB, the most that a module may have")
	}
	l := &p.Limits
	l.Replicas, l.MaxInFlight, l.Queue, l.Start, l.Drain, l.Files, l.Threads, l.FileSize, l.Disk = 0, 0, 0, 0, 0, 0, 0, 0,
		0
	if p.Confine == ConfineOff {
		r.Errorf(strict.Join(key, "confine"), "off is allowed only with exec: modules have no need to be outside")
	}
	p.User, p.Peer, p.Breaker, p.Cache = PluginUser{}, Peer{}, Breaker{}, Cache{}
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

// checkSource wants exactly one of the four that say what runs.
func (p *Plugin) checkSource(r *strict.Report, key string, unlocked bool) {
	var given []string
	for _, s := range []struct{ name, value string }{{"builtin", p.Builtin}, {"wasm", string(p.Wasm)},
		{"exec", string(p.Exec)}, {"connect", p.Connect}} {
		if s.value != "" {
			given = append(given, s.name)
		}
	}
	switch {
	case len(given) == 0:
		r.Errorf(key, "needs builtin (the name of a module that comes with Yett), wasm (a file), exec (a program) or "+
			"connect (a socket)")
	case len(given) > 1:
		r.Errorf(key, "has both %s and %s; exactly one of builtin, wasm, exec and connect says what runs", given[0], given[1])
	case p.File() != "" && p.Digest == "" && !unlocked && missing(string(p.File())):
		r.Errorf(strict.Join(key, given[0]), "there is no file %s: build it or copy it there, or correct the path, which "+
			"counts from the folder of this configuration", p.File())
	case p.File() != "" && p.Digest == "" && !unlocked:
		r.Errorf(strict.Join(key, "digest"), "is required with %s: \"sha256:\" and 64 hex digits, as sha256sum prints them, "+
			"or an entry in plugins.lock (yett plugin lock)", given[0])
	case p.File() == "" && p.Digest != "":
		r.Errorf(strict.Join(key, "digest"), "allowed only with wasm and exec; %s has no file", given[0])
	}
}

// missing says whether a file is not there. One that cannot be looked at is another error, and found when it is read.
func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// refuse names keys that were written although they mean nothing here.
func (p *Plugin) refuse(r *strict.Report, key, why string, names ...string) {
	for _, name := range names {
		if at := strict.Join(key, name); r.Origins.Written(at) {
			r.Errorf(at, "%s", why)
		}
	}
}
