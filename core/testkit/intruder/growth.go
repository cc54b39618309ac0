//go:build linux

package intruder

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

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

// Map reads single bytes of mappings that are never written, which takes a page table each and no private memory, until
// these tables take so many bytes or no more are given.
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
