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
	"github.com/yett-dev/yett/core/httpd"
	"github.com/yett-dev/yett/core/obs"
	"github.com/yett-dev/yett/core/regular"
)

// Hide keeps every other process of this one's user from its memory, environment and descriptors. It leaves no core file. It is called
// before there are secrets.
func Hide() error {
	if err := confine.Hide(); err != nil {
		return fmt.Errorf("make this process one that others cannot look into: %w", err)
	}
	return nil
}

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
		if others := sharers(cfg, name); others != "" {
			warn(name, "%s", others)
		}
		for _, path := range c.Paths.Write {
			if holdsTemp(string(path)) {
				warn(name, "paths.write: %s holds the directories in which plugins work, and it may change those of its user: give it a directory of its own", path)
			}
		}
		for _, program := range interpreter(string(c.Exec)) {
			if !confine.Within(program, append(confine.SystemDirs(), policy.Read...)) {
				warn(name, "its interpreter %s is outside the system's directories: add the directory of that installation to paths.read", program)
			}
		}
	}
	for _, g := range gaps {
		out = append(out, "this machine: "+g.String())
	}
	if at := string(cfg.Storage.Path); at != "" && len(out) > 0 && confine.Within(at, confine.SystemDirs()) {
		out = append(out, fmt.Sprintf("storage.path: %s is in a directory of the system, which every plugin may read: move it, to /var/lib/yett for example", at))
	}
	if !slices.ContainsFunc(cfg.Chains.ScanOutput.Steps, func(s config.ScanStep) bool { return s.Mode != "shadow" }) {
		out = append(out, "chains.scan_output: no scanner enforces, so the log keeps no arguments, and approvers, actions and reasons of plugins show "+
			"secrets in clear: give plugins.secrets {kind: scanner, builtin: secrets} and a step {use: secrets}")
	}
	return append(out, sharedIDs(cfg)...)
}

// holdsTemp says whether the temporary directory is a directory or lies beneath it.
func holdsTemp(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	temp, terr := filepath.EvalSymlinks(os.TempDir())
	return err == nil && terr == nil && confine.Within(temp, []string{path})
}

// sharers says which other plugins can use up what limits.processes of a plugin counts; "" for none. The kernel counts by user.
func sharers(cfg *config.Config, name string) string {
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
	return fmt.Sprintf("limits.processes counts all processes and threads of its user, and %s may use them up: give each plugin a user of its own, "+
		"or set limits.processes to what all of them need", strings.Join(others, ", "))
}

// userOf is the user that a plugin runs as.
func userOf(c *config.Plugin) int {
	if c.User.UID > 0 {
		return c.User.UID
	}
	return os.Geteuid()
}

// gaps says what the server and its children lack now of what keeps them apart.
func (g *Gateway) gaps() (gaps []confine.Gap) {
	for _, m := range g.gen.Load().loaded() {
		if m.gaps != nil {
			gaps = confine.Merge(gaps, m.gaps()...)
		}
	}
	if !confine.Hidden() {
		gaps = confine.Merge(gaps, confine.Gap{Part: confine.PartDumpable, Why: "this process can be looked into by others of its user: it was not started by yett serve or yett dev"})
	}
	return gaps
}

// confinement is the row of /readyz: what is missing is said, and the server is ready all the same.
func (g *Gateway) confinement() httpd.Part {
	gaps := g.gaps()
	part := httpd.Part{Name: "confinement", OK: len(gaps) == 0, Detail: confine.Told(gaps), Beside: true}
	if part.OK {
		part.Detail = "plugins and module workers are confined by the kernel"
	}
	cfg := g.gen.Load().cfg
	for _, name := range slices.Sorted(maps.Keys(cfg.Plugins)) {
		if others := sharers(cfg, name); others != "" {
			part.Detail += fmt.Sprintf("; plugins.%s: %s", name, others)
		}
	}
	return part
}

// confinementGauges shows each part of the confinement, for each plugin or module that has processes of ours.
func (g *Gateway) confinementGauges() {
	g.metrics.Table([]string{"module", "part"}, []obs.Column{
		gauge("yett_plugin_confined", "1 while this part of the confinement holds for the processes of a plugin or module, 0 while it is missing."),
	}, func(emit func([]string, ...float64)) {
		for _, m := range g.gen.Load().loaded() {
			if m.gaps == nil || m.process != nil && !m.process.Ours() {
				continue
			}
			missing := m.gaps()
			for _, part := range []string{confine.PartSeccomp, confine.PartFiles, confine.PartPorts, confine.PartSignals} {
				lacks := slices.ContainsFunc(missing, func(x confine.Gap) bool { return x.Part == part || x.Part == confine.PartOff })
				emit([]string{m.name, part}, one(!lacks))
			}
		}
	})
}

// maxInterpreter bounds the first line of a script, as the kernel does.
const maxInterpreter = 256

// interpreter is the program that the kernel starts for a script, as it is named and without links: a virtual environment's is a link to the
// system's, and looks for its packages beside the link. nil for what is no script.
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
