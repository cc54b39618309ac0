package supervise

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/quote"
)

// Cause says why a process is no more, as far as that can be told.
type Cause string

// The causes.
const (
	CauseExited  Cause = "exited"  // of itself, with Code
	CauseSignal  Cause = "signal"  // a signal of its own making, such as a segmentation fault
	CauseKilled  Cause = "killed"  // by Kill or Terminate
	CauseCPU     Cause = "cpu"     // its processor time was used up
	CauseMemory  Cause = "memory"  // it said that it ran out of memory, as Go and C runtimes do
	CauseLimit   Cause = "limit"   // it had more threads, memory or disk than it may
	CauseOutside Cause = "outside" // a signal from neither itself nor us: an operator, or the kernel short of memory
)

// Usage is what a process cost.
type Usage struct {
	// bytes resident at most: its own, not those that it shared with us before its exec. Seen a few times a second; exact
	// where large
	MaxRSS uint64
	CPU    time.Duration // processor time, user and system
}

// Exit is how a process ended.
type Exit struct {
	Code   int    // exit status; -1 when a signal ended it
	Signal string // such as "SIGKILL"; "" when it exited
	Cause  Cause
	Err    string // one sentence; "" for exit status 0
	Usage  Usage
	Stderr string   // its beginning and its end, together at most 4 KiB
	Left   []string // name and number of the processes outside the group that outlived it and were killed, at most 16
	Loose  error    // why some of those may still run, and are killed as soon as they can be; nil: none does
	Wrote  uint64   // bytes that were read of its stderr
}

// String is the one sentence.
func (e Exit) String() string {
	if e.Err == "" {
		return "ended with exit status 0"
	}
	return e.Err
}

// Process is one running child. Its methods are safe for concurrent use; In and Out are one goroutine's each.
type Process struct {
	name    string
	pid     int
	limits  Limits
	ports   []uint16 // where alone it may listen; none: it is not restricted, or has no network
	private bool     // stderr is not quoted
	in      io.WriteCloser
	out     io.Reader
	unread  io.ReadCloser
	signal  func(kill bool) // to the whole group; called with mu held, before the process is reaped

	survey func(known map[int]int) // notes descendants outside the group; nil: there is nothing to note
	dir    string                  // its private working directory
	env    []string                // NAME=value, all that it was given
	born   uint64                  // when, as the kernel counts
	uid    int                     // its user; 0: perhaps any
	gaps   []confine.Gap           // what the kernel did not take from it, beside what was asked for

	entered atomic.Bool   // it is its program, and the launcher no longer
	alone   atomic.Bool   // it can start no process
	peak    atomic.Uint64 // bytes resident at most, as far as anybody looked

	mu     sync.Mutex
	reaped bool
	strays map[int]int // descendants outside the group when somebody looked: pid → descriptor
	asked  bool        // by Kill or Terminate
	over   string      // the limit that it went beyond, for which we killed it

	exit Exit          // written before done is closed
	done chan struct{} // ended, and nothing more comes from its stderr
	gone chan struct{} // and what it had on disk is removed
}

// Gaps says what of its Command.Confine this machine does not give.
func (p *Process) Gaps() []confine.Gap { return p.gaps }

// Pid is the process's id, which is its group's and session's too.
func (p *Process) Pid() int { return p.pid }

// In is the process's stdin. Without Command.Pipe, and with NoInput, every write fails.
func (p *Process) In() io.WriteCloser { return p.in }

// Unread gives what the process has not read of its stdin; whoever reads it takes it from the process, so nobody should
// before Done. The caller closes it: until then a write to In does not fail when the process has ended, but waits for
// room. Without Command.KeepInput it is at its end.
func (p *Process) Unread() io.ReadCloser { return p.unread }

// Out is the process's stdout. Who does not read it stops the process when the pipe is full. Without Command.Pipe it is
// at its end. A read fails with ErrHeld when the process has ended but something else keeps its stdout open.
func (p *Process) Out() io.Reader { return p.out }

// Kill sends SIGKILL to the whole group and to descendants that left it. It returns at once; wait on Done.
func (p *Process) Kill() { p.send(true) }

// Terminate asks the whole group to end (SIGTERM). It returns at once.
func (p *Process) Terminate() { p.send(false) }

// Survey notes descendants that have left the group, so that they are killed when the process has ended, even if it
// left them without a parent. It reads some files of /proc.
func (p *Process) Survey() {
	p.mu.Lock()
	p.look()
	p.mu.Unlock()
	reap()
}

// look is Survey with mu held.
func (p *Process) look() {
	if p.reaped || p.survey == nil {
		return
	}
	if p.strays == nil {
		p.strays = map[int]int{}
	}
	p.survey(p.strays)
}

func (p *Process) send(kill bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		if !kill {
			p.look()
		}
		p.asked = true
		p.signal(kill)
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit waits for the end and says how it was.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// ErrHeld is what reading Out gives when the process is gone but another process still holds the other end.
var ErrHeld = fmt.Errorf("the process ended, but another one still holds its stdout: %w", os.ErrDeadlineExceeded)

// judge fills in the cause and the sentence. asked: we sent a signal; starved: it said that it ran out of memory. The
// kernel counts a limit in ticks and usage exactly, so the two differ by some percent: near the limit counts as
// reached.
func (e *Exit) judge(l Limits, asked, starved bool) {
	spent := l.CPU > 0 && e.Usage.CPU >= time.Duration(l.seconds())*time.Second*3/4
	switch {
	case asked && (e.Signal == "SIGKILL" || e.Signal == "SIGTERM"):
		e.Cause, e.Err = CauseKilled, "killed by the supervisor"
	case spent && e.Signal == "SIGKILL":
		e.Cause, e.Err = CauseCPU, fmt.Sprintf("used up its processor time of %d s", l.seconds())
	case starved && e.Code != 0:
		e.Cause, e.Err = CauseMemory, "ran out of memory"+l.space(e.Usage.MaxRSS)+" ("+e.status()+")"
	case e.Signal == "SIGKILL" || e.Signal == "SIGTERM" || e.Signal == "SIGINT" || e.Signal == "SIGHUP":
		e.Cause, e.Err = CauseOutside, "ended by "+e.Signal+" from outside, an operator or a kernel short of memory"
	case e.Signal != "":
		e.Cause, e.Err = CauseSignal, "ended by "+e.Signal
	case e.Code != 0:
		e.Cause, e.Err = CauseExited, "ended with "+e.status()
	default:
		e.Cause = CauseExited
	}
}

// space says how much memory a process may have, and had.
func (l *Limits) space(had uint64) string {
	most, key := l.Memory, ""
	if most == 0 {
		most, key = l.Data, " (limits.memory)"
	}
	if most == 0 {
		return ""
	}
	return fmt.Sprintf(": up to %d MiB were resident, limited to %d MiB%s", had>>20, most>>20, key)
}

// blame says that we killed the process since it went beyond a limit; over is "" if it did not.
func (e *Exit) blame(over string) {
	if over != "" && e.Signal == "SIGKILL" {
		e.Cause, e.Err = CauseLimit, "killed by the supervisor: "+over
	}
}

// quote adds to the sentence how the line begins that the process said last.
func (e *Exit) quote() {
	line := e.words()
	if len(line) > 200 {
		line = wholeWords(line[:200]) + "…"
	}
	if line != "" {
		e.Err += ": " + line
	}
}

// words is the line of stderr that tells why the process has ended; "" if somebody else has ended it.
func (e *Exit) words() string {
	if e.Err == "" || e.Cause != CauseExited && e.Cause != CauseMemory {
		return ""
	}
	return telling(e.Stderr)
}

func (e *Exit) status() string {
	if e.Signal != "" {
		return e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// telling picks the line of stderr that says most: how a Go program crashed, else the last one.
func telling(s string) (line string) {
	for l := range strings.Lines(s) {
		l = strings.TrimSpace(l)
		if l != "" {
			line = l
		}
		if strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") {
			break
		}
	}
	return quote.Line(line)
}
