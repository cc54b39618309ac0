package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// guardPaths refuses paths of plugins that reach what decides about them: the server's own data, and for writing all
// that the server reads and runs. file is the main file, "" for none, read are all that were read.
func (c *Config) guardPaths(r *strict.Report, file string, read []string) {
	kept := c.keptFiles(file, read)
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		p, key := c.Plugins[name], strict.Join("plugins", name)
		for i, path := range p.Paths.Read {
			c.guardData(r, strict.Join(key, "paths.read["+strconv.Itoa(i)+"]"), path)
		}
		for i, path := range p.Paths.Write {
			at := strict.Join(key, "paths.write["+strconv.Itoa(i)+"]")
			if !c.guardData(r, at, path) {
				continue
			}
			for _, k := range append(kept, c.policyPaths(file, name)...) {
				if k.overlaps(realPath(string(path))) {
					r.Errorf(at, "%s reaches %s: a plugin that writes there could change what it is held to; give it a directory "+
						"of its own", path, k.what)
					break
				}
			}
		}
	}
}

// guardData refuses a path from which the server's own data could be read or written.
func (c *Config) guardData(r *strict.Report, key string, path Path) bool {
	at := realPath(string(path))
	if at == "/" {
		r.Errorf(key, "/ holds the data of every server: give the plugin a directory of its own")
		return false
	}
	if c.Storage.Path == "" {
		return true
	}
	if data := realPath(string(c.Storage.Path)); beneath(at, data) || beneath(data, at) {
		r.Errorf(key, "%s and the data directory %s overlap: no plugin may see that directory; give it a directory "+
			"of its own", path, c.Storage.Path)
		return false
	}
	return true
}

// kept is what no plugin may write.
type kept struct {
	path string
	what string // for messages
	deep bool   // and what lies beneath it
}

// overlaps says whether who may write a path, which has no links, may change what is kept. Who may write a directory
// may replace a link in it.
func (k kept) overlaps(at string) bool {
	ways := waysTo(k.path)
	return slices.ContainsFunc(ways, func(way string) bool { return beneath(way, at) }) ||
		k.deep && beneath(at, ways[len(ways)-1])
}

// mostLinks is how many links the kernel follows for one path.
const mostLinks = 40

// waysTo lists where a path leads through: each link on the way, and in the end what it leads to, as far as that is
// there. None of these has a link in its directory.
func waysTo(path string) (ways []string) {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	at := "/"
	for rest := strings.Split(path, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		at = filepath.Join(at, name)
		to, err := os.Readlink(at)
		if err != nil || len(ways) == mostLinks { // no link, or nothing, or one that leads nowhere
			continue
		}
		ways = append(ways, at)
		if at = filepath.Dir(at); filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return append(ways, at)
}

// keptFiles lists what the server reads and runs. file is the main file, "" for none, read are all that were read.
func (c *Config) keptFiles(file string, read []string) (all []kept) {
	if file != "" {
		dir := filepath.Dir(file)
		drops := filepath.Join(dir, "conf.d")
		all = append(all, kept{path: dir, what: "the directory of the configuration"},
			kept{path: drops, what: drops + ", where the server reads settings", deep: true})
	}
	for _, path := range read {
		all = append(all, kept{path: path, what: path + ", which the server reads"})
	}
	if program, err := os.Executable(); err == nil {
		all = append(all, kept{path: filepath.Dir(program), what: "the directory of the server's program"})
	}
	files := []Path{c.Storage.Path, c.Socket.Path, c.Traces.CA}
	for _, t := range []TLS{c.Server.TLS, c.Server.MetricsTLS, c.Console.TLS} {
		files = append(files, t.Cert, t.Key, t.ClientCA)
	}
	for _, w := range c.Audit.Checkpoints.Webhooks {
		files = append(files, w.CA)
	}
	for _, w := range c.Audit.Checkpoints.Witnesses {
		files = append(files, w.CA)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		p := c.Plugins[name]
		if path := p.File(); path != "" {
			all = append(all, kept{path: string(path), what: "the program of plugin " + name})
		}
		files = append(files, p.Peer.CA, p.Peer.Cert, p.Peer.Key)
	}
	for _, path := range files {
		if path != "" {
			all = append(all, kept{path: string(path), what: string(path) + ", which the server uses"})
		}
	}
	return all
}

// policyPaths lists what plugins other than the one of a name read in the directory of the main file.
func (c *Config) policyPaths(file, name string) (all []kept) {
	if file == "" {
		return nil
	}
	dir := realPath(filepath.Dir(file))
	for _, other := range slices.Sorted(maps.Keys(c.Plugins)) {
		for _, path := range c.Plugins[other].Paths.Read {
			in := slices.ContainsFunc(waysTo(string(path)), func(way string) bool { return beneath(way, dir) })
			if other != name && in {
				all = append(all, kept{path: string(path), what: string(path) + ", which plugin " + other + " reads", deep: true})
			}
		}
	}
	return all
}
