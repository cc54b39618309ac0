package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/testkit/intruder"
)

// intrude tries everything on what FAKE_ARG names, a Target in JSON, and says on stderr what succeeded. A process of -1
// is the host's.
func intrude(f *fake) {
	line := "intruder succeeded with [" + strings.Join(reached(goal(f)), " ") + "]\n"
	if _, err := f.stderr.WriteString(line); err != nil {
		f.die("stderr: %v", err)
	}
}

func goal(f *fake) (at intruder.Target) {
	if err := json.Unmarshal([]byte(f.arg), &at); err != nil {
		f.die("FAKE_ARG: %v", err)
	}
	if at.Own != "" { // as seen from its working directory
		own, err := filepath.Abs(at.Own)
		if err != nil {
			f.die("FAKE_ARG: %v", err)
		}
		at.Own = own
	}
	if at.Pid < 0 {
		at.Pid = os.Getppid()
	}
	return at
}

// reached names what succeeded of all that an intruder tries.
func reached(at intruder.Target) []string {
	out := intruder.Try(at)
	maps.DeleteFunc(out, func(_, failed string) bool { return failed != "" })
	return slices.Sorted(maps.Keys(out))
}

// harass goes for everything over and over: what FAKE_ARG names, processes, memory, disk and descriptors. Each of them
// is taken until no more is given, let go, and taken again, until stop is closed.
func harass(f *fake, stop <-chan struct{}) {
	at := goal(f)
	for _, take := range []func(){
		func() { reached(at) },
		func() { _ = exec.Command("/bin/true").Run() }, // refused, or one process of no account
		func() { fillMemory(64 << 30) },
		func() { fillDisk(filepath.Join(at.Own, "filler"), 64<<30) },
		fillTable,
	} {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					take()
				}
			}
		}()
	}
}

// fillMemory touches so many bytes, or as many as it gets, and lets them go. It asks the kernel itself: Go's runtime
// would end the process.
func fillMemory(most int) {
	const step = 16 << 20
	var all [][]byte
	for got := 0; got < most; got += step {
		b, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			break
		}
		for i := 0; i < step; i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	for _, b := range all {
		_ = unix.Munmap(b) // it is ours
	}
}

// fillDisk writes one file until it is so long or no more is allowed, and removes it.
func fillDisk(path string, most int) {
	file, err := os.Create(path)
	if err != nil {
		return
	}
	block := make([]byte, 1<<20)
	for got := 0; got < most && err == nil; got += len(block) {
		_, err = file.Write(block)
	}
	_ = file.Close()    // what it holds goes with it
	_ = os.Remove(path) // the next one truncates it
}

// fillTable opens files until no more are allowed, and closes them.
func fillTable() {
	var all []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		all = append(all, f)
	}
	for _, f := range all {
		_ = f.Close() // nothing was written to it
	}
}
