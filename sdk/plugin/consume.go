package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

type batchStream = grpc.BidiStreamingServer[pluginv1.Batch, pluginv1.Ack]

// received is what the reader of a stream of batches passes on.
type received struct {
	batch *pluginv1.Batch
	err   error
}

// Consume hands batches to the author's function in the order they come and acknowledges each. After an error the
// stream ends, so that nothing is taken in out of order: with UNAVAILABLE when no record is at fault, as when whatever
// the plugin writes to is down, so that the host only comes again later. What was taken in before that is acknowledged
// first.
func (s *server) Consume(stream batchStream) error {
	if !s.ready.Load() {
		return status.Error(codes.FailedPrecondition, "not configured: Configure comes first")
	}
	in := make(chan received)
	s.readers.Add(1)
	go s.receive(stream, in)
	for {
		select {
		case <-s.draining: // first: what was not begun is not begun any more
			return nil
		default:
		}
		var next received
		select {
		case <-s.draining:
			return nil
		case next = <-in:
		}
		if errors.Is(next.err, io.EOF) {
			return nil
		}
		if next.err != nil {
			return next.err
		}
		if goOn, err := s.takeIn(stream, next.batch); err != nil || !goOn {
			return err
		}
	}
}

// receive ends with the stream, at the latest when its handler has returned.
func (s *server) receive(stream batchStream, in chan<- received) {
	defer s.readers.Done()
	for {
		b, err := stream.Recv()
		select {
		case in <- received{b, err}:
		case <-stream.Context().Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// takeIn has one batch consumed and acknowledges it, as far as it was.
func (s *server) takeIn(stream batchStream, m *pluginv1.Batch) (goOn bool, err error) {
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	b, err := batchOf(m)
	if err != nil {
		return false, status.Error(codes.InvalidArgument, err.Error())
	}
	first, last := b.First, b.Last // the author may change b
	err = s.consumeGuarded(stream.Context(), b)
	if err == nil {
		return true, stream.Send(&pluginv1.Ack{Seq: last})
	}
	ack := &pluginv1.Ack{Seq: first - 1, Error: failure(err)}
	seq, fault, named := partial(err)
	var broke *panicError
	switch {
	case errors.As(err, &broke): // at one of the records; the host finds out which
		fault = true
	case named && (seq < first || seq > last):
		what := "Later"
		if fault {
			what = "RecordError"
		}
		ack.Error = clip(fmt.Sprintf("%s.Seq: %d is not within %d to %d: %s", what, seq, first, last, ack.Error))
	case named:
		ack.Seq = seq - 1
	}
	// an error may hold what a record holds
	s.log.Warn("consume failed; the gateway has the error", "first", first, "last", last, "acknowledged", ack.Seq)
	if fault {
		return false, stream.Send(ack)
	}
	if ack.Seq >= first { // of what came before it, the host must know before the stream ends
		if err := stream.Send(&pluginv1.Ack{Seq: ack.Seq}); err != nil {
			return false, err
		}
	}
	return false, status.Error(codes.Unavailable, ack.Error)
}

func (s *server) consumeGuarded(ctx context.Context, b *Batch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = s.panicked("Consume", r)
		}
	}()
	err = s.parts.consume(ctx, b)
	touch(err)
	return err
}
