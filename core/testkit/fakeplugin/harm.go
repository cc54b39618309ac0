package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// surroundings are what a plugin sees of where it runs.
func surroundings() map[string]any {
	dir, _ := os.Getwd() // "" says that it has none
	s := map[string]any{"env": os.Environ(), "args": os.Args, "dir": dir, "uid": os.Getuid(), "gid": os.Getgid()}
	if groups, err := os.Getgroups(); err == nil {
		s["groups"] = groups
	}
	open := map[string]string{}
	entries, _ := os.ReadDir("/proc/self/fd") // elsewhere there is none
	for _, e := range entries {
		open[e.Name()], _ = os.Readlink(filepath.Join("/proc/self/fd", e.Name())) // the directory's own is gone
	}
	s["open"] = open
	for _, name := range []string{"limits", "status", "cmdline"} {
		text, _ := os.ReadFile(filepath.Join("/proc/self", name)) // elsewhere there is none
		s[name] = strings.ReplaceAll(string(text), "\x00", " ")
	}
	return s
}

// hog touches memory until it has so much of it.
func hog(most int) {
	var all [][]byte
	for got := 0; got < most; got += 16 << 20 {
		block := make([]byte, 16<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		all = append(all, block)
	}
	kept.Store(hoard{all})
}

// kept keeps what a fake hoards from being collected.
var kept atomic.Value

type hoard struct{ of any }

// openMany opens files until there are so many or no more are allowed.
func openMany(most int) {
	var all []*os.File
	for len(all) < most {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		all = append(all, f)
	}
	kept.Store(hoard{all})
}

// patient is a program that does nothing for ten minutes at most, so that what nobody finds ends by itself.
func patient() *exec.Cmd { return exec.Command("/bin/sleep", "600") }

// breed starts processes until there are so many or no more are allowed, and says why it stopped.
func breed(most int) (n int, why string) {
	for n < most {
		cmd := patient()
		if n%2 == 1 {
			outside(cmd)
		}
		if err := cmd.Start(); err != nil {
			return n, err.Error()
		}
		n++
	}
	return n, "that is enough"
}

// holdPipes leaves both pipes to a child outside the group.
func holdPipes(f *fake) {
	cmd := patient()
	cmd.Stdout, cmd.Stderr = f.stdout, f.stderr
	outside(cmd)
	if err := cmd.Start(); err != nil {
		f.die("child: %v", err)
	}
	f.note("child", cmd.Process.Pid)
}

// harassing is closed to end what began with a question about harass/**; nil while nothing did.
var harassing struct {
	sync.Mutex
	stop chan struct{}
}

// harassment begins and ends with the tool that is asked about.
func (f *fake) harassment(tool string) {
	harassing.Lock()
	defer harassing.Unlock()
	switch {
	case strings.HasPrefix(tool, "harass/") && harassing.stop == nil:
		harassing.stop = make(chan struct{})
		harass(f, harassing.stop)
	case strings.HasPrefix(tool, "peace/") && harassing.stop != nil:
		close(harassing.stop)
		harassing.stop = nil
	}
}
