package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// otherNumbers is a number that no call has: this machine has one interface.
const otherNumbers = 1 << 31

func machine() []rule       { return nil }
func oldForks() []rule      { return nil }
func oldAttributes() []rule { return nil }

// makers are what makes a file besides, and which argument has the mode.
func makers() map[uintptr]int { return map[uintptr]int{unix.SYS_MKNODAT: 2} }

func opens() []opener { return []opener{{unix.SYS_OPENAT, 2}} }

// ownCalls are what Go's runtime needs here beside the list of all machines.
func ownCalls() []uintptr { return []uintptr{unix.SYS_GETRLIMIT} }
