//go:build amd64 || arm64

package confine

import "golang.org/x/sys/unix"

// cond is what an argument of a system call must be. Arguments are compared in their lower 32 bits: nearly all that are
// looked at here are ints, or flags of which the kernel looks at no others.
type cond struct {
	arg  int
	mask uint32 // 0: all bits
	is   []uint32
	not  bool // none of is, instead of one of them
	high bool // its upper 32 bits, of a pointer
}

// rule refuses one system call, always or where one of its clauses holds. A clause holds when all its conditions do.
type rule struct {
	number  uintptr
	errno   unix.Errno
	clauses [][]cond
}

func (r rule) when(conds ...cond) rule {
	r.clauses = append(append([][]cond{}, r.clauses...), conds)
	return r
}

func is(arg int, values ...uint32) cond  { return cond{arg: arg, is: values} }
func not(arg int, values ...uint32) cond { return cond{arg: arg, is: values, not: true} }
func bits(arg int, mask uint32, values ...uint32) cond {
	return cond{arg: arg, mask: mask, is: values}
}

// pointer wants one, in one of its halves.
func pointer(arg int, high bool) cond {
	return cond{arg: arg, is: []uint32{0}, not: true, high: high}
}
func anyBit(arg int, mask uint32) cond { return cond{arg: arg, mask: mask, is: []uint32{0}, not: true} }

func refuse(numbers ...uintptr) []rule {
	all := make([]rule, len(numbers))
	for i, n := range numbers {
		all[i] = rule{number: n, errno: unix.EPERM}
	}
	return all
}

// Numbers that are the same wherever we have a filter, and that have no name in x/sys.
const (
	cmdSetOwn, cmdSetOwnEx     = 8, 15          // fcntl: whom to signal
	ioSetOwn, ioSetGroup       = 0x8901, 0x8902 // ioctl: the same for sockets
	ioPush, ioLinux, ioSetDisc = unix.TIOCSTI, 0x541c, unix.TIOCSETD
	newTime                    = 0x80

	pipeDefault = 1 << 16 // bytes that a pipe holds unless somebody asks for more
	setFilter   = 1       // seccomp: add a filter

	// ioctl: attributes of a file, by any descriptor.
	ioSetFlags, ioSetFlags32, ioSetProject, ioSetVersion = 0x40086602, 0x40046602, 0x401c5820, 0x40087602

	spaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET
	personalityNow = 0xffffffff
)

// always is what no confined program may do. Nearly all of it takes a capability too: the filter is there for the
// kernel's mistakes, and for what a program may do to others of its own user without any capability.
func always() []rule {
	return append(refuse(
		// Other processes: to trace them, to read and write their memory, to take their descriptors.
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
		unix.SYS_PROCESS_MRELEASE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
		unix.SYS_GET_ROBUST_LIST,
		// Wide parts of the kernel that plugins have no need of.
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
		unix.SYS_IO_URING_REGISTER, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK, unix.SYS_LOOKUP_DCOOKIE,
		unix.SYS_NFSSERVCTL, unix.SYS_MEMFD_SECRET, unix.SYS_VMSPLICE, unix.SYS_REMAP_FILE_PAGES,
		// Keys of the kernel's keyrings, which belong to users and not to processes.
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		// Namespaces, and files by other ways than their paths.
		unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
		unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		// The machine.
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_ACCT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
		unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
		unix.SYS_SYSLOG,
		// What others wrote: a program may write its own files to disk, and not keep the disk busy with everybody's.
		unix.SYS_SYNC, unix.SYS_SYNCFS,
		// Memory and queues that outlive the process and that no limit of it counts.
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
		unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	), machine()...)
}

// attributes is what changes a file's mode, owner, times or attributes: Landlock looks at none of it, so that a program
// could shut its user's files, or open them to everybody. A descriptor is no better than a path: one that only reads is
// enough, and a program reads the system's programs, which are its own where it runs as root. It sets the mode of a
// file as it makes it, and never one with which others run the file as the program's user or group. A descriptor that
// neither reads nor writes (access mode 3) passes Landlock too, and is refused; what openat2 asks for is in memory,
// where a filter cannot look.
func attributes() []rule {
	const (
		neither = unix.O_RDONLY | unix.O_WRONLY | unix.O_RDWR
		// the mode of a call that makes nothing is whatever lies there
		makes  = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
		runsAs = unix.S_ISUID | unix.S_ISGID
	)
	all := append(refuse(unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_SETXATTR,
		unix.SYS_LSETXATTR, unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
		unix.SYS_FILE_SETATTR, unix.SYS_FCHMOD, unix.SYS_FCHOWN, unix.SYS_FSETXATTR, unix.SYS_FREMOVEXATTR),
		oldAttributes()...)
	for _, o := range opens() {
		all = append(all, rule{number: o.number, errno: unix.EPERM}.when(bits(o.flags, neither, neither)).
			when(anyBit(o.flags, makes), anyBit(o.flags+1, runsAs)))
	}
	for number, mode := range makers() {
		all = append(all, rule{number: number, errno: unix.EPERM}.when(anyBit(mode, runsAs)))
	}
	return append(all, rule{number: unix.SYS_OPENAT2, errno: unix.ENOSYS})
}

// opener is a system call that opens a file, and which of its arguments has the flags. The mode comes behind them.
type opener struct {
	number uintptr
	flags  int
}

// special is what is refused by its arguments. hides: it may still make itself undumpable, as a worker does on its way.
func special(hides bool) []rule {
	// A program that hides from the gateway cannot be attributed, and one without a death signal may outlive it.
	prctl := rule{number: unix.SYS_PRCTL, errno: unix.EPERM}.when(is(0, unix.PR_SET_PDEATHSIG),
		not(1, uint32(unix.SIGKILL)))
	if !hides {
		prctl = prctl.when(is(0, unix.PR_SET_DUMPABLE, unix.PR_SET_SECCOMP))
	}
	return []rule{
		prctl,
		// its flags are in memory, where a filter cannot look: callers use clone then
		{number: unix.SYS_CLONE3, errno: unix.ENOSYS},
		rule{number: unix.SYS_IOCTL, errno: unix.EPERM}.when(is(1, ioPush, ioLinux, ioSetDisc, ioSetOwn, ioSetGroup,
			ioSetFlags, ioSetFlags32, ioSetProject, ioSetVersion)),
		rule{number: unix.SYS_FCNTL, errno: unix.EPERM}.when(is(1, cmdSetOwn, cmdSetOwnEx, unix.F_SETLEASE, unix.F_NOTIFY)).
			when(is(1, unix.F_SETPIPE_SZ), anyBit(2, ^uint32(2*pipeDefault-1))).
			when(is(1, unix.F_SETPIPE_SZ), anyBit(2, pipeDefault), anyBit(2, pipeDefault-1)),
		rule{number: unix.SYS_PERSONALITY, errno: unix.EPERM}.when(not(0, 0, personalityNow)),
	}
}

// hoards refuses what takes memory of the kernel that nobody can count for a process: filters of sockets and of system
// calls, of which each thread may have its own, and Landlock's rules; and contexts of asynchronous I/O, of which one
// program can take all that the machine has (fs.aio-max-nr). Who asks for a larger buffer of what it sends is told that
// it has it, as the kernel does beyond a bound of its own: few programs can go on without.
func hoards() []rule {
	return []rule{
		{number: unix.SYS_LANDLOCK_CREATE_RULESET, errno: unix.ENOSYS}, {number: unix.SYS_LANDLOCK_ADD_RULE, errno: unix.ENOSYS},
		{number: unix.SYS_IO_SETUP, errno: unix.ENOSYS},
		rule{number: unix.SYS_SECCOMP, errno: unix.EPERM}.when(is(0, setFilter)),
		rule{number: unix.SYS_SETSOCKOPT, errno: granted}.when(is(1, unix.SOL_SOCKET), is(2, unix.SO_SNDBUF)),
		rule{number: unix.SYS_SETSOCKOPT, errno: unix.EPERM}.when(is(1, unix.SOL_SOCKET),
			is(2, unix.SO_ATTACH_FILTER, unix.SO_ATTACH_REUSEPORT_CBPF)),
	}
}

// granted is the error that a program takes for success.
const granted unix.Errno = 0

// shared memory that no limit counts: of use between processes only.
func private() []rule {
	return append(refuse(unix.SYS_MEMFD_CREATE), rule{number: unix.SYS_MMAP, errno: unix.EPERM}.
		when(bits(3, unix.MAP_SHARED|unix.MAP_ANONYMOUS, unix.MAP_SHARED|unix.MAP_ANONYMOUS)).
		when(anyBit(3, unix.MAP_GROWSDOWN)))
}

// others is what reaches other processes of the same user by their numbers: own is the only number that may be named,
// beside 0. On which processors it runs stays as it is: the gateway has one for itself.
func others(own uint32) []rule {
	all := refuse(unix.SYS_SCHED_SETAFFINITY)
	for _, n := range []uintptr{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM,
		unix.SYS_SCHED_SETATTR} {
		r := rule{number: n, errno: unix.EPERM}.when(not(0, 0, own))
		if n == unix.SYS_PRLIMIT64 { // its origin stays as it is
			r = r.when(is(1, unix.RLIMIT_RSS), pointer(2, false)).when(is(1, unix.RLIMIT_RSS), pointer(2, true))
		}
		all = append(all, r)
	}
	all = append(all, rule{number: unix.SYS_SETRLIMIT, errno: unix.EPERM}.when(is(0, unix.RLIMIT_RSS)))
	// The first argument says what the number is of; 0 (PRIO_PROCESS) and 1 (IOPRIO_WHO_PROCESS) are processes.
	return append(all, rule{number: unix.SYS_SETPRIORITY,
		errno: unix.EPERM}.when(not(0, unix.PRIO_PROCESS)).when(not(1, 0, own)),
		rule{number: unix.SYS_IOPRIO_SET, errno: unix.EPERM}.when(not(0, 1)).when(not(1, 0, own)))
}

// signals refuses to signal anybody but the process itself. scoped: the kernel keeps signals within the domain too.
func signals(own uint32, scoped bool) []rule {
	var all []rule
	for _, n := range []uintptr{unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO} {
		all = append(all, rule{number: n, errno: unix.EPERM}.when(not(0, 0, own)))
	}
	if !scoped { // these name threads, or descriptors
		all = append(all, refuse(unix.SYS_TKILL, unix.SYS_PIDFD_SEND_SIGNAL)...)
	}
	return all
}

// children refuses new processes, and in any case new namespaces and threads with descriptors of their own, of which
// each would have as many as the process may, and which nobody sees. Threads are not processes.
func children(allowed bool) []rule {
	clone := rule{number: unix.SYS_CLONE, errno: unix.EPERM}.when(anyBit(0, spaces)).
		when(bits(0, unix.CLONE_THREAD|unix.CLONE_FILES, unix.CLONE_THREAD))
	apart := rule{number: unix.SYS_CLOSE_RANGE, errno: unix.EPERM}.when(anyBit(2, unix.CLOSE_RANGE_UNSHARE))
	if allowed {
		return []rule{clone, apart}
	}
	return append(oldForks(), clone.when(bits(0, unix.CLONE_THREAD, 0)), apart)
}

// sockets refuses the families of sockets that plugins have no need of, all but local listeners without a network, and
// where ports are restricted each way around Landlock, which looks at bind and connect of plain TCP.
func (p *Policy) sockets() []rule {
	socket := rule{number: unix.SYS_SOCKET, errno: unix.EACCES}
	pair := rule{number: unix.SYS_SOCKETPAIR, errno: unix.EACCES}.when(not(0, unix.AF_UNIX))
	if p.none() {
		const kind = 0xf // the rest are flags
		// One end of a pair of datagrams sends to any datagram socket that has a path.
		pair = pair.when(cond{arg: 1, mask: kind, is: []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}, not: true})
		return append([]rule{socket.when(not(0, unix.AF_UNIX)).when(cond{arg: 1, mask: kind, is: []uint32{unix.SOCK_STREAM},
			not: true}), pair}, rule{number: unix.SYS_CONNECT, errno: unix.EACCES})
	}
	socket = socket.when(not(0, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)).when(is(0, unix.AF_NETLINK),
		not(2, unix.NETLINK_ROUTE))
	if p.Network == nil {
		return []rule{socket, pair}
	}
	// such as multipath TCP
	socket = socket.when(is(0, unix.AF_INET, unix.AF_INET6), not(2, 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP))
	all := []rule{socket, pair}
	for number, flags := range map[uintptr]int{unix.SYS_SENDTO: 3, unix.SYS_SENDMSG: 2, unix.SYS_SENDMMSG: 3} {
		// connects without a connect
		all = append(all, rule{number: number, errno: unix.EACCES}.when(anyBit(flags, unix.MSG_FASTOPEN)))
	}
	return all
}

// rules are those of a policy for the process with this number.
func (p *Policy) rules(own uint32, scoped bool) []rule {
	all := append(append(append(always(), attributes()...), special(p.Worker)...), others(own)...)
	if p.Worker {
		all = append(all, refuse(unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT)...)
		return append(append(all, children(false)...), signals(own, scoped)...)
	}
	all = append(append(append(all, hoards()...), p.sockets()...), children(p.Children)...)
	if !p.Children {
		all = append(append(all, private()...), signals(own, scoped)...)
	}
	return all
}
