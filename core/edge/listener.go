package edge

import (
	"errors"
	"net"
	"sync"
)

// Listener lets connections in by a Door.
type Listener struct {
	net.Listener
	door    *Door
	accepts *Acceptor
	proxies Proxies
	full    func(net.Conn) // has the connection that there is no place for, and closes it
}

// Listen is ln behind the door. full gets a connection that there is no place for, and has to close it; nil closes it.
func (d *Door) Listen(ln net.Listener, accepts *Acceptor, proxies Proxies, full func(net.Conn)) *Listener {
	if full == nil {
		full = func(c net.Conn) { _ = c.Close() } // nobody is there to be told
	}
	return &Listener{Listener: ln, door: d, accepts: accepts, proxies: proxies, full: full}
}

// Accept waits for the next connection that there is a place for. It fails only once the listener is closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := Accept(l.accepts, l.Listener.Accept)
		if err != nil {
			return nil, err
		}
		from := ""
		if a := AddrOf(c.RemoteAddr()); a.IsValid() && !l.proxies.Trusts(a) {
			from = Network(a)
		}
		guest := l.door.Enter(from, func() { _ = below(c).Close() }) // the goroutine that serves it sees the end
		if guest == nil {
			l.full(c)
			continue
		}
		return &Conn{Conn: c, Guest: guest}, nil
	}
}

// Close stops accepting.
func (l *Listener) Close() error {
	l.accepts.Close()
	return l.Listener.Close()
}

// below is the connection under TLS: closing that one waits for nobody.
func below(c net.Conn) net.Conn {
	if inner, ok := c.(interface{ NetConn() net.Conn }); ok {
		return inner.NetConn()
	}
	return c
}

// Conn is one connection that was let in.
type Conn struct {
	net.Conn
	Guest *Guest
	once  sync.Once
}

// Close closes the connection and gives its place back.
func (c *Conn) Close() error {
	defer c.once.Do(c.Guest.Leave)
	return c.Conn.Close()
}

// NetConn is the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends what is sent, and leaves the other direction open.
func (c *Conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// GuestOf finds the guest that a connection is, nil if it came by no Door.
func GuestOf(c net.Conn) *Guest {
	for c != nil {
		if in, ok := c.(*Conn); ok {
			return in.Guest
		}
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = inner.NetConn()
	}
	return nil
}
