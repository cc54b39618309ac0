//go:build amd64 || arm64

package confine

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The versions of Landlock that brought what a domain is made of.
const (
	abiFiles    = 1
	abiRefer    = 2
	abiTruncate = 3
	abiPorts    = 4
	abiDevices  = 5
	abiSignals  = 6
)

const (
	canRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	canMake = unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	canDrop  = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
	canWrite = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER | canMake | canDrop
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// landlockABI is the kernel's version of Landlock, 0 for none.
func landlockABI() int {
	n, _, failed := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if failed != 0 {
		return 0
	}
	return int(n)
}

// handled are the rights to files that a domain can take away.
func handled(abi int) uint64 {
	all := uint64(canRead | canMake | canDrop | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)
	if abi >= abiRefer {
		all |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= abiTruncate {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= abiDevices {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return all
}

// domain is a Landlock ruleset that is being made.
type domain struct {
	fd    int
	rules uint64 // handled rights to files
}

// newDomain makes the ruleset of a policy: own is its working directory, program the open file that is executed, -1 for
// none.
func newDomain(p *Policy, abi int, own string, program int) (_ *domain, err error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled(abi)}
	if p.ports() && abi >= abiPorts {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= abiSignals {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	const known = 24 // bytes of what is set here; later fields are for later kernels
	fd, _, failed := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), known, 0)
	if failed != 0 {
		return nil, fmt.Errorf("create a ruleset: %w", failed)
	}
	d := &domain{fd: int(fd), rules: attr.Handled_access_fs}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	unix.CloseOnExec(d.fd)
	if err := d.fill(p, own, program); err != nil {
		return nil, err
	}
	if attr.Handled_access_net != 0 && !p.none() {
		return d, d.allowPorts(p.Network.Ports)
	}
	return d, nil
}

// ports says whether the policy restricts TCP ports.
func (p *Policy) ports() bool { return p.Worker || p.Network != nil }

func (d *domain) close() { unix.Close(d.fd) }

// fill allows what the policy leaves. A system's directory that is not there is nothing to allow; an operator's is a
// mistake.
func (d *domain) fill(p *Policy, own string, program int) error {
	if program >= 0 {
		if err := d.allow(program, unix.LANDLOCK_ACCESS_FS_EXECUTE|unix.LANDLOCK_ACCESS_FS_READ_FILE); err != nil &&
			!errors.Is(err, unix.EBADFD) {
			return fmt.Errorf("the program: %w", err) // EBADFD: it is in memory, where Landlock restricts nothing
		}
	}
	system := append(SystemDirs(), SystemFiles()...)
	if p.Worker {
		if system = nil; linked(program) {
			system = append(SystemDirs(), "/etc/ld.so.cache", "/etc/ld.so.preload")
		}
	}
	for _, path := range system {
		if err := d.allowPath(path, canRead); err != nil && !errors.Is(err, fs.ErrNotExist) &&
			!errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
	if p.Worker {
		return nil
	}
	for _, path := range devices() {
		if err := d.allowPath(path, unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_WRITE_FILE); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, l := range []struct {
		name   string
		paths  []string
		rights uint64
	}{{"working directory", []string{own}, canWrite}, {"paths.read", p.Read, canRead},
		{"paths.write", p.Write, canWrite}} {
		for _, path := range l.paths {
			if path == "" {
				continue
			}
			if err := d.allowPath(path, l.rights); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
	}
	return nil
}

func (d *domain) allowPath(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if err := d.allow(fd, rights); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// allow gives rights to an open file or to what is beneath an open directory.
func (d *domain) allow(fd int, rights uint64) error {
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ofFiles
	}
	if rights &= d.rules; rights == 0 {
		return nil
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	return d.add(unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&attr))
}

// rulePort is the kernel's landlock_net_port_attr and its type of rule.
const rulePort = 2

type portAttr struct{ rights, port uint64 }

func (d *domain) allowPorts(ports []uint16) error {
	for _, port := range ports {
		attr := portAttr{unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
		if err := d.add(rulePort, unsafe.Pointer(&attr)); err != nil {
			return fmt.Errorf("port %d: %w", port, err)
		}
	}
	return nil
}

func (d *domain) add(kind uintptr, attr unsafe.Pointer) error {
	if _, _, failed := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(d.fd), kind, uintptr(attr), 0, 0, 0); failed !=
		0 {
		return fmt.Errorf("add a rule: %w", failed)
	}
	return nil
}

// enter puts the calling thread into the domain for good. It needs no new privileges.
func (d *domain) enter() error {
	if _, _, failed := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(d.fd), 0, 0); failed != 0 {
		return fmt.Errorf("enter the domain: %w", failed)
	}
	return nil
}

// linked says whether a program loads libraries: one of ours does when it was built with cgo, as for the race detector.
func linked(program int) bool {
	if program < 0 {
		return true
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", program))
	if err != nil {
		return true
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return true
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			return true
		}
	}
	return false
}
