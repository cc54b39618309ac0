package httpd

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
)

// TestNobodyKeepsAServerUp has clients that send nothing, or a part, while the server goes down: it ends, and who has
// sent a part is told why.
func TestNobodyKeepsAServerUp(t *testing.T) {
	t.Parallel()
	whole := func(key string) string {
		return fmt.Sprintf("POST /v1/authorize HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: "+
			"application/json\r\nContent-Length: 40\r\n\r\n{", key)
	}
	for _, c := range []struct {
		name   string
		tls    bool
		send   func(key string) string
		effect bool // the answer has one
	}{
		{name: "nothing", send: func(string) string { return "" }},
		{name: "a part of a head", send: func(string) string { return "POST /v1/auth" }},
		{name: "a part of a body", send: whole, effect: true},
		{name: "a part of a chunked body", effect: true, send: func(key string) string {
			head, _, _ := strings.Cut(whole(key), "{")
			return strings.Replace(head, "Content-Length: 40", "Transfer-Encoding: chunked", 1) + "1\r\n{\r\n"
		}},
		{name: "no handshake", tls: true, send: func(string) string { return "" }},
		{name: "a part of a handshake", tls: true, send: func(string) string { return "\x16\x03\x01" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			const hour = config.Duration(time.Hour)
			g := newGate(t, func(s *Settings) {
				s.Limits.Idle, s.Limits.FirstByte, s.Limits.HeaderRead, s.Limits.WholeRead =
					hour, hour, hour, hour
				if c.tls {
					s.TLS = &tls.Config{}
				}
			})
			conn, err := net.Dial("tcp", g.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			part := c.send(g.key("agent", "authorize"))
			if _, err := io.WriteString(conn, part); err != nil {
				t.Fatal(err)
			}
			until(t, "what was sent", func() bool { return g.server.waitFor(c.effect) })
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := g.server.Shutdown(ctx); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn)
			if c.tls {
				return // an alert, or nothing
			}
			if told := strings.Contains(string(got), " 503 "); err != nil || told != (part != "") ||
				strings.Contains(string(got), `"effect":"DENY"`) != c.effect {
				t.Errorf("answered %q, %v", got, err)
			}
		})
	}
}

// waitFor reports whether there is a connection, and one whose body may come if a body is what is waited for.
func (s *Server) waitFor(body bool) bool {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	for c := range s.live.all {
		return !body || c.held.Load() != nil
	}
	return false
}

// TestWhoIsStillThereIsTold ends a server's time while somebody is connected: the error names the setting.
func TestWhoIsStillThereIsTold(t *testing.T) {
	g := newGate(t, nil)
	conn, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	until(t, "the connection", func() bool { return g.server.live.count() == 1 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = g.server.Shutdown(ctx)
	if want := "http: the time to end (server.drain) was over before all connections had ended, 1 left: context " +
		"canceled"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
