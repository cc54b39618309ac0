package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

func streamChecks() []check {
	return []check{
		{name: "stream", kind: authorizer, from: atReady, run: checkStream,
			expects: "on CheckStream 1000 interleaved requests each get one answer with their own id, and the end of the " +
				"requests ends the answers"},
		{name: "stream-malformed", kind: authorizer, from: atReady, run: checkStreamMalformed,
			expects: "a malformed request on CheckStream fails alone: its neighbours are answered"},
	}
}

// stream asks many on one stream, at most window at once, and gives the answers by id. Every rule of the stream is
// held.
func (r *run) stream(ctx context.Context, s Session, reqs []*pluginv1.CheckRequest,
	window int) (map[uint64]*pluginv1.CheckResponse, error) {
	const advice = "one answer to each request, with its id, in any order"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := r.authorizer(s).CheckStream(ctx)
	if err != nil {
		return nil, r.gone(s, failed(advice, "CheckStream: %s", said(err)))
	}
	free := make(chan struct{}, window)
	sent := make(chan struct{})
	var stop atomic.Bool
	go func() {
		defer close(sent)
		for _, q := range reqs {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return
			}
			if stop.Load() || st.Send(q) != nil { // Recv has the reason
				return
			}
		}
		_ = st.CloseSend() // Recv has the reason
	}()
	defer func() { stop.Store(true); cancel(); <-sent }()
	want := map[uint64]bool{}
	for _, q := range reqs {
		want[q.Id] = true
	}
	got := map[uint64]*pluginv1.CheckResponse{}
	for {
		resp, err := st.Recv()
		switch {
		case errors.Is(err, io.EOF) && len(got) == len(reqs):
			return got, nil
		case errors.Is(err, io.EOF):
			return nil, failed(advice, "CheckStream ended after %d answers to %d requests", len(got), len(reqs))
		case err != nil:
			return nil, r.gone(s, failed(advice, "CheckStream, after %d answers to %d requests: %s", len(got), len(reqs),
				said(err)))
		case !want[resp.Id]:
			return nil, failed(advice, "CheckStream answered the id %d, which nobody asked", resp.Id)
		case got[resp.Id] != nil:
			return nil, failed(advice, "CheckStream answered the id %d twice", resp.Id)
		}
		if err := wrongAnswer(resp.Id, resp); err != nil {
			return nil, err
		}
		got[resp.Id] = resp
		<-free
	}
}

func (r *run) streams() error {
	if !r.info.GetCapabilities().GetCheckStream() {
		return skipped("Info does not declare check_stream: the gateway asks with Check")
	}
	return nil
}

func checkStream(ctx context.Context, r *run) error {
	if err := r.streams(); err != nil {
		return err
	}
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	calls := r.calls()
	var reqs []*pluginv1.CheckRequest
	for i := range 1000 {
		reqs = append(reqs, r.check(uint64(i)*7919+1, calls[i%len(calls)]))
	}
	if _, err := r.stream(ctx, s, reqs, r.inFlight()); err != nil {
		return err
	}
	if _, err := r.stream(ctx, s, nil, 1); err != nil {
		return fmt.Errorf("a stream without a request: %w", err)
	}
	return nil
}

func checkStreamMalformed(ctx context.Context, r *run) error {
	if err := r.streams(); err != nil {
		return err
	}
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	const advice = "put what is wrong with one request into error of its answer, and keep the stream"
	bad := map[uint64]string{}
	var reqs []*pluginv1.CheckRequest
	for i := range 100 {
		q := r.unknownCall(uint64(i) + 1)
		if kinds := r.malformed(q.Id); i%9 == 4 {
			if m := kinds[i%len(kinds)]; m.req.Id != 0 {
				q, bad[q.Id] = m.req, m.what
			}
		}
		reqs = append(reqs, q)
	}
	got, err := r.stream(ctx, s, reqs, r.inFlight())
	if err != nil {
		var f *fault
		if errors.As(err, &f) {
			f.advice = advice
		}
		return err
	}
	for _, q := range reqs {
		resp := got[q.Id]
		switch what := bad[q.Id]; {
		case what != "" && resp.Error == "" && resp.Effect != pluginv1.CheckResponse_EFFECT_DENY:
			return failed(advice, "a request %s was answered with %s", what, inShort(resp))
		case what == "" && resp.Error != "":
			return failed(advice, "beside malformed requests a good one fails: %s", oneLine(resp.Error))
		}
	}
	return nil
}
