//go:build amd64 || arm64

package confine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// working is all that a module worker asks of the kernel once it runs: memory, threads, time, and the descriptors that
// it has. There is nothing in it that opens, connects, executes or names another process.
func working() []uintptr {
	return append(ownCalls(),
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_CLOSE,
		unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_FCNTL, unix.SYS_FTRUNCATE, unix.SYS_DUP, unix.SYS_PIPE2,
		unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MREMAP, unix.SYS_MINCORE, unix.SYS_BRK,
		unix.SYS_MEMFD_CREATE, unix.SYS_MLOCK, unix.SYS_MUNLOCK, unix.SYS_MEMBARRIER,
		unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_FUTEX, unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_RSEQ,
		unix.SYS_SCHED_YIELD, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_GETATTR,
		unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETTID, unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETUID, unix.SYS_GETEUID,
		unix.SYS_GETCPU, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
		unix.SYS_TGKILL, unix.SYS_KILL, unix.SYS_RESTART_SYSCALL, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
		unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY,
		unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE, unix.SYS_GETRANDOM,
		unix.SYS_GETRUSAGE, unix.SYS_PRLIMIT64, unix.SYS_PRCTL, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL,
		unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PPOLL, unix.SYS_UNAME, unix.SYS_SYSINFO,
	)
}

// Seal is the second half of a worker's confinement, which the worker enters itself before it reads anything: until
// then Go's runtime and the loader have to open files. It holds for all threads. In a process that nobody confined it
// does nothing.
func Seal() error {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	if err != nil || mode == 0 { // the gateway was told that there are no filters here, or did not ask for them
		return nil
	}
	program, err := sealing(uint32(os.Getpid()))
	if err != nil {
		return err
	}
	raw, err := assemble(program)
	if err != nil {
		return err
	}
	const allThreads = 1
	if err := errors.Join(Hide(), install(raw, allThreads)); err != nil {
		return fmt.Errorf("seal the worker: %w", err)
	}
	return nil
}

// sealing is the filter of a worker with this number.
func sealing(own uint32) ([]bpf.Instruction, error) {
	rules := append(children(false), signals(own, true)...)
	return allowing(working(), append(append(rules, others(own)...), special(false)...))
}
