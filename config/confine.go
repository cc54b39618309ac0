package config

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// How a plugin is confined by the kernel.
const (
	ConfineBest     = "best_effort"
	ConfineRequired = "required"
	ConfineOff      = "off"
)

// PluginPaths are the files and directories that a plugin process may use beside those of the system and its own.
type PluginPaths struct {
	Read  []Path `koanf:"read" example:"[\"/etc/yett/policies\"]" doc:"Files and directories that it may read and execute. What the system has in /usr, /bin, /lib and the like, and what names and certificates take in /etc, needs no entry."`
	Write []Path `koanf:"write" example:"[\"/var/lib/yett-jsonl\"]" doc:"Directories and files that it may read and write."`
}

// NoNetwork says whether the plugin has no network at all.
func (p *Plugin) NoNetwork() bool { return len(p.Network) == 1 && p.Network[0] == NoPort }

// checkConfine checks what a plugin process keeps.
func (p *Plugin) checkConfine(r *strict.Report, key string) {
	if p.Confine == ConfineOff {
		p.refuse(r, key, "has no effect with confine: off", "paths", "network")
	}
	for i, port := range p.Network {
		if port == NoPort && len(p.Network) > 1 {
			r.Errorf(strict.Join(key, "network["+strconv.Itoa(i)+"]"), "none cannot stand beside ports")
		}
	}
}

// realPath is a path without links, as far as it is there.
func realPath(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for at, rest := path, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
	}
}

func beneath(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}
