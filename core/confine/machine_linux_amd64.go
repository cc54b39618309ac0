package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// otherNumbers is where the numbers of the x32 interface begin, by which a call would pass rules for the ordinary one.
const otherNumbers = 0x40000000

// machine is what only this machine has.
func machine() []rule {
	return refuse(unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS__SYSCTL,
		unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE, unix.SYS_SYSFS, unix.SYS_USTAT)
}

func oldForks() []rule { return refuse(unix.SYS_FORK, unix.SYS_VFORK) }

func oldAttributes() []rule {
	return refuse(unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT)
}

// makers are what makes a file besides, and which argument has the mode.
func makers() map[uintptr]int {
	return map[uintptr]int{unix.SYS_CREAT: 1, unix.SYS_MKNOD: 1, unix.SYS_MKNODAT: 2}
}

func opens() []opener { return []opener{{unix.SYS_OPENAT, 2}, {unix.SYS_OPEN, 1}} }

// ownCalls are what Go's runtime needs here beside the list of all machines.
func ownCalls() []uintptr {
	return []uintptr{unix.SYS_ARCH_PRCTL, unix.SYS_EPOLL_WAIT, unix.SYS_POLL, unix.SYS_PIPE, unix.SYS_GETRLIMIT}
}
