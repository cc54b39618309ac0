package sockd

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/exact"
)

// FuzzFrame feeds what strangers send to everything that reads it before a key is looked at: cutting lines, the JSON
// parser, the envelope, and how the answer is spelled. Every line gets one line of JSON, nothing is let in without a
// key, and what may be a govern that failed is a DENY to every reader.
func FuzzFrame(f *testing.F) {
	for _, s := range stories {
		var lines []string
		for _, line := range strings.Split(s.text, "\n") {
			if text, ok := strings.CutPrefix(strings.TrimPrefix(line, ">"), "> "); ok {
				lines = append(lines, text)
			} else if text, ok := strings.CutPrefix(line, "> "); ok {
				lines = append(lines, text)
			}
		}
		f.Add([]byte(strings.Join(lines, "\n")), uint16(7))
	}
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"method\":\"govern\",\"params\":{\"x\":\""+strings.Repeat("x", 5000)+
		"\"}}\n{\"id\":1}\n"), uint16(512))
	f.Add([]byte("\n\n \r\n{}\n[]\nnull\n\"\\ud800\"\n"), uint16(1))
	r := newRig(f, func(_ *rig, set *Settings) {
		set.Limits.AuthorizeBody, set.Limits.ScanBody = 1<<10, 2<<10
		set.Limits.Depth, set.Limits.Tokens = 8, 200
	})
	f.Fuzz(func(t *testing.T, sent []byte, step uint16) {
		c := &conn{s: r.s, peer: &caller{s: r.s}, stopping: make(chan struct{}), id: "soc_f"}
		c.lines.limit = 4 << 10
		c.changed.L = &c.mu
		asked, rest := 0, sent
		take := func(line []byte, long bool) {
			if asked++; len(line) > c.lines.limit {
				t.Fatalf("a line of %d bytes", len(line))
			}
			c.room = 2
			c.takeLine(line, long)
			checkTaken(t, r, c)
		}
		for len(rest) > 0 {
			n := copy(c.lines.room(), rest[:min(len(rest), int(step)+1)])
			rest = rest[n:]
			c.lines.took(n)
			for {
				line, long, ok := c.lines.next()
				if !ok {
					break
				}
				take(line, long)
			}
			if len(c.lines.buf) > c.lines.limit+idleBuffer {
				t.Fatalf("%d bytes are kept", len(c.lines.buf))
			}
		}
		if line, ok := c.lines.rest(); ok {
			take(line, false)
		}
		if want := countLines(sent); asked != want {
			t.Fatalf("%d messages in %d lines", asked, want)
		}
	})
}

// countLines is how many messages a text holds, found out in another way.
func countLines(text []byte) int {
	n := 0
	for _, line := range strings.Split(string(text), "\n") {
		if strings.Trim(line, " \t\r") != "" {
			n++
		}
	}
	return n
}

// checkTaken looks at the one task that take made, and gives it back.
func checkTaken(t *testing.T, r *rig, c *conn) {
	t.Helper()
	if len(c.order) != 1 {
		t.Fatalf("%d tasks", len(c.order))
	}
	task := c.order[0]
	e := &task.env
	if len(c.run) == 1 {
		if _, _, err := c.keyOf(task); err == nil {
			t.Fatal("somebody is known without a key")
		}
		r.s.inFlight.Leave(task.holder, task.urgent)
	} else if !e.mute {
		checkAnswer(t, e, string(task.out))
	} else if len(task.out) > 0 {
		t.Fatalf("a notification is answered: %s", task.out)
	}
	clear(c.order)
	c.order, c.run, c.refused = c.order[:0], c.run[:0], c.refused[:0]
	task.recycle()
}

func checkAnswer(t *testing.T, e *envelope, out string) {
	t.Helper()
	if strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, "\n") {
		t.Fatalf("not one line: %q", out)
	}
	var d exact.Doc
	if err := d.Parse(out, exact.DefaultLimits); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	root := d.Root()
	id := root.Get("id").Raw()
	if e.rpc && (root.Get("jsonrpc").Str() != "2.0" || e.id == "" && id != "null") || e.id != "" && id != e.id {
		t.Fatalf("id %q becomes %q in %s", e.id, id, out)
	}
	if e.op == opHello || e.op == opAuth {
		return
	}
	told := root
	if e.rpc {
		told = root.Get("error").Get("data")
	}
	if told.Get("code").Str() == "" || !e.rpc && root.Get("ok").Raw() != "false" {
		t.Fatalf("not an error: %s", out)
	}
	if e.op == "" || e.op == opGovern {
		if told.Get("effect").Str() != "DENY" || (e.rpc || e.op == "") && root.Get("result").Get("effect").Str() != "DENY" {
			t.Fatalf("no DENY: %s", out)
		}
	}
}
