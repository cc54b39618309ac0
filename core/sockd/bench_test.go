package sockd

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkGovern is 8 connections that keep so many messages in flight: durable is govern on a real store, echo the
// socket alone. b.N is messages.
func BenchmarkGovern(b *testing.B) {
	for _, kind := range []struct{ name, line string }{
		{"durable", `{"type":"govern","id":%d,"agent_id":"agent-1","tool_id":"permit","args":{"path":"README.md","lines":120},"session_id":"s-1"}`},
		{"echo", `{"type":"echo","id":%d,"say":"README.md","agent_id":"agent-1","tool_id":"permit"}`},
	} {
		for _, flight := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/8x%d", kind.name, flight), func(b *testing.B) {
				r := newRig(b, nil)
				key := r.key("agent", "authorize").Value
				var wg sync.WaitGroup
				var ends []*client
				for range 8 {
					ends = append(ends, r.as(key))
				}
				b.ReportAllocs()
				before := cpu()
				b.ResetTimer()
				for i, c := range ends {
					wg.Go(func() { pipeline(b, c.UnixConn, kind.line, flight, (b.N+7-i)/8) })
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
				b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "cpu-ns/msg")
			})
		}
	}
}

// cpu is the processor time that this process has used: on a busy machine it says more than the clock.
func cpu() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pipeline sends n messages with so many in flight, one batch of lines for each batch of answers.
func pipeline(b *testing.B, nc *net.UnixConn, line string, flight, n int) {
	text := []byte(fmt.Sprintf(line, 7) + "\n")
	whole := bytes.Repeat(text, flight)
	buf := make([]byte, 256<<10)
	sent, got := 0, 0
	send := func(k int) {
		if k = min(k, n-sent); k > 0 {
			sent += k
			if _, err := nc.Write(whole[:k*len(text)]); err != nil {
				b.Error(err)
			}
		}
	}
	send(flight)
	for got < n {
		m, err := nc.Read(buf)
		if err != nil {
			if err != io.EOF || got < n {
				b.Error(err)
			}
			return
		}
		k := bytes.Count(buf[:m], []byte{'\n'})
		got += k
		send(k)
	}
}
