package conform

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yett-dev/yett/core/pin"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const (
	drainLimit   = 30 * time.Second
	maxProcesses = 64 // of one plugin
	quietTime    = time.Second
	maxLogged    = 1 << 20 // bytes on standard error; the gateway logs at most 50 lines of 1 KiB a second
)

func endChecks() []check {
	return []check{
		{name: "stdout", from: atReady, process: true, limit: startLimit + 10*time.Second, run: checkStdout,
			expects: "nothing but the handshake line on standard output, and no flood on standard error, whatever is asked " +
				"and while nothing is"},
		{name: "processes", from: atReady, process: true, run: checkProcesses,
			expects: "a plugin is at most 64 processes"},
		{name: "drain", from: atReady, process: true, limit: startLimit + drainLimit + 5*time.Second, run: checkDrain,
			expects: "after SIGTERM, with calls in flight and streams open, what was begun is answered and the process ends " +
				"with exit status 0 within 30 s"},
		{name: "leftovers", from: atReady, process: true, limit: startLimit + drainLimit + 5*time.Second, run: checkLeftovers,
			expects: "when the process has ended, none that it started is left, and nobody holds its standard output"},
		{name: "kill", from: atReady, process: true, limit: 2*startLimit + 5*time.Second, run: checkKill,
			expects: "after kill -9 a new process comes up and answers the same"},
		{name: "file", process: true, run: checkFile,
			expects: "the file is the same as at the beginning: its digest is what the operator pins"},
	}
}

// exercise hands over the settings and asks for a little of everything.
func (r *run) exercise(ctx context.Context, s Session) (string, error) {
	if _, err := r.plugin(s).Info(ctx, r.infoRequest(1)); err != nil {
		return "", r.gone(s, fmt.Errorf("Info: %s", said(err)))
	}
	if err := r.configure(ctx, s); err != nil {
		return "", r.gone(s, err)
	}
	answers, err := r.answers(ctx, s)
	if err != nil {
		return "", err
	}
	all := []string{answers.String()}
	if r.is(scannerKind) {
		for i, text := range r.texts() {
			resp, err := r.scan(ctx, s, uint64(i)+1, text)
			if err != nil {
				return "", err
			}
			all = append(all, spans(resp))
		}
	}
	if r.is(subscriberKind) {
		f, err := r.consume(ctx, s)
		if err != nil {
			return "", err
		}
		defer f.cancel()
		if err := f.all(newLog().batch(3)); err != nil {
			return "", err
		}
	}
	return strings.Join(all, "; "), nil
}

func checkStdout(ctx context.Context, r *run) error {
	s, err := r.direct(ctx, false)
	if err != nil {
		return err
	}
	defer r.done(s)
	if _, err := r.exercise(ctx, s); err != nil {
		return err
	}
	select {
	case <-time.After(quietTime):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.process.Kill()
	select {
	case <-s.read:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if wrote := s.process.Exit().Wrote; wrote > maxLogged {
		return failed("log little: the gateway writes down at most 50 lines of 1 KiB a second, and slows down who writes "+
			"much more",
			"it wrote %d bytes to standard error for a few calls and a second without any", wrote)
	}
	if noise := s.noise(); noise != "" {
		return failed("log to standard error; standard output is the gateway's, which drops what comes after the handshake",
			"standard output has more than the handshake: %q", short(noise))
	}
	return nil
}

func checkProcesses(ctx context.Context, r *run) error {
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	defer r.done(s)
	if _, err := r.exercise(ctx, s); err != nil {
		return err
	}
	n := 1 + descendants(s.Process().Pid(), 16*maxProcesses)
	if n > maxProcesses {
		return failed("use threads, or a bounded number of helpers", "after a few calls it is %d processes", n)
	}
	r.saw("%d", n)
	return nil
}

// pending is a call whose request is with the plugin and whose answer is not here yet.
type pending struct {
	stream grpc.ClientStream
	reply  any
	method string
}

// begin sends one request without waiting for its answer.
func begin(ctx context.Context, s Session, method string, req, reply any) (*pending, error) {
	st, err := bounded{s.Conn()}.NewStream(ctx, &grpc.StreamDesc{}, method)
	if err != nil {
		return nil, err
	}
	return &pending{st, reply, method}, st.SendMsg(req)
}

// inTheMiddle brings a plugin into the middle of its work: calls that it has begun, and every stream of the gateway
// open.
func (r *run) inTheMiddle(ctx context.Context, s Session) (calls []*pending, err error) {
	health, err := r.plugin(s).Health(ctx, &pluginv1.HealthRequest{IntervalMs: 1000})
	if err != nil {
		return nil, err
	}
	if _, err := health.Recv(); err != nil {
		return nil, err
	}
	const each = 8
	if r.is(authorizer) && r.info.GetCapabilities().GetCheckStream() {
		st, err := r.authorizer(s).CheckStream(ctx)
		if err != nil {
			return nil, err
		}
		if err := st.Send(r.unknownCall(1)); err != nil {
			return nil, err
		}
		if _, err := st.Recv(); err != nil {
			return nil, err
		}
	}
	if r.is(subscriberKind) {
		f, err := r.consume(ctx, s)
		if err != nil {
			return nil, err
		}
		if err := f.all(newLog().batch(3)); err != nil {
			return nil, err
		}
	}
	for i := range each {
		if r.is(authorizer) {
			p, err := begin(ctx, s, pluginv1.Authorizer_Check_FullMethodName, r.unknownCall(uint64(i)+1),
				&pluginv1.CheckResponse{})
			if err != nil {
				return nil, err
			}
			calls = append(calls, p)
		}
		if r.is(scannerKind) {
			p, err := begin(ctx, s, pluginv1.Scanner_Scan_FullMethodName, r.text(uint64(i)+1, "some text"),
				&pluginv1.ScanResponse{})
			if err != nil {
				return nil, err
			}
			calls = append(calls, p)
		}
	}
	// on the same connection: when it is answered, the others have arrived
	_, err = r.plugin(s).Info(ctx, r.infoRequest(1))
	return calls, err
}

func checkDrain(ctx context.Context, r *run) error {
	s, err := r.direct(ctx, false)
	if err != nil {
		return err
	}
	defer r.done(s)
	if err := r.configure(ctx, s); err != nil {
		return r.gone(s, err)
	}
	calls, err := r.inTheMiddle(ctx, s)
	if err != nil {
		return r.gone(s, asFault(err))
	}
	const advice = "on SIGTERM take no more calls, answer those that were begun, end the streams and exit with 0 " +
		"(plugin.Serve does)"
	s.process.Terminate()
	began := time.Now()
	for _, c := range calls {
		err := c.stream.RecvMsg(c.reply)
		if code := status.Code(err); err != nil && (code == codes.Unavailable || code == codes.Canceled || ctx.Err() != nil) {
			return failed(advice, "a call that was begun before SIGTERM was not answered: %s", said(err))
		}
	}
	select {
	case <-s.process.Done():
	case <-time.After(r.opts.drain):
		return failed(advice, "it still runs %v after SIGTERM", r.opts.drain)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if exit := s.process.Exit(); exit.Code != 0 || exit.Signal != "" {
		how := fmt.Sprintf("exit status %d", exit.Code)
		if exit.Signal != "" {
			how = exit.Signal
		}
		return failed(advice, "after SIGTERM it ended with %s", how)
	}
	r.saw("%d calls answered, ended after %d ms", len(calls), time.Since(began).Milliseconds())
	return nil
}

func checkLeftovers(ctx context.Context, r *run) error {
	s, err := r.direct(ctx, false)
	if err != nil {
		return err
	}
	defer r.done(s)
	if _, err := r.exercise(ctx, s); err != nil {
		return err
	}
	askToEnd(s.process)
	select {
	case <-s.process.Done():
	case <-time.After(r.opts.drain):
		return failed("see the check drain", "it still runs %v after SIGTERM", r.opts.drain)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	const advice = "a helper of the plugin ends with it: give it a pipe whose end it notices, or PR_SET_PDEATHSIG"
	if left := s.process.Exit().Left; len(left) > 0 {
		return failed(advice, "%d processes that it started are left after its end: %s", len(left),
			oneLine(strings.Join(left, ", ")))
	}
	select {
	case <-s.read:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.held() {
		return failed(advice, "after its end another process still holds its standard output")
	}
	return nil
}

func checkKill(ctx context.Context, r *run) error {
	first, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	before, err := r.exercise(ctx, first)
	if err != nil {
		return err
	}
	p := first.Process()
	p.Kill()
	select {
	case <-p.Done():
	case <-ctx.Done():
		return fmt.Errorf("it does not end by SIGKILL: %w", context.Cause(ctx))
	}
	r.done(first)
	second, err := r.fresh(ctx)
	if err != nil {
		return fmt.Errorf("after kill -9, start it again: %w", asFault(err))
	}
	defer r.done(second)
	after, err := r.exercise(ctx, second)
	if err != nil {
		return fmt.Errorf("after kill -9: %w", err)
	}
	if before != after {
		return failed("answers depend on the call and the settings, not on what the process has seen",
			"before kill -9 it answered %s, after it %s", before, after)
	}
	return nil
}

func checkFile(_ context.Context, r *run) error {
	now, err := pin.File(r.opts.Path, maxFile)
	if err != nil {
		return err
	}
	if now != r.digest {
		return failed("nothing may write to the plugin's file: the gateway would not run it again",
			"the file was %s and is %s now", r.digest, now)
	}
	return nil
}
