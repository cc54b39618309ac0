package httpd

import (
	"errors"
	"io"
	"net"
	"time"
)

// armed says which read deadline is set on the connection below.
type armed uint8

const (
	armedNone armed = iota
	armedIdle
	armedHead
	armedWhole
)

// seen reports whether a byte of the current request has come.
func (c *strictConn) seen() bool { return c.w > c.r || c.p.phase != phaseHead }

// arm sets the read deadline that the state asks for. It is set once a state; the idle one is only renewed when it is old,
// since every renewal costs a timer.
func (c *strictConn) arm() {
	switch {
	case !c.seen():
		// time.Since costs half of what time.Now does, and this is done for every request.
		if c.armed != armedIdle || c.followed && time.Since(c.since) > min(time.Second, c.lim.Idle/10) {
			wait := c.lim.FirstByte
			if c.followed {
				wait = c.lim.Idle
			}
			c.armed, c.since = armedIdle, time.Now()
			c.deadline(c.since.Add(wait))
		}
	case c.p.phase == phaseHead:
		if c.armed != armedHead {
			c.armed = armedHead
			c.deadline(c.started().Add(min(c.lim.HeaderRead, c.lim.WholeRead)))
		}
	default:
		if c.armed != armedWhole {
			c.armed = armedWhole
			c.deadline(c.started().Add(c.lim.WholeRead))
		}
	}
}

func (c *strictConn) started() time.Time {
	if c.start.IsZero() {
		c.start = time.Now()
	}
	return c.start
}

// deadline sets the read deadline. When that fails it closes the connection, so that the read that follows fails too:
// without a deadline a client could hold the connection for ever.
func (c *strictConn) deadline(t time.Time) {
	if c.Conn.SetReadDeadline(t) != nil {
		_ = c.Conn.Close()
	}
}

// lost handles a read that brought nothing.
func (c *strictConn) lost(err error) {
	if err == nil {
		return // a reader may return nothing; the next read asks again, under the same deadline
	}
	var ne net.Error
	timeout := errors.As(err, &ne) && ne.Timeout()
	switch {
	case !c.seen():
		c.fail = io.EOF
	case timeout && c.armed == armedHead && c.lim.HeaderRead <= c.lim.WholeRead:
		c.refuse(tooSlow("headers", c.lim.HeaderRead))
	case timeout:
		c.refuse(tooSlow("request", c.lim.WholeRead))
	default:
		c.refuse(malformed("the connection ended within the request"))
	}
}
