package httpd

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// benchRequest is 700 bytes, as a client library sends an authorize call.
var benchRequest = func() string {
	head := "POST /v1/authorize HTTP/1.1\r\nHost: gateway.internal:8443\r\nUser-Agent: python-requests/2.32.3\r\n" +
		"Accept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n" +
		"Authorization: Bearer " + strings.Repeat("k", 48) + "\r\nContent-Length: %d\r\n\r\n"
	n := 700 - len(head) + len("%d") - len("300")
	return fmt.Sprintf(head, n) + strings.Repeat("j", n)
}()

// loopConn gives the same request left times, one to a Read, and takes every answer.
type loopConn struct {
	scriptConn
	left int
}

func (c *loopConn) Read(b []byte) (int, error) {
	if c.left--; c.left < 0 {
		return 0, io.EOF
	}
	return copy(b, benchRequest), nil
}

func (c *loopConn) Write(b []byte) (int, error)     { return len(b), nil }
func (c *loopConn) SetReadDeadline(time.Time) error { return nil }

func BenchmarkStrictParser(b *testing.B) {
	in := []byte(benchRequest)
	p := strictParser{headMax: 16 << 10, bodyMax: 4 << 20}
	b.ReportAllocs()
	for b.Loop() {
		p.reset()
		n, _, err := p.next(in)
		if _, _, err2 := p.next(in[n:]); err != nil || err2 != nil || p.phase != phaseEnd {
			b.Fatal(err, err2)
		}
	}
}

// BenchmarkStrictServe is the whole of fasthttp without a network, with and without the guard.
func BenchmarkStrictServe(b *testing.B) {
	for _, guarded := range []bool{false, true} {
		b.Run(fmt.Sprintf("guarded=%v", guarded), func(b *testing.B) {
			s := newStrictServer()
			s.Handler = func(*fasthttp.RequestCtx) {}
			var c net.Conn = &loopConn{left: b.N}
			if guarded {
				c = newStrictConn(c, StrictLimits{}.withDefaults())
			}
			b.ReportAllocs()
			b.ResetTimer()
			if err := s.ServeConn(c); err != nil {
				b.Fatal(err)
			}
		})
	}
}
