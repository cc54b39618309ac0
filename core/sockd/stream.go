package sockd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

const (
	streamBuffer = 128 << 10             // asked of the kernel for a stream's socket, which gives what it may
	firstLook    = time.Millisecond      // how long to wait before the peer's progress is looked at again, at first
	lastLook     = 50 * time.Millisecond // and at most
	lastWord     = time.Second           // how long the closing line may take
)

// socketWriter writes one stream's lines to its connection. It writes only while less than half of the socket's buffer
// is taken, so that answers and the closing line always have room, and a peer that does not read holds up no more than
// itself.
type socketWriter struct {
	c      *conn
	st     ops.Stream
	key    string
	ctx    context.Context
	cancel context.CancelFunc

	buffer int    // bytes that the kernel queues
	piece  int    // bytes that are written at once, but for a line that is longer
	seq    uint64 // of the last line that was written whole
	last   bool   // what is being written ends the stream
}

// subscribe opens a stream and gives the answer behind which its lines begin.
func (c *conn) subscribe(t *task) (ops.Response, error) {
	if err := c.reserve(); err != nil {
		return nil, err
	}
	p := &socketWriter{c: c, key: t.req.Key.ID}
	p.ctx, p.cancel = context.WithCancel(c.s.base)
	req := t.req
	req.Ctx = p.ctx
	st, err := c.s.set.Service.Open(t.op, &req)
	if err == nil && st == nil {
		err = sdk.Errf(sdk.CodeInternal, "%s gave no stream", t.op.Name)
	}
	if err != nil {
		p.cancel()
		c.release()
		return nil, err
	}
	p.st = st
	c.mu.Lock()
	c.endStream = p.cancel
	c.mu.Unlock()
	if c.broken.Load() {
		p.cancel() // breakOff may have looked before it was there
	}
	t.stream = p
	first := st.First()
	if first == nil {
		return &wire.SubscribeResponse{Subscribed: true}, nil
	}
	if r, ok := first.(*wire.SubscribeResponse); ok && r.FromSeq > 0 {
		p.seq = r.FromSeq - 1
	}
	return first, nil
}

// reserve makes the connection this stream's.
func (c *conn) reserve() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streaming {
		return sdk.Errf(sdk.CodeConflict, "this connection has a stream already, which is the limit for a connection; "+
			"open another one")
	}
	c.streaming = true
	return nil
}

func (c *conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streaming, c.endStream = false, nil
	c.wake()
}

// begin starts the stream, once its first answer is written.
func (p *socketWriter) begin() { p.c.s.workers.Go(p.run) }

// run writes until the stream or the connection ends. The connection ends with the stream.
func (p *socketWriter) run() {
	defer p.end()
	if err := p.measure(); err != nil {
		p.c.s.said.Log("a stream was not begun: %v", err)
		return
	}
	for {
		text, err := p.st.Next(p.ctx)
		p.last = errors.Is(err, io.EOF) // what comes with it says why, also to a key that is revoked
		switch {
		case !p.write(text):
			return
		case err == nil:
		case errors.Is(err, io.EOF):
			return
		default:
			p.failed(err)
			return
		}
	}
}

// failed tells the peer how far it got when the stream could not end by itself.
func (p *socketWriter) failed(err error) {
	if p.ctx.Err() == nil {
		p.c.s.said.Log("a stream ended: %v", err)
	}
	p.say(p.st.Closing())
}

func (p *socketWriter) end() {
	p.st.Close()
	p.cancel()
	p.c.endTaking()
	p.c.release()
}

// measure learns how much the kernel queues for the peer.
func (p *socketWriter) measure() error {
	_ = p.c.nc.SetWriteBuffer(streamBuffer) // a small buffer works too
	var err error
	if ctlErr := p.c.raw.Control(func(fd uintptr) {
		p.buffer, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
	}); ctlErr != nil {
		return ctlErr
	}
	p.piece = min(max(p.buffer/16, 1<<10), 16<<10)
	return err
}

// write brings whole lines to the peer, piece by piece. It is false when the stream has to end.
func (p *socketWriter) write(text []byte) bool {
	for len(text) > 0 {
		piece := text[:pieceEnd(text, p.piece)]
		switch {
		case !p.room(len(piece)):
			return false
		case !p.last && !p.alive():
			p.cutOff("")
			return false
		}
		p.c.send(piece)
		if p.c.broken.Load() {
			return false
		}
		if seq, ok := lastSeq(piece); ok {
			p.seq = seq
		}
		text = text[len(piece):]
	}
	return true
}

// pieceEnd is the end of the last line that ends within n bytes, or that of the first line if it is longer.
func pieceEnd(text []byte, n int) int {
	if len(text) <= n {
		return len(text)
	}
	if i := bytes.LastIndexByte(text[:n], '\n'); i >= 0 {
		return i + 1
	}
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return i + 1
	}
	return len(text)
}

// alive looks at the key again: a revoked one gets no further line.
func (p *socketWriter) alive() bool {
	_, err := p.c.s.set.Service.KeyByID(p.key)
	return err == nil
}

// room waits until the peer has read so much that n bytes can be written without waiting. When it reads nothing for as
// long as Stuck, it is told where it is and cut off. False means that nothing more is to be written.
func (p *socketWriter) room(n int) bool {
	most := p.buffer / 2
	if n > p.piece {
		most = 0 // a long line needs all the room there is
	}
	var timer *time.Timer
	var since time.Time // of the last progress
	last, look := 0, firstLook
	for {
		queued, err := p.queued()
		switch {
		case err != nil || p.c.broken.Load():
			p.c.breakOff()
			return false
		case queued <= most:
			return true
		case timer == nil:
			timer, since = time.NewTimer(look), time.Now()
			defer timer.Stop()
		default:
			timer.Reset(look)
		}
		if queued < last {
			since, look = time.Now(), firstLook
		}
		last = queued
		select {
		case <-timer.C:
		case <-p.ctx.Done():
			p.cutOff("")
			return false
		}
		if time.Since(since) >= p.c.s.set.Stuck {
			p.cutOff("not_read")
			return false
		}
		look = min(2*look, lastLook)
	}
}

// queued is how much of the buffer is taken. For a socket TIOCOUTQ is SIOCOUTQ, which only Linux has a name for.
func (p *socketWriter) queued() (n int, err error) {
	if ctlErr := p.c.raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }); ctlErr != nil {
		return 0, ctlErr
	}
	return n, err
}

// cutOff ends the stream with lines still to be written: the peer resumes behind the last one it got, which is not what
// the stream has handed out.
func (p *socketWriter) cutOff(reason string) {
	o := wire.Object(nil)
	o.Str("type", "closing")
	o.Opt("reason", reason)
	o.Int("last_seq", int64(p.seq))
	p.say(o.Close())
}

// say writes the last line, for which room was kept, and nothing is written behind it.
func (p *socketWriter) say(line []byte) {
	line = append(bytes.TrimRight(line, "\n"), '\n')
	c := p.c
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if !c.broken.Swap(true) && len(line) > 1 {
		_ = c.nc.SetWriteDeadline(time.Now().Add(lastWord))
		_, _ = c.nc.Write(line) // whoever cannot take it sees the end instead
	}
	c.letGo()
}

// lastSeq is the seq of the last line that has one.
func lastSeq(text []byte) (seq uint64, ok bool) {
	for text = bytes.TrimRight(text, "\n"); len(text) > 0; text = bytes.TrimRight(text, "\n") {
		line := text[bytes.LastIndexByte(text, '\n')+1:]
		text = text[:len(text)-len(line)]
		var d exact.Doc
		if d.Parse(string(line), exact.Limits{Depth: exact.DefaultLimits.Depth, Tokens: len(line) + 1}) != nil {
			continue
		}
		if n, whole := d.Root().Get("seq").Decimal().Int64(); whole && n > 0 && d.Root().Get("seq").Kind() == exact.Number {
			return uint64(n), true
		}
	}
	return 0, false
}
