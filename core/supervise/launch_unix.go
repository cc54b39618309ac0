//go:build linux || darwin

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/yett-dev/yett/core/confine"
	"golang.org/x/sys/unix"
)

// How a process knows that it is a launch, and how it tells how far it came.
const (
	launchName     = "yett-launch"
	launchEnv      = "YETT_LAUNCH_PLAN" // the descriptor that the plan is read from
	backgroundNice = 10                 // a tenth of the processor when a process of the ordinary priority wants it too
	launchSet      = "\x01"             // written when everything is set, just before exec
	launchGaps     = "\x02"             // written before it, and followed by JSON: what the kernel did not take away
	launchFails    = 126                // as in a shell: found, but could not be run
	busyTries      = 200
	busyPause      = 5 * time.Millisecond
)

// launchable says that Launch was called, so that our own binary can be the launcher. Without it a child would run main
// once more.
var launchable atomic.Bool

// plan is what a launch does, in JSON over a pipe.
type plan struct {
	Name      string
	Parent    int    // pid
	Born      uint64 // when the parent was started
	Dir       string
	Argv, Env []string
	Path      string // the program, where Target is -1
	Target    int    // descriptor of the program
	CloseFrom int    // this descriptor and all above are closed in the program
	Status    int    // descriptor of the status pipe
	Limits    Limits
	User      *User
	Confine   *confine.Policy

	Nice int // 0: the gateway's own
}

// Launch must be called first thing in main, and in TestMain of each package whose tests start processes. Start runs
// our own binary again as the launcher: there Launch sets limits and signals on itself, becomes the program and never
// returns. When that fails it says why on stderr and ends with status 126. In every other process it returns at once.
func Launch() {
	at := os.Getenv(launchEnv)
	if len(os.Args) != 1 || os.Args[0] != launchName || at == "" {
		launchable.Store(true)
		return
	}
	runtime.LockOSThread() // some of what is set belongs to the thread that will exec
	debug.SetGCPercent(-1) // under a tight memory limit there may be nothing to collect into
	p, err := readPlan(at)
	if err == nil {
		err = p.run()
	}
	text := "launch: " + err.Error()
	if p != nil {
		text = "launch " + p.Name + ": " + err.Error()
		unix.Write(p.Status, []byte(err.Error()))
	}
	os.Stderr.WriteString(text + "\n")
	os.Exit(launchFails)
}

func readPlan(at string) (*plan, error) {
	fd, err := strconv.Atoi(at)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s: %q is no descriptor", launchEnv, at)
	}
	f := os.NewFile(uintptr(fd), "plan")
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 8*maxPlan)) // JSON escapes may lengthen it sixfold
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	var p plan
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	return &p, nil
}

// run becomes the program. The order matters: priority and processors before the user, who owns nothing in /proc before
// exec; what the confinement opens before the user too; the user before the parent's death signal, which a change of
// user clears; the limits late, since the launcher itself may be larger than the memory it leaves; the confinement
// last, since nothing but exec works in it for sure.
func (p *plan) run() error {
	unix.Umask(0o077)
	if p.Nice > 0 {
		if err := giveWay(p.Nice); err != nil {
			return fmt.Errorf("priority: %w", err)
		}
	}
	if p.Confine != nil && !p.Confine.Worker {
		leaveOne()
	}
	prepared, err := p.prepare()
	if err != nil {
		return err
	}
	if err := p.switchUser(); err != nil {
		return err
	}
	if err := p.disarm(); err != nil {
		return err
	}
	if err := confine.Mark(); err != nil {
		return err
	}
	_ = confine.Origin{Pid: p.Parent, Born: p.Born}.Leave() // else only its directory and environment tell whose it was
	if err := os.Chdir(p.Dir); err != nil {
		return err
	}
	if err := bind(p.Parent); err != nil {
		return err
	}
	if err := closeFrom(p.CloseFrom); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	path := p.Path
	if p.Target >= 0 {
		path = "/proc/self/fd/" + strconv.Itoa(p.Target)
	}
	if err := p.limit(); err != nil {
		return err
	}
	if err := p.enter(prepared); err != nil {
		return err
	}
	if _, err := unix.Write(p.Status, []byte(launchSet)); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	for range busyTries { // a fork elsewhere in the gateway may for a moment hold a writable descriptor of the copy
		if err = syscall.Exec(path, p.Argv, p.Env); !errors.Is(err, unix.ETXTBSY) {
			break
		}
		time.Sleep(busyPause)
	}
	if errors.Is(err, unix.EACCES) && p.Target >= 0 && noExec(p.Target) {
		return fmt.Errorf("exec: %w: memory cannot be executed here, and the file system of the temporary directory "+
			"(TMPDIR) is mounted noexec", err)
	}
	if errors.Is(err, unix.EACCES) && p.Confine != nil {
		return fmt.Errorf("exec: %w: it is confined, and its interpreter is perhaps outside the system's directories: "+
			"add the directory of that installation to paths.read", err)
	}
	return fmt.Errorf("exec: %w", err)
}

// prepare opens what the program keeps, and gives up what only the gateway's user can.
func (p *plan) prepare() (*confine.Prepared, error) {
	if p.Confine == nil {
		return nil, nil
	}
	prepared, err := confine.Prepare(p.Confine, p.Dir, p.Target)
	return prepared, errors.Join(err, confine.Bound())
}

// disarm takes away capabilities: all of them from a program that is confined.
func (p *plan) disarm() error {
	if p.Confine != nil {
		return confine.Disarm()
	}
	return disarm()
}

// enter confines this thread, which becomes the program, and tells what the kernel does not give.
func (p *plan) enter(prepared *confine.Prepared) error {
	if prepared == nil {
		return nil
	}
	gaps, err := prepared.Enter()
	if err != nil || len(gaps) == 0 {
		return err
	}
	text, err := json.Marshal(gaps)
	if err == nil {
		_, err = unix.Write(p.Status, []byte(launchGaps+string(text)))
	}
	return err
}

func (p *plan) switchUser() error {
	if p.User == nil {
		return nil
	}
	groups := make([]int, len(p.User.Groups))
	for i, g := range p.User.Groups {
		groups[i] = int(g)
	}
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("set groups: %w", err)
	}
	if err := syscall.Setgid(int(p.User.GID)); err != nil {
		return fmt.Errorf("switch to group %d: %w", p.User.GID, err)
	}
	if err := syscall.Setuid(int(p.User.UID)); err != nil {
		return fmt.Errorf("switch to user %d: %w", p.User.UID, err)
	}
	return nil
}

// limit sets what is limited, never above what already holds.
func (p *plan) limit() error {
	none := uint64(0)
	for _, l := range []struct {
		name  string
		which int
		most  *uint64 // 0 is no limit, except of core
	}{
		{"core", unix.RLIMIT_CORE, &none},
		{"files", unix.RLIMIT_NOFILE, &p.Limits.Files},
		{"file size", unix.RLIMIT_FSIZE, &p.Limits.FileSize},
		{"processes", unix.RLIMIT_NPROC, &p.Limits.Processes},
		{"cpu", unix.RLIMIT_CPU, new(p.Limits.seconds())},
		{"data", unix.RLIMIT_DATA, &p.Limits.Data},
		{"memory", unix.RLIMIT_AS, &p.Limits.Memory},
	} {
		if *l.most == 0 && l.which != unix.RLIMIT_CORE {
			continue
		}
		if err := lower(l.name, l.which, *l.most); err != nil {
			return err
		}
	}
	if p.Confine == nil {
		return nil
	}
	return limitShared()
}

// lower sets a limit for good, never above what already holds.
func lower(name string, which int, most uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(which, &now); err != nil {
		return fmt.Errorf("limit %s: %w", name, err)
	}
	most = min(most, now.Max)
	if err := syscall.Setrlimit(which, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("limit %s to %d: %w", name, most, err)
	}
	return nil
}
