package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// unlikeHTTP is what a command cannot do as a server over HTTP does, by revision: it has no stream to resume, so it
// says nothing of when to resume one.
var unlikeHTTP = map[string]string{rawmcp.Legacy: "server-sse-polling/server-sse-retry-field"}

// TestGatewayConformance has the official runner find the same through the gateway as without it: for a server over
// HTTP, and for the same server as a command.
func TestGatewayConformance(t *testing.T) {
	for revision := range passing {
		t.Run(revision, func(t *testing.T) {
			url := StartEverything(t, revision)
			g := startGateway(t, setup{Servers: behind("all", url) +
				"    command: {confine: off, command: [" + EverythingProgram(t) + "]}\n"})
			for name, except := range map[string]string{"all": "", "command": unlikeHTTP[revision]} {
				compareConformance(t, url, Forward(t, g.url+name, Bearer(g.agent)), revision, except)
			}
		})
	}
}

// compareConformance compares a server with what a URL gives, but for one check. The runner gives each scenario a
// time of its own, which a busy machine may exceed: what differs must do so twice.
func compareConformance(t *testing.T, direct, through, revision, except string) {
	t.Helper()
	var differ []string
	for try := range 2 {
		found := Conformance(t, through, revision)
		differ = slices.DeleteFunc(Compare(Conformance(t, direct, revision), found), func(d string) bool {
			return except != "" && strings.HasPrefix(d, except+":")
		})
		t.Logf("%s, run %d: %d checks pass through the gateway; %q differ", revision, try+1, len(found.Passed()), differ)
		if len(differ) == 0 {
			return
		}
	}
	for _, d := range differ {
		t.Error(d)
	}
}

// sdkRules are the rules of the tests with SDKs, which see each effect.
const sdkRules = `  - {id: denied, tools: [mcp.raw/numbers], effect: deny, reason: no numbers today}
  - {id: asked, tools: [mcp.raw/region], effect: defer, reason: a person looks}
` + permitAll

// foundSecret is one that the built-in scanner finds. It is put together here, so that it stands in no file.
var foundSecret = "AKIA" + "QX7ZPLM3NB5TRWSD"

// through is what a test with an SDK needs: a gateway before a raw server.
type through struct {
	*gateway
	server *rawmcp.Server
	free   []*rawmcp.Server // about which no rule but permitAll speaks: free0, free1 …
}

func newThrough(t *testing.T, mcp string, kept bool) *through {
	t.Helper()
	installed(t, "YETT_SDKS", SDKs[0].Name) // before anything is built
	server, url := ServeRaw(t, rawmcp.Options{Secret: foundSecret, Modes: []string{"pages"}})
	servers, g := behind("raw", url), &through{server: server}
	for n := range 2 * len(SDKs) {
		one, url := ServeRaw(t, rawmcp.Options{Modes: []string{"pages"}})
		servers, g.free = servers+behind(fmt.Sprintf("free%d", n), url), append(g.free, one)
	}
	g.gateway = startGateway(t, setup{Servers: servers, Rules: sdkRules, MCP: mcp, Kept: kept})
	return g
}

func (g *through) header() map[string]string {
	return map[string]string{"Authorization": "Bearer " + g.agent}
}

// ran is how often the server ran a tool with arguments that hold a text.
func (g *through) ran(tool, text string) (n int) {
	for _, r := range g.server.Records() {
		if e := open(r.Body); r.Event == "" && e.Method == "tools/call" && e.Params.Name == tool &&
			bytes.Contains(e.Params.Arguments, []byte(text)) {
			n++
		}
	}
	return n
}

// TestGatewaySDKs has unmodified clients of public SDKs see what a direct server shows them, and a denial, a redaction
// and the end of a server as their authors can handle them.
func TestGatewaySDKs(t *testing.T) {
	g := newThrough(t, "", false)
	n := -1
	EachSDK(t, func(t *testing.T, s SDK, legacy bool) {
		n++
		useSDK(t, s, Ask{URL: fmt.Sprintf("%sfree%d", g.url, n), Header: g.header(), Legacy: legacy}, g.free[n].Records)
		saw := s.Use(t, Ask{URL: g.url + "raw", Header: g.header(), Legacy: legacy, Calls: []SDKCall{
			{Name: "numbers"}, {Name: "secret"}, {Name: "die"}, {Name: "echo", Arguments: json.RawMessage(`{"a":"after"}`)}}})
		denied, secret, died, after := saw.Answers[0], saw.Answers[1], saw.Answers[2], saw.Answers[3]
		if slices.Contains(saw.Tools, "numbers") || !slices.Contains(saw.Tools, "region") {
			t.Errorf("a client that may not call numbers is shown %q", saw.Tools)
		}
		if !denied.IsError || !strings.Contains(denied.Text, "Denied by policy") {
			t.Errorf("a denied call: %+v", denied)
		}
		if secret.IsError || secret.Thrown || !strings.HasPrefix(secret.Text, "note: ") ||
			strings.Contains(secret.Text, foundSecret) {
			t.Errorf("a secret in a result: %+v", secret)
		}
		if !died.Thrown && !died.IsError {
			t.Errorf("a server that dies: %+v", died)
		}
		if after.Thrown || !strings.Contains(after.Text, "after") {
			t.Errorf("a call after all that: %+v", after)
		}
	})
	if n := g.ran("numbers", ""); n != 0 {
		t.Errorf("a denied call ran %d times", n)
	}
}

// TestGatewaySDKsWait sees each way out of a call that waits for a person, with the clients that can take it.
func TestGatewaySDKsWait(t *testing.T) {
	g := newThrough(t, "  wait: 20s\n", false)
	use := func(t *testing.T, s SDK, legacy, plain bool, with string) (saw Saw, mark string) {
		t.Helper()
		mark = fmt.Sprintf("%s-%t-%t-%s", s.Name, legacy, plain, with)
		answered := make(chan error, 1)
		go func() { answered <- g.answerNext(t.Context(), with) }()
		saw = s.Use(t, Ask{URL: g.url + "raw", Header: g.header(), Legacy: legacy, Plain: plain,
			Calls: []SDKCall{{Name: "region", Arguments: json.RawMessage(fmt.Sprintf(`{"region":%q}`, mark))}}})
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		return saw, mark
	}
	EachSDK(t, func(t *testing.T, s SDK, legacy bool) {
		for _, plain := range []bool{false, true} {
			saw, mark := use(t, s, legacy, plain, "approve")
			if a := saw.Answers[0]; a.IsError || a.Thrown || a.Text != "region" || g.ran("region", mark) != 1 {
				t.Errorf("plain %t, approved: %+v, ran %d times", plain, a, g.ran("region", mark))
			}
			if pages := len(saw.Elicited); (pages == 1) == plain ||
				!plain && !strings.Contains(saw.Elicited[0], "/approvals/dec_") {
				t.Errorf("plain %t: pages %q", plain, saw.Elicited)
			}
		}
		saw, mark := use(t, s, legacy, false, "deny")
		if a := saw.Answers[0]; !a.IsError || !strings.Contains(a.Text, "has not approved") || g.ran("region", mark) != 0 {
			t.Errorf("denied by a person: %+v, ran %d times", a, g.ran("region", mark))
		}
	})
}

// TestGatewaySDKsComeBack is the way out without a wait: the call fails at once, and the identical one runs when it has
// been approved.
func TestGatewaySDKsComeBack(t *testing.T) {
	g := newThrough(t, "  wait: 0s\n", false)
	EachSDK(t, func(t *testing.T, s SDK, legacy bool) {
		mark := fmt.Sprintf("%s-%t", s.Name, legacy)
		call := SDKCall{Name: "region", Arguments: json.RawMessage(fmt.Sprintf(`{"region":%q}`, mark))}
		between := &second{text: mark, do: func() error { return g.answerNext(t.Context(), "approve") }}
		saw := s.Use(t, Ask{URL: ForwardAfter(t, g.url+"raw", Bearer(g.agent), between.see), Legacy: legacy, Plain: true,
			Calls: []SDKCall{call, call}})
		if between.err != nil {
			t.Fatal(between.err)
		}
		first, again := saw.Answers[0], saw.Answers[1]
		if !first.IsError || !strings.Contains(first.Text, "waits for a person") {
			t.Errorf("at first: %+v", first)
		}
		if again.IsError || again.Thrown || again.Text != "region" || g.ran("region", mark) != 1 {
			t.Errorf("once approved: %+v, ran %d times", again, g.ran("region", mark))
		}
	})
}

// TestGatewaySDKsRestart kills the gateway between two calls of one session and starts it again. The server behind
// still knows the session, so it goes on where it was.
func TestGatewaySDKsRestart(t *testing.T) {
	g := newThrough(t, "", true)
	EachSDK(t, func(t *testing.T, s SDK, legacy bool) {
		between := &second{text: `"counter"`, do: func() error { g.restart(); return nil }}
		saw := s.Use(t, Ask{URL: ForwardAfter(t, g.url+"raw", Bearer(g.agent), between.see), Legacy: legacy,
			Calls: []SDKCall{{Name: "counter"}, {Name: "counter"}}})
		first, again := saw.Answers[0], saw.Answers[1]
		if first.Thrown || again.Thrown || first.Text == again.Text || legacy && again.Text != "2" {
			t.Errorf("before %+v, after %+v", first, again)
		}
	})
}

// second does something before the second request that holds a text.
type second struct {
	text string
	do   func() error
	mu   sync.Mutex
	seen int
	err  error
}

func (s *second) see(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Contains(body, []byte(s.text)) {
		return
	}
	if s.seen++; s.seen == 2 {
		s.err = s.do()
	}
}

// TestGatewayCancels sees a server told that its call was given up, when a client's connection ends and, in the older
// era, when the client says so.
func TestGatewayCancels(t *testing.T) {
	server, url := ServeRaw(t, rawmcp.Options{})
	g := startGateway(t, setup{Servers: behind("raw", url)})
	for _, era := range eras {
		c := g.client("raw", era)
		opened(t, c)
		given := func(mark string) {
			t.Helper()
			if err := WaitRecord(t.Context(), server.Records, func(r rawmcp.Record) bool {
				return GivenUp(r) && bytes.Contains(r.Body, []byte(mark))
			}); err != nil {
				t.Errorf("%s: %v", era, err)
			}
		}
		begin := func(id, mark string) *http.Response {
			t.Helper()
			resp, err := c.Post(t.Context(), Call(era, id, "slow", fmt.Sprintf(`{"mark":%q}`, mark)), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := ReadEvents(resp.Body, func(e Event) bool { return !bytes.Contains(e.Data, []byte("begun")) }); err != nil {
				t.Fatal(err)
			}
			return resp
		}
		resp := begin("71", "lost-"+era)
		_ = resp.Body.Close() // the client has gone
		given("lost-" + era)
		if era == rawmcp.Modern {
			continue
		}
		resp = begin("72", "said-"+era)
		if err := c.Notify(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":`+
			`{"requestId":72,"reason":"the user"}}`)); err != nil {
			t.Error(err)
		}
		given("said-" + era)
		_ = resp.Body.Close() // it has ended
	}
}

// TestGatewayServerDies demands an error in time of a server that dies within its answer, and a gateway that lives on.
func TestGatewayServerDies(t *testing.T) {
	url, kill := StartRaw(t)
	g := startGateway(t, setup{Servers: behind("raw", url)})
	for _, era := range eras {
		c := g.client("raw", era)
		opened(t, c)
		messages, err := do(t.Context(), c, Call(era, "7", "die", ""))
		if err != nil || !bytes.Contains(messages[len(messages)-1], []byte(`"error"`)) {
			t.Fatalf("%s: %q, %v", era, messages, err)
		}
		g.alive("raw", era)
	}
	c := g.client("raw", rawmcp.Legacy)
	opened(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ended := make(chan [][]byte, 1)
	go func() {
		messages, _ := c.Do(ctx, Call(c.Era, "8", "slow", "")) // what came is looked at below
		ended <- messages
	}()
	time.AfterFunc(300*time.Millisecond, kill)
	failed := func(m []byte) bool { return bytes.Contains(m, []byte(`"error"`)) }
	if messages := <-ended; !slices.ContainsFunc(messages, failed) {
		t.Errorf("the process was killed within an answer: %q", messages)
	}
	again, _ := StartRaw(t, "-http", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
	if again != url {
		t.Fatalf("started again at %s, was at %s", again, url)
	}
	x, err := c.Exchange(t.Context(), Call(c.Era, "9", "counter", ""), nil)
	if err != nil || x.Status != http.StatusNotFound {
		t.Errorf("a session that the server has forgotten: %+v, %v", x, err)
	}
	g.alive("raw", rawmcp.Legacy)
}
