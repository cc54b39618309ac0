package feed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// The work of one turn.
const (
	turnWork  = 256 << 10              // bytes of records; a quarter of a millisecond
	parseWork = 8                      // a byte that is parsed, against one that is copied or skipped
	giveWay   = 32                     // records between two yields
	turnTime  = 5 * time.Millisecond   // masking takes the scanners' time
	holdFor   = 100 * time.Millisecond // a batch that is not full and not at the end of the log
)

var (
	errEnough = errors.New("enough for this turn")
	errJump   = errors.New("records have gone meanwhile")
)

// building is a batch that is being filled. Its range goes up to the record in front of conn.next.
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
	if first := p.set.Log.First(); c.next < first {
		if c.batch == nil || len(c.batch.records) == 0 {
			c.gap(first - 1)
			return
		}
		c.ship()
		return
	}
	if c.batch == nil {
		c.batch = &building{since: time.Now()}
	}
	_, first := p.set.Log.StoreOf(c.next)
	if c.next == first && c.after+1 < first { // no batch has records of two stores
		c.ship()
		return
	}
	edge := p.set.Log.NextLife(c.next)
	work, reads, start := 0, 0, time.Now()
	err := p.set.Log.Records(c.next, func(seq uint64, record []byte) error {
		switch {
		case work >= turnWork || work > 0 && p.set.Payload == PayloadRedacted && time.Since(start) >= turnTime:
			return errEnough
		case seq != c.next:
			return errJump
		case seq == edge:
			return errEnough
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if reads++; reads%giveWay == 0 {
			runtime.Gosched()
		}
		work += len(record) + 1
		if !p.set.wants(record) && (seq != first || first == 1) { // where a store begins is told whatever the filter
			p.now.Filtered++
			c.next = seq + 1
			return nil
		}
		if !c.add(ctx, seq, record) {
			return errEnough
		}
		if p.set.Payload != PayloadFull {
			work += parseWork * len(record)
		}
		c.next = seq + 1
		return nil
	})
	c.turned(err)
}

// turned decides what becomes of the batch after a turn.
func (c *conn) turned(err error) {
	now := time.Now()
	c.restTo = now.Add(restBetween)
	switch {
	case err == nil:
		c.ended, c.restTo = true, now.Add(restAfter)
	case errors.Is(err, errJump) && c.next < c.p.set.Log.First():
		return // the next turn tells of the gap
	case !errors.Is(err, errEnough) && c.ctx.Err() == nil:
		c.p.now.Detail = "the log cannot be read: " + err.Error()
		c.p.set.Report("subscriber %s: %s", c.p.set.Name, c.p.now.Detail)
		c.restTo = now.Add(logPause) // what cannot be read cannot be left out
		return
	}
	if due := c.p.unmasked.due; due.After(c.restTo) {
		c.restTo = due
	}
	if b := c.batch; len(b.records) > 0 && (c.ended || c.full() || now.Sub(b.since) >= holdFor) {
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
		p.unmasked.due = now.Add(pause(p.unmasked.tries))
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
		b.replay = c.next-1 <= c.p.at.High
	}
	m := &pluginv1.Batch{FirstSeq: c.after + 1, LastSeq: c.next - 1, Records: b.records, Replay: b.replay}
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

// gap tells that everything up to last is gone.
func (c *conn) gap(last uint64) {
	first := max(c.next, c.after+1)
	m := &pluginv1.Batch{FirstSeq: c.after + 1, LastSeq: last,
		Gap: &pluginv1.Gap{FirstSeq: first, LastSeq: last, Reason: "retention"}, Replay: last <= c.p.at.High}
	if !c.give(m, sentBatch{last: last}) {
		return
	}
	c.p.gaps = append(c.p.gaps, span{first, last})
	c.next, c.batch = last+1, nil
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
		c.ended = false
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
