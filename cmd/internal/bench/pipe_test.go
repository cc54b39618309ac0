//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/peer"
	"github.com/yett-dev/yett/core/testkit"
)

// speaking is a socket whose connections are served by serve, each with its number.
func speaking(t *testing.T, serve func(n int, nc net.Conn, in *bufio.Reader)) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for n := 1; ; n++ {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				serve(n, nc, bufio.NewReader(nc))
			}()
		}
	}()
	return path
}

// governed answers auth, and each message with what say makes of its id; the answers to what one read brought go out
// together.
func governed(t *testing.T, say func(id int) string) *pipeDrive {
	t.Helper()
	path := speaking(t, func(_ int, nc net.Conn, in *bufio.Reader) {
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, `"api_key":"the-key"`) {
			io.WriteString(nc, "{\"ok\":false}\n")
			return
		}
		io.WriteString(nc, "{\"ok\":true}\n")
		var out bytes.Buffer
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			var m struct {
				Type string
				ID   int
			}
			if json.Unmarshal(line, &m) != nil || m.Type != "govern" {
				out.WriteString("{\"ok\":false}\n")
			} else {
				out.WriteString(say(m.ID))
			}
			if in.Buffered() == 0 {
				if _, err := nc.Write(out.Bytes()); err != nil {
					return
				}
				out.Reset()
			}
		}
	})
	bodies := [][]byte{[]byte(`{"agent_id":"a"}`), fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("long ", 100_000)),
		[]byte(`{"agent_id":"c"}`)}
	return &pipeDrive{path: path, key: "the-key", bodies: bodies, expect: "good", conns: 2, depth: 5,
		duration: 200 * time.Millisecond}
}

func TestPipeDrive(t *testing.T) {
	testkit.Long(t, "drives that run for a time")
	good := func(id int) string { return fmt.Sprintf("{\"id\":%d,\"say\":\"good\"}\n", id) }
	t.Run("good", func(t *testing.T) {
		d := governed(t, good)
		d.warm = 50 * time.Millisecond
		out, err := d.run(context.Background())
		if err != nil || out.good == 0 || out.bad != 0 || out.latency.total != uint64(out.good) || out.good > out.all {
			t.Fatalf("%v, %d of %d good, %d bad: %s", err, out.good, out.all, out.bad, out.firstBad)
		}
	})
	t.Run("many in flight", func(t *testing.T) {
		var most, now atomic.Int64
		d := governed(t, func(id int) string {
			now.Add(1)
			most.Store(max(most.Load(), now.Load()))
			return good(id)
		})
		d.conns, d.bodies = 1, d.bodies[:1]
		if out, err := d.run(context.Background()); err != nil || out.bad != 0 || most.Load() < int64(d.depth) {
			t.Fatalf("%v, %d messages came", err, most.Load())
		}
	})
	for name, say := range map[string]func(id int) string{
		"another id":    func(id int) string { return good(id + 1) },
		"a longer id":   func(id int) string { return strings.Replace(good(id), ",", "0,", 1) },
		"another text":  func(id int) string { return strings.Replace(good(id), "good", "evil", 1) },
		"an error":      func(int) string { return "{\"ok\":false,\"error\":\"good\"}\n" },
		"id of nothing": func(id int) string { return fmt.Sprintf("{\"id\":%d", id) + "\n" },
	} {
		t.Run(name, func(t *testing.T) {
			out, err := governed(t, say).run(context.Background())
			if err != nil || out.bad == 0 || out.good != 0 || out.firstBad == "" {
				t.Errorf("%v, %d good, %d bad", err, out.good, out.bad)
			}
		})
	}
	for name, c := range map[string]struct {
		change func(d *pipeDrive)
		say    func(id int) string
		want   string
	}{
		"another key":        {func(d *pipeDrive) { d.key = "other" }, good, "the answer to auth is"},
		"nobody there":       {func(d *pipeDrive) { d.path += "x" }, good, "no such file"},
		"an answer too many": {nil, func(id int) string { return good(id) + good(id) }, "an answer to nothing"},
		"a body of lines":    {func(d *pipeDrive) { d.bodies = [][]byte{[]byte("{\"a\":\n1}")} }, good, "body 0 is no JSON object"},
		"an endless answer":  {nil, func(int) string { return strings.Repeat("x", 4<<20) }, "bytes and more"},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, c.say)
			d.duration = 20 * time.Second
			if c.change != nil {
				c.change(d)
			}
			if _, err := d.run(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := governed(t, good).run(ctx); err == nil {
			t.Error("a run that was interrupted gave a result")
		}
	})
}

// audienceOf serves subscribers: first looks at what each asks for, it is told that it is one, and then has the
// connection.
func audienceOf(t *testing.T, first func(message map[string]any),
	then func(n int, message map[string]any, nc net.Conn)) string {
	t.Helper()
	return speaking(t, func(n int, nc net.Conn, in *bufio.Reader) {
		line, err := in.ReadBytes('\n')
		var m map[string]any
		if err != nil || json.Unmarshal(line, &m) != nil || m["api_key"] == nil {
			return
		}
		if first != nil {
			first(m)
		}
		io.WriteString(nc, "{\"subscribed\":true,\"from_seq\":1}\n")
		then(n, m, nc)
	})
}

// stay keeps a connection until the other side closes it.
func stay(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) } // however it ends, it has ended

func TestAudience(t *testing.T) {
	keys := keySet{Agent: "agent", Operator: "operator"}
	t.Run("all stay", func(t *testing.T) {
		var audit, callback, whole atomic.Int64
		path := audienceOf(t, func(m map[string]any) {
			switch {
			case m["from_seq"] == 1.0 && m["type"] == "audit_subscribe" && m["agent_id"] == nil:
				whole.Add(1)
			case m["type"] == "audit_subscribe" && m["api_key"] == "operator":
				audit.Add(1)
			case m["type"] == "callback_subscribe" && m["api_key"] == "agent":
				callback.Add(1)
			}
		}, func(_ int, m map[string]any, nc net.Conn) {
			if m["from_seq"] != nil {
				_, _ = nc.Write(bytes.Repeat([]byte("{\"seq\":1}\n"), 1<<16)) // nobody reads it: it ends with the connection
			}
			stay(nc)
		})
		a, err := gather(path, keys, 10, 3)
		if err != nil {
			t.Fatal(err)
		}
		if why := a.leave(); why != "" || audit.Load() != 5 || callback.Load() != 5 || whole.Load() != 3 {
			t.Errorf("%q: %d, %d and %d subscribers", why, audit.Load(), callback.Load(), whole.Load())
		}
	})
	for name, c := range map[string]struct {
		then func(n int, m map[string]any, nc net.Conn)
		want string
	}{
		"an idle one is cut off": {func(n int, _ map[string]any, nc net.Conn) {
			if n != 2 {
				stay(nc)
			}
		}, "1 of 4 idle subscribers and 0 of 2 stuck ones were cut off"},
		"a stuck one is cut off": {func(n int, _ map[string]any, nc net.Conn) {
			if n != 5 {
				stay(nc)
			}
		}, "0 of 4 idle subscribers and 1 of 2 stuck ones were cut off"},
		"an idle one is sent something": {func(n int, _ map[string]any, nc net.Conn) {
			if n == 1 {
				io.WriteString(nc, "{\"seq\":7}\n")
			}
			stay(nc)
		}, "idle subscribers were sent 1 lines"},
	} {
		t.Run(name, func(t *testing.T) {
			path := audienceOf(t, nil, c.then)
			a, err := gather(path, keys, 4, 2)
			if err != nil {
				t.Fatal(err)
			}
			// What the server did reaches this side in its own time.
			for deadline := time.After(time.Minute); a.lost.Load() == 0 && a.lines.Load() == 0 && !peer.Ended(a.stuck[0]); {
				select {
				case <-deadline:
					t.Fatal("nothing of it reached this side")
				case <-time.After(time.Millisecond):
				}
			}
			if why := a.leave(); !strings.Contains(why, c.want) {
				t.Errorf("%q, want %q", why, c.want)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		for _, idle := range []int{0, 1} {
			path := speaking(t, func(_ int, nc net.Conn, in *bufio.Reader) {
				_, _ = in.ReadString('\n') // whatever it asks
				io.WriteString(nc, "{\"ok\":false,\"code\":\"missing_scope\"}\n")
				stay(nc)
			})
			if _, err := gather(path, keys, idle, 1); err == nil || !strings.Contains(err.Error(), "missing_scope") {
				t.Errorf("%v", err)
			}
		}
	})
}
