package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// logCredit is how many log lines one call may cause: its own, and those of an instance that is started and described
// because of it.
const logCredit = 3 * (abi.MaxLogLines + 1)

// link is the connection to one worker process whose module is loaded.
type link struct {
	worker  *Worker
	process *supervise.Process
	in      *frames // the reader's

	writeMu sync.Mutex
	out     io.Writer
	buf     []byte

	mu      sync.Mutex
	pending map[uint64]*pending
	last    uint64 // id
	credit  int    // log lines that may still come
	dead    error  // why no more calls are taken
}

// pending is one call that waits for its answer. Whoever takes it out of link.pending completes it.
type pending struct {
	kind  byte // what answers it, beside frameFault
	lost  bool // the worker was ended for another key's text: the call may be made again
	asked asked
	who   whose

	result  Result
	verdict sdk.Verdict
	err     error
	done    chan struct{}
	timer   *time.Timer
}

// probe gives a new process the module and waits until it is loaded there.
func (w *Worker) probe(ctx context.Context, p *supervise.Process) error {
	if w.tune.started != nil {
		w.tune.started(p)
	}
	w.gaps.Store(new(p.Gaps()))
	stop := context.AfterFunc(ctx, p.Kill) // ends the reads and writes below
	err := w.handshake(p)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	w.tellFirst(err)
	return err
}

func (w *Worker) handshake(p *supervise.Process) error {
	if _, err := p.In().Write(w.load); err != nil {
		return fmt.Errorf("%w: hand over the module: %w", ErrWorker, err)
	}
	l := &link{worker: w, process: p, in: readFrames(p.Out(), fromChild), out: p.In(), pending: map[uint64]*pending{},
		credit: logCredit * (w.spec.Instances + 1)}
	said, err := l.awaitReady()
	if err != nil {
		return err
	}
	if said.Digest != w.digest {
		return fmt.Errorf("%w: it loaded %q", ErrWorker, quote.Short(said.Digest, 80))
	}
	if err := w.accept(said); err != nil {
		return err
	}
	w.newStats()
	w.link.Store(l)
	w.revival.end()
	w.links.Go(l.read)
	return nil
}

// accept takes what the first process says of the module, and holds every later one to it.
func (w *Worker) accept(said *ready) error {
	if first := w.about.Load(); first != nil {
		if !reflect.DeepEqual(first, said) {
			return fmt.Errorf("%w: the module describes itself otherwise than at first", ErrWorker)
		}
		return nil
	}
	if err := checkNeeds(said.Metadata.Needs, &w.spec); err != nil {
		return err
	}
	if err := w.spec.checkNames(&said.Metadata); err != nil {
		return err
	}
	if check := w.host.opts.CheckConfig; check != nil && said.Metadata.ConfigSchema != nil {
		if err := check(said.Metadata.ConfigSchema, w.spec.Config); err != nil {
			return unfit(err)
		}
	}
	triggers, err := allTriggers(&said.Metadata, w.spec.Config)
	if err != nil {
		return err
	}
	w.triggers = triggers
	w.kinds = make(map[string]string, len(said.Metadata.Kinds))
	for _, k := range said.Metadata.Kinds {
		w.kinds[k.Name] = k.Name
	}
	w.about.Store(said)
	return nil
}

// awaitReady answers what a worker asks while it loads the module.
func (l *link) awaitReady() (*ready, error) {
	var fault error // of the module's schema
	var buf []byte
	for {
		kind, _, body, err := l.in.next(buf)
		if err != nil {
			return nil, fmt.Errorf("%w: while it loads the module: %w", ErrWorker, l.ended(err))
		}
		switch kind {
		case frameLog:
			err = l.takeLog(body)
		case frameSchema:
			fault, err = answerSchema(l.out, body, l.worker.host.opts.CheckConfig, l.worker.spec.Config)
		case frameFailed:
			f := fields{b: body}
			failure := f.failure(l.worker.spec.Name)
			if fault != nil { // the child knows its text alone
				failure = fault
			}
			if err = f.end(); err == nil {
				return nil, failure
			}
		case frameReady:
			said, err := readReady(body)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrWorker, err)
			}
			return said, nil
		default:
			err = fmt.Errorf("%w: type %d before the module is loaded", errFrame, kind)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrWorker, err)
		}
		buf = kept(body)
	}
}

// ended says how the process ended when its output did.
func (l *link) ended(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	return errors.New("the process " + endOf(l.process).String())
}

// endOf waits for the end of a process whose output has ended. It may have closed its output only, so it gets a second;
// killing it at once would hide what it died of.
func endOf(p *supervise.Process) supervise.Exit {
	defer time.AfterFunc(time.Second, p.Kill).Stop()
	return p.Exit()
}

// answerSchema tells a child whether the config is right by the module's schema. fault is that of the schema itself.
func answerSchema(out io.Writer, body []byte, check func(map[string]any, json.RawMessage) error,
	config json.RawMessage) (fault, err error) {
	var schema map[string]any
	if err := strictJSON(body, &schema); err != nil {
		return nil, fmt.Errorf("%w: schema: %s", errFrame, quote.Short(err.Error(), 200))
	}
	answer := ""
	if check != nil {
		if err := check(schema, config); err != nil {
			answer, fault = quote.Short(err.Error(), maxText/2), schemaFault(err)
		}
	}
	_, err = out.Write(simpleFrame(frameAnswer, 0, []byte(answer)))
	return fault, err
}

// takeLog passes one log line on.
func (l *link) takeLog(body []byte) error {
	f := fields{b: body}
	level, line := f.number("level", 1<<32-1), f.text("line", maxLogText)
	if err := f.end(); err != nil {
		return err
	}
	l.mu.Lock()
	l.credit--
	over := l.credit < 0
	l.mu.Unlock()
	if over {
		return fmt.Errorf("%w: more log lines than its calls may cause", errFrame)
	}
	if !utf8.Valid(line) {
		return fmt.Errorf("%w: a log line is not UTF-8", errFrame)
	}
	l.worker.log(int(level), string(line))
	return nil
}

// read takes answers until the process ends or says what is not one.
func (l *link) read() {
	var buf []byte
	for {
		kind, id, body, err := l.in.next(buf)
		if err == nil {
			if kind == frameLog {
				err = l.takeLog(body)
			} else {
				err = l.answer(kind, id, body)
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = l.ended(err)
			}
			l.end(err)
			return
		}
		buf = kept(body)
	}
}

// answer completes a call. An answer to a call that there is not, or of the wrong kind, is an error.
func (l *link) answer(kind byte, id uint64, body []byte) error {
	l.mu.Lock()
	p := l.pending[id]
	l.mu.Unlock()
	if p == nil {
		return fmt.Errorf("%w: type %d answers no call", errFrame, kind)
	}
	if kind != frameFault && kind != p.kind {
		return fmt.Errorf("%w: type %d is no answer to the call", errFrame, kind)
	}
	f := fields{b: body}
	stats := f.stats()
	fuel, hostCalls := f.cost()
	var r Result
	var v sdk.Verdict
	var fault error // not a nil *CallError
	switch kind {
	case frameFault:
		fault = f.fault(l.worker.spec.Name)
	case frameFindings:
		r = f.result(p.asked)
	case frameVerdict:
		v = f.verdict()
	}
	if err := f.end(); err != nil {
		return err
	}
	r.Fuel, r.HostCalls = fuel, hostCalls
	l.worker.keepStats(stats)
	if l.removeCall(id) {
		p.result, p.verdict = r, v
		l.complete(p, fault)
	}
	return nil
}

// removeCall removes a call and says whether it was still there.
func (l *link) removeCall(id uint64) bool {
	l.mu.Lock()
	_, there := l.pending[id]
	delete(l.pending, id)
	l.mu.Unlock()
	return there
}

// complete ends a call that was taken.
func (l *link) complete(p *pending, err error) {
	p.timer.Stop()
	p.err = err
	l.worker.of(p.who).Give(p.who.key)
	close(p.done)
}

// end kills the process and fails what waits for it.
func (l *link) end(why error) { l.endFor("", why) }

// endFor is end when a key's text is to blame, unless that is "": then the next process comes at once, and others'
// calls are made again.
func (l *link) endFor(key string, why error) {
	l.mu.Lock()
	if l.dead == nil {
		l.dead = why
	}
	why = l.dead
	lost := l.pending
	l.pending = map[uint64]*pending{}
	l.mu.Unlock()
	<-l.worker.begun
	if key != "" {
		l.worker.blame.add(key, time.Now())
		l.worker.revival.begin()
		l.worker.link.CompareAndSwap(l, nil)
		l.worker.service.Renew(l.process, why)
	} else {
		l.worker.link.CompareAndSwap(l, nil)
		l.worker.service.Fail(l.process, why)
	}
	for _, p := range lost {
		p.lost = key != "" && p.who.key != key
		l.complete(p, l.worker.fault(ErrWorker, quote.Short(why.Error(), 200), nil))
	}
}

// late ends a worker that kept an answer for too long.
func (l *link) late(id uint64, p *pending) {
	if !l.removeCall(id) {
		return
	}
	l.complete(p, l.worker.fault(ErrInterrupted, "the worker process did not answer in time and was killed",
		context.DeadlineExceeded))
	l.endFor(p.who.key, errors.New("it was killed because a call was late"))
}

// begin registers a call.
func (l *link) begin(p *pending, until time.Duration) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead != nil {
		return 0, l.dead
	}
	l.last++
	id := l.last
	l.credit = min(l.credit+logCredit, 1<<20)
	l.pending[id] = p
	p.done = make(chan struct{})
	// The write may block too, when the worker does not read.
	p.timer = time.AfterFunc(until, func() { l.late(id, p) })
	return id, nil
}

// send writes one frame with one Write.
func (l *link) send(make func(buf []byte) []byte) error {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	frame := endFrame(make(l.buf))
	l.buf = kept(frame)
	_, err := l.out.Write(frame)
	return err
}
