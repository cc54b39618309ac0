//go:build linux

package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/yett-dev/yett/core/peer"
)

// Who subscribes while latencies are measured. The idle ones read, half of them audit_subscribe and half
// callback_subscribe, each for an agent that does nothing. The stuck ones ask for the whole log and read nothing of it.
const (
	idleSubscribers  = 256
	stuckSubscribers = 50
	streamsPerKey    = 512 // limits.streams_per_key of the measured gateway: 128 idle and 50 stuck ones are one key's
)

// stuckFor bounds a run with stuck subscribers: the server cuts those off that have read nothing for 30 s.
const stuckFor = 20 * time.Second

// audience is subscribers that are connected.
type audience struct {
	idle    []*net.UnixConn
	stuck   []*net.UnixConn
	readers sync.WaitGroup
	leaving atomic.Bool
	lost    atomic.Int64 // idle ones whose stream ended by itself
	lines   atomic.Int64 // that idle ones were sent: nothing happens that they ask for
}

// gather connects subscribers and waits until the server has told each one that it is one.
func gather(socket string, keys keySet, idle, stuck int) (*audience, error) {
	a := &audience{}
	err := a.gather(socket, keys, idle, stuck)
	if err != nil {
		a.close()
		return nil, fmt.Errorf("subscribers: %w", err)
	}
	return a, nil
}

func (a *audience) gather(socket string, keys keySet, idle, stuck int) error {
	for i := range idle {
		message := map[string]any{"type": "audit_subscribe", "api_key": keys.Operator, "agent_id": fmt.Sprintf("quiet-%d", i)}
		if i%2 == 1 {
			message["type"], message["api_key"] = "callback_subscribe", keys.Agent
		}
		nc, err := openSocket(socket, message, `"subscribed":true`)
		if err != nil {
			return fmt.Errorf("idle one %d: %w", i+1, err)
		}
		a.idle = append(a.idle, nc)
		a.readers.Go(func() { a.read(nc) })
	}
	for i := range stuck {
		nc, err := sendSocket(socket, map[string]any{"type": "audit_subscribe", "api_key": keys.Operator, "from_seq": 1})
		if err != nil {
			return fmt.Errorf("stuck one %d: %w", i+1, err)
		}
		a.stuck = append(a.stuck, nc)
		if err := subscribed(nc); err != nil {
			return fmt.Errorf("stuck one %d: %w", i+1, err)
		}
	}
	return nil
}

// read reads until the connection ends.
func (a *audience) read(nc *net.UnixConn) {
	buf := make([]byte, 4<<10)
	for {
		n, err := nc.Read(buf)
		a.lines.Add(int64(bytes.Count(buf[:n], []byte{'\n'})))
		if err != nil {
			if !a.leaving.Load() {
				a.lost.Add(1)
			}
			return
		}
	}
}

// subscribed looks at the first answer without taking it.
func subscribed(nc *net.UnixConn) error {
	text, err := peek(nc, true)
	if err == nil && !bytes.Contains(text, []byte(`"subscribed":true`)) {
		err = fmt.Errorf("the answer is %q", text)
	}
	if err != nil {
		return err
	}
	return nc.SetDeadline(time.Time{})
}

// peek gives the beginning of what lies unread. With wait it waits until there is something; an end is io.EOF.
func peek(nc *net.UnixConn, wait bool) ([]byte, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 4<<10)
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, _, failed = syscall.Recvfrom(int(fd), buf, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return !wait || !errors.Is(failed, syscall.EAGAIN)
	})
	switch {
	case err != nil || failed != nil:
		return nil, errors.Join(err, failed)
	case n == 0:
		return nil, io.EOF
	}
	return buf[:n], nil
}

// leave says what was not as it has to be while they were there, "" if nothing, and ends them. Whoever was cut off
// during the run did no harm any more, so the figure would be too good.
func (a *audience) leave() string {
	a.leaving.Store(true)
	lost, cut := a.lost.Load(), 0
	for _, nc := range a.stuck {
		if _, err := peek(nc, false); err != nil || peer.Ended(nc) {
			cut++
		}
	}
	lines := a.lines.Load()
	a.close()
	switch {
	case lost > 0 || cut > 0:
		return fmt.Sprintf("%d of %d idle subscribers and %d of %d stuck ones were cut off", lost, len(a.idle), cut,
			len(a.stuck))
	case lines > 0:
		return fmt.Sprintf("idle subscribers were sent %d lines that they did not ask for", lines)
	}
	return ""
}

func (a *audience) close() {
	a.leaving.Store(true)
	for _, list := range [][]*net.UnixConn{a.idle, a.stuck} {
		for _, nc := range list {
			nc.Close()
		}
	}
	a.readers.Wait()
}
