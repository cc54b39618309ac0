//go:build linux

// Package intruder tries what a hostile plugin would: for tests of confinement, which run it inside and, to see that it
// can succeed, outside. It owns no judgement: it says what each attempt came to. Targets come from the test, which
// makes them all itself; nothing else is touched, and each attempt undoes what it did or does nothing that lasts.
package intruder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Target is what an intruder goes for. What is zero is not tried.
type Target struct {
	Pid      int    // a process of the same user
	File     string // a file that its user may read
	Dir      string // a directory that its user may write
	Socket   string // a Unix socket with a path
	Admin    string // the admin socket of a gateway
	Abstract string // an abstract Unix socket, without the leading zero
	TCP      string // address of a listener
	Own      string // a directory of its own
}

// Outcome is what became of each attempt: "" when it succeeded.
type Outcome map[string]string

// Try makes all attempts.
func Try(t Target) Outcome {
	runtime.LockOSThread() // tracing belongs to a thread
	out := Outcome{}
	try := func(name string, do func() error) {
		out[name] = ""
		if err := do(); err != nil {
			out[name] = err.Error()
		}
	}
	files(t, try)
	if t.Pid != 0 {
		processes(t.Pid, try)
	}
	network(t, try)
	growth(t, try)
	calls(try)
	return out
}

type attempt = func(name string, do func() error)

func files(t Target, try attempt) {
	if t.File != "" {
		try("file.read", func() error { _, err := os.ReadFile(t.File); return err })
		try("file.link", func() error {
			at := filepath.Join(t.Own, "link")
			defer os.Remove(at)
			if err := os.Symlink(t.File, at); err != nil {
				return err
			}
			_, err := os.ReadFile(at)
			return err
		})
		attributes(t.File, try)
	}
	if t.Dir != "" {
		try("dir.list", func() error { _, err := os.ReadDir(t.Dir); return err })
		try("dir.write", func() error {
			at := filepath.Join(t.Dir, "planted")
			defer os.Remove(at)
			return os.WriteFile(at, []byte("x"), 0o600)
		})
		try("dir.remove", func() error {
			at := filepath.Join(t.Dir, "victim")
			return errors.Join(os.Rename(at, at+"2"), os.Rename(at+"2", at))
		})
	}
	try("dev.write", func() error { return os.WriteFile(os.DevNull, []byte("x"), 0) })
	try("system.read", func() error { _, err := os.ReadDir("/usr"); return err })
	if t.Own == "" {
		return
	}
	try("own.write", func() error { return os.WriteFile(filepath.Join(t.Own, "mine"), []byte("x"), 0o700) })
	try("own.mode", func() error {
		f, err := os.Create(filepath.Join(t.Own, "mode"))
		if err != nil {
			return err
		}
		return errors.Join(f.Chmod(0o400), f.Close())
	})
	try("own.setid", func() error {
		at := filepath.Join(t.Own, "setid")
		fd, err := unix.Open(at, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o4700)
		if err != nil {
			return err
		}
		return errors.Join(unix.Close(fd), os.Remove(at))
	})
	try("own.execute", func() error {
		at := filepath.Join(t.Own, "program")
		if err := os.WriteFile(at, []byte("#!/bin/true\n"), 0o700); err != nil {
			return err
		}
		return unix.Access(at, unix.X_OK) // the kernel's say on files alone; fork.exec tries more
	})
}

// attributes goes for what is said of a file, which takes no right to open it. All stays as it is.
func attributes(file string, try attempt) {
	var info unix.Stat_t
	if err := unix.Stat(file, &info); err != nil {
		return
	}
	mode := info.Mode & 0o7777
	try("file.mode", func() error { return unix.Chmod(file, mode) })
	try("file.mode.at", func() error { return unix.Fchmodat(unix.AT_FDCWD, file, mode, 0) })
	try("file.mode.open", func() error {
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_WRONLY|unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fchmod(fd, mode)
	})
	// By a descriptor that only reads, as of a file that paths.read names, or of a system's program that the plugin's user
	// owns.
	byDescriptor := func(do func(fd int) error) func() error {
		return func() error {
			fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return do(fd)
		}
	}
	try("file.fd.mode", byDescriptor(func(fd int) error { return unix.Fchmod(fd, mode) }))
	try("file.fd.owner", byDescriptor(func(fd int) error { return unix.Fchown(fd, -1, -1) }))
	try("file.fd.times", byDescriptor(func(fd int) error { return unix.Futimes(fd, nil) }))
	try("file.fd.attribute", byDescriptor(func(fd int) error {
		return errors.Join(unix.Fsetxattr(fd, "user.planted", []byte("x"), 0), unix.Fremovexattr(fd, "user.planted"))
	}))
	try("file.owner", func() error { return unix.Lchown(file, -1, -1) })
	try("file.times", func() error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, file, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_NOW}}, 0)
	})
}

// processes goes for another process of its user.
func processes(pid int, try attempt) {
	proc := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
	for _, name := range []string{"environ", "maps", "auxv"} {
		try("proc."+name, func() error { _, err := os.ReadFile(proc(name)); return err })
	}
	try("proc.mem", func() error {
		f, err := os.OpenFile(proc("mem"), os.O_RDONLY, 0)
		if err == nil {
			f.Close()
		}
		return err
	})
	try("proc.fd", func() error { _, err := os.Readlink(proc("fd/0")); return err })
	try("proc.cwd", func() error { _, err := os.Readlink(proc("cwd")); return err })
	try("ptrace", func() error {
		if err := unix.PtraceSeize(pid); err != nil {
			return err
		}
		if err := unix.PtraceInterrupt(pid); err != nil {
			return err
		}
		var st unix.WaitStatus
		if _, err := unix.Wait4(pid, &st, unix.WALL, nil); err != nil {
			return err
		}
		return unix.PtraceDetach(pid)
	})
	try("vm.read", func() error { return vmRead(pid) })
	try("pidfd.getfd", func() error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		got, err := unix.PidfdGetfd(fd, 0, 0)
		if err == nil {
			unix.Close(got)
		}
		return err
	})
	try("signal.kill", func() error { return unix.Kill(pid, unix.SIGCONT) })
	try("signal.thread", func() error { return call(unix.SYS_TKILL, uintptr(pid), uintptr(unix.SIGCONT)) })
	try("signal.queue", func() error { return unix.Tgkill(pid, pid, unix.SIGCONT) })
	try("signal.pidfd", func() error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
	})
	try("limit", func() error {
		var now unix.Rlimit
		return unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &now)
	})
	try("priority", func() error {
		now, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
		if err != nil {
			return err
		}
		return unix.Setpriority(unix.PRIO_PROCESS, pid, 20-now)
	})
	try("processors", func() error {
		var all unix.CPUSet
		for n := range 1024 {
			all.Set(n)
		}
		return unix.SchedSetaffinity(0, &all)
	})
	try("affinity", func() error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(pid, &set); err != nil {
			return err
		}
		return unix.SchedSetaffinity(pid, &set)
	})
}

func vmRead(pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	at, err := strconv.ParseUint(string(fields[23]), 10, 64) // where its code begins; 0 for who may not know
	if err != nil {
		return err
	}
	if at == 0 {
		at = 0x400000
	}
	buf := make([]byte, 8)
	_, err = unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &buf[0], Len: 8}},
		[]unix.RemoteIovec{{Base: uintptr(at), Len: 8}}, 0)
	return err
}

// calls are system calls by number, with arguments that are wrong: what they come to says whether the kernel looked at
// them.
func calls(try attempt) {
	const bad = ^uintptr(0)
	for _, c := range []struct {
		name string
		args [4]uintptr
	}{
		{"bpf", [4]uintptr{unix.SYS_BPF, bad, bad, bad}},
		{"perf", [4]uintptr{unix.SYS_PERF_EVENT_OPEN, bad, bad, bad}},
		{"userfaultfd", [4]uintptr{unix.SYS_USERFAULTFD, 0x40000000}},
		{"io_uring", [4]uintptr{unix.SYS_IO_URING_SETUP, bad, bad}},
		{"keyring", [4]uintptr{unix.SYS_KEYCTL, 0x7fffffff}},
		{"add_key", [4]uintptr{unix.SYS_ADD_KEY, bad, bad, bad}},
		{"personality", [4]uintptr{unix.SYS_PERSONALITY, 0x0040000}},
		{"mount", [4]uintptr{unix.SYS_MOUNT, bad, bad, bad}},
		{"open_tree", [4]uintptr{unix.SYS_OPEN_TREE, bad, bad, bad}},
		{"unshare", [4]uintptr{unix.SYS_UNSHARE, unix.CLONE_NEWUSER | unix.CLONE_NEWPID}},
		{"setns", [4]uintptr{unix.SYS_SETNS, bad, 0}},
		{"clone.spaces", [4]uintptr{unix.SYS_CLONE, unix.CLONE_NEWUSER | unix.CLONE_THREAD}},
		{"clone3", [4]uintptr{unix.SYS_CLONE3, 0, 0}},
		{"by_handle", [4]uintptr{unix.SYS_OPEN_BY_HANDLE_AT, bad, bad, 0}},
		{"module", [4]uintptr{unix.SYS_FINIT_MODULE, bad, bad, 0}},
		{"kexec", [4]uintptr{unix.SYS_KEXEC_LOAD, bad, bad, bad}},
		{"process_madvise", [4]uintptr{unix.SYS_PROCESS_MADVISE, bad, 0, 0}},
		{"terminal.push", [4]uintptr{unix.SYS_IOCTL, 0, unix.TIOCSTI, 0}},
		{"signal.own", [4]uintptr{unix.SYS_FCNTL, 0, 8, 1}},
	} {
		try("call."+c.name, func() error { return call(c.args[0], c.args[1], c.args[2], c.args[3]) })
	}
}

func call(args ...uintptr) error {
	var a [4]uintptr
	copy(a[:], args)
	if _, _, failed := unix.Syscall(a[0], a[1], a[2], a[3]); failed != 0 {
		return failed
	}
	return nil
}

func descriptor(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
