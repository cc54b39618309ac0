// Package config reads what operators write: files, a directory of more files, the environment and flags, laid over
// built-in defaults into one immutable Config. It owns every key's name, type, default, limits and documentation, which
// all stand in the struct tags of the section files, and it is the only package that imports koanf and YAML. It must
// never guess, convert or skip: what it does not understand is an error with its place. It writes nothing, starts
// nothing and never prints a secret. Rules are read here; their conditions are checked by the engine that runs them.
package config

//go:generate env GOLDEN=write go test .

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"syscall"
)

// Config is the whole configuration as it is in effect. It is not changed after Load and safe for concurrent use.
type Config struct {
	Version int               `koanf:"version" default:"1" enum:"1" doc:"Version of this format. Required in a file."`
	Server  Server            `koanf:"server" restart:"true" doc:"The HTTP adapter."`
	Socket  Socket            `koanf:"socket" restart:"true" doc:"The socket adapter, for agents on the same machine."`
	Console Console           `koanf:"console" restart:"true" doc:"Where operators sign in, make and revoke keys, answer calls that wait and see plugins."`
	Storage Storage           `koanf:"storage" restart:"true" doc:"The database."`
	Limits  Limits            `koanf:"limits" restart:"true" doc:"Bounds on requests, keys and the server; whatever runs into one is told which."`
	Defers  Defers            `koanf:"defers" restart:"true" doc:"Calls that wait for a person."`
	Trust   Trust             `koanf:"trust" doc:"Who may have signed modules."`
	Plugins map[string]Plugin `koanf:"plugins" doc:"Modules by name. A name is used in steps, findings and receipts."`
	Chains  Chains            `koanf:"chains" doc:"The ordered steps that decide calls and scan outputs."`
	Audit   Audit             `koanf:"audit" doc:"The audit log."`

	origins map[string]Pos
	files   []string
	read    map[string]string
}

// reserved lists the keys that later versions will know.
func (Config) reserved() []string { return []string{"cluster"} }

var configType = reflect.TypeFor[Config]()

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

// maxFile is the largest file of settings that is read, in bytes.
const maxFile = 1 << 20

// loader is one run of Load.
type loader struct {
	src    Sources
	config *Config
	report *report
	dirs   map[string]string // a layer's label to what its relative paths are relative to

	envRead map[string]bool // variables that settings refer to
}

// Load reads and merges all sources. It changes nothing and starts nothing. The error is an *Error with every problem
// found: first those of form (unknown keys, types, limits); when there are none, those of meaning (references, rules
// files, secrets).
func Load(src Sources) (*Config, error) {
	l := &loader{src: src, config: &Config{}, report: newReport(), dirs: map[string]string{}, envRead: map[string]bool{}}
	m := newMerger(l.report, Config{})
	for _, one := range l.layers() {
		l.dirs[one.label] = one.dir
		m.add(one)
	}
	m.decode(l.config)
	if err := l.err(); err != nil {
		return nil, err
	}
	l.finish()
	if err := l.err(); err != nil {
		return nil, err
	}
	l.config.origins = l.report.origins
	sort.Strings(l.config.files)
	return l.config, nil
}

// err is what was found so far, with the files that it was found in, or nil.
func (l *loader) err() error {
	err := l.report.err()
	if e, ok := errors.AsType[*Error](err); ok {
		e.read = l.config.read
	}
	return err
}

// Default gives the configuration of no sources at all.
func Default() *Config {
	c, err := Load(Sources{})
	if err != nil {
		panic("config: " + err.Error())
	}
	return c
}

// Files lists every file that was read, sorted: the main file, those of conf.d, rules and secrets. A change of any of
// them is a change of the configuration.
func (c *Config) Files() []string { return append([]string(nil), c.files...) }

// Read gives what each of these files held when it was read, by path, as a SHA-256 in hex: "" where it could not be
// read.
func (c *Config) Read() map[string]string { return maps.Clone(c.read) }

// layers reads all sources into trees, weakest first.
func (l *loader) layers() []*layer {
	var out []*layer
	if l.src.Default != nil {
		if root := parseYAML(l.report, "defaults", l.src.Default); root != nil {
			out = append(out, &layer{label: "defaults", dir: l.src.DefaultDir, lines: true, root: root})
		}
	}
	if l.src.File != "" {
		for i, path := range append([]string{l.src.File}, l.dropIns()...) {
			data, err := l.read(path, maxFile)
			if err != nil {
				l.report.add(Pos{File: path}, "", "%s", err)
				continue
			}
			layers := parseFile(l.report, path, data)
			if i == 0 && len(layers) > 0 && !hasKey(layers[0], "version") {
				l.report.add(layers[0].pos(layers[0].root), "version", "is required; write version: 1")
			}
			out = append(out, layers...)
		}
	}
	out = append(out, parseEnv(l.report, l.src.Env)...)
	return append(out, parseFlags(l.report, l.src.Flags)...)
}

func hasKey(l *layer, key string) bool {
	for i := 0; i+1 < len(l.root.Content); i += 2 {
		if l.root.Content[i].Value == key {
			return true
		}
	}
	return false
}

// IsDropIn says whether a file of conf.d is read, by its name. Others, such as .bak, are not settings.
func IsDropIn(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json", ".toml":
		return true
	}
	return false
}

// dropIns lists the files of conf.d beside the main file by name.
func (l *loader) dropIns() []string {
	dir := filepath.Join(filepath.Dir(l.src.File), "conf.d")
	var out []string
	take := func(path string) {
		if IsDropIn(path) {
			out = append(out, path)
		}
	}
	for path := range l.src.Files {
		if filepath.Dir(path) == dir {
			take(path)
		}
	}
	if _, inMemory := l.src.Files[l.src.File]; !inMemory {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.report.add(Pos{File: dir}, "", "%s", unwrapped(err))
		}
		for _, e := range entries {
			take(filepath.Join(dir, e.Name()))
		}
	}
	sort.Strings(out)
	return out
}

// read gives the bytes of a file of at most most bytes. Its errors name the file.
func (l *loader) read(path string, most int64) ([]byte, error) {
	if data, ok := l.src.Files[path]; ok {
		return data, nil
	}
	if !contains(l.config.files, path) {
		l.config.files = append(l.config.files, path)
	}
	data, err := readFile(path, most)
	if l.config.read == nil {
		l.config.read = map[string]string{}
	}
	l.config.read[path] = ""
	if err == nil {
		sum := sha256.Sum256(data)
		l.config.read[path] = hex.EncodeToString(sum[:])
	}
	return data, err
}

// readFile reads a regular file of at most most bytes; a pipe or a device could block or never end.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // what is checked is what is read
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, unwrapped(err))
	}
	defer f.Close()
	var data []byte
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("is not a regular file")
	case info.Size() > most:
	default:
		data, err = io.ReadAll(io.LimitReader(f, most+1))
	}
	if err == nil && (info.Size() > most || int64(len(data)) > most) {
		err = fmt.Errorf("is larger than %s", Size(most))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, unwrapped(err))
	}
	return data, nil
}

// unwrapped drops the path from a file error, since the message around it has it.
func unwrapped(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// finish reads what the settings refer to and checks what they mean together.
func (l *loader) finish() {
	c, r := l.config, l.report
	c.Server.validate(r)
	c.Socket.validate(r)
	c.Console.validate(r)
	c.Storage.validate(r, l.src.Serve)
	c.Limits.validate(r)
	c.Defers.validate(r)
	c.Trust.validate(r)
	locked := l.readLock()
	for _, name := range sortedKeys(c.Plugins) {
		p, key := c.Plugins[name], join("plugins", name)
		p.Pos = r.at(key)
		locked.apply(r, &p, name, l.src.Unlocked)
		p.validate(r, key, l.src.Builtins, l.src.Unlocked)
		l.resolve(&p.Config, join(key, "config"))
		l.resolveSecrets(&p, join(key, "secrets"))
		c.Plugins[name] = p
	}
	c.separatePeers(r)
	l.finishAuthorize(&c.Chains.Authorize)
	l.finishScan(&c.Chains.ScanOutput)
	l.finishAudit(&c.Audit)
	c.guardPaths(r, l.src.File)
	l.checkStray()
}

// Written reports whether a setting was given anywhere, rather than being the default.
func (c *Config) Written(key string) bool { return c.writtenIn(key) }

// writtenIn says whether key or something below it was set by a source.
func (c *Config) writtenIn(key string) bool {
	if _, ok := c.origins[key]; ok {
		return true
	}
	for k := range c.origins {
		if strings.HasPrefix(k, key+".") || strings.HasPrefix(k, key+"[") {
			return true
		}
	}
	return false
}
