package admin

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/peer"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// guarded lets in only who may administer.
type guarded struct {
	*net.UnixListener
	ownProc func() error
	own     func() (confine.Restraint, error) // how far this server is held back itself
	said    *edge.Throttle                    // refusals: plugins of another gateway can cause as many as they like
	telling chan struct{}                     // has room for those who are told now that they are refused

	mu     sync.Mutex
	closed bool
	told   sync.WaitGroup
}

func guard(ln *net.UnixListener, ownProc func() error, log func(format string, args ...any)) *guarded {
	own := func() (confine.Restraint, error) { return confine.RestraintOf(os.Getpid()) }
	return &guarded{UnixListener: ln, ownProc: ownProc, own: own, said: edge.NewThrottle("admin", edge.LogEvery, log),
		telling: make(chan struct{}, tellMost)}
}

// Accept refuses everyone else and goes on.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := g.admit(c)
		if err == nil {
			return &peerConn{c, peerAddr(uid)}, nil
		}
		g.said.Log("refused a connection: %v", err)
		g.refuse(c, err)
	}
}

// Close also waits for those who are being told.
func (g *guarded) Close() error {
	err := g.UnixListener.Close()
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.told.Wait()
	return err
}

const (
	tellMost = 8        // at once; who comes beside them is refused without a word
	tellRead = 64 << 10 // bytes of the request
)

// tellTime is what a refused peer has for its request and the answer. Tests, which may run on a busy machine, give
// more.
var tellTime = time.Second

// refuse tells the peer why, beside those who are let in: what it sends is read to its end, else it might not see the
// answer.
func (g *guarded) refuse(c net.Conn, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case g.telling <- struct{}{}:
	default:
		c.Close()
		return
	}
	if g.closed {
		<-g.telling
		c.Close()
		return
	}
	g.told.Go(func() {
		defer func() { <-g.telling }()
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(tellTime)); err != nil {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(io.LimitReader(c, tellRead)))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // it may be cut
		e := sdk.Errf(sdk.CodeUnauthenticated, "the admin socket refuses this process: %v", why)
		body := wire.AppendProblem(nil, e, "")
		resp := http.Response{StatusCode: wire.StatusOf(e.Code).HTTP, ProtoMajor: 1, ProtoMinor: 1, Close: true, Request: r,
			ContentLength: int64(len(body)), Header: http.Header{"Content-Type": {"application/problem+json"},
				"Cache-Control": {"no-store"}}, Body: io.NopCloser(bytes.NewReader(body))}
		_ = resp.Write(c) // it may be gone
	})
}

// peerConn shows the peer's uid as its address.
type peerConn struct {
	net.Conn
	addr peerAddr
}

type peerAddr string

func (a peerAddr) Network() string { return "unix" }
func (a peerAddr) String() string  { return string(a) }

// RemoteAddr is the peer's uid.
func (c *peerConn) RemoteAddr() net.Addr { return c.addr }

// admit checks the peer: the server's own uid or root, no process that the server started, and none that is confined
// further than the server itself, as plugins of another gateway of this user are, and what a killed gateway's plugins
// have left behind.
func (g *guarded) admit(c *net.UnixConn) (uid string, err error) {
	from, err := peer.Of(c)
	if err != nil {
		return "", err
	}
	defer from.Close()
	if from.UID != 0 && int(from.UID) != os.Getuid() {
		return "", fmt.Errorf("uid %d is neither the server's nor root", from.UID)
	}
	if err := g.ownProc(); err != nil {
		return "", fmt.Errorf("nobody can be traced: %w", err)
	}
	child, err := descends(from.Pid, os.Getpid(), parentOf)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w (it has ended, or this server is not shown all processes: hidepid, ProtectProc=invisible)", err)
	}
	if err != nil {
		return "", fmt.Errorf("process %d cannot be traced: %w", from.Pid, err)
	}
	if child {
		return "", fmt.Errorf("process %d was started by this server", from.Pid)
	}
	if err := g.restrained(from); err != nil {
		return "", err
	}
	return strconv.Itoa(int(from.UID)), nil
}

// restrained is an error unless the peer surely is confined no further than this server.
func (g *guarded) restrained(from *confine.Peer) error {
	own, err := g.own()
	if err != nil {
		return fmt.Errorf("how far this server is confined cannot be read: %w", err)
	}
	its, err := from.Restraint()
	if err != nil {
		return fmt.Errorf("how far process %d is confined cannot be read, and whoever is confined administers nothing: %w",
			from.Pid, err)
	}
	if more := own.Beyond(its); more != "" {
		return fmt.Errorf("process %d is confined further than this server, and so administers nothing: %s; use a shell "+
			"that is not confined", from.Pid, more)
	}
	return nil
}

// maxRemove bounds how far parents are followed. Nobody who administers is that deep, and a plugin may put itself
// there.
const maxRemove = 1000

// descends reports whether pid was started, at whatever remove, by ancestor. What cannot be followed to its end is an
// error.
func descends(pid, ancestor int, parentOf func(pid int) (int, error)) (bool, error) {
	for steps := range maxRemove {
		if pid == ancestor {
			return steps > 0, nil // the server's own process may administer itself: tests do
		}
		if pid <= 1 {
			return false, nil
		}
		parent, err := parentOf(pid)
		if err != nil {
			return false, err
		}
		pid = parent
	}
	return false, fmt.Errorf("it has more than %d ancestors", maxRemove)
}

func parentOf(pid int) (int, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0, errors.New("unreadable /proc entry")
	}
	return strconv.Atoi(fields[1])
}
