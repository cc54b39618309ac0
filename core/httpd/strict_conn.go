package httpd

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/ops"
)

const (
	strictBufBytes = 4 << 10 // first size of a connection's own buffer; it grows up to HeaderBytes
	lingerTime     = 500 * time.Millisecond
	lingerBytes    = 16 << 20
	continueLine   = "HTTP/1.1 100 Continue\r\n\r\n"
)

// strictConn is the guard around one connection. Read and Write belong to the one goroutine that serves the connection;
// Close may be called from any.
type strictConn struct {
	net.Conn
	lim StrictLimits
	p   strictParser

	own  *[strictBufBytes]byte // from the pool; nil while the connection is idle
	buf  []byte                // own, or a larger one when a head needs it
	r, w int                   // buf[r:w] was read from the client and is not handed on yet

	out  []byte   // bytes we made that go out before buf: chunk framing
	room [32]byte // what out is a part of: two CRLFs and 16 digits
	data int      // so many bytes at buf[r:] are checked and may go out

	begun  bool // a byte of this request was handed to fasthttp
	chunks bool // a chunk of this request was announced to fasthttp
	wrote  bool // an answer was written since this request was complete
	over   bool // nothing may be read any more: the next Read is io.EOF
	fail   error

	start time.Time // when this request's first byte was seen; zero when not needed yet
	since time.Time // when armedIdle was set

	arming  sync.Mutex // over armed, hurried, and the read deadline that they ask for
	armed   armed      // written by the one goroutine alone, which reads it without arming
	hurried time.Time  // when the server began to go down; zero until then

	followed bool // a request was answered: what comes is not the first

	client  client   // of the handler's goroutine only
	refused *refusal // why the current request's body is not read
	op      *ops.Op  // what a request asks for that was admitted before its body
	held    atomic.Pointer[hold]

	aloft     atomic.Uint64 // the flight that the current request is counted in: 1<<32 | what Enter gave; 0 for none
	flight    Flight        // written once, before aloft
	writes    atomic.Uint64 // of answers that are counted in, began or ended: odd while there is one
	looked    uint64        // what it was when cutStuck looked last; its own
	streaming atomic.Bool   // the answer goes on and on: each write has a deadline of its own

	last   atomic.Bool // closeAfterAnswer was called
	stuck  atomic.Bool // a write has failed: nothing more can be said
	linger atomic.Bool // the client may still be sending when we close
}

func newStrictConn(c net.Conn, lim StrictLimits) *strictConn {
	return &strictConn{
		Conn: c,
		lim:  lim,
		p:    strictParser{headMax: lim.HeaderBytes, bodyMax: lim.BodyBytes},
	}
}

// closeAfterAnswer makes the current request the connection's last one. Any goroutine may call it.
func (c *strictConn) closeAfterAnswer() { c.last.Store(true) }

// of says where requests in flight are counted. One server has one; writing it again would race with a Close from
// elsewhere.
func (c *strictConn) of(f Flight) *strictConn {
	if c.flight == nil {
		c.flight = f
	}
	return c
}

// TakeOff counts the current request in.
func (c *strictConn) TakeOff() {
	c.land() // an earlier one that was answered and never followed by a read
	c.aloft.Store(1<<32 | uint64(c.flight.Enter()))
}

// land counts the request out whose answer has been written or never will be. fasthttp reads on only after it has
// flushed an answer. Any goroutine may call it.
func (c *strictConn) land() {
	if c.aloft.Load() == 0 {
		return
	}
	if g := c.aloft.Swap(0); g != 0 {
		c.flight.Leave(uint32(g))
	}
}

// strictConnOf finds the guard in what fasthttp's RequestCtx.Conn returns. It is false when the server wraps
// connections once more (MaxConnsPerIP).
func strictConnOf(nc net.Conn) (*strictConn, bool) {
	switch c := nc.(type) {
	case *strictConn:
		return c, true
	case *strictTLSConn:
		return c.strictConn, true
	}
	return nil, false
}

// SetReadDeadline does nothing: the guard owns the read deadline.
func (c *strictConn) SetReadDeadline(time.Time) error { return nil }

// SetDeadline sets the write deadline only: the guard owns the read deadline.
func (c *strictConn) SetDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(t) }

// Read hands on checked bytes of the current request: its head, or a part of its body, never both. After a violation, a
// timeout or a lost connection within a request it returns a *StrictError; it returns io.EOF where a connection may
// end.
func (c *strictConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.land()
	c.client.end()
	if err := c.nextRequest(); err != nil {
		return 0, err
	}
	if c.fresh(b) {
		if n, done := c.readFresh(b); done {
			return n, nil
		}
	}
	for {
		if n := c.drain(b); n > 0 {
			return n, nil
		}
		if c.fail != nil {
			return 0, c.fail
		}
		if c.advance() {
			continue
		}
		if n := c.readBody(b); n > 0 {
			return n, nil
		}
		if c.fail == nil {
			c.fill()
		}
	}
}

// nextRequest goes on to the next request when the current one was handed over completely.
func (c *strictConn) nextRequest() error {
	if c.over {
		return io.EOF
	}
	if !c.handedOver() {
		return nil
	}
	if c.p.closing || c.last.Load() {
		c.over = true
		return io.EOF
	}
	if !c.wrote {
		// fasthttp wants more of a request that is complete: we and it read the framing differently.
		return c.refuse(malformed("the framing of the request is ambiguous"))
	}
	c.p.reset()
	c.release()
	c.refused = nil
	c.begun, c.chunks, c.wrote, c.followed = false, false, false, true
	c.start = time.Time{}
	if c.armed != armedIdle {
		c.disarm()
	}
	c.dropBuf()
	return nil
}

// handedOver reports whether fasthttp has every byte of the current request.
func (c *strictConn) handedOver() bool {
	return c.p.phase == phaseEnd && c.data == 0 && len(c.out) == 0 && c.fail == nil
}

// advance takes the next unit from the buffer. It reports false when more input is needed.
func (c *strictConn) advance() bool {
	n, unit, err := c.p.next(c.buf[c.r:c.w])
	switch {
	case err != nil:
		c.refuse(err)
		return true
	case unit == unitMore:
		return false
	case unit == unitHead || unit == unitData:
		c.data = n
	default:
		c.r += n
	}
	if c.checkSurplus(); c.fail == nil {
		c.announce(unit)
	}
	if unit == unitHead && c.fail == nil {
		c.askGate(c.buf[c.r:c.r+n], c.w-c.r-n)
	}
	return true
}

// askGate lets the gate decide whether a body may come of which so much is here already. What is here whole costs
// nothing more to look at, and is refused by the handler if it must be.
func (c *strictConn) askGate(b []byte, here int) {
	p := &c.p
	if c.lim.gate == nil || p.phase == phaseEnd || !p.chunked && !p.expect && int64(here) >= p.length {
		return
	}
	h := head{raw: b, method: b[:p.method], target: b[p.target[0]:p.target[1]], auth: trimOWS(b[p.auth[0]:p.auth[1]]),
		body: p.length}
	if p.chunked {
		h.body = -1
	}
	if r := c.lim.gate.admit(c, &h); r != nil {
		c.turnDown(r)
		if err := c.bodyFault(here); err != nil && !p.expect {
			c.refused, c.fail = nil, err // what no parser takes is told as that, whoever sent it
		}
		forgetLength(b)
	}
}

// forgetLength makes a refused request one without a body. fasthttp takes memory for all of a body as soon as it has
// the head, and a refused body never comes.
func forgetLength(b []byte) {
	for _, length := range fields(b, "content-length") {
		for i, d := range length {
			if '0' <= d && d <= '9' {
				length[i] = '0'
			}
		}
	}
}

// bodyFault looks for a violation in as much of the current request's body as was read with its head. It waits for
// nothing.
func (c *strictConn) bodyFault(here int) *StrictError {
	p, b := c.p, c.buf[c.w-here:c.w]
	for len(b) > 0 && p.phase != phaseEnd {
		n, _, err := p.next(b)
		if err != nil || n == 0 {
			return err
		}
		b = b[n:]
	}
	if p.closing && len(bytes.Trim(b, "\r\n")) > 0 {
		return malformed("bytes after a request that closes the connection")
	}
	return nil
}

// turnDown lets nothing of the current body through: fasthttp is told why once it has the head.
func (c *strictConn) turnDown(r *refusal) {
	if r != nil {
		c.refused, c.fail, c.out = r, r, nil
	}
}

// release gives back what the current request's body held. Any goroutine may call it.
func (c *strictConn) release() {
	if c.held.Load() == nil {
		return
	}
	if h := c.held.Swap(nil); h != nil {
		c.lim.gate.done(h)
	}
}

// announce writes chunk framing anew, so that fasthttp never reads the client's: no extensions, no leading zeros, no
// trailers.
func (c *strictConn) announce(unit strictUnit) {
	if unit != unitLast && (unit != unitChunk || c.p.rest == 0) {
		return
	}
	if unit == unitChunk && c.lim.gate != nil {
		if c.turnDown(c.lim.gate.grow(c, c.p.rest)); c.fail != nil {
			return
		}
	}
	out := c.room[:0]
	if c.chunks {
		out = append(out, "\r\n"...) // the end of the chunk before
	}
	if unit == unitLast {
		out = append(out, "0\r\n\r\n"...)
	} else {
		out = append(strconv.AppendInt(out, c.p.rest, 16), "\r\n"...)
	}
	c.out, c.chunks = out, true
}

// checkSurplus refuses a last request that is followed by more. Blank lines are no request and are left alone.
func (c *strictConn) checkSurplus() {
	if c.p.phase != phaseEnd || !c.p.closing {
		return
	}
	if surplus := c.buf[c.r+c.data : c.w]; len(bytes.Trim(surplus, "\r\n")) > 0 {
		c.refuse(malformed("bytes after a request that closes the connection"))
	}
}

// refuse ends the connection's input with err. fasthttp closes without a word when an error comes before a request's
// first byte, so it is given a byte that begins one; within a request it calls its ErrorHandler. Within chunks the
// error comes where fasthttp waits for a size or for data, never inside a size line, where it would hide the error's
// type.
func (c *strictConn) refuse(err *StrictError) error {
	c.data, c.out = 0, nil
	c.fail = err
	if !c.begun {
		c.out = append(c.room[:0], 'X')
	}
	return err
}

// fresh reports whether a request may be read straight into b: nothing of it was seen, and b is no scrap.
func (c *strictConn) fresh(b []byte) bool {
	return c.r == c.w && c.fail == nil && !c.begun && c.p.phase == phaseHead && len(b) >= strictBufBytes/2
}

// readFresh reads into b, so that a head that comes in one piece is not copied and an idle connection needs no buffer.
// What is not a head goes to the connection's buffer; done is false when b holds nothing to return.
func (c *strictConn) readFresh(b []byte) (head int, done bool) {
	c.arm()
	k, err := c.Conn.Read(b)
	if k == 0 {
		c.lost(err)
		return 0, false
	}
	n, unit, perr := c.p.next(b[:k])
	if perr != nil {
		c.refuse(perr)
		return 0, false
	}
	if unit != unitHead {
		n = 0
	}
	if unit == unitSkip {
		c.p.lead = false // the buffer gets the CRLF too, to be skipped there
	}
	c.keep(b[n:k])
	if n == 0 {
		return 0, false
	}
	if c.checkSurplus(); c.fail != nil {
		return 0, false
	}
	c.askGate(b[:n], k-n)
	c.begun = true
	return n, true
}
