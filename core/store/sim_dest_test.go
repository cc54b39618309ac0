package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/feed"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// How a subscriber behaves.
const (
	destAcks    = "acknowledges"
	destHalf    = "acknowledges the first record of a batch"
	destMute    = "says nothing"
	destRefuses = "refuses once"
	destDies    = "dies"
	destDown    = "is down"
)

var destWays = []string{destAcks, destAcks, destHalf, destMute, destRefuses, destDies, destDown}

// dest is a subscriber with a memory of its own: it outlives every process.
type dest struct {
	s      *sim
	name   string
	way    string // written under the simulator's lock, by its goroutine alone
	taken  uint64 // it has every record up to this one, or was told of a gap
	gaps   uint64 // records that it was told are gone
	twice  uint64
	stream *destStream // of the life that is; nil: none
}

// destStream is one stream.
type destStream struct {
	ctx context.Context
	out chan destReply

	mu   sync.Mutex
	in   []*pluginv1.Batch
	over bool
	next uint64
}

type destReply struct {
	ack *pluginv1.Ack
	err error
}

// Consume implements feed.Consumer.
func (d *dest) Consume(ctx context.Context) (feed.Stream, error) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.way == destDown {
		return nil, errors.New("it is down")
	}
	d.stream = &destStream{ctx: ctx, out: make(chan destReply, 256)}
	return d.stream, nil
}

// Send implements feed.Stream.
func (s *destStream) Send(b *pluginv1.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return io.EOF
	}
	s.in = append(s.in, b)
	return nil
}

// Recv implements feed.Stream.
func (s *destStream) Recv() (*pluginv1.Ack, error) {
	select {
	case r := <-s.out:
		return r.ack, r.err
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// CloseSend implements feed.Stream.
func (s *destStream) CloseSend() error { s.out <- destReply{err: io.EOF}; return nil }

// take gives the next batch.
func (s *destStream) take() *pluginv1.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.in) == 0 || s.ctx.Err() != nil {
		return nil
	}
	b := s.in[0]
	s.in = s.in[1:]
	return b
}

func (s *destStream) end(err error) {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.out <- destReply{err: err}
}

// behave says how it goes on.
func (d *dest) behave(way string) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.way = way
}

// drop forgets the stream: the process at its other end is gone.
func (d *dest) drop() {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.stream = nil
}

// answerOfDest has one subscriber deal with one batch, and reports whether one has.
func (s *sim) answerOfDest() bool {
	first := 0
	if len(s.dests) > 1 {
		first = s.rng.IntN(len(s.dests))
	}
	for i := range s.dests {
		if s.dests[(first+i)%len(s.dests)].work() {
			return true
		}
	}
	return false
}

// work deals with one batch.
func (d *dest) work() bool {
	s := d.s
	s.mu.Lock()
	stream := d.stream
	s.mu.Unlock()
	if stream == nil || d.way == destMute {
		return false
	}
	if d.way == destDown || d.way == destDies {
		if d.way == destDies {
			d.behave(destAcks)
		}
		d.drop()
		s.note("%s is gone", d.name)
		stream.end(feed.ErrGone)
		return true
	}
	b := stream.take()
	if b == nil {
		return false
	}
	s.note("%s is given %d to %d, gap %v", d.name, b.FirstSeq, b.LastSeq, b.Gap)
	d.look(stream, b)
	stream.next = b.LastSeq + 1
	to := b.LastSeq
	switch {
	case d.way == destRefuses:
		d.behave(destAcks)
		d.drop()
		stream.end(errors.New("it has refused a batch"))
		return true
	case d.way == destHalf && len(b.Records) > 1:
		to = b.Records[0].Seq
	}
	d.taken = max(d.taken, to)
	stream.out <- destReply{ack: &pluginv1.Ack{Seq: to}}
	return true
}

// look holds a batch against what was given before, and against the log.
func (d *dest) look(stream *destStream, b *pluginv1.Batch) {
	s := d.s
	s.see()
	switch {
	case stream.next != 0 && b.FirstSeq != stream.next:
		s.fail("%s: a batch begins with %d behind %d", d.name, b.FirstSeq, stream.next-1)
		return
	case stream.next == 0 && b.FirstSeq > d.taken+1:
		s.fail("%s: a stream begins with %d, and %d was never given", d.name, b.FirstSeq, d.taken+1)
		return
	case b.LastSeq > uint64(len(s.records)):
		s.fail("%s: it is given record %d, and readers see %d", d.name, b.LastSeq, len(s.records))
		return
	}
	if root, err := tlog.TreeHash(int64(b.LastSeq), tlog.HashReaderFunc(s.storedHashes)); err != nil ||
		!bytes.Equal(root[:], b.TreeRoot) {
		s.fail("%s: batch %d to %d has another root", d.name, b.FirstSeq, b.LastSeq)
	}
	next := b.FirstSeq
	if g := b.Gap; g != nil {
		switch {
		case s.hold > 0:
			s.fail("%s: a gap of %d to %d, and retention has to wait for it", d.name, g.FirstSeq, g.LastSeq)
		case g.FirstSeq != next || g.LastSeq >= s.life.s.First() || g.Reason != "retention":
			s.fail("%s: a gap of %d to %d (%s) in a batch from %d on, and the log begins with %d", d.name, g.FirstSeq,
				g.LastSeq, g.Reason, b.FirstSeq, s.life.s.First())
		}
		d.gaps += g.LastSeq - g.FirstSeq + 1
		next = g.LastSeq + 1
	}
	for _, r := range b.Records {
		if r.Seq != next {
			s.fail("%s: record %d where %d should be", d.name, r.Seq, next)
			return
		}
		if !bytes.Equal(r.Json, s.records[r.Seq-1]) {
			s.fail("%s: record %d is not the log's", d.name, r.Seq)
		}
		if r.Seq <= d.taken {
			d.twice++
		}
		next++
	}
	if next != b.LastSeq+1 {
		s.fail("%s: a batch up to %d has records up to %d", d.name, b.LastSeq, next-1)
	}
}
