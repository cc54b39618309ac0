package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk/abi"
)

// AdmitArg is the argument under which the binary runs RunAdmission.
const AdmitArg = "wasm-admit"

// ErrNotAdmitted is a module that was tried and refused. Other errors of Admit mean that it could not be tried.
var ErrNotAdmitted = errors.New("not admitted")

// Defaults of AdmitLimits. Measured on the largest honest guest, a Go module of 3 MB: 2 GiB of address space, nearly
// all of it reserved by the runtime and never touched, 190 MiB writable, 65 MiB resident, 1 s.
const (
	DefaultAdmitMemory = 4 << 30
	DefaultAdmitCPU    = 60 * time.Second
	DefaultAdmitWall   = 120 * time.Second
)

// childEnv is all the environment that our child processes have. The C library, where there is one, reserves 64 MiB of
// address space for each thread that allocates, which nothing here needs and the limit counts.
var childEnv = map[string]string{"MALLOC_ARENA_MAX": "1"}

// admitData is what an admission may write to, bytes, beside twice the module's memory.
const admitData = 1 << 30

// AdmitLimits bound the process in which a module is tried. Zero values take the defaults above.
type AdmitLimits struct {
	Memory uint64        // bytes of address space, beside twice Spec.Memory
	CPU    time.Duration // processor time, counted in seconds
	Wall   time.Duration // from start to verdict
}

func (l AdmitLimits) withDefaults() (AdmitLimits, error) {
	if l.Memory == 0 {
		l.Memory = DefaultAdmitMemory
	}
	if l.CPU == 0 {
		l.CPU = DefaultAdmitCPU
	}
	if l.Wall == 0 {
		l.Wall = DefaultAdmitWall
	}
	if l.CPU < 0 || l.Wall < 0 {
		return l, fmt.Errorf("admission limits: %v processor time and %v in all: want no negative times", l.CPU, l.Wall)
	}
	return l, nil
}

// AdmitOptions say how modules are tried.
type AdmitOptions struct {
	// CacheDir keeps verdicts between starts, one small file each; "" keeps none. It is created with mode 0700 and refused
	// when others may enter it or it is not ours: whoever writes there decides what is admitted.
	CacheDir string
	Limits   AdmitLimits

	// CheckConfig is as in Options.
	CheckConfig func(schema map[string]any, config json.RawMessage) error

	// Log takes what the module says while it is tried, and what is wrong with the cache; nil drops it. The module's lines
	// are hostile.
	Log func(module string, level int, line string)

	engine string // for tests; "" is what the binary says of itself
	start  func(supervise.Command) (*supervise.Process, error)
}

func (o *AdmitOptions) log(module string, level int, line string) {
	if o.Log != nil {
		o.Log(module, level, line)
	}
}

// Verdict is what came out when a module was tried.
type Verdict struct {
	Digest    string // "sha256:<hex>" of the module's bytes
	OK        bool
	Reason    string       // why not; "" if OK. One line, printable, may quote the guest
	BadConfig bool         `json:",omitempty"` // the settings are refused, which says nothing about the module with others
	Metadata  abi.Metadata // if OK
	Scans     bool         // it exports yett_scan, and takes texts as far as could be tried
	Checks    bool         // it exports yett_check, and takes calls as far as could be tried
	Engine    string       // wazero's version and our own
	Limits    AdmitLimits
	Took      time.Duration
	MaxRSS    uint64   // bytes, of the process
	Notes     []string // what was odd and is no reason to refuse, such as a status other than 0 for a smoke vector

	Cached bool `json:"-"` // it was tried before, not now
}

// Admit tries a module in a process of its own: the static check, compilation, start, description and a few smoke
// vectors. The error is nil only when the module is admitted; it wraps ErrNotAdmitted, and the Verdict beside it says
// why, when it was refused. Refusals are kept like admissions, but not those that the machine may be the cause of: a
// deadline that passed, a signal from outside. The same module is never tried twice at once. Admit is safe for
// concurrent use.
//
// The smoke vectors are texts (none, a short one, 4 KiB of everything, invalid UTF-8) and one call. A status other than
// 0 and a refused buffer are the module's right and become notes; every other fault would fail real calls too and
// refuses it.
func Admit(ctx context.Context, opts AdmitOptions, spec Spec) (Verdict, error) {
	if log := opts.Log; log != nil && spec.Hide != nil {
		opts.Log = func(module string, level int, line string) { log(module, level, spec.Hide.Hide(line)) }
	}
	v, err := admitSpec(ctx, &opts, spec)
	if err != nil {
		return v, fmt.Errorf("admit module %q: %w", quote.Short(spec.Name, 80), spec.Hide.Error(err))
	}
	if !v.OK {
		return v, fmt.Errorf("admit module %q: %w: %s", spec.Name, ErrNotAdmitted, v.Reason)
	}
	return v, nil
}

func admitSpec(ctx context.Context, opts *AdmitOptions, spec Spec) (Verdict, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return Verdict{}, err
	}
	spec.Instances = 1
	if opts.Limits, err = opts.Limits.withDefaults(); err != nil {
		return Verdict{}, err
	}
	if opts.start == nil {
		opts.start = supervise.Start
	}
	key, err := admissionKeyOf(opts, &spec)
	if err != nil {
		return Verdict{}, err
	}
	if len(spec.Code) > abi.MaxModule {
		return Verdict{Digest: key.Digest, Engine: key.Engine, Limits: key.Limits,
			Reason: fmt.Sprintf("module of %d bytes: at most %d are allowed", len(spec.Code), abi.MaxModule)}, nil
	}
	if opts.CacheDir != "" {
		if err := privateDir(opts.CacheDir); err != nil {
			return Verdict{}, fmt.Errorf("verdict cache: %w", err)
		}
	}
	return admissions.do(ctx, opts.CacheDir+"\x00"+key.sum(), func() (Verdict, error) {
		return tryCached(ctx, opts, spec, key)
	})
}

func tryCached(ctx context.Context, opts *AdmitOptions, spec Spec, key admissionKey) (Verdict, error) {
	cache := verdictCache{dir: opts.CacheDir, log: func(line string) { opts.log(spec.Name, LevelStderr, line) }}
	if key.Engine == "" {
		cache.dir = "" // nobody could tell for which engine the verdict was
	}
	if v, ok := cache.load(key); ok {
		return v, nil
	}
	a := &admission{opts: opts, spec: spec, limits: opts.Limits, stage: "while it starts"}
	v, keep, err := a.run(ctx)
	if err != nil {
		return Verdict{}, err
	}
	v.Digest, v.Engine, v.Limits = key.Digest, key.Engine, key.Limits
	v.Reason = spec.Hide.Hide(v.Reason)
	for i := range v.Notes {
		v.Notes[i] = spec.Hide.Hide(v.Notes[i])
	}
	if keep {
		cache.store(key, v)
	}
	return v, nil
}

// admission is one run of the process.
type admission struct {
	opts   *AdmitOptions
	spec   Spec
	limits AdmitLimits
	stage  string
	lines  int // of the module's log
}

// maxAdmissionLog bounds the log lines of one admission.
const maxAdmissionLog = 1000

// run tries the module. keep says whether the verdict would be the same on another day.
func (a *admission) run(ctx context.Context) (v Verdict, keep bool, err error) {
	frame, err := loadFrame(a.spec)
	if err != nil {
		return v, false, err
	}
	if err := ctx.Err(); err != nil {
		return v, false, err
	}
	began := time.Now()
	p, err := a.opts.start(supervise.Command{Name: AdmitArg, Args: []string{AdmitArg}, Pipe: true,
		Limits: a.processLimits(), Env: childEnv, Confine: sealed(&a.spec),
		Log: func(line string) { a.opts.log(a.spec.Name, LevelStderr, "admission process: "+line) }})
	if err != nil {
		return v, false, fmt.Errorf("start the admission process: %w", err)
	}
	var late atomic.Bool
	defer time.AfterFunc(a.limits.Wall, func() { late.Store(true); p.Kill() }).Stop()
	defer context.AfterFunc(ctx, p.Kill)()
	report, err := a.converse(p, frame)
	if err == nil || errors.Is(err, errFrame) {
		p.Kill() // it has said all there is to say
	}
	exit := p.Exit()
	v = Verdict{Took: time.Since(began), MaxRSS: exit.Usage.MaxRSS}
	switch {
	case err == nil:
		v.OK, v.Reason, v.Notes = report.OK, report.Reason, report.Notes
		v.Scans, v.Checks = report.Scans && !report.NoScans, report.Checks && !report.NoChecks
		v.Metadata, v.BadConfig = report.Metadata, report.BadConfig
		return v, !report.Transient, nil
	case ctx.Err() != nil:
		return v, false, ctx.Err()
	}
	v.Reason, keep, err = a.judge(exit, late.Load(), err)
	return v, keep, err
}

func (a *admission) processLimits() supervise.Limits {
	l := supervise.Limits{CPU: a.limits.CPU, Files: workerFiles, FileSize: a.spec.Memory + pageSize}
	if a.limits.Memory != unlimited {
		l.Memory, l.Data = a.limits.Memory+2*a.spec.Memory, min(a.limits.Memory, admitData)+2*a.spec.Memory
	}
	return l
}

// unlimited is for the race detector, which reserves more address space than there is.
const unlimited = 1<<64 - 1

// judge makes a refusal of a process that ended without a verdict, or an error where the machine is to blame.
func (a *admission) judge(exit supervise.Exit, late bool, said error) (reason string, keep bool, err error) {
	switch {
	case errors.Is(said, errFrame):
		return fmt.Sprintf("%s, the process said what it never should: %v", a.stage, said), true, nil
	case late:
		// A process that had the processor and did not end is the module's doing; one that waited may be the machine's.
		busy := exit.Usage.CPU >= a.limits.Wall/2
		return fmt.Sprintf("%s, it took longer than %v", a.stage, a.limits.Wall), busy, nil
	case exit.Cause == supervise.CauseOutside || exit.Cause == supervise.CauseKilled:
		return "", false, fmt.Errorf("%s, the admission process was %s", a.stage, exit)
	case exit.Cause == supervise.CauseExited && exit.Code == 0:
		return a.stage + ", the process ended without a verdict", true, nil
	}
	how := exit.String()
	if exit.Cause == supervise.CauseExited {
		how = "crashed: " + crashLine(exit)
	}
	return fmt.Sprintf("%s, the process %s", a.stage, quote.Short(how, 400)), exit.Cause != supervise.CauseMemory &&
		!starvedOfThreads(exit), nil
}

// crashLine is the line in which a Go program says why it crashed.
func crashLine(exit supervise.Exit) string {
	for line := range strings.Lines(exit.Stderr) {
		for _, begin := range []string{"fatal error: ", "panic: ", "runtime: ", "runtime/cgo: ", "SIG"} {
			if strings.HasPrefix(line, begin) {
				return strings.TrimSpace(line)
			}
		}
	}
	return exit.String()
}

// converse hands the module over and takes what comes back until the verdict.
func (a *admission) converse(p *supervise.Process, frame []byte) (*admissionReport, error) {
	if _, err := p.In().Write(frame); err != nil {
		return nil, err
	}
	in := readFrames(p.Out(), fromChild)
	var fault error // of the module's schema
	var buf []byte
	for {
		kind, _, body, err := in.next(buf)
		if err != nil {
			return nil, err
		}
		switch kind {
		case frameStage:
			a.stage = quote.Short(string(body), 200)
		case frameLog:
			err = a.takeLog(body)
		case frameSchema:
			fault, err = answerSchema(p.In(), body, a.opts.CheckConfig, a.spec.Config)
		case frameAdmitted:
			report, err := readAdmitted(body)
			if err == nil && fault != nil { // the child knows its text alone
				report = &admissionReport{Reason: quote.Short(fault.Error(), maxText/2)}
			}
			return report, err
		default:
			err = fmt.Errorf("%w: type %d from an admission", errFrame, kind)
		}
		if err != nil {
			return nil, err
		}
		buf = kept(body)
	}
}

func (a *admission) takeLog(body []byte) error {
	f := fields{b: body}
	level, line := f.number("level", 1<<32-1), f.text("line", maxLogText)
	if a.lines++; a.lines > maxAdmissionLog {
		return fmt.Errorf("%w: more than %d log lines", errFrame, maxAdmissionLog)
	}
	if err := f.end(); err != nil {
		return err
	}
	a.opts.log(a.spec.Name, int(level), quote.Short(string(line), maxLogText))
	return nil
}
