package httpd

import (
	"net"
	"sync"
	"time"
)

var strictBufs = sync.Pool{New: func() any { return new([strictBufBytes]byte) }}

// drain copies what may go out.
func (c *strictConn) drain(b []byte) int {
	n := copy(b, c.out)
	c.out = c.out[n:]
	k := copy(b[n:], c.buf[c.r:c.r+c.data])
	c.r += k
	c.data -= k
	if n+k > 0 {
		c.begun = true
	}
	return n + k
}

// keep puts b into the empty buffer.
func (c *strictConn) keep(b []byte) {
	if len(b) == 0 {
		return
	}
	c.needBuf(len(b))
	c.r, c.w = 0, copy(c.buf, b)
}

// readBody reads body bytes straight into b while at least a buffer full of them is to come. The last part goes through
// the buffer, where what follows the request is seen.
func (c *strictConn) readBody(b []byte) int {
	inBody := c.p.phase == phaseBody || c.p.phase == phaseData
	if !inBody || c.r != c.w || c.p.rest <= strictBufBytes || c.fail != nil {
		return 0
	}
	c.arm()
	n, err := c.Conn.Read(b[:min(int64(len(b)), c.p.rest-1)])
	if n == 0 {
		c.lost(err)
		return 0
	}
	if _, _, perr := c.p.next(b[:n]); perr != nil {
		c.refuse(perr)
		return 0
	}
	c.begun = true
	return n
}

// fill reads more into the buffer, behind what is there.
func (c *strictConn) fill() {
	c.arm()
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if c.w == len(c.buf) {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
		c.needBuf(c.w + 1)
	}
	n, err := c.Conn.Read(c.buf[c.w:])
	c.w += n
	if n == 0 {
		c.lost(err)
	}
}

// needBuf makes room for n bytes in all, keeping what is in the buffer.
func (c *strictConn) needBuf(n int) {
	if c.buf == nil {
		c.own = strictBufs.Get().(*[strictBufBytes]byte)
		c.buf = c.own[:]
	}
	if n > len(c.buf) {
		larger := make([]byte, max(2*len(c.buf), n))
		copy(larger, c.buf[:c.w])
		c.putBuf()
		c.buf = larger
	}
}

func (c *strictConn) putBuf() {
	if c.own != nil {
		strictBufs.Put(c.own)
	}
	c.own, c.buf = nil, nil
}

// dropBuf gives an empty buffer back, so that an idle connection holds none.
func (c *strictConn) dropBuf() {
	if c.r == c.w {
		c.r, c.w = 0, 0
		c.putBuf()
	}
}

// Write passes an answer on. An answer that comes before its request was read to the end is the last one: where the
// next request begins is then unsure, and the client may still be sending.
func (c *strictConn) Write(b []byte) (int, error) {
	switch {
	case c.begun && !c.handedOver() && c.p.expect && string(b) == continueLine:
	case c.begun && !c.handedOver():
		c.over = true
		c.linger.Store(true)
	default:
		c.wrote = string(b) != continueLine
	}
	if c.streaming.Load() {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.lim.Unread)); err != nil {
			return 0, err
		}
	}
	if c.aloft.Load() != 0 {
		c.writes.Add(1)
		defer c.writes.Add(1)
	}
	n, err := c.Conn.Write(b)
	if err != nil {
		c.stuck.Store(true)
	}
	return n, err
}

// Close closes the connection. After a refusal it first says that no more comes and reads for a moment what the client
// is still sending: closing at once would reset the connection and could take the answer with it.
func (c *strictConn) Close() error {
	err := c.close()
	c.lim.live.remove(c)
	c.land() // nothing can be sent any more
	c.release()
	return err
}

func (c *strictConn) close() error {
	if below, ok := c.Conn.(interface{ NetConn() net.Conn }); ok && c.stuck.Load() {
		return below.NetConn().Close() // TLS would wait seconds for room to say that it ends
	}
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || !c.linger.CompareAndSwap(true, false) || half.CloseWrite() != nil {
		return c.Conn.Close()
	}
	if c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		b := strictBufs.Get().(*[strictBufBytes]byte)
		for n, total := 1, 0; n > 0 && total < lingerBytes; total += n {
			n, _ = c.Conn.Read(b[:]) // an error comes with the end, which is all that matters here
		}
		strictBufs.Put(b)
	}
	return c.Conn.Close()
}
