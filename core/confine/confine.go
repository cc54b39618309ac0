// Package confine takes rights away from a process that runs somebody else's code: capabilities, system calls, files,
// ports and signals. It owns the seccomp filters and the Landlock domain of plugins and module workers, and says what a
// kernel lacks. A Policy comes from core/supervise's launcher, which applies it to its own thread just before it
// becomes the program. This package never starts a process, never widens a right, and never passes over in silence what
// it could not take away: that is a Gap.
package confine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Policy says what a program keeps. The zero Policy keeps the system's directories for reading, its own directory for
// reading and writing, and the network; it has no capabilities, no new privileges and no new processes.
type Policy struct {
	Required bool     // a Gap is an error: the program does not start
	Read     []string // files and directories, absolute, that it may also read and execute
	Write    []string // files and directories, absolute, that it may also read and write
	Network  *Network // nil: not restricted
	Children bool     // it may start processes

	// Worker is the policy of a module worker: no file but its own program, no socket, no process, whatever the other
	// fields say.
	Worker bool
}

// Network lists the TCP ports that a program may connect to and listen on. No port at all is no network: no socket but
// those of Unix, which can listen and accept, and not connect.
type Network struct{ Ports []uint16 }

// none says whether the policy has no network.
func (p *Policy) none() bool { return p.Worker || p.Network != nil && len(p.Network.Ports) == 0 }

// Alone says whether a program of the policy (nil: one that is not confined) can start no process, although the machine
// does not give the gaps.
func (p *Policy) Alone(gaps []Gap) bool {
	return p != nil && (p.Worker || !p.Children) &&
		!slices.ContainsFunc(gaps, func(g Gap) bool { return g.Part == PartSeccomp || g.Part == PartOff })
}

// The parts of a confinement.
const (
	PartOff      = "off" // nothing is confined, since the operator said so
	PartSeccomp  = "seccomp"
	PartFiles    = "landlock_files"
	PartPorts    = "landlock_ports"
	PartSignals  = "landlock_signals"
	PartDumpable = "dumpable"
)

// Parts are all of them, in the order in which they are told.
func Parts() []string {
	return []string{PartOff, PartSeccomp, PartFiles, PartPorts, PartSignals, PartDumpable}
}

// Gap is a part that this machine does not give.
type Gap struct {
	Part string
	Why  string // what is missing, and what that leaves open
}

// String is the gap in one line.
func (g Gap) String() string { return g.Part + ": " + g.Why }

// Told joins gaps to one line; "" when there are none.
func Told(gaps []Gap) string {
	lines := make([]string, len(gaps))
	for i, g := range gaps {
		lines[i] = g.String()
	}
	return strings.Join(lines, "; ")
}

// Merge adds the gaps that are not there yet, part by part, and keeps the order of Parts.
func Merge(gaps []Gap, more ...Gap) []Gap {
	for _, g := range more {
		if !slices.ContainsFunc(gaps, func(x Gap) bool { return x.Part == g.Part }) {
			gaps = append(gaps, g)
		}
	}
	order := Parts()
	slices.SortStableFunc(gaps, func(a, b Gap) int { return slices.Index(order, a.Part) - slices.Index(order, b.Part) })
	return gaps
}

// Check refuses a policy that cannot be meant.
func (p *Policy) Check() error {
	for _, l := range []struct {
		name  string
		paths []string
	}{{"read", p.Read}, {"write", p.Write}} {
		for _, path := range l.paths {
			if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
				return fmt.Errorf("paths.%s: %q is not an absolute, clean path", l.name, path)
			}
		}
	}
	if p.Network != nil && slices.Contains(p.Network.Ports, 0) {
		return fmt.Errorf("network: port 0 is not a port: expected 1 to 65535")
	}
	return nil
}

// SystemDirs are the directories that every confined program may read and execute: programs, libraries and what comes
// with them.
func SystemDirs() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"}
}

// SystemFiles are what every confined program may read beside SystemDirs: how names are resolved, who is trusted for
// TLS, what time it is here, how the machine is built. It is a list and not /etc, since operators keep secrets there.
func SystemFiles() []string {
	return []string{
		"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services",
		"/etc/protocols", "/etc/networks", "/etc/passwd", "/etc/group", "/etc/localtime", "/etc/timezone", "/etc/mime.types",
		"/etc/os-release", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
		"/etc/ld-musl-x86_64.path", "/etc/ld-musl-aarch64.path", "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/cert.pem",
		"/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/pki/tls/certs",
		"/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust", "/etc/crypto-policies",
		"/var/lib/ca-certificates", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager",
		"/sys/devices/system", "/sys/kernel/mm", "/sys/fs/cgroup", "/proc",
	}
}

// devices are read and written by every confined program. /dev/zero is not among them: mapped, it is memory that no
// limit counts.
func devices() []string {
	return []string{"/dev/null", "/dev/full", "/dev/random", "/dev/urandom"}
}

// Within says whether a path is one of the given ones or lies beneath one.
func Within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
	})
}
