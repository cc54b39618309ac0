package loaded

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
	"github.com/yett-dev/yett/core/regular"
)

// policyOf is what a plugin process keeps, as the configuration says.
func policyOf(c *config.Plugin) confine.Policy {
	p := confine.Policy{Required: c.Confine == config.ConfineRequired, Children: c.Limits.Processes > 0}
	p.Read, p.Write = absolute(c.Paths.Read), absolute(c.Paths.Write)
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

// PolicyOf is what the program of audit.archive keeps. It may start others.
func PolicyOf(a *config.Archive) confine.Policy {
	p := policyOf(a.Process())
	p.Children = true
	return p
}

// PolicyOfMCP is what the command of an MCP server keeps. It may start others: many are scripts.
func PolicyOfMCP(s *config.MCPServer) confine.Policy {
	p := policyOf(s.Process())
	p.Children = true
	return p
}

// absolute makes paths independent of the working directory. One that cannot be is refused when the plugin starts.
func absolute(paths []config.Path) (out []string) {
	for _, path := range paths {
		at, err := filepath.Abs(string(path))
		if err != nil {
			at = string(path)
		}
		out = append(out, at)
	}
	return out
}

// Warnings says what a configuration leaves open, one line each: what this kernel lacks to confine its plugins, and
// what an operator will want to close. None of it keeps a server from starting.
func Warnings(cfg *config.Config) []string {
	var out []string
	var gaps []confine.Gap
	for _, name := range slices.Sorted(maps.Keys(cfg.Plugins)) {
		c := cfg.Plugins[name]
		if c.Wasm != "" && c.Sandbox != config.SandboxInproc {
			gaps = confine.Merge(gaps, confine.Gaps(&confine.Policy{Worker: true})...)
		}
		if c.Exec == "" {
			continue
		}
		policy := policyOf(&c)
		lines := open(&c, &policy)
		if c.Confine != config.ConfineOff {
			gaps = confine.Merge(gaps, confine.Gaps(&policy)...)
			if others := Sharers(cfg, name); others != "" {
				lines = append(lines, others)
			}
		}
		for _, line := range lines {
			out = append(out, fmt.Sprintf("plugins.%s: %s", name, line))
		}
	}
	if a := &cfg.Audit.Archive; a.Exec != "" {
		policy := PolicyOf(a)
		gaps = confine.Merge(gaps, confine.Gaps(&policy)...)
		for _, line := range open(a.Process(), &policy) {
			out = append(out, "audit.archive: "+line)
		}
	}
	for _, g := range gaps {
		out = append(out, "this machine: "+g.String())
	}
	if at := string(cfg.Storage.Path); at != "" && len(out) > 0 && confine.Within(at, confine.SystemDirs()) {
		out = append(out, fmt.Sprintf("storage.path: %s is in a directory of the system, which every plugin may read: "+
			"move it, to /var/lib/yett for example", at))
	}
	if !slices.ContainsFunc(cfg.Chains.ScanOutput.Steps, func(s config.ScanStep) bool { return s.Mode != "shadow" }) {
		out = append(out, "chains.scan_output: no scanner enforces, so the log keeps no arguments, and approvers, actions "+
			"and reasons of plugins show "+
			"secrets in clear: give plugins.secrets {kind: scanner, builtin: secrets} and a step {use: secrets}")
	}
	return slices.Concat(out, loneStars(cfg), sharedIDs(cfg))
}

// open says what the configuration of one process leaves open.
func open(c *config.Plugin, policy *confine.Policy) (out []string) {
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if c.Confine == config.ConfineOff {
		warn("confine is off: it can do all that its user can, to this server too; remove confine, and give it paths and " +
			"network")
		return out
	}
	if c.Network == nil {
		warn("network is not given, so it reaches every host and port: write network: none, or the TCP ports that it " +
			"needs, such as network: [443]")
	}
	if c.User.UID == 0 && os.Geteuid() == 0 {
		warn("it runs as root, without capabilities: give it a user of its own (user: {uid: …})")
	}
	for _, path := range c.Paths.Write {
		if holdsTemp(string(path)) {
			warn("paths.write: %s holds the directories in which plugins work, and it may change those of its user: give it "+
				"a directory of its own", path)
		}
	}
	for _, program := range interpreter(string(c.Exec)) {
		if !confine.Within(program, append(confine.SystemDirs(), policy.Read...)) {
			warn("its interpreter %s is outside the system's directories: add the directory of that installation to "+
				"paths.read", program)
		}
	}
	return out
}

// holdsTemp says whether the temporary directory is a directory or lies beneath it.
func holdsTemp(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	temp, terr := filepath.EvalSymlinks(os.TempDir())
	return err == nil && terr == nil && confine.Within(temp, []string{path})
}

// Sharers says which other plugins can use up what limits.processes of a plugin counts; "" for none. The kernel counts
// by user.
func Sharers(cfg *config.Config, name string) string {
	c := cfg.Plugins[name]
	if c.Exec == "" || c.Limits.Processes == 0 {
		return ""
	}
	var others []string
	for _, other := range slices.Sorted(maps.Keys(cfg.Plugins)) {
		if o := cfg.Plugins[other]; other != name && o.Exec != "" && userOf(&o) == userOf(&c) {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("limits.processes counts all processes and threads of its user, and %s may use them up: give "+
		"each plugin a user of its own, "+
		"or set limits.processes to what all of them need", strings.Join(others, ", "))
}

// userOf is the user that a plugin runs as.
func userOf(c *config.Plugin) int {
	if c.User.UID > 0 {
		return c.User.UID
	}
	return os.Geteuid()
}

// maxInterpreter bounds the first line of a script, as the kernel does.
const maxInterpreter = 256

// interpreter is the program that the kernel starts for a script, as it is named and without links: a virtual
// environment's is a link to the system's, and looks for its packages beside the link. nil for what is no script.
func interpreter(path string) []string {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil // whoever starts it says why
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, maxInterpreter)).ReadString('\n') // a shorter one has no line feed
	line, is := strings.CutPrefix(line, "#!")
	fields := strings.Fields(line)
	if !is || len(fields) == 0 {
		return nil
	}
	programs := []string{filepath.Clean(fields[0])}
	if real, err := filepath.EvalSymlinks(fields[0]); err == nil && real != programs[0] {
		programs = append(programs, real)
	}
	return programs
}
