//go:build linux && amd64

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// strace can make the n-th call of a kind fail, but it counts for each thread, and Go moves work between threads: most
// places of a run would never be reached. So these tests trace the program themselves. All threads share one count, of
// nothing but what changes a directory.

// faultOrder is what a tracer is told, in the environment variable of that name.
type faultOrder struct {
	Args []string // the program and its arguments
	Dir  string   // what changes below it is counted
	At   int      // which of these calls fails; 0: none
	Log  string   // gets a line for each counted call up to the one that fails
}

const faultEnv = "YETT_TEST_FAULT"

// Constants of ptrace(2) that package syscall has not.
const (
	traceSysGood    = 0x1
	traceFork       = 0x2
	traceVfork      = 0x4
	traceClone      = 0x8
	traceExitKill   = 0x100000
	traceGetInfo    = 0x420e
	infoEntry       = 1
	infoExit        = 2
	sysRenameat2    = 316
	sysPwritev2     = 328
	sysOpenat2      = 437
	sysSyncFileRnge = 277
	sysFallocate    = 285
)

// onFile are the calls that change the file of their first argument, onPath those that change what the argument of that
// number names; in front of it is the directory's descriptor, if any.
var (
	onFile = map[uint64]string{syscall.SYS_WRITE: "write", syscall.SYS_PWRITE64: "pwrite64", syscall.SYS_WRITEV: "writev",
		sysPwritev2: "pwritev2", syscall.SYS_PWRITEV: "pwritev", syscall.SYS_FSYNC: "fsync",
		syscall.SYS_FDATASYNC: "fdatasync", sysSyncFileRnge: "sync_file_range", syscall.SYS_FTRUNCATE: "ftruncate",
		sysFallocate: "fallocate", syscall.SYS_FCHMOD: "fchmod"}
	onPath = map[uint64]struct {
		name string
		arg  int
		at   int // the argument with the directory's descriptor, or -1
	}{
		syscall.SYS_RENAME: {"rename", 1, -1}, syscall.SYS_RENAMEAT: {"renameat", 3, 2}, sysRenameat2: {"renameat2", 3, 2},
		syscall.SYS_OPENAT: {"openat", 1, 0}, syscall.SYS_MKDIRAT: {"mkdirat", 1, 0}, syscall.SYS_MKDIR: {"mkdir", 0, -1},
		syscall.SYS_UNLINKAT: {"unlinkat", 1, 0}, syscall.SYS_UNLINK: {"unlink", 0, -1},
		syscall.SYS_LINKAT: {"linkat", 3, 2}, syscall.SYS_LINK: {"link", 1, -1}, syscall.SYS_TRUNCATE: {"truncate", 0, -1},
	}
)

// traced runs an order, if there is one, and gives the exit code of the program.
func traced() (code int, is bool) {
	text := os.Getenv(faultEnv)
	if text == "" {
		return 0, false
	}
	runtime.LockOSThread() // a tracer is a thread
	var o faultOrder
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		code, err = o.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tracer:", err)
		return 99, true
	}
	return code, true
}

type tracer struct {
	faultOrder
	log    *os.File
	n      int
	failed int          // the thread in the call that fails
	seen   map[int]bool // threads that have stopped once
}

func (o faultOrder) run() (int, error) {
	log, err := os.Create(o.Log)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	env := []string{}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, faultEnv+"=") {
			env = append(env, e)
		}
	}
	main, err := syscall.ForkExec(o.Args[0], o.Args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return 0, err
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(main, &ws, 0, nil); err != nil {
		return 0, err
	}
	err = syscall.PtraceSetOptions(main, traceSysGood|traceFork|traceVfork|traceClone|traceExitKill)
	if err != nil {
		return 0, fmt.Errorf("PTRACE_SETOPTIONS: %w", err)
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	go func() {
		for range told {
			_ = syscall.Kill(main, syscall.SIGTERM) // it may have ended
		}
	}()
	t := &tracer{faultOrder: o, log: log, seen: map[int]bool{main: true}}
	for pid, sig := main, 0; ; {
		goOn := syscall.PtraceSyscall
		if t.At > 0 && t.n >= t.At && t.failed == 0 {
			goOn = syscall.PtraceCont // nothing more fails
		}
		if err := goOn(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, fmt.Errorf("go on: %w", err)
		}
		for { // what has ended needs no answer
			if pid, err = syscall.Wait4(-1, &ws, syscall.WALL, nil); errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				return 0, fmt.Errorf("wait4: %w", err)
			}
			if ws.Stopped() {
				break
			}
			if pid == main && ws.Exited() {
				fmt.Fprintln(log, "end", t.n)
				return ws.ExitStatus(), nil
			}
			if pid == main {
				return 128 + int(ws.Signal()), nil
			}
		}
		if sig, err = t.stopped(pid, ws); err != nil {
			return 0, err
		}
	}
}

// stopped deals with a stop of a thread, and gives the signal that it goes on with.
func (t *tracer) stopped(pid int, ws syscall.WaitStatus) (sig int, err error) {
	first := !t.seen[pid]
	t.seen[pid] = true
	switch s := ws.StopSignal(); {
	case s == syscall.SIGTRAP|0x80:
		return 0, t.call(pid)
	case s == syscall.SIGTRAP, s == syscall.SIGSTOP && first:
		return 0, nil // an event, or a thread that begins
	default:
		return int(s), nil
	}
}

// callInfo is struct ptrace_syscall_info.
type callInfo struct {
	op      uint8
	_       [3]uint8
	_       uint32
	_, _    uint64
	nr      uint64
	args    [6]uint64
	_, _    uint64
	_, _, _ uint64
}

func (t *tracer) call(pid int) error {
	var info callInfo
	_, _, no := syscall.Syscall6(syscall.SYS_PTRACE, traceGetInfo, uintptr(pid), unsafe.Sizeof(info),
		uintptr(unsafe.Pointer(&info)), 0, 0)
	if no == syscall.ESRCH {
		return nil
	}
	if no != 0 {
		return fmt.Errorf("PTRACE_GET_SYSCALL_INFO: %w", no)
	}
	switch {
	case info.op == infoExit && t.failed == pid:
		t.failed = 0
		eio := int64(-int(syscall.EIO))
		return t.registers(pid, func(r *syscall.PtraceRegs) { r.Rax = uint64(eio) })
	case info.op != infoEntry || t.At > 0 && t.n >= t.At:
		return nil
	}
	name, path := t.changes(pid, &info)
	if name == "" || path != t.Dir && !strings.HasPrefix(path, t.Dir+"/") {
		return nil
	}
	t.n++
	fmt.Fprintln(t.log, "call", t.n, name, path)
	if t.n != t.At {
		return nil
	}
	t.failed = pid
	return t.registers(pid, func(r *syscall.PtraceRegs) { r.Orig_rax = ^uint64(0) })
}

func (t *tracer) registers(pid int, change func(*syscall.PtraceRegs)) error {
	var r syscall.PtraceRegs
	err := syscall.PtraceGetRegs(pid, &r)
	if err == nil {
		change(&r)
		err = syscall.PtraceSetRegs(pid, &r)
	}
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// changes gives the name of a call that changes a file, and the file's path.
func (t *tracer) changes(pid int, info *callInfo) (name, path string) {
	if name, ok := onFile[info.nr]; ok {
		path, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(int(int32(info.args[0]))))
		if err != nil {
			return "", ""
		}
		return name, strings.TrimSuffix(path, " (deleted)")
	}
	on, ok := onPath[info.nr]
	if !ok {
		return "", ""
	}
	if info.nr == syscall.SYS_OPENAT && info.args[2]&(syscall.O_WRONLY|syscall.O_RDWR|syscall.O_CREAT) == 0 {
		return "", ""
	}
	buf := make([]byte, 512)
	n, err := syscall.PtracePeekData(pid, uintptr(info.args[on.arg]), buf)
	if end := bytes.IndexByte(buf[:n], 0); end >= 0 {
		path = string(buf[:end])
	} else if err != nil {
		return "", ""
	}
	if filepath.IsAbs(path) || on.at < 0 {
		return on.name, filepath.Clean(path)
	}
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(int(int32(info.args[on.at]))))
	if err != nil {
		return "", ""
	}
	return on.name, filepath.Join(dir, path)
}
