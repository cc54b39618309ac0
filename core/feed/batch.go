package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log/follow"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// The work of one turn.
const (
	turnWork = 256 << 10              // bytes of records; a quarter of a millisecond
	turnTime = 5 * time.Millisecond   // masking takes the scanners' time
	holdFor  = 100 * time.Millisecond // a batch that is not full and not at the end of the log
)

// building is a batch that is being filled. Its range goes up to the record that the cursor is in front of.
type building struct {
	records []*pluginv1.Record
	bytes   int
	replay  bool
	cut     bool // what comes next does not fit into it
	since   time.Time
}

// read is one turn: it fills a batch and sends it when it is full, old enough, or at the end of the log.
func (c *conn) read(ctx context.Context) {
	p := c.p
	if c.batch == nil {
		c.batch = &building{since: time.Now()}
	}
	begin := c.log.Next()
	_, first := p.set.Log.StoreOf(begin)
	if begin == first && c.after+1 < first { // no batch has records of two stores
		c.ship()
		return
	}
	start := time.Now()
	lim := follow.Limits{Work: turnWork, Before: p.set.Log.NextLife(begin)}
	c.turned(c.log.Read(lim, func(seq uint64, record []byte) (work int, err error) {
		switch {
		case seq > begin && p.set.Payload == PayloadRedacted && time.Since(start) >= turnTime:
			return 0, follow.ErrLater
		case ctx.Err() != nil:
			return 0, ctx.Err()
		}
		if !p.set.wants(record) && (seq != first || first == 1) { // where a store begins is told whatever the filter
			p.now.Filtered++
			return 0, nil
		}
		if !c.add(ctx, seq, record) {
			return 0, follow.ErrLater
		}
		if p.set.Payload != PayloadFull {
			work = follow.ParseWork * len(record)
		}
		return work, nil
	}))
}

// turned decides what becomes of the batch after a turn.
func (c *conn) turned(turn follow.Turn) {
	if turn.State == follow.Gone {
		if c.log.Next() < c.p.set.Log.First() {
			c.missed(turn.Gone)
			return
		}
		turn.State, turn.Err = follow.Failed, errors.New("records have gone meanwhile") // retention did not remove them
	}
	now := time.Now()
	c.restTo = now.Add(follow.Rest(!c.log.AtEnd()))
	if turn.State == follow.Failed && c.ctx.Err() == nil {
		c.p.now.Detail = "the log cannot be read: " + turn.Err.Error()
		c.p.set.Report("subscriber %s: %s", c.p.set.Name, c.p.now.Detail)
		c.restTo = now.Add(logPause) // what cannot be read cannot be left out
		return
	}
	if due := c.p.unmasked.due; due.After(c.restTo) {
		c.restTo = due
	}
	if b := c.batch; len(b.records) > 0 && (c.log.AtEnd() || c.full() || now.Sub(b.since) >= holdFor) {
		c.ship()
	}
}

func (c *conn) full() bool {
	return len(c.batch.records) >= c.p.size || c.batch.bytes >= c.p.set.BatchBytes || c.batch.cut
}

// add puts a record into the batch, or reports that the batch has to go first.
func (c *conn) add(ctx context.Context, seq uint64, record []byte) bool {
	p, b := c.p, c.batch
	replay := seq <= p.at.High
	if n := len(b.records); n > 0 && (n >= p.size || replay != b.replay) {
		b.cut = true
		return false
	}
	json := p.payload.of(ctx, seq, record)
	if ctx.Err() != nil || p.masksAgain(seq) {
		b.cut = len(b.records) > 0
		return false
	}
	if len(b.records) > 0 && b.bytes+len(json) > p.set.BatchBytes {
		b.cut = true
		return false
	}
	leaf := tlog.RecordHash(record)
	b.records = append(b.records, &pluginv1.Record{Seq: seq, Json: json, LeafHash: leaf[:]})
	b.bytes += len(json)
	b.replay = replay
	return true
}

// How long a record waits for its texts to be masked. Whoever sends texts that no scanner gets through must not hold up
// what others did: one record that was given up is followed by a minute in which none is waited for.
const (
	maskTries = 6           // some six seconds; then it is delivered without those texts
	maskHurry = time.Minute // behind a record that was given up
)

// unmasked is the record whose texts could not all be masked when it was read last.
type unmasked struct {
	seq   uint64
	tries int
	due   time.Time // not read again before
}

// hurry is the time in which no record is waited for.
type hurry struct {
	until  time.Time
	untold int // records in it that were delivered without a text, and of which the operator was not told one by one
}

// masksAgain reports whether a record that was just made is to be made again, later: a scanner had a slow moment. What
// is read behind it waits, so that the order stays. In the end it is delivered without what could not be masked, and
// that is counted.
func (p *Pump) masksAgain(seq uint64) bool {
	why := p.payload.failed
	if why == nil || why.Lasts {
		p.unmasked = unmasked{}
	}
	if why == nil {
		return false
	}
	if p.unmasked.seq != seq {
		p.unmasked = unmasked{seq: seq}
	}
	now := time.Now()
	hurried := now.Before(p.hurry.until)
	if p.unmasked.tries++; p.unmasked.tries < maskTries && !hurried && !why.Lasts {
		p.unmasked.due = now.Add(p.pause(p.unmasked.tries))
		return true
	}
	if p.unmasked = (unmasked{}); p.set.Withheld != nil {
		p.set.Withheld(why.Cause, why.Scanner)
	}
	if hurried {
		p.hurry.untold++
		return false
	}
	p.set.Report("subscriber %s: record %d is delivered without what could not be masked, and %d others before it: %v",
		p.set.Name, seq, p.hurry.untold, why)
	p.hurry = hurry{until: now.Add(maskHurry)}
	return false
}

// ship sends the batch. One without records says that all of its range was filtered out.
func (c *conn) ship() {
	b := c.batch
	if len(b.records) == 0 {
		b.replay = c.log.Next()-1 <= c.p.at.High
	}
	m := &pluginv1.Batch{FirstSeq: c.after + 1, LastSeq: c.log.Next() - 1, Records: b.records, Replay: b.replay}
	s := sentBatch{last: m.LastSeq}
	for _, r := range b.records {
		s.seqs = append(s.seqs, r.Seq)
		if r.Seq <= c.p.sent && !b.replay {
			c.p.now.Redelivered++
		}
	}
	if c.give(m, s) {
		c.batch = nil
	}
}

// missed tells that everything up to last is gone, behind what there is in front of it.
func (c *conn) missed(last uint64) {
	if len(c.batch.records) > 0 {
		c.ship()
		return
	}
	first := max(c.log.Next(), c.after+1)
	m := &pluginv1.Batch{FirstSeq: c.after + 1, LastSeq: last,
		Gap: &pluginv1.Gap{FirstSeq: first, LastSeq: last, Reason: "retention"}, Replay: last <= c.p.at.High}
	if !c.give(m, sentBatch{last: last}) {
		return
	}
	c.p.gaps = append(c.p.gaps, span{first, last})
	c.log.Move(last + 1)
	c.batch = nil
}

// give hands a batch to the goroutine that sends. There is room: no more are on their way than it has, and what is not
// on its way any more was taken out before it could be acknowledged.
func (c *conn) give(m *pluginv1.Batch, s sentBatch) bool {
	p := c.p
	root, err := p.set.Log.Root(m.LastSeq)
	if err != nil {
		p.now.Detail = fmt.Sprintf("the log's tree cannot be read: %v", err)
		p.set.Report("subscriber %s: %s", p.set.Name, p.now.Detail)
		c.restTo = time.Now().Add(logPause)
		c.log.Woken()
		return false
	}
	m.StoreId, _ = p.set.Log.StoreOf(m.LastSeq)
	m.TreeRoot = root[:]
	if now, sign := time.Now(), p.set.Sign; sign.Text != nil && (p.signed.IsZero() || now.Sub(p.signed) >= sign.Every) {
		if m.Checkpoint = sign.Text(m.StoreId, m.LastSeq, root); m.Checkpoint != "" {
			p.signed = now
		}
	}
	c.out <- m
	c.after = m.LastSeq
	p.sent = max(p.sent, m.LastSeq)
	p.now.Batches++
	c.sent = append(c.sent, s)
	if c.ackDue.IsZero() {
		c.ackDue = time.Now().Add(p.set.AckTimeout)
	}
	return true
}
