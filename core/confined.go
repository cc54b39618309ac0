package core

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/confine"
)

// policyOf is what a plugin process keeps, as the configuration says.
func policyOf(c *config.Plugin) confine.Policy {
	p := confine.Policy{Required: c.Confine == config.ConfineRequired, Children: c.Limits.Processes > 0}
	for _, path := range c.Paths.Read {
		p.Read = append(p.Read, string(path))
	}
	for _, path := range c.Paths.Write {
		p.Write = append(p.Write, string(path))
	}
	switch {
	case c.NoNetwork():
		p.Network = &confine.Network{}
	case len(c.Network) > 0:
		p.Network = &confine.Network{}
		for _, port := range c.Network {
			p.Network.Ports = append(p.Network.Ports, uint16(port))
		}
	}
	return p
}

// Warnings says what a configuration leaves open, one line each: what this kernel lacks to confine its plugins, and what an operator will
// want to close. None of it keeps a server from starting.
func Warnings(cfg *config.Config) []string {
	var out []string
	var gaps []confine.Gap
	warn := func(name, format string, args ...any) {
		out = append(out, fmt.Sprintf("plugins.%s: ", name)+fmt.Sprintf(format, args...))
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Plugins)) {
		c := cfg.Plugins[name]
		if c.Wasm != "" && c.Sandbox != config.SandboxInproc {
			gaps = confine.Merge(gaps, confine.Gaps(&confine.Policy{Worker: true})...)
		}
		if c.Exec == "" {
			continue
		}
		if c.Confine == config.ConfineOff {
			warn(name, "confine is off: it can do all that its user can, to this server too; remove confine, and give it paths and network")
			continue
		}
		policy := policyOf(&c)
		gaps = confine.Merge(gaps, confine.Gaps(&policy)...)
		if c.Network == nil {
			warn(name, "network is not given, so it reaches every host and port: write network: none, or the TCP ports that it needs, such as network: [443]")
		}
		if c.User.UID == 0 && os.Geteuid() == 0 {
			warn(name, "it runs as root, without capabilities: give it a user of its own (user: {uid: …})")
		}
		if program := interpreter(string(c.Exec)); program != "" && !confine.Within(program, append(confine.SystemDirs(), policy.Read...)) {
			warn(name, "its interpreter %s is outside the system's directories: add the directory of that installation to paths.read", program)
		}
	}
	for _, g := range gaps {
		out = append(out, "this machine: "+g.String())
	}
	if at := string(cfg.Storage.Path); at != "" && len(out) > 0 && confine.Within(at, confine.SystemDirs()) {
		out = append(out, fmt.Sprintf("storage.path: %s is in a directory of the system, which every plugin may read: move it, to /var/lib/yett for example", at))
	}
	return out
}

// maxInterpreter bounds the first line of a script, as the kernel does.
const maxInterpreter = 256

// interpreter is the program that the kernel starts for a script, without links; "" for what is no script.
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, maxInterpreter)).ReadString('\n') // a shorter one has no line feed
	line, is := strings.CutPrefix(line, "#!")
	fields := strings.Fields(line)
	if !is || len(fields) == 0 {
		return ""
	}
	if real, err := filepath.EvalSymlinks(fields[0]); err == nil {
		return real
	}
	return fields[0]
}
