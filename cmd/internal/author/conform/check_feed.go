package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const subscriberKind = pluginv1.Kind_KIND_SUBSCRIBER

// ackLimit is how long the gateway waits for an acknowledgement before it begins anew.
const ackLimit = 30 * time.Second

func feedChecks() []check {
	const limit = ackLimit + 5*time.Second
	return []check{
		{name: "batches", kind: subscriberKind, from: atReady, limit: limit, run: checkBatches,
			expects: "batches are acknowledged in order within 30 s, cumulatively, and never beyond what was sent"},
		{name: "redelivery", kind: subscriberKind, from: atReady, limit: limit, run: checkRedelivery,
			expects: "after an end of the stream it goes on where the host begins, and takes records that it had before"},
		{name: "gap", kind: subscriberKind, from: atReady, limit: limit, run: checkGap,
			expects: "a batch whose records were all filtered out, and one whose records retention removed, are acknowledged"},
		{name: "second-stream", kind: subscriberKind, from: atReady, limit: limit, run: checkSecond,
			expects: "a second Consume is served or refused; the first goes on"},
		{name: "feed-malformed", kind: subscriberKind, from: atReady, limit: limit, run: checkFeedMalformed,
			expects: "a batch that contradicts itself is not acknowledged, and the plugin stays up"},
	}
}

// feed is one stream of batches.
type feed struct {
	r      *run
	s      Session
	stream grpc.BidiStreamingClient[pluginv1.Batch, pluginv1.Ack]
	sent   uint64 // the last record that was sent
	acked  uint64
	ctx    context.Context
	cancel context.CancelFunc
}

func (r *run) consume(ctx context.Context, s Session) (*feed, error) {
	r.alone(s)
	ctx, cancel := context.WithCancel(ctx)
	st, err := r.subscriber(s).Consume(ctx)
	if err != nil {
		cancel()
		return nil, r.gone(s, fmt.Errorf("Consume: %s", said(err)))
	}
	return &feed{r: r, s: s, stream: st, ctx: ctx, cancel: cancel}, nil
}

const ackAdvice = "acknowledge with the seq of the last record that is safe; seq never falls and is never beyond " +
	"last_seq of the last batch"

func (f *feed) send(b *pluginv1.Batch) error {
	if err := f.stream.Send(b); err != nil {
		if errors.Is(err, io.EOF) { // Recv has the reason
			_, err = f.stream.Recv()
		}
		return f.r.gone(f.s, failed(ackAdvice, "Consume ended: %s", said(err)))
	}
	f.sent = max(f.sent, b.LastSeq)
	return nil
}

// await reads acknowledgements up to a record.
func (f *feed) await(seq uint64) error {
	late := time.AfterFunc(f.r.opts.ack, f.cancel)
	defer late.Stop()
	for f.acked < seq {
		ack, err := f.stream.Recv()
		switch {
		case err != nil && f.ctx.Err() != nil:
			return failed(ackAdvice, "record %d was sent %v ago, and %d is what was acknowledged", f.sent, f.r.opts.ack, f.acked)
		case err != nil:
			return f.r.gone(f.s, failed(ackAdvice, "record %d was sent, and %d acknowledged: %s", f.sent, f.acked, said(err)))
		case ack.Error != "":
			return failed("with these settings it cannot take records; give others with --config",
				"record %d could not be taken in: %s", ack.Seq+1, oneLine(ack.Error))
		case ack.Seq > f.sent:
			return failed(ackAdvice, "record %d was acknowledged, and only those up to %d were sent", ack.Seq, f.sent)
		case ack.Seq != 0 && ack.Seq < f.acked:
			return failed(ackAdvice, "after record %d, record %d was acknowledged", f.acked, ack.Seq)
		}
		f.acked = max(f.acked, ack.Seq)
	}
	return nil
}

// all sends batches, at most four without an acknowledgement, and waits for them.
func (f *feed) all(batches ...*pluginv1.Batch) error {
	const window = 4
	for i, b := range batches {
		if err := f.send(b); err != nil {
			return err
		}
		if i >= window-1 {
			if err := f.await(batches[i-window+1].LastSeq); err != nil {
				return err
			}
		}
	}
	return f.await(f.sent)
}

func checkBatches(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	f, err := r.consume(ctx, s)
	if err != nil {
		return err
	}
	defer f.cancel()
	log := newLog()
	began := time.Now()
	if err := f.all(log.batch(1)); err != nil {
		return err
	}
	if err := f.all(log.batch(3), log.batch(256), log.batch(10), log.batch(1), log.batch(100)); err != nil {
		return err
	}
	r.saw("371 records in %d ms", time.Since(began).Milliseconds())
	if err := f.stream.CloseSend(); err != nil {
		return err
	}
	if ack, err := f.stream.Recv(); err == nil && ack.Seq > f.sent {
		return failed(ackAdvice, "at the end record %d was acknowledged, and only those up to %d were sent", ack.Seq, f.sent)
	} else if err == nil {
		return nil // the same once more does no harm
	} else if !errors.Is(err, io.EOF) {
		return r.gone(s, failed("when the host ends the stream and all is acknowledged, end it without an error",
			"Consume ended with %s", said(err)))
	}
	return nil
}

func checkRedelivery(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	log := newLog()
	first, second, third := log.batch(5), log.batch(5), log.batch(5)
	replay := proto.CloneOf(first)
	replay.Replay = true
	for i, batches := range [][]*pluginv1.Batch{{first, second}, {second, third}, {replay}} {
		f, err := r.consume(ctx, s)
		if err != nil {
			return err
		}
		err = f.all(batches...)
		f.cancel()
		if err != nil {
			return fmt.Errorf("stream %d, from record %d on: %w", i+1, batches[0].FirstSeq, err)
		}
	}
	return nil
}

func checkGap(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	f, err := r.consume(ctx, s)
	if err != nil {
		return err
	}
	defer f.cancel()
	log := newLog()
	for _, b := range []struct {
		what  string
		batch *pluginv1.Batch
	}{{"a batch", log.batch(2)}, {"a batch without records", log.batch(0)}, {"a gap", log.gap(5)},
		{"the batch after the gap", log.batch(2)}} {
		if err := f.all(b.batch); err != nil {
			return fmt.Errorf("%s: %w", b.what, err)
		}
	}
	return nil
}

func checkSecond(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	first, err := r.consume(ctx, s)
	if err != nil {
		return err
	}
	defer first.cancel()
	log := newLog()
	if err := first.all(log.batch(2)); err != nil {
		return err
	}
	served := "refused"
	if second, err := r.consume(ctx, s); err == nil {
		defer second.cancel()
		err = second.all(newLog().batch(2))
		if err == nil {
			served = "served"
		} else if ctx.Err() != nil || ended(s) {
			return fmt.Errorf("a second Consume beside the first: %w", err)
		}
	}
	if err := first.all(log.batch(2)); err != nil {
		return fmt.Errorf("the first Consume, after a second one was %s: %w", served, err)
	}
	r.saw("the second one is %s", served)
	return nil
}

func checkFeedMalformed(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	make := func(change func(b *pluginv1.Batch)) *pluginv1.Batch {
		b := newLog().batch(3)
		change(b)
		return b
	}
	for _, m := range []struct {
		what  string
		batch *pluginv1.Batch
	}{
		{"without a store", make(func(b *pluginv1.Batch) { b.StoreId = "" })},
		{"that ends before it begins", make(func(b *pluginv1.Batch) { b.FirstSeq, b.LastSeq, b.Records = 9, 3, nil })},
		{"with a record outside its range", make(func(b *pluginv1.Batch) { b.Records[1].Seq = 77 })},
		{"with records out of order", make(func(b *pluginv1.Batch) { b.Records[0], b.Records[1] = b.Records[1], b.Records[0] })},
		{"with a record that is no JSON", make(func(b *pluginv1.Batch) { b.Records[2].Json = []byte(`{"v":`) })},
	} {
		if err := r.refusesBatch(ctx, s, m.what, m.batch); err != nil {
			return err
		}
	}
	f, err := r.consume(ctx, s)
	if err != nil {
		return err
	}
	defer f.cancel()
	if err := f.all(newLog().batch(2)); err != nil {
		return fmt.Errorf("after malformed batches: %w", err)
	}
	return nil
}

// refusesBatch sends a bad batch on a stream of its own. It must end in an error, or in silence, not in a full
// acknowledgement.
func (r *run) refusesBatch(ctx context.Context, s Session, what string, b *pluginv1.Batch) error {
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	st, err := r.subscriber(s).Consume(within)
	if err != nil {
		return r.gone(s, fmt.Errorf("Consume: %s", said(err)))
	}
	_ = st.Send(b) // Recv has the reason
	_ = st.CloseSend()
	for {
		ack, err := st.Recv()
		switch {
		case err != nil && ended(s):
			return r.gone(s, fmt.Errorf("a batch %s: %s", what, said(err)))
		case err != nil, ack.Error != "":
			return nil
		case ack.Seq >= b.LastSeq && ack.Seq > 0:
			return failed("end the stream with INVALID_ARGUMENT: an acknowledged record never comes again",
				"a batch %s was acknowledged up to record %d", what, ack.Seq)
		}
	}
}
