//go:build linux

package supervise

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestMain is also the launcher and, with a mode as its first argument, the child.
func TestMain(m *testing.M) {
	Launch()
	if len(os.Args) > 1 {
		if run, ok := modes[os.Args[1]]; ok {
			run(os.Args[2:])
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// modes are the ways a child behaves.
var modes = map[string]func(args []string){
	"echo": func([]string) { io.Copy(os.Stdout, os.Stdin) },
	"hang": func([]string) { hang() },
	"crash": func([]string) {
		fmt.Fprintln(os.Stderr, "could not go on")
		os.Exit(3)
	},
	"panic": func([]string) { panic("on purpose") },
	"stop": func([]string) {
		fmt.Println("stopping")
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	},
	"garbage": func([]string) {
		os.Stdout.Write([]byte{0xff, 0, 0x80, '{', '\n', 0xfe})
		hang()
	},
	"outflood": func([]string) { flood(os.Stdout, 1<<40) },
	"errflood": func(args []string) {
		n, _ := strconv.Atoi(args[0])
		flood(os.Stderr, n)
		fmt.Fprintln(os.Stderr, "the very last line")
	},
	"report":  func([]string) { json.NewEncoder(os.Stdout).Encode(reportSelf()) },
	"parent":  beget,
	"forks":   forks,
	"cpu":     func([]string) { burn() },
	"memory":  func([]string) { eat() },
	"middle":  middle,
	"filled":  func([]string) { fill() },
	"onterm":  func([]string) { hang() },
	"ignores": func([]string) { ignoreTerm() },
	"ends":    func([]string) {},
	"hides":   func([]string) { hide() },
	"keeps":   func([]string) { keep() },
	"gateway": gateway,
	"pair":    func([]string) { pair() },
	"leaves":  func([]string) { leave() },
	"refused": func([]string) { refused() },
	"masked":  func([]string) { masked() },
	"closes":  func([]string) { closed() },
	"noexec":  func([]string) { noexec() },
}

func hang() { <-time.After(time.Hour) }

func flood(w io.Writer, n int) {
	line := []byte(strings.Repeat("x", 99) + "\n")
	for ; n > 0; n -= len(line) {
		w.Write(line)
	}
}

func burn() {
	for n := uint64(1); n != 0; n += 2 { // odd for ever
	}
}

var eaten [][]byte

func eat() {
	for {
		b := make([]byte, 8<<20)
		for i := range b {
			b[i] = 1
		}
		eaten = append(eaten, b)
	}
}

func fill() {
	if err := os.WriteFile("file", make([]byte, 1<<20), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
}

// beget starts a grandchild that holds stdin, stdout and stderr, tells its pid, and does as asked: "session" gives the
// grandchild one of its own, "exit" ends the child.
func beget(args []string) {
	what := strings.Join(args, " ")
	c := exec.Command("/proc/self/exe", "hang")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: strings.Contains(what, "session")}
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(5)
	}
	fmt.Println(c.Process.Pid)
	if !strings.Contains(what, "exit") {
		hang()
	}
	os.Exit(7)
}

// forks starts up to so many grandchildren and tells their pids, or how far it came.
func forks(args []string) {
	n, _ := strconv.Atoi(args[0])
	for range n {
		pid, err := syscall.ForkExec("/proc/self/exe", []string{"forked", "hang"},
			&syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
		if err != nil {
			fmt.Println("refused:", err)
			break
		}
		fmt.Println(pid)
	}
	fmt.Println("done")
	hang()
}

// middle stands for a gateway: it starts a child, tells its pid and waits to be killed.
func middle([]string) {
	p, err := Start(Command{Name: "inner", Args: []string{"hang"}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.Pid())
	hang()
}

func ignoreTerm() {
	ignore := make(chan os.Signal, 1)
	notify(ignore)
	fmt.Println("ready")
	hang()
}

// report is what a child sees of itself.
type report struct {
	Env, Args, Files, Groups []string
	Dir, Limits, Status      string
	UID, GID, Death, Umask   int
	Pid, Group, Session      int
	Nice                     int
	Autogroup                string // "" where the kernel knows none
	Entries                  int
}

func reportSelf() (r report) {
	r.Env, r.Args = os.Environ(), os.Args
	r.Dir, _ = os.Getwd()
	entries, _ := os.ReadDir(".")
	r.Entries = len(entries)
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			r.Files = append(r.Files, filepath.Base(l)+" "+to)
		}
	}
	limits, _ := os.ReadFile("/proc/self/limits")
	status, _ := os.ReadFile("/proc/self/status")
	r.Limits, r.Status = string(limits), string(status)
	r.UID, r.GID = os.Getuid(), os.Getgid()
	groups, _ := os.Getgroups()
	for _, g := range groups {
		r.Groups = append(r.Groups, strconv.Itoa(g))
	}
	r.Death = death
	r.Umask = unix.Umask(0)
	r.Pid, r.Group = os.Getpid(), unix.Getpgrp()
	r.Session, _ = unix.Getsid(0)
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		r.Nice = 20 - now
	}
	autogroup, _ := os.ReadFile("/proc/self/autogroup")
	r.Autogroup = string(autogroup)
	return r
}
