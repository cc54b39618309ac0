package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

var (
	_ chain.PieceScanner = (*Worker)(nil)
	_ chain.Checker      = (*Worker)(nil)
)

// WorkerArg is the argument under which the binary runs RunWorker.
const WorkerArg = "wasm-worker"

const (
	// answerGrace is how long a call waits after its deadline for its worker to say that it was late.
	answerGrace = 25 * time.Millisecond

	// lateBy is how long a worker may keep an answer after a call's deadline before it is killed, and with it what it does
	// for others. A busy machine keeps a sound one from the processor for hundreds of milliseconds.
	lateBy = time.Second

	// compileTime is how long a worker may compile, beside Spec.Start. It has no compile cache, since that is native code
	// and a worker that was taken over could write there what the gateway executes.
	compileTime = time.Minute

	// closeTime is how long an idle worker may take to end before it is killed.
	closeTime = time.Second

	// What a worker's own runtime takes, measured with room: address space is mostly reserved and never touched.
	workerSpace = 4 << 30
	workerData  = 1 << 30
	workerFiles = 64
)

// workerBackoff never gives a worker up. Who may send texts may find one that makes it late, and must not be able to
// take the module away from everybody else for good.
var workerBackoff = supervise.Backoff{First: 50 * time.Millisecond, Most: 2 * time.Second, Crashes: math.MaxInt32}

// Worker is a module that runs in a process of its own, for authors that are not trusted. It has the methods of a
// Module and is safe for concurrent use. The process is started again after it ended; until the module is loaded there
// every call fails with ErrWorker at once. A call takes at most Spec.Timeout, and that includes the start of an
// instance.
type Worker struct {
	host   *Host
	spec   Spec
	load   []byte // the frame that a new process gets
	digest string
	tune   workerTuning

	service *supervise.Service
	begun   chan struct{}        // closed when service is set
	link    atomic.Pointer[link] // nil while down
	links   sync.WaitGroup
	about   atomic.Pointer[ready] // what the first process said of the module
	gaps    atomic.Pointer[[]confine.Gap]

	// Set before about, once, by the first process.
	kinds    map[string]string
	triggers []abi.Trigger

	first   chan error // how the first start went
	places  *places.Places
	masks   *places.Places
	closing chan struct{}
	blame   blame
	revival revival

	closeMu sync.Mutex
	closed  bool

	calls, errs atomic.Uint64

	statsMu sync.Mutex
	base    Stats // of the processes that ended
	latest  Stats // of the one that runs
}

// workerTuning is what tests change.
type workerTuning struct {
	args    []string
	limits  supervise.Limits
	change  func(*supervise.Settings)
	started func(*supervise.Process) // told of every process, before it gets the module
	late    time.Duration            // 0: lateBy
}

// Spawn loads a module in a worker process and returns when it is loaded there, or why it is not. ctx bounds the wait.
// Errors are those of Load, or wrap ErrWorker when the process is at fault. A Worker is closed by who asked for it: the
// Host's Close does not know it.
func (h *Host) Spawn(ctx context.Context, spec Spec) (*Worker, error) {
	return h.spawn(ctx, spec, workerTuning{args: []string{WorkerArg}})
}

func (h *Host) spawn(ctx context.Context, spec Spec, tune workerTuning) (*Worker, error) {
	w, err := h.newWorker(spec, tune)
	if err != nil {
		return nil, fmt.Errorf("load module %q: %w", spec.Name, err)
	}
	settings := supervise.Settings{Name: w.spec.Name, Command: w.command, StartTimeout: w.spec.Start + compileTime,
		Probe: w.probe, Notify: w.notify, Backoff: workerBackoff}
	if tune.change != nil {
		tune.change(&settings)
	}
	w.service = supervise.Supervise(settings)
	close(w.begun)
	select {
	case err = <-w.first:
	case <-ctx.Done():
		err = fmt.Errorf("%w: it is not ready yet: %w", ErrWorker, ctx.Err())
	}
	if err != nil {
		err = fmt.Errorf("load module %q: %w", spec.Name, spec.Hide.Error(err))
		return nil, errors.Join(err, w.Close(context.WithoutCancel(ctx)))
	}
	return w, nil
}

func (h *Host) newWorker(spec Spec, tune workerTuning) (*Worker, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(spec.Code) > abi.MaxModule {
		return nil, refusef("%d bytes: at most %d are allowed", len(spec.Code), abi.MaxModule)
	}
	w := &Worker{host: h, digest: pin.Digest(spec.Code), tune: tune, first: make(chan error, 1),
		places: newPlaces(spec.Instances), masks: newPlaces(maskPlaces), closing: make(chan struct{}),
		begun: make(chan struct{})}
	if w.load, err = loadFrame(spec); err != nil {
		return nil, err
	}
	spec.Code = nil
	w.spec = spec
	if w.tune.limits == (supervise.Limits{}) {
		w.tune.limits = workerLimits(&spec)
	}
	return w, nil
}

// workerLimits bound a worker by what its instances may have and what the runtime needs beside them. The time is not
// bounded: a worker lives as long as the gateway, and a call that is late ends it.
func workerLimits(s *Spec) supervise.Limits {
	memory := uint64(atOnce(s.Instances)+1) * (s.Memory + 16<<20)
	return supervise.Limits{Memory: workerSpace + 2*memory, Data: workerData + 2*memory, Files: workerFiles,
		FileSize: s.Memory + pageSize}
}

// atOnce is how many calls a module of so many instances may have at once: its places, those of masking, and the spare
// one of each.
func atOnce(instances int) int { return instances + 1 + maskPlaces + 1 }

func (w *Worker) command() (supervise.Command, error) {
	return supervise.Command{Name: w.spec.Name, Args: w.tune.args, Limits: w.tune.limits, Pipe: true, Env: childEnv,
		Confine: sealed(&w.spec), Log: func(line string) { w.log(LevelStderr, "worker process: "+line) }}, nil
}

// notify hears of every change of the process's state. A first start that failed ends Spawn.
func (w *Worker) notify(c supervise.Change) {
	w.revived(c)
	if c.To == supervise.StateBackoff || c.To == supervise.StateQuarantined {
		err := c.Err
		if err == nil {
			err = errors.New("it ended")
		}
		w.tellFirst(fmt.Errorf("%w: %w", ErrWorker, err))
	}
}

func (w *Worker) tellFirst(err error) {
	select {
	case w.first <- err:
	default:
	}
}

// Gaps says what the worker process is not confined in.
func (w *Worker) Gaps() []confine.Gap {
	if gaps := w.gaps.Load(); gaps != nil {
		return *gaps
	}
	return nil
}

func (w *Worker) log(level int, line string) {
	if log := w.host.opts.Log; log != nil {
		log(w.spec.Name, level, w.spec.Hide.Hide(line))
	}
}

// Scan scans one text as a whole. Errors are *CallError: see Err… for what can be wrong.
func (w *Worker) Scan(ctx context.Context, in *chain.Input) ([]sdk.Finding, error) {
	r, err := w.ScanWindow(ctx, wholeOf(in))
	return r.Findings, err
}

// ScanHits scans one text as a whole and tells the module where its triggers occur. Without complete it reads
// everything.
func (w *Worker) ScanHits(ctx context.Context, text string, hits []Hit, complete bool) ([]sdk.Finding, error) {
	r, err := w.ScanWindow(ctx, Window{Text: text, Hits: hits, Complete: complete, Flags: abi.FlagFirst | abi.FlagFinal})
	return r.Findings, err
}

// ScanPiece scans one piece of a stream that the chain keeps. Errors are *CallError.
func (w *Worker) ScanPiece(ctx context.Context, piece *chain.Window) ([]sdk.Finding, []byte, error) {
	r, err := w.ScanWindow(ctx, pieceOf(piece))
	return r.Findings, r.State, err
}

// ScanWindow scans one window of a stream, or a text as a whole.
func (w *Worker) ScanWindow(ctx context.Context, win Window) (Result, error) {
	p := &pending{kind: frameFindings, who: whose{win.Key, win.Masking},
		asked: asked{scanner: w.spec.Name, kinds: w.kinds, window: len(win.Text),
			stream: win.Flags&abi.FlagStream != 0}}
	err := w.checkWindow(&win)
	if err == nil {
		err = w.ask(ctx, p, func(b []byte, id uint64, left time.Duration) []byte {
			return appendWindow(beginFrame(b, frameScan, id), left, &win)
		})
	} else {
		w.count(err)
	}
	select {
	case <-p.done:
		return w.spec.result(p.result, err) // what it cost is there beside an error too
	default:
		return Result{}, w.spec.Hide.Error(err) // nobody waited for the answer, which may just come
	}
}

// checkWindow refuses what would make a frame too long. The worker's Module checks the rest.
func (w *Worker) checkWindow(win *Window) error {
	switch {
	case !w.Scans():
		return w.fault(ErrNoExport, abi.ExportScan, nil)
	case len(win.State) > abi.MaxState:
		return w.fault(ErrInput, fmt.Sprintf("state of %d bytes: at most %d are allowed", len(win.State), abi.MaxState), nil)
	case uint64(len(win.Text)) > min(w.spec.Memory, math.MaxInt32):
		return w.fault(ErrInput, fmt.Sprintf("%d bytes are more than the memory limit of %d", len(win.Text), w.spec.Memory),
			nil)
	case len(win.Hits) > abi.MaxHits:
		return w.fault(ErrInput, fmt.Sprintf("%d hits: at most %d are allowed", len(win.Hits), abi.MaxHits), nil)
	}
	return nil
}

// Check asks the module about one call, as Module.Check does.
func (w *Worker) Check(ctx context.Context, what *chain.Call) (sdk.Verdict, error) {
	if !w.Checks() {
		err := w.fault(ErrNoExport, abi.ExportCheck, nil)
		w.count(err)
		return sdk.Verdict{}, err
	}
	p := &pending{kind: frameVerdict, who: whose{key: what.KeyID}}
	err := w.ask(ctx, p, func(b []byte, id uint64, left time.Duration) []byte {
		return appendCall(beginFrame(b, frameCheck, id), left, what)
	})
	if err != nil {
		return w.spec.verdict(sdk.Verdict{}, err)
	}
	return w.spec.verdict(p.verdict, nil)
}

// Metadata is what the module says about itself. The caller must not change what it points to.
func (w *Worker) Metadata() abi.Metadata { return w.about.Load().Metadata }

// Triggers are all that the host has to look for, as Module.Triggers.
func (w *Worker) Triggers() []abi.Trigger { return w.triggers }

// Scans says whether the module exports yett_scan.
func (w *Worker) Scans() bool { return w.about.Load().Scans }

// Checks says whether the module exports yett_check.
func (w *Worker) Checks() bool { return w.about.Load().Checks }

// About gives the module's own version and the digest of the bytes that Spawn was given.
func (w *Worker) About() chain.About {
	return chain.About{Version: w.Metadata().Version, Digest: w.digest}
}

// Isolation is what is in force between calls, and why it is not what Spec asked for; "" if it is. The second is the
// worker's word.
func (w *Worker) Isolation() (Isolation, string) {
	about := w.about.Load()
	return about.Isolation, w.spec.Hide.Hide(about.Why)
}

// State is that of the process.
func (w *Worker) State() supervise.Status {
	s := w.service.State()
	s.Err = w.spec.Hide.Error(s.Err)
	return s
}

// Resume ends a quarantine: the process is started again.
func (w *Worker) Resume() { w.service.Resume() }

// Stats are the counters as they are now, over all processes that there were. What a process says of its instances it
// says with each answer, and nobody checks it.
func (w *Worker) Stats() Stats {
	w.statsMu.Lock()
	s := w.base.plus(w.latest)
	s.Live, s.Memory = w.latest.Live, w.latest.Memory
	w.statsMu.Unlock()
	s.Calls, s.Errors = w.calls.Load(), w.errs.Load()
	return s
}

// plus adds counters.
func (s Stats) plus(t Stats) Stats {
	s.Fuel += t.Fuel
	s.Discarded += t.Discarded
	s.Grown += t.Grown
	s.LogLines += t.LogLines
	s.LogBytes += t.LogBytes
	return s
}

func (w *Worker) keepStats(s Stats) {
	w.statsMu.Lock()
	w.latest = s
	w.statsMu.Unlock()
}

// newStats starts the counters of a new process.
func (w *Worker) newStats() {
	w.statsMu.Lock()
	w.base, w.latest = w.base.plus(w.latest), Stats{}
	w.statsMu.Unlock()
}

func (w *Worker) fault(fault error, detail string, cause error) error {
	return &CallError{Module: w.spec.Name, Fault: fault, Detail: detail, Err: cause}
}

// absent is the fault of a worker that does not run, with when it will.
func (w *Worker) absent() error {
	st := w.service.State()
	return w.fault(ErrWorker, "it is not running", chain.Later(errors.New(string(st.State)), st.Away(time.Now())))
}

func (w *Worker) count(err error) {
	w.calls.Add(1)
	if err != nil {
		w.errs.Add(1)
	}
}

// Close refuses new calls, waits for those that run and ends the process. When ctx ends first its error is returned and
// Close may be called again.
func (w *Worker) Close(ctx context.Context) error {
	w.closeMu.Lock()
	defer w.closeMu.Unlock()
	if w.closed {
		return nil
	}
	select {
	case <-w.closing:
	default:
		close(w.closing)
	}
	if err := closePlaces(ctx, w.spec.Name, w.places, w.masks); err != nil {
		return err
	}
	// No call runs: there is nothing that the process needs time for.
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	if err := w.service.Close(ctx); err != nil {
		return fmt.Errorf("close module %q: %w", w.spec.Name, err)
	}
	w.links.Wait()
	w.closed = true
	return nil
}
