package host

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/sdk/exact"
)

// RunWorker is the whole life of a worker process: it loads the module that the gateway sends on in, answers scans and
// checks on out, and returns when in ends. An error means that the two ends no longer understand each other, or that
// the module cannot be loaded, which the gateway has been told.
func RunWorker(in io.Reader, out io.Writer) error {
	s := &server{out: out, in: readFrames(in, toChild(MaxMemory)), reading: make(chan struct{}, 1),
		cancels: map[uint64]context.CancelFunc{}}
	s.reading <- struct{}{}
	spec, err := s.awaitLoad()
	if err != nil {
		return err
	}
	ctx := context.Background()
	// No cache directory: what a worker could write there would be executed by the gateway.
	host, err := New(ctx, Options{Log: s.log, CheckConfig: s.checkConfig})
	if err != nil {
		return s.failed(err)
	}
	if s.module, err = host.Load(ctx, spec); err != nil {
		return s.failed(errors.Unwrap(err)) // whoever spawned us says themselves which module they load
	}
	err = s.ready()
	if err == nil {
		err = s.serve(spec.Instances)
	}
	return errors.Join(err, host.Close(ctx))
}

// server is a worker process from its inside.
type server struct {
	module *Module

	in      *frames
	reading chan struct{} // holds a token while nobody reads from in

	writeMu sync.Mutex
	out     io.Writer

	mu      sync.Mutex
	cancels map[uint64]context.CancelFunc // of the calls that run
}

func (s *server) write(frame []byte) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	_, err := s.out.Write(frame)
	return err
}

func (s *server) awaitLoad() (Spec, error) {
	kind, _, body, err := s.in.next(nil)
	if err == nil && kind != frameLoad {
		err = fmt.Errorf("%w: type %d before the module", errFrame, kind)
	}
	if err != nil {
		return Spec{}, err
	}
	spec, err := readLoad(body)
	if err != nil {
		return Spec{}, err
	}
	if spec, err = spec.withDefaults(); err != nil {
		return spec, err
	}
	// The gateway keeps calls apart, by key and by what they are for: here there is a place for each that it lets through.
	spec.Instances = min(atOnce(spec.Instances), MaxInstances)
	return spec, nil
}

// failed tells the gateway why there is no module, and waits until it has read that and ends us.
func (s *server) failed(err error) error {
	if werr := s.write(simpleFrame(frameFailed, 0, appendFailure(nil, err))); werr != nil {
		return errors.Join(err, werr)
	}
	_, _, _, rerr := s.in.next(nil)
	if errors.Is(rerr, io.EOF) {
		rerr = nil
	}
	return errors.Join(err, rerr)
}

// checkConfig has the gateway hold the config against the module's schema. It runs only while the module is loaded,
// when nothing else reads or is expected.
func (s *server) checkConfig(schema map[string]any, _ json.RawMessage) error {
	doc, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	if err := s.write(simpleFrame(frameSchema, 0, doc)); err != nil {
		return err
	}
	kind, _, body, err := s.in.next(nil)
	switch {
	case err != nil:
		return err
	case kind != frameAnswer:
		return fmt.Errorf("%w: type %d instead of an answer", errFrame, kind)
	case len(body) > 0:
		return errors.New(string(body))
	}
	return nil
}

func (s *server) log(_ string, level int, line string) {
	b := beginFrame(make([]byte, 0, 64+len(line)), frameLog, 0)
	b = binary.AppendUvarint(b, uint64(uint32(level)))
	// When the gateway is gone the next read says so.
	_ = s.write(endFrame(appendText(b, line)))
}

func (s *server) ready() error {
	m := s.module
	isolation, why := m.Isolation()
	doc, err := json.Marshal(ready{Metadata: m.Metadata(), Digest: m.About().Digest, Scans: m.Scans(), Checks: m.Checks(),
		Isolation: isolation, Why: quote.Short(why, maxText/2)})
	if err != nil {
		return err
	}
	return s.write(simpleFrame(frameReady, 0, doc))
}

// serve answers until the input ends. Whoever reads a call runs it, so that a call wakes nobody up before it runs; one
// goroutine more than there can be calls keeps reading, for those that are cancelled.
//
// A token says who reads, and no mutex does: a mutex that somebody has waited for long goes to them at once, and the
// one that gives it up stands back. The reader then sat in a system call with the processor that the call was queued
// on, until the runtime looked for that, 10 ms later, wherever an endless guest had the other processor.
func (s *server) serve(instances int) error {
	var wg sync.WaitGroup
	errs := make([]error, instances+1)
	for i := range errs {
		wg.Go(func() {
			if errs[i] = s.follow(); errs[i] != nil {
				s.cancelAll()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// follow reads and answers calls one by one.
func (s *server) follow() error {
	var buf, out []byte
	for {
		<-s.reading
		kind, id, body, err := s.in.next(buf)
		var run func([]byte) []byte
		if err == nil && kind != frameCancel {
			// Before the next frame is read, because that may cancel this one.
			run, err = s.begin(kind, id, body)
		}
		s.reading <- struct{}{}
		switch {
		case err != nil:
			return err
		case kind == frameCancel:
			s.cancel(id)
			continue
		}
		out = run(out)
		s.cancel(id)
		if err := s.write(out); err != nil {
			return err
		}
		buf, out = kept(body), kept(out)
	}
}

// begin decodes a call and gives what runs it and makes the frame of its answer.
func (s *server) begin(kind byte, id uint64, body []byte) (func([]byte) []byte, error) {
	switch kind {
	case frameScan:
		left, w, err := readWindow(body)
		if err != nil {
			return nil, err
		}
		ctx := s.started(id, left)
		return func(out []byte) []byte { return s.scan(ctx, id, w, out) }, nil
	case frameCheck:
		left, c, err := readCall(body)
		if err != nil {
			return nil, err
		}
		ctx := s.started(id, left)
		return func(out []byte) []byte { return s.check(ctx, id, c, out) }, nil
	}
	return nil, fmt.Errorf("%w: type %d after the module", errFrame, kind)
}

func (s *server) started(id uint64, left time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), left)
	s.mu.Lock()
	s.cancels[id] = cancel
	s.mu.Unlock()
	return ctx
}

// cancel ends the call, if it still runs.
func (s *server) cancel(id uint64) {
	s.mu.Lock()
	cancel := s.cancels[id]
	delete(s.cancels, id)
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (s *server) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.cancels {
		cancel()
	}
	clear(s.cancels)
}

func (s *server) scan(ctx context.Context, id uint64, w Window, out []byte) []byte {
	r, err := s.module.ScanWindow(ctx, w)
	if err != nil {
		return endFrame(appendFault(appendCost(s.answer(out, frameFault, id), &r), err))
	}
	return endFrame(appendResult(appendCost(s.answer(out, frameFindings, id), &r), &r))
}

func (s *server) check(ctx context.Context, id uint64, c *chain.Call, out []byte) []byte {
	v, err := s.module.Check(ctx, c)
	if err != nil {
		return endFrame(appendFault(appendCost(s.answer(out, frameFault, id), &Result{}), err))
	}
	return endFrame(appendVerdict(appendCost(s.answer(out, frameVerdict, id), &Result{}), &v))
}

// answer begins an answer; what the call cost and what came out follow.
func (s *server) answer(out []byte, kind byte, id uint64) []byte {
	return appendStats(beginFrame(out, kind, id), s.module.Stats())
}

// appendCall adds the body of a frameCheck: the time left and the document that the guest reads.
func appendCall(b []byte, left time.Duration, c *chain.Call) []byte {
	return appendText(binary.AppendUvarint(b, uint64(max(left, 1))), callDocument(c))
}

// callLimits are those of a request's body and a little more, for what callDocument adds.
var callLimits = exact.Limits{Depth: exact.DefaultLimits.Depth + 2, Tokens: exact.DefaultLimits.Tokens + 64}

// readCall decodes the body of a frameCheck into what callDocument makes the same document of.
func readCall(body []byte) (left time.Duration, c *chain.Call, err error) {
	f := fields{b: body}
	left = time.Duration(f.number("time", 1<<62))
	text := string(f.text("call", MaxMemory))
	if err := f.end(); err != nil {
		return 0, nil, err
	}
	doc := new(exact.Doc)
	if err := doc.Parse(text, callLimits); err != nil {
		return 0, nil, fmt.Errorf("%w: call: %w", errFrame, err)
	}
	v := doc.Root()
	return left, &chain.Call{AgentID: v.Get("agent_id").Str(), SessionID: v.Get("session_id").Str(),
		ToolID: v.Get("tool_id").Str(), Operation: v.Get("operation").Str(), CallID: v.Get("call_id").Str(),
		Args: v.Get("args"), Context: v.Get("context")}, nil
}

// appendFailure adds why a module could not be loaded.
func appendFailure(b []byte, err error) []byte {
	var refused *RefusedError
	var call *CallError
	switch {
	case errors.As(err, &refused):
		return appendText(append(b, 1), quote.Short(refused.Reason, maxText/2))
	case errors.As(err, &call):
		return appendFault(append(b, 2), err)
	}
	return appendText(append(b, 0), quote.Short(err.Error(), maxText/2))
}

// failure reads what appendFailure wrote.
func (f *fields) failure(module string) error {
	switch f.number("failure", 2) {
	case 1:
		return &RefusedError{Reason: quote.Short(string(f.text("reason", 2*maxText)), maxText)}
	case 2:
		return f.fault(module)
	}
	return errors.New(quote.Short(string(f.text("error", 2*maxText)), maxText))
}
