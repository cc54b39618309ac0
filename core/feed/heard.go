package feed

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/yett-dev/yett/core/quote"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// heard is what the receiving goroutine passes on.
type heard struct {
	ack *pluginv1.Ack
	err error
}

func (c *conn) receive() {
	defer c.wg.Done()
	for {
		ack, err := c.stream.Recv()
		select {
		case c.in <- heard{ack, err}:
		case <-c.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// hear takes in what the subscriber says.
func (c *conn) hear(h heard) end {
	if h.err != nil {
		return c.over(h.err)
	}
	seq := h.ack.GetSeq()
	if seq <= c.p.acked && h.ack.GetError() == "" {
		if now := time.Now(); now.After(c.emptyTo) {
			c.empty, c.emptyTo = 0, now.Add(emptyWithin)
		}
		if c.empty++; c.empty > emptyMost {
			return c.wrong("it acknowledged nothing new %d times in a row within %v", emptyMost, emptyWithin)
		}
	}
	switch {
	case seq != 0 && seq < c.heard:
		return c.wrong("it acknowledges %d after %d", seq, c.heard)
	case seq > c.begun.Load():
		return c.wrong("it acknowledges %d, but nothing behind %d was sent", seq, c.begun.Load())
	case seq != 0:
		c.takeAck(seq)
	}
	if c.telling && seq >= c.p.passed.last {
		c.p.passed, c.telling, c.ackDue = passed{}, false, time.Time{}
	}
	if h.ack.GetError() == "" {
		return end{}
	}
	if c.telling {
		return end{endFailed, quote.Short(h.ack.GetError(), mostSaid)}
	}
	if c.pending() == 0 {
		return c.wrong("it refuses what is behind %d, but nothing was sent: %s", c.p.acked,
			quote.Short(h.ack.GetError(), mostSaid))
	}
	return end{endFailed, fmt.Sprintf("record %d: %s", c.pending(), quote.Short(h.ack.GetError(), mostSaid))}
}

// takeAck moves what is acknowledged.
func (c *conn) takeAck(seq uint64) {
	p := c.p
	c.heard = seq
	if seq <= p.acked {
		return
	}
	for i := range c.sent {
		for _, n := range c.sent[i].seqs {
			if n > p.acked && n <= seq {
				p.now.Delivered++
			}
		}
	}
	p.acked, p.tries = seq, 0
	// who acknowledges the last record of a batch has taken in all of it: what is behind that was filtered out
	for _, b := range c.sent {
		if n := len(b.seqs); n > 0 && b.seqs[n-1] <= p.acked {
			p.acked = max(p.acked, b.last)
		}
	}
	c.empty, c.emptyTo = 0, time.Time{}
	p.progress()
	if seq >= p.suspect && c.pending() == 0 {
		p.size = min(2*p.size, p.set.BatchRecords)
	}
	c.ackDue = time.Time{}
	if c.pending() != 0 {
		c.ackDue = time.Now().Add(p.set.AckTimeout)
	}
}

// pending is the first record that is on its way; of a batch without records its end. 0: nothing is.
func (c *conn) pending() uint64 {
	for _, b := range c.sent {
		if b.last <= c.p.acked {
			continue
		}
		for _, seq := range b.seqs {
			if seq > c.p.acked {
				return seq
			}
		}
		return b.last
	}
	return 0
}

func (c *conn) wrong(format string, args ...any) end {
	c.p.now.Protocol++
	return end{endProtocol, "protocol: " + fmt.Sprintf(format, args...)}
}

// over is the end of a stream that the other side has ended.
func (c *conn) over(err error) end {
	switch {
	case errors.Is(err, ErrGone) || status.Code(err) == codes.Unavailable || status.Code(err) == codes.Canceled:
		return end{endGone, "the stream has ended: " + quote.Short(err.Error(), mostSaid)}
	case errors.Is(err, io.EOF):
		return end{endFailed, "the subscriber has ended the stream"}
	}
	return end{endFailed, "the stream has ended: " + quote.Short(err.Error(), mostSaid)}
}
