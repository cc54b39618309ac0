package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

type subscriberService struct {
	pluginv1.UnimplementedSubscriberServer
	f *fake
}

// took is a batch as it stands in FAKE_OUT.
type took struct {
	Store   string       `json:"store"`
	First   uint64       `json:"first"`
	Last    uint64       `json:"last"`
	Root    string       `json:"root"`
	Replay  bool         `json:"replay"`
	Gap     *gap         `json:"gap,omitempty"`
	Records []tookRecord `json:"records"`
}

type gap struct {
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
	Reason string `json:"reason"`
}

type tookRecord struct {
	Seq  uint64          `json:"seq"`
	Leaf string          `json:"leaf"`
	JSON json.RawMessage `json:"json"`
}

// keep writes a batch down, before it is acknowledged.
func (f *fake) keep(b *pluginv1.Batch) {
	t := took{Store: b.StoreId, First: b.FirstSeq, Last: b.LastSeq, Root: hex.EncodeToString(b.TreeRoot), Replay: b.Replay,
		Records: []tookRecord{}}
	if g := b.Gap; g != nil {
		t.Gap = &gap{First: g.FirstSeq, Last: g.LastSeq, Reason: g.Reason}
	}
	for _, r := range b.Records {
		t.Records = append(t.Records, tookRecord{Seq: r.Seq, Leaf: hex.EncodeToString(r.LeafHash), JSON: r.Json})
	}
	f.note("batch", t)
}

func (s *subscriberService) Consume(stream grpc.BidiStreamingServer[pluginv1.Batch, pluginv1.Ack]) error {
	if !s.f.configured.Load() {
		return status.Error(codes.FailedPrecondition, "not configured")
	}
	s.f.note("consume", true)
	if s.f.mode.unread {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	for {
		b, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		acks, err := s.f.acknowledgeBatch(stream, b)
		for _, a := range acks {
			if err := stream.Send(a); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// acknowledgeBatch gives the acknowledgements of one batch, and the error that ends the stream behind them.
func (f *fake) acknowledgeBatch(stream grpc.ServerStream, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
	if !sound(b) {
		return nil, status.Error(codes.InvalidArgument, "the batch contradicts itself")
	}
	if f.mode.take != nil {
		return f.mode.take(f, stream, f.batches.Add(1), b)
	}
	f.keep(b)
	return []*pluginv1.Ack{{Seq: b.LastSeq}}, nil
}

// sound says whether a batch is one.
func sound(b *pluginv1.Batch) bool {
	next := b.FirstSeq
	for _, r := range b.Records {
		if r.Seq < next || r.Seq > b.LastSeq || !json.Valid(r.Json) {
			return false
		}
		next = r.Seq + 1
	}
	return b.StoreId != "" && b.FirstSeq > 0 && b.FirstSeq <= b.LastSeq
}

// has reports whether a record is in the batch.
func has(b *pluginv1.Batch, seq uint64) bool {
	for _, r := range b.Records {
		if r.Seq == seq {
			return true
		}
	}
	return false
}

// upTo is the batch with its records up to seq only.
func upTo(b *pluginv1.Batch, seq uint64) *pluginv1.Batch {
	part := &pluginv1.Batch{StoreId: b.StoreId, FirstSeq: b.FirstSeq, LastSeq: seq, TreeRoot: nil, Gap: b.Gap,
		Replay: b.Replay}
	for _, r := range b.Records {
		if r.Seq <= seq {
			part.Records = append(part.Records, r)
		}
	}
	return part
}

func subscriberModes() []*mode {
	return []*mode{
		{name: "acks-beyond", what: "acknowledges records that it never got", take: func(f *fake, _ grpc.ServerStream, _ uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
			f.keep(b)
			return []*pluginv1.Ack{{Seq: b.LastSeq + f.number(1_000_000)}}, nil
		}},
		{name: "acks-backwards", what: "acknowledges a batch, and then less than that", take: func(f *fake, _ grpc.ServerStream, _ uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
			f.keep(b)
			return []*pluginv1.Ack{{Seq: b.LastSeq}, {Seq: max(b.FirstSeq, 2) - 1}}, nil
		}},
		{name: "acks-never", what: "takes batches and acknowledges none", take: func(f *fake, _ grpc.ServerStream, _ uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
			f.keep(b)
			return nil, nil
		}},
		{name: "acks-nothing-new", what: "acknowledges every batch with 0", take: func(f *fake, _ grpc.ServerStream, _ uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
			f.keep(b)
			return []*pluginv1.Ack{{}}, nil
		}},
		{name: "acks-flood", what: "acknowledges each batch ten thousand times (this is allowed: acknowledgements are cumulative, and the same once more changes nothing)", take: func(f *fake, _ grpc.ServerStream, _ uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
			f.keep(b)
			acks := make([]*pluginv1.Ack, 10_000)
			for i := range acks {
				acks[i] = &pluginv1.Ack{Seq: b.LastSeq}
			}
			return acks, nil
		}},
		{name: "acks-slowly", what: "waits before each acknowledgement (FAKE_ARG, 200ms; this is allowed)", take: func(f *fake, stream grpc.ServerStream, _ uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
			f.keep(b)
			select {
			case <-stream.Context().Done():
				return nil, stream.Context().Err()
			case <-time.After(f.duration(200 * time.Millisecond)):
			}
			return []*pluginv1.Ack{{Seq: b.LastSeq}}, nil
		}},
		{name: "acks-each", what: "acknowledges record by record (this is allowed)", take: func(f *fake, _ grpc.ServerStream, _ uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
			f.keep(b)
			var acks []*pluginv1.Ack
			for _, r := range b.Records {
				acks = append(acks, &pluginv1.Ack{Seq: r.Seq})
			}
			return append(acks, &pluginv1.Ack{Seq: b.LastSeq}), nil
		}},
		{name: "refuses-record", what: "never takes in record FAKE_ARG (1), and says so", take: func(f *fake, _ grpc.ServerStream, _ uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
			if n := f.number(1); has(b, n) {
				f.keep(upTo(b, n-1))
				return []*pluginv1.Ack{{Seq: n - 1, Error: fmt.Sprintf("record %d does not please", n)}}, nil
			}
			f.keep(b)
			return []*pluginv1.Ack{{Seq: b.LastSeq}}, nil
		}},
		{name: "crash-record", what: "ends when it meets record FAKE_ARG (1)", take: func(f *fake, _ grpc.ServerStream, _ uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
			if n := f.number(1); has(b, n) {
				f.die("record %d is poison", n)
			}
			f.keep(b)
			return []*pluginv1.Ack{{Seq: b.LastSeq}}, nil
		}},
		{name: "crash-batch", what: "ends at every FAKE_ARG-th batch (3), after it was written down and before it is acknowledged",
			take: func(f *fake, _ grpc.ServerStream, n uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
				f.keep(b)
				if n%max(f.number(3), 1) == 0 {
					f.die("batch %d is the last", n)
				}
				return []*pluginv1.Ack{{Seq: b.LastSeq}}, nil
			}},
		{name: "ends-consume", what: "ends the stream behind each batch that it acknowledged", take: func(f *fake, _ grpc.ServerStream, _ uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error) {
			f.keep(b)
			return []*pluginv1.Ack{{Seq: b.LastSeq}}, errOver
		}},
		{name: "unread", what: "opens the stream and reads nothing", unread: true},
	}
}
