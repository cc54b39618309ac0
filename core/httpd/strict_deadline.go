package httpd

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// How long connections of a server that goes down may still send.
const (
	lastFirst = 100 * time.Millisecond // the first byte of a request
	lastBytes = time.Second            // the rest of one
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

// arm sets the read deadline that the state asks for. It is set once a state; the idle one is only renewed when it is
// old, since every renewal costs a timer.
func (c *strictConn) arm() {
	switch {
	case !c.seen():
		// time.Since costs half of what time.Now does, and this is done for every request.
		if c.armed != armedIdle || c.followed && time.Since(c.since) > min(time.Second, c.lim.Idle/10) {
			wait := c.lim.FirstByte
			if c.followed {
				wait = c.lim.Idle
			}
			c.since = time.Now()
			c.deadline(armedIdle, c.since.Add(wait))
		}
	case c.p.phase == phaseHead:
		if c.armed != armedHead {
			c.deadline(armedHead, c.started().Add(min(c.lim.HeaderRead, c.lim.WholeRead)))
		}
	default:
		if c.armed != armedWhole {
			c.deadline(armedWhole, c.started().Add(c.lim.WholeRead))
		}
	}
}

func (c *strictConn) started() time.Time {
	if c.start.IsZero() {
		c.start = time.Now()
	}
	return c.start
}

// deadline sets the read deadline of a state. When that fails it closes the connection, so that the read that follows
// fails too: without a deadline a client could hold the connection for ever.
func (c *strictConn) deadline(a armed, t time.Time) {
	c.arming.Lock()
	defer c.arming.Unlock()
	c.armed = a
	if last := c.lastCall(); !last.IsZero() && last.Before(t) {
		t = last
	}
	if c.Conn.SetReadDeadline(t) != nil {
		_ = c.Conn.Close()
	}
}

// disarm says that the next state sets its deadline anew.
func (c *strictConn) disarm() {
	c.arming.Lock()
	defer c.arming.Unlock()
	c.armed = armedNone
}

// hurry is told that the server goes down: nobody may keep it up by sending nothing, or by sending slowly. Any
// goroutine may call it.
func (c *strictConn) hurry(now time.Time) {
	c.arming.Lock()
	defer c.arming.Unlock()
	c.hurried = now
	_ = c.Conn.SetReadDeadline(c.lastCall()) // fails on a closed connection only
}

// lastCall is until when a connection of a server that goes down may send: zero when the server does not. Under arming.
func (c *strictConn) lastCall() time.Time {
	switch {
	case c.hurried.IsZero():
		return time.Time{}
	case c.armed == armedHead || c.armed == armedWhole:
		return c.hurried.Add(lastBytes)
	}
	return c.hurried.Add(lastFirst)
}

// goingDown reports whether the server's end is why a read took too long.
func (c *strictConn) goingDown() bool {
	c.arming.Lock()
	defer c.arming.Unlock()
	last := c.lastCall()
	return !last.IsZero() && !time.Now().Before(last)
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
	case timeout && c.goingDown():
		c.dismiss()
	case timeout && c.armed == armedHead && c.lim.HeaderRead <= c.lim.WholeRead:
		c.refuse(tooSlow("headers", c.lim.HeaderRead))
	case timeout:
		c.refuse(tooSlow("request", c.lim.WholeRead))
	default:
		c.refuse(malformed("the connection ended within the request"))
	}
}

// dismiss refuses a request that was not read whole before the server went down, as one that came later is refused.
func (c *strictConn) dismiss() {
	if c.op == nil || !c.begun {
		c.refuse(&StrictError{Status: http.StatusServiceUnavailable, Code: string(sdk.CodeDraining), Reason: goesDown})
		return
	}
	c.turnDown(&refusal{op: c.op, err: drainingError(c.op)})
}
