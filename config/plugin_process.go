package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// SecretRef says where a secret is read from: exactly one of File and Env.
type SecretRef struct {
	File  Path   `koanf:"file" example:"/run/secrets/entitle" doc:"File that holds it. One newline at its end does not count."`
	Env   string `koanf:"env" example:"ENTITLE_TOKEN" doc:"Variable of the server's environment that holds it."`
	value string
}

// Value is the secret itself. It is printed nowhere.
func (s SecretRef) Value() string { return s.value }

// String prints no secret.
func (s SecretRef) String() string { return fmt.Sprintf("(secret of %s%s)", s.File, s.Env) }

// GoString prints no secret either.
func (s SecretRef) GoString() string { return s.String() }

// PluginUser is who a process runs as. The zero PluginUser is the server's own user.
type PluginUser struct {
	UID int `koanf:"uid" min:"1" max:"4294967294" example:"65123" doc:"User id."`
	GID int `koanf:"gid" min:"1" max:"4294967294" example:"65123" doc:"Group id; the user id if not given."`
}

// Peer says who may be at the other end of a socket: a user of the machine, or whoever has a certificate, or both.
type Peer struct {
	UID  int    `koanf:"uid" default:"-1" min:"-1" max:"4294967294" example:"1000" doc:"User id that the process at the other end must have. -1 checks none, and needs ca."`
	CA   Path   `koanf:"ca" example:"/etc/yett/plugin-ca.crt" doc:"PEM file with the authorities that sign the plugin's certificate. With it the connection is mutual TLS; cert, key and name are required then."`
	Cert Path   `koanf:"cert" example:"/etc/yett/gateway.crt" doc:"PEM file with our own certificate."`
	Key  Path   `koanf:"key" example:"/etc/yett/gateway.key" doc:"PEM file with the private key of cert."`
	Name string `koanf:"name" example:"entitle.internal" doc:"Name that the plugin's certificate must have."`
}

// Breaker says when a plugin is left alone.
type Breaker struct {
	Failures float64  `koanf:"failures" default:"0.5" min:"0" max:"1" doc:"When this share of the calls within window failed, calls end at once as on_error says. 0 turns the breaker off."`
	Calls    int      `koanf:"calls" default:"20" min:"1" max:"1048576" doc:"Fewer calls within window than this open nothing."`
	Window   Duration `koanf:"window" default:"10s" min:"1s" max:"10m" doc:"For how long a call counts."`
	Delay    Duration `koanf:"delay" default:"5s" min:"100ms" max:"10m" doc:"How long calls end at once before some are tried."`
}

// Cache keeps an authorizer's answers.
type Cache struct {
	Entries int      `koanf:"entries" min:"0" max:"1048576" example:"10000" doc:"Most answers that are kept. Only a PERMIT or DENY that the plugin gives a time to live, under the fields of a call that the plugin names."`
	MaxTTL  Duration `koanf:"max_ttl" default:"60s" min:"1ms" max:"1h" doc:"No answer is kept for longer, whatever the plugin says."`
}

// processMemory is the limit of a plugin process that is given none.
const processMemory Size = 1 << 30

func (p *Plugin) validateProcess(r *strict.Report, key string) {
	p.refuse(r, key, "allowed only with builtin and wasm", "sandbox", "isolation", "limits.fuel", "limits.instances")
	if !r.Origins.Written(strict.Join(key, "limits.memory")) {
		p.Limits.Memory = processMemory
	}
	p.Limits.Instances = 0
	if p.Kind != KindAuthorizer {
		p.refuse(r, key, "allowed only with kind authorizer", "cache")
		p.Cache = Cache{}
	}
	if p.Kind == KindSubscriber {
		p.refuse(r, key, "does not go with kind subscriber: the log is read by one process, and batches have their "+
			"own limits", "limits.replicas", "limits.max_in_flight", "limits.queue", "limits.timeout", "breaker")
		p.Limits.Replicas, p.Limits.MaxInFlight, p.Limits.Queue, p.Limits.Timeout, p.Breaker = 0, 0, 0, 0, Breaker{}
	}
	p.checkEnv(r, strict.Join(key, "env"))
	if p.User.GID == 0 {
		p.User.GID = p.User.UID
	}
	if p.User.UID == 0 {
		p.refuse(r, key, "needs user.uid", "user.gid")
	}
	if p.Connect != "" {
		p.refuse(r, key, "allowed only with exec", "env", "user", "secrets", "confine", "paths", "network", "limits.memory",
			"limits.files", "limits.processes", "limits.threads", "limits.file_size", "limits.disk", "limits.replicas")
		p.Limits.Memory, p.Limits.Files, p.Limits.Threads, p.Limits.FileSize, p.Limits.Disk, p.Limits.Replicas = 0, 0, 0, 0,
			0, 0
		p.checkPeer(r, strict.Join(key, "peer"))
		return
	}
	p.refuse(r, key, "allowed only with connect", "peer")
	p.Peer = Peer{}
	p.checkConfine(r, key)
	if path, err := filepath.Abs(string(p.Exec)); err == nil {
		p.Exec = Path(path)
	}
}

func (p *Plugin) checkPeer(r *strict.Report, key string) {
	switch {
	case p.Peer.UID < 0 && p.Peer.CA == "":
		r.Errorf(key, "needs uid (the user id of the plugin's process) or ca (who signed its certificate): a socket alone "+
			"says nothing about who answers")
	case p.Peer.CA == "" && (p.Peer.Cert != "" || p.Peer.Key != "" || p.Peer.Name != ""):
		r.Errorf(key, "cert, key and name go with ca only")
	case p.Peer.CA != "" && (p.Peer.Cert == "" || p.Peer.Key == "" || p.Peer.Name == ""):
		r.Errorf(key, "needs cert, key and name beside ca: the connection is mutual TLS")
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)

// checkEnv wants plain texts: what stands in an environment can be read by others, so no secret is put there.
func (p *Plugin) checkEnv(r *strict.Report, key string) {
	for name, value := range p.Env.All() {
		at := strict.Join(key, name)
		text, ok := value.(string)
		switch {
		case !ok:
			r.Errorf(at, "wants a text; put numbers and truth values in quotes")
		case !envName.MatchString(name) || strings.ContainsRune(text, 0):
			r.Errorf(at, "a name has 1 to 256 letters, digits and _ and begins with no digit, and no text has a zero byte")
		case strings.HasPrefix(name, "PLUGIN_") || name == "YETT_PLUGIN":
			r.Errorf(at, "is the host's own: names that begin with PLUGIN_ and YETT_PLUGIN are used to start the plugin")
		case strings.Contains(text, "${"):
			r.Errorf(at, "takes no references: an environment is no place for secrets, use secrets")
		case strict.InClear(at, text):
			r.Errorf(at, "looks like a secret: an environment is no place for one, use secrets")
		}
	}
}

// Environ is the environment of the process.
func (p *Plugin) Environ() map[string]string {
	out := map[string]string{}
	for name, v := range p.Env.All() {
		out[name], _ = v.(string)
	}
	return out
}

// Handed lists what the plugin of that name is handed in secret: what its settings and secrets refer to, and settings
// that look like a secret.
func (p *Plugin) Handed(name string) []Secret {
	all := p.Config.Secrets()
	for _, n := range slices.Sorted(maps.Keys(p.Secrets)) {
		all = append(all, Secret{Key: strict.Join(strict.Join("plugins", name), strict.Join("secrets", n)),
			Value: p.Secrets[n].value})
	}
	return all
}

// resolveSecrets reads what secrets refer to.
func (l *loader) resolveSecrets(p *Plugin, key string) {
	for _, name := range slices.Sorted(maps.Keys(p.Secrets)) {
		s := p.Secrets[name]
		l.resolveSecret(&s, strict.Join(key, name))
		p.Secrets[name] = s
	}
}

// resolveSecret reads what one secret refers to, and reports whether it could.
func (l *loader) resolveSecret(s *SecretRef, at string) bool {
	var err error
	switch {
	case (s.File == "") == (s.Env == ""):
		err = errors.New("needs exactly one of file and env")
	case s.Env != "":
		s.value, err = l.Lookup("env:"+s.Env, l.Report.Origins.At(at))
	default:
		if s.value, err = l.SecretText(string(s.File)); err == nil && s.value == "" {
			err = fmt.Errorf("%s is empty", s.File)
		}
	}
	if err != nil {
		l.Report.Errorf(at, "%s", err)
	}
	return err == nil
}
