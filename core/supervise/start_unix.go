//go:build linux || darwin

package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/yett-dev/yett/core/confine"
	"golang.org/x/sys/unix"
)

// Start runs a command and returns when its program has been entered, limits and all, or says why not. The caller ends
// it with Kill. The process is told to die with the gateway by the kernel, which means by it the very thread that
// forked: each process therefore has a goroutine that is locked to a thread of its own, and which then waits for the
// process there.
func Start(c Command) (*Process, error) { return start(context.Background(), c) }

// start ends early, and kills what it began, when ctx does.
func start(ctx context.Context, c Command) (*Process, error) {
	p, err := begin(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

func begin(ctx context.Context, c Command) (_ *Process, err error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if !launchable.Load() {
		return nil, errors.New("supervise.Launch was not called first thing in main")
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := errors.Join(stand(), mayRunAs(c.User)); err != nil {
		return nil, err
	}
	b := &birth{command: c}
	defer b.release()
	if err := b.prepare(); err != nil {
		return nil, err
	}
	return b.launch(ctx)
}

// birth is what is open while a process is being started.
type birth struct {
	command                Command
	image                  *image
	dir                    string // the private one, "" if the caller gave one or it is the process's by now
	child                  []*os.File
	in, out, stderr        *os.File // our ends
	unread                 *os.File // the child's end of in, if we keep it
	planOut, statusIn      *os.File // our ends
	target, planAt, status int      // descriptors in the launcher
}

func (b *birth) release() {
	for _, f := range b.child {
		f.Close()
	}
	for _, f := range []*os.File{b.in, b.out, b.stderr, b.unread, b.planOut, b.statusIn} {
		if f != nil {
			f.Close()
		}
	}
	if b.image != nil {
		b.image.release()
	}
	if b.dir != "" {
		RemoveDir(b.dir)
	}
}

// prepare opens everything: the program, the directory, the pipes.
func (b *birth) prepare() (err error) {
	if b.image, err = openImage(&b.command); err != nil {
		return err
	}
	if b.command.Dir == "" {
		if b.dir, err = MakeDir(b.command.Name, b.command.User); err != nil {
			return err
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b.child = []*os.File{null, null, null}
	if b.command.Pipe {
		if !b.command.NoInput {
			if b.child[0], b.in, err = os.Pipe(); err != nil {
				return err
			}
		}
		if b.out, b.child[1], err = os.Pipe(); err != nil {
			return err
		}
		b.child = append(b.child, null) // so that it is closed
	}
	if b.stderr, b.child[2], err = os.Pipe(); err != nil {
		return err
	}
	return nil
}

// files lists the launcher's descriptors in order and notes where ours are: 0 1 2, the caller's, program, plan, status.
func (b *birth) files() (files []*os.File, err error) {
	files = append(slices.Clone(b.child[:3]), b.command.ExtraFiles...)
	b.target = -1
	if b.image.file != nil {
		b.target = len(files)
		files = append(files, b.image.file)
	}
	planIn, planOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b.planOut, b.child = planOut, append(b.child, planIn)
	statusIn, statusOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b.statusIn, b.child = statusIn, append(b.child, statusOut)
	b.planAt, b.status = len(files), len(files)+1
	return append(files, planIn, statusOut), nil
}

// workDir is where the program begins.
func (b *birth) workDir() string {
	if b.command.Dir != "" {
		return b.command.Dir
	}
	return b.dir
}

// uid is the only user that the program can have; 0: perhaps any.
func (b *birth) uid() int {
	switch u := b.command.User; {
	case u != nil:
		return int(u.UID)
	case os.Getuid() == os.Geteuid():
		return os.Geteuid()
	}
	return 0
}

// plan is what the launcher is told.
func (b *birth) plan() ([]byte, error) {
	c := &b.command
	born, err := bornAt(os.Getpid())
	if err != nil {
		return nil, err
	}
	p := plan{Name: c.Name, Parent: os.Getpid(), Born: born, Dir: c.Dir, Path: b.image.path, Target: b.target,
		Status: b.status, CloseFrom: 3 + len(c.ExtraFiles), Limits: c.Limits, User: c.User, Confine: c.Confine,
		Nice: c.nice()}
	if p.Dir == "" {
		p.Dir = b.dir
	}
	if b.image.script { // the interpreter opens it again
		p.CloseFrom = b.target + 1
	}
	p.Argv = append([]string{b.image.name}, c.Args...)
	p.Env = environ(c.Env)
	return json.Marshal(p)
}

// environ is an environment as exec wants it.
func environ(vars map[string]string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, k+"="+vars[k])
	}
	return out
}

// launch forks the launcher, hands it the plan and waits until it has become the program.
func (b *birth) launch(ctx context.Context) (*Process, error) {
	files, err := b.files()
	if err != nil {
		return nil, err
	}
	told, err := b.plan()
	if err != nil {
		return nil, err
	}
	p := &Process{name: b.command.Name, limits: b.command.Limits, private: b.command.Private, done: make(chan struct{}),
		gone: make(chan struct{})}
	if c := b.command.Confine; c != nil && c.Network != nil {
		p.ports = c.Network.Ports
	}
	p.in, p.out, p.unread = noInput{}, strings.NewReader(""), io.NopCloser(strings.NewReader(""))
	if b.command.Pipe {
		p.out = &output{f: b.out}
	}
	if b.in != nil {
		p.in = b.in
	}
	started := make(chan error, 1)
	go p.live(b, files, started)
	if err := <-started; err != nil {
		return nil, err
	}
	if b.command.KeepInput {
		b.unread, b.child[0] = b.child[0], nil
	}
	for _, f := range b.child { // else we would hold the child's pipes open
		f.Close()
	}
	b.child, b.dir = nil, ""
	stop := context.AfterFunc(ctx, p.Kill)
	p.gaps, err = handshake(b, told)
	stopped := stop()
	if err == nil && !stopped {
		err = context.Cause(ctx)
	}
	if err != nil {
		p.Kill()
		<-p.gone // nothing of it is left, also where its caller ends now
		if errors.Is(err, errLauncher) {
			err = fmt.Errorf("%w (%s)", err, p.exit)
		}
		return nil, err
	}
	p.alone.Store(b.command.Confine.Alone(p.gaps))
	p.entered.Store(true)
	p.overMemory() // it may be gone before anybody looks again
	if b.unread != nil {
		p.unread = b.unread
	}
	b.in, b.out, b.stderr, b.unread = nil, nil, nil, nil // the process's now
	b.image.release()
	b.image = nil
	return p, nil
}

var errLauncher = errors.New("the launcher ended before it was done")

// handshake hands over the plan and reads what the launcher says: what could not be taken from the program, one byte
// when all is set, then a sentence if exec failed.
func handshake(b *birth, told []byte) ([]confine.Gap, error) {
	limit := time.Now().Add(launchTimeout)
	b.planOut.SetDeadline(limit)
	b.statusIn.SetDeadline(limit)
	_, werr := b.planOut.Write(told)
	b.planOut.Close()
	all, rerr := io.ReadAll(io.LimitReader(b.statusIn, 8<<10))
	said, gaps, gerr := readGaps(string(all))
	text, set := strings.CutPrefix(said, launchSet)
	switch {
	case errors.Is(rerr, os.ErrDeadlineExceeded), errors.Is(werr, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("the launcher took longer than %v", launchTimeout)
	case gerr != nil:
		return nil, gerr
	case text != "":
		return nil, errors.New(text)
	case rerr != nil:
		return nil, fmt.Errorf("read the launcher's status: %w", rerr)
	case !set:
		return nil, errLauncher
	case werr != nil:
		return nil, fmt.Errorf("hand over the plan: %w", werr)
	}
	return gaps, nil
}

// readGaps takes the gaps off the front of what the launcher said.
func readGaps(said string) (rest string, gaps []confine.Gap, err error) {
	text, some := strings.CutPrefix(said, launchGaps)
	if !some {
		return said, nil, nil
	}
	in := json.NewDecoder(strings.NewReader(text))
	if err := in.Decode(&gaps); err != nil {
		return "", nil, fmt.Errorf("read what the launcher could not confine: %w", err)
	}
	return text[in.InputOffset():], gaps, nil
}

// live is a process's whole life, on a thread of its own: fork, wait, kill what is left of the group, reap, tidy up.
func (p *Process) live(b *birth, files []*os.File, started chan<- error) {
	defer close(p.gone)
	defer beginSweep()()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir, at, stderr, in, out := b.dir, b.workDir(), b.stderr, b.in, b.out
	p.dir, p.env, p.uid = dir, environ(b.command.Env), b.uid()
	child, err := fork(p, launcher(), []string{launchName}, &os.ProcAttr{
		Env: []string{fmt.Sprintf("%s=%d", launchEnv, b.planAt)}, Files: files, Sys: sysAttr(), Dir: "/",
	})
	if err != nil {
		started <- fmt.Errorf("run the launcher: %w", err)
		return
	}
	p.pid = child.Pid
	p.signal = func(kill bool) { signalGroup(p.pid, kill) }
	p.survey = func(known map[int]int) { surveyStrays(p.pid, known) }
	exited, read := make(chan struct{}), make(chan struct{})
	lines := &stderrReader{log: b.command.Log, now: time.Now, after: time.After, exited: exited}
	image := b.image.leave()
	started <- nil
	go p.watch(at, exited)
	go func() {
		defer close(read)
		defer stderr.Close()
		lines.run(stderr)
	}()
	state, err := p.reap(child)
	left, loose := forget(p)
	close(exited)
	limit := time.Now().Add(holdDelay)
	stderr.SetReadDeadline(limit)
	if out != nil {
		out.SetReadDeadline(limit)
	}
	if in != nil {
		in.Close()
	}
	<-read
	p.exit = exitOf(state, err)
	p.exit.Usage.MaxRSS = p.peakOf(p.exit.Usage.MaxRSS)
	p.exit.Left, p.exit.Loose = left, loose
	p.exit.Stderr, p.exit.Wrote = lines.kept(), lines.read
	p.exit.judge(p.limits, p.asked, lines.starved)
	p.exit.blame(p.over)
	p.exit.hint(p.limits)
	if !p.private {
		p.exit.quote()
	}
	close(p.done)
	for _, path := range []string{dir, image} {
		if path != "" {
			RemoveDir(path)
		}
	}
}

// reap waits for the end, then kills the rest of the group while the dead leader still holds its number: after the
// reaping another process may get it.
func (p *Process) reap(child *os.Process) (*os.ProcessState, error) {
	awaitEnd(p.pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Kill(-p.pid, unix.SIGKILL)
	endStrays(p.strays)
	p.reaped = true
	return child.Wait()
}

func exitOf(state *os.ProcessState, err error) Exit {
	if err != nil {
		return Exit{Code: -1, Err: "wait: " + err.Error()}
	}
	e := Exit{Code: state.ExitCode(), Usage: Usage{CPU: state.UserTime() + state.SystemTime()}}
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		e.Signal = unix.SignalName(w.Signal())
	}
	if r, ok := state.SysUsage().(*syscall.Rusage); ok {
		e.Usage.MaxRSS = uint64(r.Maxrss) * rssUnit
	}
	return e
}

// nice is how far the process stands back behind the gateway.
func (c *Command) nice() int {
	if c.Background {
		return backgroundNice
	}
	return 0
}
