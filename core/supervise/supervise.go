// Package supervise owns child processes of every kind: WASM workers, module admission and plugins. It starts them with
// limits, an explicit environment and a process group of their own, runs the very bytes whose digest it checked, keeps
// one of a kind running (back-off, quarantine) and kills the whole group. Bytes go through a child's pipes, its stderr
// goes line by line into a log function, its end comes back as Exit, each change of state as Change. On Linux a process
// that a child leaves without a parent becomes a child of this process, and is killed when the child has ended; without
// a /proc of its own PID namespace nothing is started. It never speaks a protocol with the child, never hands on the
// environment, nor a capability unless to root, and no child can block it. When the gateway is killed with SIGKILL, the
// kernel ends the child at once, but its grandchildren live on: the next gateway of its user ends those that carry its
// mark, and removes private directories whose owner does not live.
package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/pin"
)

// MaxImage is the most bytes that an executable may have.
const MaxImage = 512 << 20

// The bounds on what a command may ask for, and on what a child may cost us.
const (
	maxName       = 64
	maxPlan       = 1 << 20 // bytes of name, arguments and environment
	maxExtraFiles = 64
	maxStderr     = 4 << 10                // bytes kept of stderr
	launchTimeout = 10 * time.Second       // for the launcher to reach exec
	holdDelay     = 500 * time.Millisecond // how long pipes may stay open after the end: somebody else holds them
)

// Limits bound one process. Zero means not limited. Core dumps are always off.
type Limits struct {
	Memory uint64 // bytes of address space (RLIMIT_AS). A Go program needs some hundred MiB more than it uses
	// bytes of private writable memory (RLIMIT_DATA); looked at as below, with page tables, what it shares and what it
	// holds of the kernel's
	Data uint64
	// processor time, rounded up to seconds (RLIMIT_CPU); SIGKILL when used up, since Go ignores SIGXCPU
	CPU       time.Duration
	Files     uint64 // highest number of open files (RLIMIT_NOFILE)
	FileSize  uint64 // bytes of one file it writes (RLIMIT_FSIZE); 1 is next to nothing
	Processes uint64 // processes and threads of the whole user (RLIMIT_NPROC); the kernel does not apply it to root

	// These are looked at a few times a second, by reading /proc and the working directory: who goes beyond is killed.
	Threads uint64 // of the process
	Disk    uint64 // bytes in its working directory, and in files there that it removed and still has open or mapped
}

// User is who the process runs as. For another user than its own the gateway needs CAP_SETUID, CAP_SETGID, CAP_CHOWN,
// CAP_DAC_OVERRIDE, CAP_FOWNER and CAP_KILL.
type User struct {
	UID, GID uint32
	Groups   []uint32 // supplementary; none unless listed
}

// Command says what to run and how.
type Command struct {
	Name string // for messages and the private directory; required, at most 64 bytes
	Path string // absolute; "" is this very binary
	// "sha256:" and 64 hex digits of the bytes at Path; required with Path, must be empty without
	Digest  string
	Args    []string          // without the program's name
	Env     map[string]string // the whole environment; nothing of ours is handed on
	Dir     string            // working directory, absolute; "" is a private empty one, removed at the end
	Limits  Limits            //
	User    *User             // nil: the gateway's own user
	Pipe    bool              // stdin and stdout are In and Out; otherwise both are /dev/null
	NoInput bool              // stdin is /dev/null in any case
	// Unread gives what it leaves of its stdin; with Pipe, and without NoInput
	KeepInput bool
	// gets stderr, at most 50 lines a second of 1 KiB; nil: only the tail is kept. One goroutine calls it
	Log func(line string)
	// what it writes to stderr is for Log and Exit.Stderr: the sentences on how it ended do not quote it
	Private    bool
	ExtraFiles []*os.File      // descriptors 3 and up in the child; the caller closes its own
	Confine    *confine.Policy // what the kernel is to take from it; nil: nothing but capabilities that root does not give
	// it runs when nothing else wants the processor: work that may be late, such as a reader of the log
	Background bool
}

// check refuses a command that is not complete and unmistakable.
func (c *Command) check() error {
	switch {
	case c.Name == "" || len(c.Name) > maxName:
		return fmt.Errorf("name: %d bytes, wants 1 to %d", len(c.Name), maxName)
	case c.Path == "" && c.Digest != "":
		return fmt.Errorf("digest: set without a path")
	case c.Path != "" && !filepath.IsAbs(c.Path):
		return fmt.Errorf("path: %q is not absolute", c.Path)
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return fmt.Errorf("dir: %q is not absolute", c.Dir)
	case c.KeepInput && (!c.Pipe || c.NoInput):
		return fmt.Errorf("keep input: there is no stdin to keep without a pipe")
	case len(c.ExtraFiles) > maxExtraFiles:
		return fmt.Errorf("extra files: %d, at most %d", len(c.ExtraFiles), maxExtraFiles)
	case c.Limits.CPU < 0:
		return fmt.Errorf("limits: cpu: %v is negative", c.Limits.CPU)
	}
	for i, f := range c.ExtraFiles {
		if f == nil {
			return fmt.Errorf("extra files: number %d is nil", i)
		}
	}
	if c.Confine != nil {
		if err := c.Confine.Check(); err != nil {
			return err
		}
	}
	if c.Path != "" && !pin.Is(c.Digest) {
		return fmt.Errorf("digest: %q is not sha256: and 64 lower-case hex digits", c.Digest)
	}
	return c.checkStrings()
}

// checkStrings keeps what goes through the kernel free of zero bytes and within a bound.
func (c *Command) checkStrings() error {
	size := len(c.Path) + len(c.Dir)
	for i, a := range c.Args {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("args: number %d has a zero byte", i)
		}
		size += len(a) + 1
	}
	for k, v := range c.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return fmt.Errorf("env: %q: a name is not empty and has no =, and nothing has a zero byte", k)
		}
		size += len(k) + len(v) + 2
	}
	if strings.ContainsRune(c.Name+c.Path+c.Dir, 0) {
		return fmt.Errorf("name, path, dir: a zero byte")
	}
	if size > maxPlan {
		return fmt.Errorf("args and env: %d bytes, at most %d", size, maxPlan)
	}
	return nil
}

// seconds is the CPU limit as the kernel takes it, rounded up.
func (l Limits) seconds() uint64 { return uint64((l.CPU + time.Second - 1) / time.Second) }
