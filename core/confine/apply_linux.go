//go:build amd64 || arm64

package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Prepared is a policy whose paths are open, so that it can be entered after the user was switched and the capabilities
// are gone.
type Prepared struct {
	policy *Policy
	domain *domain // nil: the kernel has no Landlock
	abi    int
	gaps   []Gap
}

// Prepare opens what a policy allows and leaves the machine's network where there is none to have. It is called on a
// locked thread, before the user is switched. own is the working directory, program the open file that is executed, -1
// if it is none.
func Prepare(p *Policy, own string, program int) (*Prepared, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	r := &Prepared{policy: p, abi: landlockABI()}
	if r.abi >= abiFiles {
		d, err := newDomain(p, r.abi, own, program)
		// a container's filter
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
			r.abi = 0
		} else if err != nil {
			return nil, fmt.Errorf("confine: %w", err)
		}
		r.domain = d
	}
	r.gaps = landlockGaps(p, r.abi)
	if p.none() && !p.Worker {
		// A namespace takes a capability. Without it the filter alone keeps sockets away, which is enough.
		_ = unix.Unshare(unix.CLONE_NEWNET)
	}
	return r, nil
}

// landlockGaps says what a version of Landlock leaves open.
func landlockGaps(p *Policy, abi int) (gaps []Gap) {
	if abi < abiFiles {
		gaps = append(gaps, Gap{PartFiles, "the kernel has no Landlock: a plugin opens every file that its user may open"})
	} else if abi < abiTruncate {
		gaps = append(gaps, Gap{PartFiles, fmt.Sprintf("the kernel's Landlock is version %d, and 3 is needed: a plugin "+
			"can empty files that its user may write", abi)})
	}
	if p.Network != nil && !p.none() && abi < abiPorts {
		gaps = append(gaps, Gap{PartPorts, fmt.Sprintf("the kernel's Landlock is version %d, and 4 is needed: a plugin "+
			"reaches every TCP port", abi)})
	}
	if abi < abiSignals && (p.Children || !p.none()) {
		gaps = append(gaps, Gap{PartSignals, fmt.Sprintf("the kernel's Landlock is version %d, and 6 is needed: a plugin "+
			"reaches abstract Unix sockets, "+
			"and if it may start processes it can signal those of its user", abi)})
	}
	return gaps
}

// unfiltered says what is open without seccomp. It names all that any policy loses: gaps of several plugins are told
// once.
func unfiltered(how string, err error) Gap {
	return Gap{PartSeccomp, fmt.Sprintf("system calls %s filtered (%v): a plugin can start processes, reach others of "+
		"its user, connect to every Unix socket that "+
		"its user may, such as the agents', and change the modes of its files; network: none does not hold for UDP and "+
		"Unix sockets, and a list of ports not for "+
		"protocols beside TCP, such as multipath TCP; use a kernel with seccomp, or a container that allows the system "+
		"call seccomp", how, err)}
}

// Bound takes capabilities out of the thread's reach for good, as far as it may. It comes before the switch of users,
// which takes the capability that this needs. What stays in the bounding set is of no use to a program without new
// privileges.
func Bound() error {
	for c := uintptr(0); c < 64; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) { // not ours to drop; there are no more
			break
		}
		if err != nil {
			return fmt.Errorf("capability %d: %w", c, err)
		}
	}
	const (
		noRoot, noRaise = 1 << 0, 1 << 6 // exec gives root nothing; ambient capabilities cannot be raised
		locked          = noRoot<<1 | noRaise<<1
	)
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot|noRaise|locked, 0, 0, 0); err != nil &&
		!errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("secure bits: %w", err)
	}
	return nil
}

// Disarm takes all capabilities from the thread. With no new privileges exec gives none back, not even to root.
func Disarm() error {
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) { // before Linux 4.3 there are none
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none, now [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := unix.Capget(&header, &now[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if now != none {
		return errors.New("capabilities: some are left")
	}
	return nil
}

// Enter confines the calling thread, which must be locked and have no capabilities and no new privileges. It says what
// this machine does not give; with Required that is an error.
func (r *Prepared) Enter() ([]Gap, error) {
	gaps := r.gaps
	if r.domain != nil {
		if err := r.domain.enter(); err != nil {
			gaps = Merge([]Gap{{PartFiles, fmt.Sprintf("Landlock is refused here (%v): a plugin opens every file that its "+
				"user may open", err)}}, gaps...)
			r.abi = 0
		}
		r.domain.close()
	}
	if err := r.policy.filter(uint32(os.Getpid()), r.abi >= abiSignals, 0); err != nil {
		gaps = Merge(gaps, unfiltered("are not", err))
	}
	if r.policy.Required && len(gaps) > 0 {
		return nil, fmt.Errorf("confine: required, and not to be had here: %s", Told(gaps))
	}
	return gaps, nil
}

func (p *Policy) filter(own uint32, scoped bool, flags uintptr) error {
	program, err := denying(p.rules(own, scoped))
	if err != nil {
		return err
	}
	raw, err := assemble(program)
	if err != nil {
		return err
	}
	return install(raw, flags)
}

func install(program []unix.SockFilter, flags uintptr) error {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const setFilter = 1
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, setFilter, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if failed != 0 {
		return failed
	}
	return nil
}

// Hide makes this process one that no other of its user can trace, whose memory, environment and descriptors none can
// read, and that leaves no core file.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("the system call prctl (PR_SET_DUMPABLE) is refused: %w; allow it in the seccomp profile of the "+
			"container or service", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("the system call prlimit64 (RLIMIT_CORE) is refused: %w; allow it in the seccomp profile of the "+
			"container or service", err)
	}
	return nil
}

// Hidden says whether Hide is in force.
func Hidden() bool {
	n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return err == nil && n == 0
}

// Gaps says what this machine would not give to a program of the policy, as far as can be told without starting one.
func Gaps(p *Policy) []Gap {
	gaps := landlockGaps(p, landlockABI())
	action := uint32(unix.SECCOMP_RET_ERRNO)
	const available = 2
	if _, _, failed := unix.Syscall(unix.SYS_SECCOMP, available, 0, uintptr(unsafe.Pointer(&action))); failed != 0 {
		gaps = Merge(gaps, unfiltered("cannot be", failed))
	}
	return gaps
}
