//go:build linux

// Package intruder tries what a hostile plugin would: for tests of confinement, which run it inside and, to see that it can succeed,
// outside. It owns no judgement: it says what each attempt came to. Targets come from the test, which makes them all itself; nothing
// else is touched, and each attempt undoes what it did or does nothing that lasts.
package intruder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

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
	// By a descriptor that only reads, as of a file that paths.read names, or of a system's program that the plugin's user owns.
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
	_, err = unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &buf[0], Len: 8}}, []unix.RemoteIovec{{Base: uintptr(at), Len: 8}}, 0)
	return err
}

func network(t Target, try attempt) {
	dial := func(network, address string) func() error {
		return func() error {
			c, err := net.DialTimeout(network, address, 5*time.Second)
			if err == nil {
				c.Close()
			}
			return err
		}
	}
	if t.Socket != "" {
		try("unix.path", dial("unix", t.Socket))
	}
	if t.Admin != "" {
		try("admin.key", func() error { return makeKey(t.Admin) })
	}
	if t.Abstract != "" {
		try("unix.abstract", dial("unix", "@"+t.Abstract))
	}
	if t.TCP != "" {
		try("tcp.connect", dial("tcp", t.TCP))
		try("tcp.multipath", func() error { return aside(t.TCP, unix.IPPROTO_MPTCP, 0) })
		try("tcp.fastopen", func() error { return aside(t.TCP, 0, unix.MSG_FASTOPEN) })
	}
	try("tcp.listen", func() error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	})
	try("udp", dial("udp", "127.0.0.1:9"))
	try("packet", func() error { return descriptor(unix.Socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)) })
	if t.Own == "" {
		return
	}
	for name, kind := range map[string]int{"unix.pair": unix.SOCK_DGRAM, "unix.pair.raw": unix.SOCK_RAW | unix.SOCK_CLOEXEC} {
		try(name, func() error { return sendFromPair(kind, filepath.Join(t.Own, name)) })
	}
	try("unix.listen", func() error {
		l, err := net.Listen("unix", filepath.Join(t.Own, "s"))
		if err == nil {
			l.Close()
		}
		return err
	})
}

// sendFromPair sends from one end of a pair to a socket that listens elsewhere: any datagram socket with a path, as a machine's log has. The
// other end stands for it where no such socket can be made.
func sendFromPair(kind int, path string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	to, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return nil // the pair alone reaches those of others
	}
	defer unix.Close(to)
	defer os.Remove(path)
	at := &unix.SockaddrUnix{Name: path}
	if err := unix.Bind(to, at); err != nil {
		return err
	}
	return unix.Sendto(pair[0], []byte("x"), unix.MSG_DONTWAIT, at)
}

// makeKey asks a gateway's admin socket for a key.
func makeKey(socket string) error {
	c, err := net.DialTimeout("unix", socket, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	const body = `{"name":"planted"}`
	if _, err := fmt.Fprintf(c, "POST /keys HTTP/1.1\r\nHost: admin\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if err == nil && !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) {
		err = fmt.Errorf("it answers %q", answer)
	}
	return err
}

// aside connects in a way that is not plain TCP's connect: by another protocol, or by sending with a flag.
func aside(address string, protocol, flag int) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	at := &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	if flag == 0 {
		return unix.Connect(fd, at)
	}
	return unix.Sendto(fd, []byte("x"), flag, at)
}

// growth is what costs the machine: processes, and memory that no limit counts.
func growth(t Target, try attempt) {
	try("fork", func() error { return exec.Command("/bin/true").Run() })
	if t.Own != "" {
		try("fork.exec", func() error {
			at := filepath.Join(t.Own, "copied")
			if err := copyFile("/bin/true", at); err != nil {
				return err
			}
			return exec.Command(at).Run()
		})
	}
	try("memory.file", func() error { return descriptor(unix.MemfdCreate("m", 0)) })
	try("memory.shared", func() error {
		b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
		if err == nil {
			err = unix.Munmap(b)
		}
		return err
	})
	try("memory.device", func() error {
		f, err := os.OpenFile("/dev/zero", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		b, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			err = unix.Munmap(b)
		}
		return err
	})
	try("memory.system", func() error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600)
		if err == nil {
			_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
		return err
	})
	try("hide", func() error {
		defer unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	})
	try("outlive", func() error {
		defer unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
		return unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)
	})
	try("thread", func() error {
		done := make(chan error)
		go func() { runtime.LockOSThread(); done <- nil }() // the thread ends with it
		return <-done
	})
}

// calls are system calls by number, with arguments that are wrong: what they come to says whether the kernel looked at them.
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

// Fill writes files until it is refused or has written so many bytes, and says how many.
func Fill(dir string, most int64) (written int64) {
	block := make([]byte, 1<<20)
	for n := 0; written < most; n++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("fill-%d", n)), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return written
		}
		for range 64 {
			got, err := f.Write(block)
			written += int64(got)
			if err != nil {
				break
			}
		}
		f.Close()
		if written == 0 {
			return 0
		}
	}
	return written
}

// Map reads single bytes of mappings that are never written, which takes a page table each and no private memory, until these tables take so
// many bytes or no more are given.
func Map(most int) {
	const each, table, size = 2 << 20, 4096, 64 << 30
	read := byte(0)
	defer func() { runtime.KeepAlive(read) }() // else nothing would be read
	for taken := 0; taken < most; {
		b, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			return
		}
		for at := 0; at < size && taken < most; at += each {
			read += b[at]
			taken += table
		}
	}
}

// Threads starts threads until so many run or no more are allowed, and keeps them.
func Threads(most int) {
	for range most {
		go func() {
			runtime.LockOSThread()
			select {}
		}()
	}
}
