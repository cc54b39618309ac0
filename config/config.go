// Package config reads what operators write: files, a directory of more files, the environment and flags, laid over
// built-in defaults into one immutable Config. It owns the sections: every key's name, type, default, limits and
// documentation, which all stand in the struct tags of their files, and what they mean together. Package strict reads
// them; this one knows no configuration library but the one for the schemas of modules. It must never guess or skip:
// what it does not understand is an error with its place. It writes nothing, starts nothing and never prints a secret.
// Rules are read here; their conditions are checked by the engine that runs them.
package config

//go:generate env GOLDEN=write go test .

import (
	"maps"
	"slices"
	"sort"

	"github.com/yett-dev/yett/config/strict"
)

// Config is the whole configuration as it is in effect. It is not changed after Load and safe for concurrent use.
type Config struct {
	Version int               `koanf:"version" infile:"true" default:"1" enum:"1" doc:"Version of this format. Required in a file."`
	Server  Server            `koanf:"server" restart:"true" doc:"The HTTP adapter."`
	Socket  Socket            `koanf:"socket" restart:"true" doc:"The socket adapter, for agents on the same machine."`
	Console Console           `koanf:"console" restart:"true" doc:"Where operators sign in, make and revoke keys, answer calls that wait and see plugins."`
	Doors   Doors             `koanf:"doors" restart:"true" doc:"Listeners that speak the protocols of others, each on by name."`
	MCP     MCP               `koanf:"mcp" restart:"true" doc:"The gateway between MCP clients and MCP servers."`
	Storage Storage           `koanf:"storage" restart:"true" doc:"The database."`
	Limits  Limits            `koanf:"limits" restart:"true" doc:"Bounds on requests, keys and the server; whatever runs into one is told which."`
	Defers  Defers            `koanf:"defers" restart:"true" doc:"Calls that wait for a person."`
	Trust   Trust             `koanf:"trust" doc:"Who may have signed modules."`
	Plugins map[string]Plugin `koanf:"plugins" doc:"Modules by name. A name is used in steps, findings and receipts."`
	Chains  Chains            `koanf:"chains" doc:"The ordered steps that decide calls and scan outputs."`
	Audit   Audit             `koanf:"audit" doc:"The audit log."`
	Traces  Traces            `koanf:"traces" restart:"true" doc:"Spans of requests, for OpenTelemetry."`
	Log     Log               `koanf:"log" doc:"The server's own log."`

	origins strict.Origins
	files   []string
	read    map[string]string
}

// Reserved lists the keys that later versions will know.
func (Config) Reserved() []string { return []string{"cluster"} }

// ReferencesIn says where texts may refer to secrets.
func (Config) ReferencesIn() string { return "plugins.NAME.config" }

// Sources are the layers of a configuration, weakest first: built-in defaults, Default, File, conf.d, Env, Flags.
type Sources struct {
	File    string         // main file (.yaml, .yml, .json), "" for none; conf.d beside it is read too, by name
	Env     []string       // "NAME=value", as os.Environ gives them; YETT__SECTION__KEY are settings, the value YAML
	Flags   map[string]any // by full key ("server.listen"); strings, numbers, bools, durations, lists and maps of these
	Default []byte         // a YAML document weaker than every file, such as the chains of a demonstration
	// DefaultDir is what relative paths in Default are relative to.
	DefaultDir string
	// Files are read in place of files of these names on disk.
	Files map[string][]byte
	// Builtins are the modules that come with the program. With nil, the names of builtins are not checked.
	Builtins []string
	// Unlocked lets modules pass whose digest is neither in the files nor in plugins.lock, for what writes the lock.
	Unlocked bool
	// Serve makes what only a server needs (storage.path) required.
	Serve bool
}

// knownVariables are what the program's commands and clients read from the environment beside settings.
var knownVariables = []string{"YETT_API_KEY", "YETT_URL", "YETT_SOCKET", "YETT_CACERT", "YETT_CERT", "YETT_CERT_KEY",
	"YETT_DATA", "YETT_PLUGIN"}

// loader is one run of Load.
type loader struct {
	*strict.Loader
	src    Sources
	config *Config
}

func newLoader(src Sources, c *Config) *loader {
	return &loader{src: src, config: c, Loader: strict.NewLoader(strict.Sources{File: src.File, Env: src.Env,
		Flags: src.Flags, Default: src.Default, DefaultDir: src.DefaultDir, Files: src.Files, EnvPrefix: "YETT"})}
}

// Load reads and merges all sources. It changes nothing and starts nothing. The error is an *Error with every problem
// found: first those of form (unknown keys, types, limits); when there are none, those of meaning (references, rules
// files, secrets).
func Load(src Sources) (*Config, error) {
	c := &Config{}
	l := newLoader(src, c)
	l.Load(c)
	if err := l.Err(); err != nil {
		return nil, err
	}
	l.finish()
	if err := l.Err(); err != nil {
		return nil, err
	}
	c.origins, c.files, c.read = l.Report.Origins, l.Files(), l.Digests()
	sort.Strings(c.files)
	return c, nil
}

// Default gives the configuration of no sources at all.
func Default() *Config {
	c, err := Load(Sources{})
	if err != nil {
		panic("config: " + err.Error())
	}
	return c
}

// IsDropIn says whether a file of conf.d is read, by its name. Others, such as .bak, are not settings.
func IsDropIn(path string) bool { return strict.IsDropIn(path) }

// Files lists every file that was read, sorted: the main file, those of conf.d, rules and secrets. A change of any of
// them is a change of the configuration.
func (c *Config) Files() []string { return append([]string(nil), c.files...) }

// Read gives what each of these files held when it was read, by path, as a SHA-256 in hex: "" where it could not be
// read.
func (c *Config) Read() map[string]string { return maps.Clone(c.read) }

// finish reads what the settings refer to and checks what they mean together.
func (l *loader) finish() {
	c, r := l.config, l.Report
	c.Server.validate(r)
	l.finishMetrics(&c.Server)
	c.Socket.validate(r)
	c.Console.validate(r)
	c.Doors.validate(r)
	l.finishMCP(&c.MCP)
	c.Storage.validate(r, l.src.Serve)
	c.Limits.validate(r)
	c.Defers.validate(r)
	c.Trust.validate(r)
	locked := l.readLock()
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		p, key := c.Plugins[name], strict.Join("plugins", name)
		p.Pos = r.Origins.At(key)
		locked.apply(r, &p, name, l.src.Unlocked)
		p.validate(r, key, l.src.Builtins, l.src.Unlocked)
		l.Resolve(&p.Config, strict.Join(key, "config"))
		l.resolveSecrets(&p, strict.Join(key, "secrets"))
		c.Plugins[name] = p
	}
	c.separatePeers(r)
	l.finishAuthorize(&c.Chains.Authorize)
	l.finishScan(&c.Chains.ScanOutput)
	l.finishAudit(&c.Audit)
	l.finishTraces(&c.Traces)
	c.guardPaths(r, l.src.File, l.Files())
	l.CheckStray(knownVariables)
}
