package mcptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// askedRules have a person look at the tool region, and permit the others.
const askedRules = `  - {id: asked, tools: ["mcp.*/region"], effect: defer, reason: a person looks}
` + permitAll

// regionArguments are those of the calls that wait.
const regionArguments = `{"region":"eu"}`

// waitingCall is a call of the newer era that waits for a person, with a state or "".
func waitingCall(id, state, arguments string) []byte {
	more := ""
	if state != "" {
		more = fmt.Sprintf(`"inputResponses":{"approval":{"action":"accept"}},"requestState":%q,`, state)
	}
	return RequestAs(rawmcp.Modern, Capabilities, id, "tools/call", more+`"name":"region","arguments":`+arguments, "")
}

// stateOf is the requestState of an answer, "" if there is none.
func stateOf(messages [][]byte) string {
	var m struct{ Result struct{ RequestState string } }
	if len(messages) == 0 || json.Unmarshal(messages[len(messages)-1], &m) != nil {
		return ""
	}
	return m.Result.RequestState
}

// runs is how often a server ran a tool.
func runs(server *rawmcp.Server, tool string) (n int) {
	for _, r := range server.Records() {
		if e := open(r.Body); r.Event == "" && e.Method == "tools/call" && e.Params.Name == tool {
			n++
		}
	}
	return n
}

// TestGatewayStates sends states that count for nothing: nothing runs but what a person has approved, and that once.
func TestGatewayStates(t *testing.T) {
	server, url := ServeRaw(t, rawmcp.Options{})
	g := startGateway(t, setup{Servers: behind("raw", url) + behind("other", url), Rules: askedRules, MCP: "  wait: 1s\n"})
	c := g.client("raw", rawmcp.Modern)
	id := 10
	send := func(c *HTTP, state, arguments string) [][]byte {
		t.Helper()
		id++
		messages, err := do(t.Context(), c, waitingCall(fmt.Sprint(id), state, arguments))
		if err != nil {
			t.Fatal(err)
		}
		return messages
	}
	state := stateOf(send(c, "", regionArguments))
	if !strings.HasPrefix(state, "yett1.") {
		t.Fatalf("the call does not wait: state %q", state)
	}
	foreign := &HTTP{URL: c.URL, Era: c.Era, Header: Bearer(g.newKey("other"))}
	changed := []byte(state)
	changed[len(changed)/2] ^= 1
	refused := func(when string) {
		t.Helper()
		for name, try := range map[string]struct {
			c                *HTTP
			state, arguments string
			want             string
		}{
			"forged":                {c, "yett1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", regionArguments, "-32602"},
			"a changed letter":      {c, string(changed), regionArguments, "-32602"},
			"cut":                   {c, state[:len(state)-4], regionArguments, "-32602"},
			"of another key":        {foreign, state, regionArguments, "-32602"},
			"of another server":     {g.client("other", c.Era), state, regionArguments, "-32602"},
			"with other arguments":  {c, state, `{"region":"us"}`, "-32602"},
			"with an argument more": {c, state, `{"region":"eu","all":true}`, "-32602"},
		} {
			if got := send(try.c, try.state, try.arguments); !bytes.Contains(got[len(got)-1], []byte(try.want)) {
				t.Errorf("%s, %s: %s", when, name, got[len(got)-1])
			}
		}
		if n := runs(server, "region"); n != 0 {
			t.Fatalf("%s: the call ran %d times", when, n)
		}
	}
	refused("while it waits")
	if got := send(c, state, regionArguments); !strings.Contains(Text(got[0]), "still waits") {
		t.Errorf("accepted by the client alone: %s", got)
	}
	if err := g.answerNext(t.Context(), "approve"); err != nil {
		t.Fatal(err)
	}
	refused("once approved")
	if got := send(c, state, regionArguments); Text(got[0]) != "region" || runs(server, "region") != 1 {
		t.Errorf("approved: %s, ran %d times", got, runs(server, "region"))
	}
	for range 3 {
		if got := send(c, state, regionArguments); !bytes.Contains(got[0], []byte(`"isError":true`)) {
			t.Errorf("replayed: %s", got)
		}
	}
	var all sync.WaitGroup // one approval, many that use it at once
	state = stateOf(send(c, "", regionArguments))
	if err := g.answerNext(t.Context(), "approve"); err != nil {
		t.Fatal(err)
	}
	for n := range 8 {
		all.Go(func() {
			if _, err := do(t.Context(), c, waitingCall(fmt.Sprint(100+n), state, regionArguments)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := runs(server, "region"); n != 2 {
		t.Errorf("two approvals, and the call ran %d times", n)
	}
	for _, r := range server.Records() {
		if bytes.Contains(r.Body, []byte("yett1.")) {
			t.Errorf("the server got the gateway's state: %s", r.Body)
		}
	}
}

// TestGatewayAcceptIsNothing has clients of the older era say that their user accepts, which nobody has approved.
func TestGatewayAcceptIsNothing(t *testing.T) {
	server, url := ServeRaw(t, rawmcp.Options{})
	g := startGateway(t, setup{Servers: behind("raw", url), Rules: askedRules})
	for _, answer := range []string{`{"action":"accept"}`, `{"action":"accept","content":{"approved":true}}`,
		`{"action":"decline"}`, `{"action":"cancel"}`} {
		c := g.client("raw", rawmcp.Legacy)
		asked := make(chan []byte, 1)
		c.Answer = func(request []byte) []byte {
			asked <- request
			return AnswerTo("elicitation/create", answer)(request)
		}
		opened(t, c)
		foreign := g.client("raw", rawmcp.Legacy)
		opened(t, foreign)
		ended := make(chan [][]byte, 1)
		go func() {
			messages, _ := do(t.Context(), c, Call(c.Era, "7", "region", regionArguments)) // looked at below
			ended <- messages
		}()
		request := <-asked
		if answer == `{"action":"decline"}` || answer == `{"action":"cancel"}` {
			if got := <-ended; len(got) == 0 || !bytes.Contains(got[len(got)-1], []byte(`"isError":true`)) {
				t.Errorf("%s: %q", answer, got)
			}
		} else {
			x, err := foreign.Exchange(t.Context(), AnswerTo("elicitation/create", `{"action":"decline"}`)(request), nil)
			if err != nil || x.Status != http.StatusBadRequest {
				t.Errorf("an answer from another session: %+v, %v", x, err)
			}
			select {
			case got := <-ended:
				t.Errorf("%s: the call ended: %q", answer, got)
			case <-time.After(500 * time.Millisecond):
			}
			if err := g.answerNext(t.Context(), "deny"); err != nil {
				t.Fatal(err)
			}
			if got := <-ended; len(got) == 0 || !strings.Contains(Text(got[len(got)-1]), "has not approved") {
				t.Errorf("%s, denied by a person: %q", answer, got)
			}
		}
		if n := runs(server, "region"); n != 0 {
			t.Fatalf("%s: the call ran %d times", answer, n)
		}
	}
}

// TestGatewayForeignSessions uses session ids that are not the client's.
func TestGatewayForeignSessions(t *testing.T) {
	server, url := ServeRaw(t, rawmcp.Options{})
	g := startGateway(t, setup{Servers: behind("raw", url) + behind("other", url)})
	own := g.client("raw", rawmcp.Legacy)
	opened(t, own)
	foreign := Bearer(g.newKey("other"))
	sent := len(server.Records())
	for name, c := range map[string]*HTTP{
		"another key's":     {URL: own.URL, Session: own.Session, Header: foreign},
		"another server's":  {URL: g.url + "other", Session: own.Session, Header: own.Header},
		"the server's own":  {URL: own.URL, Session: "raw-session-1", Header: own.Header},
		"cut":               {URL: own.URL, Session: own.Session[:len(own.Session)-5], Header: own.Header},
		"one of many":       {URL: own.URL, Session: strings.Repeat("yett1.", 200), Header: own.Header},
		"without any key":   {URL: own.URL, Session: own.Session},
		"with a wrong key":  {URL: own.URL, Session: own.Session, Header: Bearer(strings.Repeat("x", 40))},
		"an approver's key": {URL: own.URL, Session: own.Session, Header: Bearer(g.approver)},
	} {
		c.Era = rawmcp.Legacy
		x, err := c.Exchange(t.Context(), Call(c.Era, "7", "counter", ""), nil)
		if err != nil || x.Status < 400 || x.Status >= 500 {
			t.Errorf("%s: %+v, %v", name, x, err)
		}
		if err := c.Listen(t.Context(), "", func(Event) bool { return false }); err == nil {
			t.Errorf("%s: its stream opens", name)
		}
		if status, err := c.End(t.Context()); err != nil || status < 400 {
			t.Errorf("%s: it can be ended: %d, %v", name, status, err)
		}
	}
	if got := server.Records()[sent:]; len(got) != 0 {
		t.Errorf("the server got %d messages: %+v", len(got), got[0])
	}
	if messages, err := do(t.Context(), own, Call(own.Era, "8", "counter", "")); err != nil || Text(messages[0]) != "1" {
		t.Errorf("the session itself: %q, %v", messages, err)
	}
}

// TestGatewayHeadersAgree sends headers that differ from the body, names of other hosts and pages of other origins.
func TestGatewayHeadersAgree(t *testing.T) {
	server, url := ServeRaw(t, rawmcp.Options{})
	g := startGateway(t, setup{Servers: behind("raw", url)})
	c := g.client("raw", rawmcp.Modern)
	request := Call(c.Era, "7", "region", `{"region":"eu-wést"}`)
	for name, try := range map[string]struct {
		header http.Header
		status int
		says   string
	}{
		"another tool":    {http.Header{"Mcp-Name": {"echo"}}, 400, "-32020"},
		"another method":  {http.Header{"Mcp-Method": {"tools/list"}}, 400, "-32020"},
		"another version": {http.Header{"Mcp-Protocol-Version": {rawmcp.Legacy}}, 400, "-32020"},
		"two tools":       {http.Header{"Mcp-Name": {"region", "echo"}}, 400, "more than once"},
		"two methods":     {http.Header{"Mcp-Method": {"tools/call", "tools/list"}}, 400, "more than once"},
		"an argument":     {http.Header{"Mcp-Param-Region": {"us"}}, 400, "-32020"},
		"no tool":         {http.Header{"Mcp-Name": {""}}, 400, "-32020"},
		"no method":       {http.Header{"Mcp-Method": {""}}, 400, "-32020"},
		"a foreign host":  {http.Header{"Host": {"evil.example"}}, 403, "mcp.hosts"},
		"a foreign page":  {http.Header{"Origin": {"https://evil.example"}}, 403, "mcp.hosts"},
		"all of it right": {nil, 200, "result"},
	} {
		before := runs(server, "region")
		x, err := c.Exchange(t.Context(), request, try.header)
		if err != nil || x.Status != try.status || !bytes.Contains(x.Raw, []byte(try.says)) {
			t.Errorf("%s: %+v, %v", name, x, err)
		}
		if name == "another tool" || name == "another method" || name == "two tools" || try.status == 403 {
			if runs(server, "region") != before {
				t.Errorf("%s: it was forwarded", name)
			}
		}
	}
	for name, body := range map[string]string{
		"a batch":     `[` + string(request) + `]`,
		"two methods": `{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"tools/list","params":{"name":"echo"}}`,
		"two names":   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"pay"}}`,
		"no JSON":     `{"jsonrpc":"2.0",`,
	} {
		before := len(server.Records())
		x, err := (&HTTP{URL: c.URL, Era: rawmcp.Legacy, Header: c.Header}).Exchange(t.Context(), []byte(body), nil)
		if err != nil || x.Status != http.StatusBadRequest || len(server.Records()) != before {
			t.Errorf("%s: %+v, %v", name, x, err)
		}
	}
}

// TestGatewayCrowd has clients hold a session with each of twenty servers. Each counts the calls of its session: no
// call reaches another one's, and none is lost or doubled. With YETT_SLOW two hundred clients come.
func TestGatewayCrowd(t *testing.T) {
	const servers, rounds = 20, 3
	clients := 20
	if os.Getenv("YETT_SLOW") != "" {
		clients = 200
	}
	section := ""
	for n := range servers {
		_, url := ServeRaw(t, rawmcp.Options{})
		section += behind(fmt.Sprintf("raw%d", n), url)
	}
	g := startGateway(t, setup{Servers: section})
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	t.Cleanup(web.CloseIdleConnections)
	begun := time.Now()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			var sessions []*HTTP
			for n := range servers {
				c := g.client(fmt.Sprintf("raw%d", n), rawmcp.Legacy)
				c.Client = web
				if _, err := c.Open(t.Context()); err != nil {
					t.Error(err)
					return
				}
				sessions = append(sessions, c)
			}
			for round := range rounds {
				for n, c := range sessions {
					messages, err := do(t.Context(), c, Call(c.Era, fmt.Sprint(round+1), "counter", ""))
					if err != nil || Text(messages[0]) != fmt.Sprint(round+1) {
						t.Errorf("server %d, call %d: %q, %v", n, round+1, messages, err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d clients, %d servers, %d calls in %v", clients, servers, clients*servers*rounds,
		time.Since(begun).Round(time.Millisecond))
}
