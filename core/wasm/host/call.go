package host

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/exact"
)

// phase is what a call is for; it says which host functions mean something.
type phase uint8

const (
	starting phase = iota // _initialize and yett_init
	describing
	scanning
	checking
)

// call is what one call may use and what it has handed over. It is the context that the guest runs under, which is how
// a host function finds it.
type call struct {
	context.Context
	in     *instance
	phase  phase
	export string // what runs now
	err    error  // the first fault; set before the panic that ends the guest

	key      string        // whose call it is
	turn     time.Time     // when its turn on a processor began; zero: it has none
	had      time.Duration // how long it had one before
	back     bool          // it runs on a thread of its own that stands back
	yielded  time.Time     // the last time that it let others run, then
	since    time.Time     // when its thread's clock stood at ran, then
	ran      time.Duration // of a processor
	deadline time.Time
	budget   uint64 // units
	used     uint64 // of them, up to the last tick and by the host
	slice    int64  // what the guest got last
	unpaused int    // units charged by the host since the last look at the clock
	pauses   int
	stack    int  // bytes of stack that it has paid for, those that it began with included
	deep     bool // calls nested beyond usualStack

	window    int // bytes of text in the buffer
	stream    bool
	hostCalls int
	findings  []sdk.Finding
	replaced  int // bytes of all replacements
	decided   bool
	wanted    sdk.Effect // what decide was called with: sdk.Deny, sdk.Defer or nothing
	verdict   sdk.Verdict
	puts      [4][]byte
	has       [4]bool
	log       logBudget
	printed   [2][]byte // lines begun on stdout and stderr
}

// fault ends the guest: wazero unwinds it and the call returns the error.
func (c *call) fault(fault error, format string, args ...any) {
	c.err = c.in.module.fault(c.export, fault, fmt.Sprintf(format, args...), nil)
	panic(c.err)
}

// enter counts one host call.
func (c *call) enter() {
	if c.hostCalls++; c.hostCalls > abi.MaxHostCalls {
		c.fault(ErrHostCalls, "at most %d are allowed in one call", abi.MaxHostCalls)
	}
	c.charge(hostCallFuel)
}

// view is n bytes of the guest's memory, valid until the guest runs again.
func (c *call) view(what string, ptr, n uint32) []byte {
	b, ok := c.in.mem.Read(ptr, n)
	if !ok {
		c.fault(ErrPointer, "%s: %d bytes at %d of %d", what, n, ptr, c.in.mem.Size())
	}
	return b
}

// emit takes one finding. It answers 0, go on: a budget that is used up fails the call instead of asking the guest to
// stop, because a scan that stopped early would look like one that found no more.
func (c *call) emit(a []uint64) {
	kindPtr, kindLen, start, end := uint32(a[0]), uint32(a[1]), uint32(a[2]), uint32(a[3])
	confidence, severity, action := math.Float32frombits(uint32(a[4])), uint32(a[5]), uint32(a[6])
	if c.phase != scanning {
		c.fault(ErrMisplaced, "emit outside %s", abi.ExportScan)
	}
	c.charge(findingFuel)
	name := c.view("kind", kindPtr, kindLen)
	name = name[:min(len(name), maxKindName+1)] // the longer ones are of no kind, and not worth a look
	kind, declared := c.in.module.kinds[string(name)]
	switch {
	case !declared:
		c.fault(ErrKind, "%s", named(name, int(kindLen)))
	case start >= end || uint64(end) > uint64(c.window):
		c.fault(ErrSpan, "%d–%d of %d bytes", start, end, c.window)
	case c.in.module.tooLong(int(end-start)) && len(c.findings) < abi.MaxFindings-1: // the last may cover many
		c.fault(ErrSpan, "%d bytes, longer than stream.lookbehind, %d: a stream would release the beginning before the end "+
			"is seen", end-start, c.in.module.meta.Stream.Lookbehind)
	case !(confidence >= 0 && confidence <= 1): // also false for NaN
		c.fault(ErrConfidence, "%v", confidence)
	case severity > uint32(sdk.Critical):
		c.fault(ErrSeverity, "%d: want 0–4", severity)
	case action > abi.ActionDeny:
		c.fault(ErrAction, "%d: want 0–3", action)
	case len(c.findings) == abi.MaxFindings:
		c.fault(ErrFindings, "at most %d are allowed in one call", abi.MaxFindings)
	}
	c.findings = append(c.findings, sdk.Finding{Kind: kind, Scanner: c.in.module.spec.Name, Start: int(start),
		End: int(end), Confidence: confidence, Severity: sdk.Severity(severity), Suggested: suggested[action],
		Replacement: c.replacement(action, uint32(a[7]), uint32(a[8]))})
	a[0] = 0
}

// tooLong says that streams would not find what has so many bytes. Then the whole text, scanned at once, must not hide
// that.
func (m *Module) tooLong(n int) bool {
	return m.meta.Stream.Mode == abi.StreamWindow && n > m.meta.Stream.Lookbehind
}

// named is a name of a guest's as an error tells it. What is no name is not quoted: it may be a text that it was asked
// about, and of a part of a secret nobody sees that it is to be masked.
func named(name []byte, size int) string {
	if size <= maxKindName && kindName.Match(name) {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("of %d bytes that is no name", size)
}

var suggested = [...]sdk.Action{abi.ActionFlag: sdk.Flag, abi.ActionRedact: sdk.Redact, abi.ActionReplace: sdk.Replace,
	abi.ActionDeny: sdk.Drop}

// replacement reads what a finding wants to see in its place. All of a call's together may be twice the window, or the
// size of one where the window is small.
func (c *call) replacement(action, ptr, n uint32) string {
	if n == 0 {
		return ""
	}
	if action != abi.ActionReplace {
		c.fault(ErrReplacement, "only action %d has one", abi.ActionReplace)
	}
	if n > abi.MaxReplacement {
		c.fault(ErrReplacement, "%d bytes: at most %d are allowed", n, abi.MaxReplacement)
	}
	c.chargeBytes(int(n))
	b := c.view("replacement", ptr, n)
	if !utf8.Valid(b) {
		c.fault(ErrReplacement, "not UTF-8")
	}
	if c.replaced += len(b); c.replaced > max(2*c.window, abi.MaxReplacement) {
		c.fault(ErrReplacement, "%d bytes in all: at most twice the window of %d are allowed", c.replaced, c.window)
	}
	return string(b)
}

var effects = [...]sdk.Effect{abi.EffectAbstain: sdk.Abstain, abi.EffectPermit: sdk.Permit, abi.EffectDeny: sdk.Deny,
	abi.EffectDefer: sdk.Defer}

// maxReason bounds the reason of a decision, bytes.
const maxReason = 4 << 10

// decide takes the verdict of a check.
func (c *call) decide(a []uint64) {
	effect, ttl := uint32(a[0]), int32(uint32(a[5]))
	if e := effect; c.phase == checking && e < uint32(len(effects)) && effects[e] >= sdk.Defer {
		c.wanted = max(c.wanted, effects[e])
	}
	switch {
	case c.phase != checking:
		c.fault(ErrMisplaced, "decide outside %s", abi.ExportCheck)
	case c.decided:
		c.fault(ErrDecideTwice, "a check decides exactly once")
	case effect >= uint32(len(effects)):
		c.fault(ErrDecision, "effect %d: want 0–3", effect)
	case ttl < 0:
		c.fault(ErrDecision, "ttl of %d ms: want no negative number", ttl)
	case uint32(a[4]) > maxReason:
		c.fault(ErrDecision, "reason of %d bytes: at most %d are allowed", uint32(a[4]), maxReason)
	}
	c.chargeBytes(int(uint32(a[4])))
	code := c.view("code", uint32(a[1]), uint32(a[2]))
	reason := c.view("reason", uint32(a[3]), uint32(a[4]))
	switch abstains := effect == abi.EffectAbstain; {
	case abstains && len(code) > 0:
		c.fault(ErrDecision, "code %s with effect abstain: want none", named(code, len(code)))
	case !abstains && !kindName.Match(code[:min(len(code), 80)]):
		c.fault(ErrDecision, "code %s: want %s", named(code, len(code)), kindName)
	case !utf8.Valid(reason):
		c.fault(ErrDecision, "reason is not UTF-8")
	}
	c.decided = true
	c.verdict = sdk.Verdict{Effect: effects[effect], Code: string(code), Reason: string(reason), TTL: millis(ttl)}
	a[0] = 0
}

// put takes one document; each slot has room for one.
func (c *call) put(a []uint64) {
	slot, ptr, n := uint32(a[0]), uint32(a[1]), uint32(a[2])
	switch {
	case slot >= uint32(len(c.puts)):
		c.fault(ErrPut, "slot %d: want 0–3", slot)
	case slot == abi.SlotMetadata && c.phase != describing,
		slot == abi.SlotState && !(c.phase == scanning && c.stream),
		slot == abi.SlotAnnotations && c.phase != scanning && c.phase != checking:
		c.fault(ErrMisplaced, "put(%d) has no meaning in %s", slot, c.export)
	case c.has[slot]:
		c.fault(ErrPut, "slot %d is filled already", slot)
	case n > abi.MaxPut, slot == abi.SlotState && n > abi.MaxState:
		c.fault(ErrPut, "%d bytes for slot %d: at most %d are allowed, %d for slot %d", n, slot, abi.MaxPut, abi.MaxState,
			abi.SlotState)
	}
	c.chargeBytes(int(n))
	c.has[slot] = true
	c.puts[slot] = bytes.Clone(c.view("put", ptr, n))
	if slot == abi.SlotAnnotations {
		if err := checkAnnotations(c.puts[slot]); err != nil {
			c.fault(ErrPut, "slot %d: %v", slot, err)
		}
	}
	a[0] = 0
}

// checkAnnotations wants one JSON document, in which no object has a member twice.
func checkAnnotations(doc []byte) error {
	return new(exact.Doc).Parse(string(doc), exact.DefaultLimits)
}

// writeLog takes one line.
func (c *call) writeLog(a []uint64) {
	n := uint32(a[2])
	line := c.view("log", uint32(a[1]), n)
	c.charge(logLineFuel)
	c.log.add(int(uint32(a[0])), line)
}

// logBudget keeps what one call may say. What is over is counted, and said in one line of our own.
type logBudget struct {
	lines   []logLine
	dropped int // lines
	cut     int // bytes cut off long lines
}

type logLine struct {
	level int
	text  string
}

func (b *logBudget) add(level int, line []byte) {
	if len(b.lines) >= abi.MaxLogLines {
		b.dropped++
		return
	}
	// without the word that is cut: of a part of a secret nobody sees that it is to be masked
	if size := len(line); size > abi.MaxLogLine {
		line = line[:bytes.LastIndexAny(line[:abi.MaxLogLine], " \t\r\n")+1]
		b.cut += size - len(line)
	}
	b.lines = append(b.lines, logLine{level, strings.ToValidUTF8(string(line), "\uFFFD")})
}

// flush hands the call's lines to the operator's log and what went over the budget to the counters.
func (c *call) flush() {
	for i, rest := range c.printed {
		if len(rest) > 0 {
			c.log.add(LevelStdout+i, rest)
		}
	}
	m := c.in.module
	if c.log.dropped > 0 || c.log.cut > 0 {
		m.dropped.Add(uint64(c.log.dropped))
		m.cut.Add(uint64(c.log.cut))
		c.log.lines = append(c.log.lines, logLine{LevelStderr, fmt.Sprintf("log over budget: %d lines dropped, %d bytes cut",
			c.log.dropped, c.log.cut)})
	}
	if m.host.opts.Log == nil {
		return
	}
	for _, l := range c.log.lines {
		m.host.opts.Log(m.spec.Name, l.level, m.spec.Hide.Hide(l.text))
	}
}
