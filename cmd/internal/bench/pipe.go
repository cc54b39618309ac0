//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// The load generator for the socket: like the one for HTTP, but each connection keeps several messages in flight. What
// answers in one read make room for is sent in one write, which is what a client that pipelines does.

// pipeDrive is one run on the socket. Without a rate: the next message goes out when an answer has come.
type pipeDrive struct {
	path     string // of the socket
	key      string // given by auth, once on each connection
	bodies   [][]byte
	expect   string // what every answer has to hold
	conns    int
	depth    int // messages in flight on each connection
	warm     time.Duration
	duration time.Duration
}

type pipeConn struct {
	file  *os.File
	fd    int
	next  int    // message to send
	asked int    // message whose answer comes next
	owed  int    // messages that may be sent
	rest  []byte // of what is being sent
	// of the messages in flight, a ring: the one of the k-th message of the connection is at k modulo depth
	sentAt []time.Time
	sent   int // messages of the connection so far
	taken  int // answers so far
	in     []byte
	n      int // bytes read and not taken
}

type pipeRun struct {
	*pipeDrive
	span
	out   *driven
	lines []byte   // all messages
	ends  []int    // where in lines each begins, and the end of the last
	ids   [][]byte // how the answer to each begins
	ep    int
	conns []pipeConn
}

// pipeMessages makes flat messages of bodies, each with its number as id, so that answers out of order show.
func pipeMessages(kind string, bodies [][]byte) (lines []byte, ends []int, ids [][]byte, err error) {
	ends = append(ends, 0)
	for i, b := range bodies {
		if len(b) < 3 || b[0] != '{' || !json.Valid(b) || bytes.IndexByte(b, '\n') >= 0 {
			return nil, nil, nil, fmt.Errorf("body %d is no JSON object with members on one line", i)
		}
		lines = fmt.Appendf(lines, `{"type":%q,"id":%d,%s`+"\n", kind, i, b[1:])
		ends = append(ends, len(lines))
		ids = append(ids, strconv.AppendInt([]byte(`{"id":`), int64(i), 10))
	}
	return lines, ends, ids, nil
}

// run sends govern messages until the time is over. An error means that nothing can be said: a connection broke, or ctx
// ended.
func (d *pipeDrive) run(ctx context.Context) (*driven, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := &pipeRun{pipeDrive: d, out: &driven{}, conns: make([]pipeConn, d.conns)}
	var err error
	if p.lines, p.ends, p.ids, err = pipeMessages("govern", d.bodies); err != nil {
		return nil, err
	}
	if p.ep, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	defer p.close()
	for i := range p.conns {
		if err := p.connect(i); err != nil {
			return nil, fmt.Errorf("connection %d to %s: %w", i+1, d.path, err)
		}
	}
	return p.out, p.loop(ctx)
}

func (p *pipeRun) close() {
	for i := range p.conns {
		if p.conns[i].file != nil {
			p.conns[i].file.Close()
		}
	}
	syscall.Close(p.ep)
}

func (p *pipeRun) connect(i int) error {
	nc, err := openSocket(p.path, map[string]any{"type": "auth", "api_key": p.key}, `"ok":true`)
	if err != nil {
		return err
	}
	defer nc.Close()
	f, err := nc.File() // a socket of our own, which Go's poller does not know
	if err != nil {
		return err
	}
	first := i * len(p.ids) / len(p.conns) // so that connections do not all send the same
	p.conns[i] = pipeConn{file: f, fd: int(f.Fd()), next: first, asked: first, owed: p.depth,
		sentAt: make([]time.Time, p.depth), in: make([]byte, 64<<10)}
	if err := syscall.SetNonblock(p.conns[i].fd, true); err != nil {
		return err
	}
	return p.watch(syscall.EPOLL_CTL_ADD, i, syscall.EPOLLIN)
}

// socketPatience is how long the answer to the first message of a connection may take.
const socketPatience = 10 * time.Second

// openSocket connects, sends one message and reads its answer, which has to hold expect.
func openSocket(path string, message map[string]any, expect string) (*net.UnixConn, error) {
	nc, err := sendSocket(path, message)
	if err != nil {
		return nil, err
	}
	// The server sends nothing behind this answer before it is asked again, or the reader of a stream takes the rest.
	line, err := bufio.NewReaderSize(oneByOne{nc}, 16).ReadBytes('\n')
	if err == nil && !bytes.Contains(line, []byte(expect)) {
		err = fmt.Errorf("the answer to %s is %q", message["type"], excerpt(line))
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return nc, nil
}

// oneByOne reads no byte beyond those that were asked for.
type oneByOne struct{ nc net.Conn }

func (o oneByOne) Read(p []byte) (int, error) { return o.nc.Read(p[:1]) }

// sendSocket connects and sends one message. The connection has a deadline.
func sendSocket(path string, message map[string]any) (*net.UnixConn, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	nc, err := net.DialTimeout("unix", path, socketPatience)
	if err != nil {
		return nil, err
	}
	err = nc.SetDeadline(time.Now().Add(socketPatience))
	if err == nil {
		_, err = nc.Write(append(text, '\n'))
	}
	if err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return nc.(*net.UnixConn), nil
}

func (p *pipeRun) watch(op, i int, events uint32) error {
	ev := syscall.EpollEvent{Events: events, Fd: int32(i)}
	return syscall.EpollCtl(p.ep, op, p.conns[i].fd, &ev)
}

func (p *pipeRun) loop(ctx context.Context) error {
	p.span = planned(p.warm, p.duration)
	for i := range p.conns {
		if err := p.push(i, p.start); err != nil {
			return err
		}
	}
	events := make([]syscall.EpollEvent, 64)
	for {
		now := time.Now()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.tick(now)
		if !now.Before(p.end) {
			p.finish(now, p.out)
			return nil
		}
		n, err := syscall.EpollWait(p.ep, events, 20)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, ev := range events[:max(n, 0)] {
			if err := p.serve(int(ev.Fd), ev.Events); err != nil {
				return err
			}
		}
	}
}

// push sends as many messages as may be sent, neighbours in one write.
func (p *pipeRun) push(i int, now time.Time) error {
	c := &p.conns[i]
	for {
		if len(c.rest) == 0 {
			k := min(c.owed, len(p.ids)-c.next)
			if k == 0 {
				return nil
			}
			c.rest = p.lines[p.ends[c.next]:p.ends[c.next+k]]
			for range k {
				c.sentAt[c.sent%p.depth] = now
				c.sent++
			}
			c.next, c.owed = (c.next+k)%len(p.ids), c.owed-k
		}
		n, err := syscall.Write(c.fd, c.rest)
		if err != nil && !errors.Is(err, syscall.EAGAIN) {
			return fmt.Errorf("send messages: %w", err)
		}
		if c.rest = c.rest[max(n, 0):]; len(c.rest) > 0 {
			return p.watch(syscall.EPOLL_CTL_MOD, i, syscall.EPOLLIN|syscall.EPOLLOUT)
		}
	}
}

// serve goes on with one connection.
func (p *pipeRun) serve(i int, events uint32) error {
	c := &p.conns[i]
	if events&syscall.EPOLLOUT != 0 {
		if err := p.watch(syscall.EPOLL_CTL_MOD, i, syscall.EPOLLIN); err != nil {
			return err
		}
		if err := p.push(i, time.Now()); err != nil {
			return err
		}
	}
	if events&^syscall.EPOLLOUT == 0 {
		return nil
	}
	if c.n == len(c.in) {
		if len(c.in) >= maxAnswer {
			return fmt.Errorf("an answer of %d bytes and more", maxAnswer)
		}
		c.in = append(c.in, make([]byte, len(c.in))...)
	}
	n, err := syscall.Read(c.fd, c.in[c.n:])
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return nil
	case err != nil:
		return fmt.Errorf("read answers: %w", err)
	case n == 0:
		return fmt.Errorf("the server closed a connection, after %q", excerpt(c.in[:c.n]))
	}
	c.n += n
	now := time.Now()
	if err := p.countAnswers(c, now); err != nil {
		return err
	}
	if len(c.rest) > 0 {
		return nil // what is owed goes out behind it
	}
	return p.push(i, now)
}

// countAnswers counts the whole answers that were read.
func (p *pipeRun) countAnswers(c *pipeConn, now time.Time) error {
	at := 0
	for {
		end := bytes.IndexByte(c.in[at:c.n], '\n')
		if end < 0 {
			break
		}
		line := c.in[at : at+end]
		at += end + 1
		if c.taken == c.sent {
			return fmt.Errorf("an answer to nothing: %q", excerpt(line))
		}
		id := p.ids[c.asked]
		if bytes.HasPrefix(line, id) && len(line) > len(id) && line[len(id)] == ',' &&
			bytes.Contains(line, []byte(p.expect)) {
			p.count(p.out, c.sentAt[c.taken%p.depth], now)
		} else {
			p.out.wrong(line)
		}
		c.taken++
		c.owed++
		c.asked = (c.asked + 1) % len(p.ids)
	}
	c.n = copy(c.in, c.in[at:c.n])
	return nil
}
