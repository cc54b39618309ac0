package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// neighbour calls another server behind the same gateway all the time.
type neighbour struct {
	stop context.CancelFunc
	done chan struct{}
	mu   sync.Mutex
	took []time.Duration
	err  error
}

func startNeighbour(t testing.TB, g *gateway, name string) *neighbour {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &neighbour{stop: cancel, done: make(chan struct{})}
	c := g.client(name, rawmcp.Modern)
	go func() {
		defer close(n.done)
		for id := 1; ctx.Err() == nil; id++ {
			begun := time.Now()
			messages, err := do(ctx, c, Call(c.Era, fmt.Sprint(id), "echo", `{"from":"a neighbour"}`))
			n.note(ctx, time.Since(begun), messages, err)
		}
	}()
	t.Cleanup(n.end)
	return n
}

func (n *neighbour) note(ctx context.Context, took time.Duration, messages [][]byte, err error) {
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.took = append(n.took, took)
	if err == nil && (len(messages) != 1 || !strings.Contains(Text(messages[0]), "a neighbour")) {
		err = fmt.Errorf("it got %q", messages)
	}
	if n.err == nil {
		n.err = err
	}
}

func (n *neighbour) end() { n.stop(); <-n.done }

// answered demands that calls are answered from now on, at least so many and for so long, and that none was not since
// the last time. It gives how long they took.
func (n *neighbour) answered(t testing.TB, least int, lasts time.Duration) []time.Duration {
	t.Helper()
	n.mu.Lock()
	n.took = nil
	n.mu.Unlock()
	begun, tick := time.Now(), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		<-tick.C
		n.mu.Lock()
		took, err := n.took, n.err
		n.mu.Unlock()
		late := time.Since(begun) > probeWithin
		if err != nil || late {
			t.Fatalf("the neighbour's calls: %d answered, %v", len(took), err)
		}
		if len(took) >= least && time.Since(begun) >= lasts {
			return slices.Clone(took)
		}
	}
}

// hostileRules permit tools, and nothing that a server asks of the client.
const hostileRules = `  - {id: no-asking, tools: ["mcp.*/elicitation/create", "mcp.*/sampling/createMessage", "mcp.*/roots/list"], effect: deny}
` + permitAll

// newHostile starts a gateway before a hostile server and a good one, whose neighbour is at work.
func newHostile(t testing.TB, opt rawmcp.Options) (*gateway, *rawmcp.Server, *neighbour) {
	t.Helper()
	opt.Secret = foundSecret
	server, url := ServeRaw(t, opt)
	_, good := ServeRaw(t, rawmcp.Options{})
	g := startGateway(t, setup{Servers: behind("bad", url) + behind("good", good), Rules: hostileRules,
		Scan: `{budget: 30s, steps: [{use: secrets}, {use: injection}], actions: [{kinds: ["SECRET_*"], action: redact}, ` +
			`{kinds: ["INJECTION_*"], action: deny}, {action: flag}]}`})
	return g, server, startNeighbour(t, g, "good")
}

// TestGatewayContainsServers sees each attack of a server on its client through the gateway, which lives on and serves
// a neighbour meanwhile.
func TestGatewayContainsServers(t *testing.T) {
	g, server, beside := newHostile(t, rawmcp.Options{})
	for _, era := range eras {
		for _, a := range attacks {
			t.Run(era+" "+a.tool, func(t *testing.T) {
				c := g.client("bad", era)
				asked := 0
				c.Answer = func([]byte) []byte { asked++; return nil }
				opened(t, c)
				x, err := c.Exchange(t.Context(), Call(era, "7", a.tool, a.arguments), nil)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(x.Raw, []byte(foundSecret)) || bytes.Contains(x.Raw, []byte(rawmcp.ForeignHost)) {
					t.Errorf("the client sees what it must not: %.500s", x.Raw)
				}
				for name := range x.Header {
					if name == "Www-Authenticate" || name == "Set-Cookie" || name == "Location" {
						t.Errorf("the client gets the server's header %s: %q", name, x.Header[name])
					}
				}
				if asked != 0 {
					t.Errorf("the server asked the client %d times: %.500s", asked, x.Raw)
				}
				answers := 0
				for _, m := range x.Messages {
					if e := open(m); e.answers([]byte("7")) {
						answers++
					} else if e.Method == "" {
						t.Errorf("an answer to another request came: %.300s", m)
					}
				}
				if answers != 1 {
					t.Errorf("%d answers came: %.500s", answers, x.Raw)
				}
				if a.contains != "" && !bytes.Contains(x.Raw, []byte(a.contains)) {
					t.Errorf("the answer does not hold %q: %.500s", a.contains, x.Raw)
				}
			})
		}
	}
	beside.answered(t, 3, 0)
	g.alive("bad", rawmcp.Modern)
	for _, r := range server.Records() {
		if key := r.Header["Authorization"]; len(key) != 0 {
			t.Fatalf("the server got the client's key: %q", key)
		}
	}
}

// attacks are calls of hostile tools, and what the answer must hold.
var attacks = []struct{ tool, arguments, contains string }{
	{"secret", "", "note: "},
	{"secret-structured", "", ""},
	{"secret-places", "", "resource_link"},
	{"secret-error", "", "-32050"},
	{"phish", "", ""},
	{"phish-form", "", ""},
	{"sample-secret", "", ""},
	{"flood", "", ""},
	{"foreign-id", `{"id":8}`, "own"},
	{"twice", "", "first"},
	{"wrong-id", "", "error"},
	{"unasked-method", "", ""},
	{"vendor-event", "", "read"},
	{"repeated-members", "", "error"},
	{"batch", "", "error"},
	{"not-json", "", "error"},
	{"not-utf8", "", "error"},
	{"deep", "", "error"},
	{"die", "", "error"},
	{"challenge", "", "error"},
	{"redirect", "", "error"},
}

// TestGatewayHidesPoison has descriptions of tools that give orders to the model left out of lists, and their calls
// refused. The unharmed tools of the same page stay.
func TestGatewayHidesPoison(t *testing.T) {
	for _, era := range eras { // a gateway for each: the server describes some tools otherwise in each era
		g, server, beside := newHostile(t, rawmcp.Options{Modes: []string{"poison"}})
		c := g.client("bad", era)
		opened(t, c)
		entries, _, err := ListTools(t.Context(), c, era, 1)
		if err != nil {
			t.Fatal(err)
		}
		all := string(bytes.Join(asBytes(entries), nil))
		for _, order := range []string{"~/.ssh/id_rsa", `\udb40\udc49`} {
			if strings.Contains(all, order) {
				t.Errorf("%s: the client is shown %q", era, order)
			}
		}
		got := names(t, entries)
		if len(got) < len(rawmcp.ToolNames())/2 {
			t.Errorf("%s: only %q are shown", era, got)
		}
		for _, tool := range rawmcp.ToolNames() {
			if slices.Contains(got, tool) || tool == "huge" || tool == "slow" {
				continue
			}
			before := len(server.Records())
			messages, err := do(t.Context(), c, Call(era, "7", tool, ""))
			if err != nil || !bytes.Contains(messages[len(messages)-1], []byte(`"isError":true`)) ||
				len(server.Records()) != before {
				t.Errorf("%s: %s is hidden and can be called: %.300q, %v", era, tool, messages, err)
			}
		}
		beside.answered(t, 1, 0)
	}
}

// TestGatewayPagesWithoutEnd reads lists that have no end as far as its client wants: the gateway reads no page that
// nobody asked for.
func TestGatewayPagesWithoutEnd(t *testing.T) {
	for _, mode := range []string{"endless", "cycle"} {
		g, server, beside := newHostile(t, rawmcp.Options{Modes: []string{mode}})
		for _, era := range eras {
			c := g.client("bad", era)
			opened(t, c)
			before := len(server.Records())
			_, cursors, err := ListTools(t.Context(), c, era, 50)
			if err != nil || len(cursors) != 50 {
				t.Errorf("%s %s: %d cursors, %v", mode, era, len(cursors), err)
			}
			if read := len(server.Records()) - before; read != 50 {
				t.Errorf("%s %s: the gateway read %d pages for 50", mode, era, read)
			}
		}
		beside.answered(t, 3, 0)
	}
}

// hugeGrowth is how much memory the gateway may need for events that have no end: a few of mcp.max_result, and what a
// collector has not freed.
const hugeGrowth = 384 << 20

// TestGatewayHugeEvent has a server send an event of 1 GiB, several at once.
func TestGatewayHugeEvent(t *testing.T) {
	g, server, beside := newHostile(t, rawmcp.Options{})
	for _, era := range eras {
		g.alive("bad", era)
	}
	before := g.peakMemory()
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			c := g.client("bad", eras[n%len(eras)])
			if _, err := c.Open(t.Context()); err != nil {
				t.Error(err)
				return
			}
			messages, err := do(t.Context(), c, Call(c.Era, "7", "huge", fmt.Sprintf(`{"bytes":%d}`, rawmcp.HugeEvent)))
			if err != nil || !bytes.Contains(messages[len(messages)-1], []byte(`"error"`)) {
				t.Errorf("%.300q, %v", messages, err)
			}
		})
	}
	all.Wait()
	after := g.peakMemory()
	t.Logf("peak memory: %d MiB before, %d MiB after six events of 1 GiB", before>>20, after>>20)
	if after-before > hugeGrowth {
		t.Errorf("six events of 1 GiB took %d MiB", (after-before)>>20)
	}
	if err := WaitRecord(t.Context(), server.Records, GivenUp); err != nil {
		t.Errorf("the gateway reads on: %v", err)
	}
	beside.answered(t, 3, 0)
	g.alive("bad", rawmcp.Modern)
}

// TestGatewayScansTasks has a secret come later, where no call of a tool is seen.
func TestGatewayScansTasks(t *testing.T) {
	g, _, beside := newHostile(t, rawmcp.Options{})
	for _, era := range []string{rawmcp.Modern, rawmcp.Legacy} {
		c := g.client("bad", era)
		opened(t, c)
		members, capabilities, fetch := `"name":"task-secret","task":{"ttl":60000}`, Capabilities, "tasks/result"
		if era == rawmcp.Modern {
			members, capabilities, fetch = `"name":"task-secret"`, TasksCapabilities, "tasks/get"
		}
		n := 0
		ask := func(method, members string) []byte {
			t.Helper()
			n++ // an id names one request of a session
			messages, err := do(t.Context(), c, RequestAs(era, capabilities, fmt.Sprint(n), method, members, ""))
			if err != nil {
				t.Fatalf("%s %s: %v", era, method, err)
			}
			if bytes.Contains(messages[0], []byte(foundSecret)) {
				t.Errorf("%s %s: the secret comes through: %s", era, method, messages[0])
			}
			return messages[0]
		}
		id := TaskID(ask("tools/call", members))
		if id == "" {
			t.Fatalf("%s: no task began", era)
		}
		for _, method := range []string{fetch, "tasks/get", "tasks/list", "tasks/cancel"} {
			if got := ask(method, fmt.Sprintf(`"taskId":%q`, id)); method == fetch && !bytes.Contains(got, []byte(id)) {
				t.Errorf("%s %s: %s", era, method, got)
			}
		}
	}
	beside.answered(t, 3, 0)
}

// TestGatewayServerWantsCredentials stands before servers that want the client's credentials: the client is not asked.
func TestGatewayServerWantsCredentials(t *testing.T) {
	g, server, beside := newHostile(t, rawmcp.Options{Modes: []string{"challenge"}})
	for _, era := range eras {
		c := g.client("bad", era)
		x, err := c.Exchange(t.Context(), opening(era), nil)
		if err != nil || x.Status == http.StatusUnauthorized || x.Header["Www-Authenticate"] != nil ||
			x.Header["Set-Cookie"] != nil || bytes.Contains(x.Raw, []byte(rawmcp.ForeignHost)) {
			t.Errorf("%s: %+v, %v", era, x, err)
		}
	}
	if len(server.Records()) == 0 {
		t.Error("nothing was forwarded")
	}
	beside.answered(t, 3, 0)
}

// BenchmarkGatewayNeighbour prints how much longer the slowest in a hundred of a neighbour's calls take beside a
// hostile server than without it. The clients run on the same machine. Nothing is asserted: the number is its, too.
func BenchmarkGatewayNeighbour(b *testing.B) {
	g, _, beside := newHostile(b, rawmcp.Options{})
	p99 := func() time.Duration {
		took := beside.answered(b, 100, 2*time.Second)
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	for _, tool := range []string{"echo", "huge", "flood", "deep", "events", "large"} {
		b.Run(tool, func(b *testing.B) {
			var quiet, busy time.Duration
			for b.Loop() {
				quiet = p99()
				stop := again(b, g, tool)
				busy = p99()
				stop()
			}
			b.ReportMetric(float64(quiet.Microseconds()), "µs-quiet-p99")
			b.ReportMetric(float64(busy)/float64(quiet), "ratio-p99")
		})
	}
}

// again calls a tool of the hostile server one time after the other until it is stopped.
func again(b *testing.B, g *gateway, tool string) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c := g.client("bad", rawmcp.Modern)
		for ctx.Err() == nil {
			if _, err := c.Do(ctx, Call(c.Era, "7", tool, "")); err != nil && ctx.Err() == nil {
				b.Error(err)
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}
