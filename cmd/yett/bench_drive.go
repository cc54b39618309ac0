package main

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

// The load generator. It shares the machine with what it measures, so it must cost little: one thread, raw sockets under
// epoll, requests prepared as bytes, and no allocation while it runs. Each connection has one request in flight.

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
}

// driven is what a run gave.
type driven struct {
	good     int // answers after the warm-up that were as expected
	inTime   int // of them, those that came before the end
	all      int // the same, warm-up included
	bad      int // of the whole run
	firstBad string
	late     int           // requests that were due and were not sent, or not answered, by the end; only with a rate
	elapsed  time.Duration // the measured time
	cpu      time.Duration // of the generator's thread in that time
	latency  histogram     // from when a request was due (sent, without a rate) to the end of its answer
}

func (d *driven) perSecond() float64 { return float64(d.good) / d.elapsed.Seconds() }

// maxAnswer bounds the body of one answer, bytes.
const maxAnswer = 16 << 20

// lastAnswers is how long a run with a rate waits for the last answers.
const lastAnswers = 2 * time.Second

type loadConn struct {
	file *os.File
	fd   int
	due  time.Time
	rest []byte // of the request, when the socket took only a part of it
	in   []byte
	n    int // bytes of the answer so far
}

type loadRun struct {
	*drive
	out      *driven
	requests [][]byte
	next     int // request to send
	ep       int
	conns    []loadConn
	idle     []int // connections with nothing in flight, the one that waited longest first; only with a rate
	issued   int   // only with a rate

	start, from, end time.Time     // as planned
	began, ended     time.Time     // as it was
	cpu              time.Duration // the thread's, when measuring began
}

// run sends requests until the time is over. An error means that nothing can be said: a connection broke, or ctx ended.
func (d *drive) run(ctx context.Context) (*driven, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := &loadRun{drive: d, out: &driven{}, conns: make([]loadConn, d.conns), idle: make([]int, 0, d.conns)}
	for _, b := range d.bodies {
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n", d.path, d.addr, d.headers, len(b))
		l.requests = append(l.requests, append([]byte(head), b...))
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
	l.start = time.Now()
	l.from, l.end = l.start.Add(l.warm), l.start.Add(l.warm+l.duration)
	for i := range l.conns {
		if l.rate > 0 {
			l.idle = append(l.idle, i)
		} else if err := l.send(i, l.start); err != nil {
			return err
		}
	}
	events := make([]syscall.EpollEvent, 256)
	for {
		now := time.Now()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if l.began.IsZero() && !now.Before(l.from) {
			l.began, l.cpu = now, threadCPU()
		}
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

// over ends the run: without a rate at once, with one when all that was due is answered.
func (l *loadRun) over(now time.Time) bool {
	if now.Before(l.end) {
		return false
	}
	if l.ended.IsZero() {
		l.ended, l.out.cpu = now, threadCPU()-l.cpu
	}
	l.out.elapsed = l.ended.Sub(l.began)
	if l.rate == 0 {
		return true
	}
	l.out.late = l.dueBy(l.end) - l.issued + len(l.conns) - len(l.idle)
	return l.out.late == 0 || now.Sub(l.end) > lastAnswers
}

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

// wait waits for answers, or until the next request is due. epoll_wait counts in milliseconds, which is too coarse for that.
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

func (l *loadRun) send(i int, due time.Time) error {
	c := &l.conns[i]
	c.due, c.n, c.rest = due, 0, l.requests[l.next]
	l.next = (l.next + 1) % len(l.requests)
	if err := l.write(c); err != nil || len(c.rest) == 0 {
		return err
	}
	return l.watch(syscall.EPOLL_CTL_MOD, i, syscall.EPOLLIN|syscall.EPOLLOUT)
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
	l.count(c, ok)
	if l.rate > 0 {
		l.idle = append(l.idle, i)
		return nil
	}
	return l.send(i, time.Now())
}

// count takes one whole answer. It is measured when it comes after the warm-up; a call that was due before and had to wait
// until then is, so that an overload shows.
func (l *loadRun) count(c *loadConn, ok bool) {
	if !ok {
		if l.out.bad++; l.out.firstBad == "" {
			l.out.firstBad = excerpt(c.in[:c.n])
		}
		return
	}
	l.out.all++
	if l.began.IsZero() {
		return
	}
	l.out.good++
	if l.ended.IsZero() {
		l.out.inTime++
	}
	l.out.latency.add(time.Since(c.due))
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

// excerpt is the beginning of an answer, for messages.
func excerpt(b []byte) string { return string(b[:min(len(b), 400)]) }

// threadCPU is the time that this thread has computed.
func threadCPU() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var ru syscall.Rusage
	if syscall.Getrusage(thread, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
