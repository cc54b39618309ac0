//go:build linux

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
)

// The load generator. It shares the machine with what it measures, so it must cost little: one thread, raw sockets
// under epoll, requests prepared as bytes, and no allocation while it runs. Each connection has one request in flight.

// drive is one run.
type drive struct {
	addr     string // host:port, in clear
	path     string
	headers  string // whole lines, each with its CRLF
	bodies   [][]byte
	expect   string // what every answer's body has to hold
	conns    int
	rate     float64 // requests a second, each sent when it is due; 0: the next one goes out when an answer has come
	warm     time.Duration
	duration time.Duration

	first int // number of the first request; request n is made of body n modulo their number
	// how many requests at most, 0 for as many as there is time for; without a rate only
	limit  int
	tokens []string                         // what request n says where its body has a tokenMark: tokens[n-first]
	answer func(n int, answer []byte) error // sees every good answer, if not nil; an error ends the run
}

// Marks in bodies that are to differ from one request to the next.
const (
	numberMark = "#########" // becomes the number of the request, as so many digits
	tokenMark  = "$$$$$$$$"  // where the token begins; the rest of its room is filled with the same character
)

// maxAnswer bounds the body of one answer, bytes.
const maxAnswer = 16 << 20

// lastAnswers is how long a run with a rate waits for the last answers.
const lastAnswers = 2 * time.Second

type loadConn struct {
	file *os.File
	fd   int
	due  time.Time
	sent int    // number of the request
	own  []byte // a request that differs from the one before
	rest []byte // of the request, when the socket took only a part of it
	in   []byte
	n    int // bytes of the answer so far
}

type loadRun struct {
	*drive
	span
	out      *driven
	requests []request
	next     int // number of the request to send
	flying   int // requests that are not answered
	ep       int
	conns    []loadConn
	idle     []int // connections with nothing in flight, the one that waited longest first; only with a rate
	issued   int   // only with a rate
}

// request is one body with its head, and where in it the marks are, -1 for one that it does not have.
type request struct {
	text          []byte
	number, token int
}

func newRequest(head string, body []byte) request {
	text := append([]byte(head), body...)
	return request{text, bytes.Index(text, []byte(numberMark)), bytes.Index(text, []byte(tokenMark))}
}

// run sends requests until the time is over. An error means that nothing can be said: a connection broke, or ctx ended.
func (d *drive) run(ctx context.Context) (*driven, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := &loadRun{drive: d, out: &driven{}, conns: make([]loadConn, d.conns), idle: make([]int, 0, d.conns), next: d.first}
	for _, b := range d.bodies {
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n",
			d.path, d.addr, d.headers, len(b))
		l.requests = append(l.requests, newRequest(head, b))
	}
	var err error
	if l.ep, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	defer l.close()
	for i := range l.conns {
		if err := l.connect(i); err != nil {
			return nil, fmt.Errorf("connection %d to %s: %w", i+1, d.addr, err)
		}
	}
	return l.out, l.loop(ctx)
}

func (l *loadRun) connect(i int) error {
	nc, err := net.DialTimeout("tcp", l.addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer nc.Close()
	f, err := nc.(*net.TCPConn).File() // a socket of our own, which Go's poller does not know
	if err != nil {
		return err
	}
	l.conns[i] = loadConn{file: f, fd: int(f.Fd()), in: make([]byte, 16<<10)}
	if err := syscall.SetNonblock(l.conns[i].fd, true); err != nil {
		return err
	}
	return l.watch(syscall.EPOLL_CTL_ADD, i, syscall.EPOLLIN)
}

func (l *loadRun) watch(op, i int, events uint32) error {
	ev := syscall.EpollEvent{Events: events, Fd: int32(i)}
	return syscall.EpollCtl(l.ep, op, l.conns[i].fd, &ev)
}

func (l *loadRun) close() {
	for i := range l.conns {
		if l.conns[i].file != nil {
			l.conns[i].file.Close()
		}
	}
	syscall.Close(l.ep)
}

func (l *loadRun) loop(ctx context.Context) error {
	l.span = planned(l.warm, l.duration)
	for i := range l.conns {
		if l.rate > 0 {
			l.idle = append(l.idle, i)
		} else if err := l.goOn(i, l.start); err != nil {
			return err
		}
	}
	events := make([]syscall.EpollEvent, 256)
	for {
		now := time.Now()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.tick(now)
		if l.over(now) {
			return nil
		}
		if err := l.issue(now); err != nil {
			return err
		}
		n, err := l.wait(events, now)
		if err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, ev := range events[:n] {
			if err := l.serve(int(ev.Fd), ev.Events); err != nil {
				return err
			}
		}
	}
}

// over ends the run: without a rate at once, or when all that may be sent is answered; with one when all that was due
// is.
func (l *loadRun) over(now time.Time) bool {
	if l.rate == 0 && l.spent() && l.flying == 0 {
		l.finish(now, l.out)
		return true
	}
	if now.Before(l.end) {
		return false
	}
	l.finish(now, l.out)
	if l.rate == 0 {
		return true
	}
	l.out.late = l.dueBy(l.end) - l.issued + l.flying
	return l.out.late == 0 || now.Sub(l.end) > lastAnswers
}

// spent reports whether there is nothing left to send.
func (l *loadRun) spent() bool { return l.limit > 0 && l.next-l.first >= l.limit }

// dueBy is how many requests are due before t.
func (l *loadRun) dueBy(t time.Time) int { return int(t.Sub(l.start).Seconds() * l.rate) }

func (l *loadRun) dueAt(i int) time.Time {
	return l.start.Add(time.Duration(float64(i) / l.rate * float64(time.Second)))
}

// issue sends what is due while there are connections for it.
func (l *loadRun) issue(now time.Time) error {
	if l.rate == 0 {
		return nil
	}
	if now.After(l.end) {
		now = l.end
	}
	n := min(l.dueBy(now)-l.issued, len(l.idle))
	for _, i := range l.idle[:n] {
		if err := l.send(i, l.dueAt(l.issued)); err != nil {
			return err
		}
		l.issued++
	}
	l.idle = l.idle[:copy(l.idle, l.idle[n:])]
	return nil
}

// wait waits for answers, or until the next request is due. epoll_wait counts in milliseconds, which is too coarse for
// that.
func (l *loadRun) wait(events []syscall.EpollEvent, now time.Time) (int, error) {
	pause := 20 * time.Millisecond
	if l.rate > 0 && len(l.idle) > 0 && now.Before(l.end) {
		pause = min(pause, max(l.dueAt(l.issued+1).Sub(now), 0))
		var set syscall.FdSet
		set.Bits[l.ep/64] |= 1 << (l.ep % 64)
		tv := syscall.NsecToTimeval(int64(pause))
		if _, err := syscall.Select(l.ep+1, &set, nil, nil, &tv); err != nil && !errors.Is(err, syscall.EINTR) {
			return 0, err
		}
		pause = 0
	}
	n, err := syscall.EpollWait(l.ep, events, int(pause/time.Millisecond))
	if errors.Is(err, syscall.EINTR) {
		return 0, nil
	}
	return n, err
}

// goOn sends the next request on a connection whose last one was answered, if there is one to be sent.
func (l *loadRun) goOn(i int, now time.Time) error {
	if l.spent() {
		return nil
	}
	return l.send(i, now)
}

func (l *loadRun) send(i int, due time.Time) error {
	c := &l.conns[i]
	c.due, c.n, c.sent = due, 0, l.next
	c.rest = l.text(c)
	l.next++
	l.flying++
	if err := l.write(c); err != nil || len(c.rest) == 0 {
		return err
	}
	return l.watch(syscall.EPOLL_CTL_MOD, i, syscall.EPOLLIN|syscall.EPOLLOUT)
}

// text is what a connection's request says.
func (l *loadRun) text(c *loadConn) []byte {
	r := &l.requests[c.sent%len(l.requests)]
	if r.number < 0 && r.token < 0 {
		return r.text
	}
	c.own = append(c.own[:0], r.text...)
	if r.number >= 0 {
		for at, n := len(numberMark)-1, c.sent; at >= 0; at, n = at-1, n/10 {
			c.own[r.number+at] = byte('0' + n%10)
		}
	}
	if r.token >= 0 {
		copy(c.own[r.token:], l.tokens[c.sent-l.first])
	}
	return c.own
}

func (l *loadRun) write(c *loadConn) error {
	n, err := syscall.Write(c.fd, c.rest)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		return fmt.Errorf("send a request: %w", err)
	}
	c.rest = c.rest[max(n, 0):]
	return nil
}

// serve goes on with one connection.
func (l *loadRun) serve(i int, events uint32) error {
	c := &l.conns[i]
	if len(c.rest) > 0 {
		if err := l.write(c); err != nil {
			return err
		}
		if len(c.rest) == 0 {
			if err := l.watch(syscall.EPOLL_CTL_MOD, i, syscall.EPOLLIN); err != nil {
				return err
			}
		}
	}
	if events&^syscall.EPOLLOUT == 0 {
		return nil
	}
	if c.n == len(c.in) {
		c.in = append(c.in, make([]byte, len(c.in))...)
	}
	n, err := syscall.Read(c.fd, c.in[c.n:])
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return nil
	case err != nil:
		return fmt.Errorf("read an answer: %w", err)
	case n == 0:
		return fmt.Errorf("the server closed a connection, after %q", excerpt(c.in[:c.n]))
	}
	c.n += n
	whole, ok, err := checkAnswer(c.in[:c.n], l.expect)
	if err != nil || !whole {
		return err
	}
	l.flying--
	now := time.Now()
	if !ok {
		l.out.wrong(c.in[:c.n])
	} else {
		l.count(l.out, c.due, now)
		if l.answer != nil {
			if err := l.answer(c.sent, c.in[:c.n]); err != nil {
				return err
			}
		}
	}
	if l.rate > 0 {
		l.idle = append(l.idle, i)
		return nil
	}
	return l.goOn(i, now)
}

// checkAnswer looks whether one whole answer is there, and whether it is a 200 that holds what was expected.
func checkAnswer(in []byte, expect string) (whole, ok bool, err error) {
	end := bytes.Index(in, []byte("\r\n\r\n"))
	if end < 0 {
		if len(in) > 64<<10 {
			return false, false, errors.New("an answer with more than 64 KiB of headers")
		}
		return false, false, nil
	}
	at := bytes.Index(in[:end+2], []byte("\r\nContent-Length: "))
	if at < 0 {
		return false, false, fmt.Errorf("an answer without Content-Length: %q", excerpt(in))
	}
	n := 0
	for _, d := range in[at+len("\r\nContent-Length: "):] {
		if d < '0' || d > '9' {
			break
		}
		if n = n*10 + int(d-'0'); n > maxAnswer {
			return false, false, fmt.Errorf("an answer of more than %d bytes", maxAnswer)
		}
	}
	body := in[end+4:]
	switch {
	case len(body) < n:
		return false, false, nil
	case len(body) > n:
		return false, false, fmt.Errorf("more bytes than one answer: %q", excerpt(in))
	}
	return true, bytes.HasPrefix(in, []byte("HTTP/1.1 200 ")) && bytes.Contains(body, []byte(expect)), nil
}
