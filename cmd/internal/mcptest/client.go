package mcptest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// Conn is a raw client's connection to a server, or to a gateway in front of one.
type Conn interface {
	// Open begins: initialize and its notification in the older era, server/discover in the newer. It gives the
	// bytes of the answer.
	Open(ctx context.Context) (answer []byte, err error)
	// Do sends the exact bytes of a request, and gives the exact bytes of each message that came for it, its answer
	// last. Where the stream ends without an answer, the messages come with an error.
	Do(ctx context.Context, request []byte) (messages [][]byte, err error)
	// Notify sends the exact bytes of a message that has no answer.
	Notify(ctx context.Context, message []byte) error
}

// Answerer gives the bytes of the answer to a server's request, or nil to give none.
type Answerer func(request []byte) []byte

// Capabilities that a raw client of either era tells the server.
const (
	Capabilities      = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}`
	TasksCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// Request makes a request. id is JSON; members are the parameters' members as JSON without braces, or "".
func Request(era, id, method, members string) []byte {
	return RequestAs(era, Capabilities, id, method, members, "")
}

// RequestAs is Request with capabilities for the newer era, which tells them each time, and with members of _meta.
func RequestAs(era, capabilities, id, method, members, meta string) []byte {
	if era == rawmcp.Modern {
		own := fmt.Sprintf(`"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":%s,`+
			`"io.modelcontextprotocol/clientCapabilities":%s`, era, clientInfo, capabilities)
		meta = join(own, meta)
	}
	if meta != "" {
		members = join(`"_meta":{`+meta+`}`, members)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, members)
}

const clientInfo = `{"name":"yett-raw-client","version":"1.0.0"}`

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// Call makes a tools/call. arguments is a JSON object, or "" for none.
func Call(era, id, tool, arguments string) []byte {
	members := fmt.Sprintf(`"name":%q`, tool)
	if arguments != "" {
		members += `,"arguments":` + arguments
	}
	return RequestAs(era, Capabilities, id, "tools/call", members, `"progressToken":`+id)
}

// envelope is what a raw client reads of a message.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		TaskID    string          `json:"taskId"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

func open(message []byte) (e envelope) {
	_ = json.Unmarshal(message, &e) // hostile bytes are nobody's answer
	return e
}

func (e *envelope) answers(id json.RawMessage) bool {
	return e.Method == "" && len(e.ID) > 0 && bytes.Equal(e.ID, id)
}

// Headers are those that a client of an era sends with a message, without session and key.
func Headers(era string, message []byte) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	e := open(message)
	if era != rawmcp.Modern {
		if e.Method != "initialize" {
			h.Set("MCP-Protocol-Version", era)
		}
		return h
	}
	h.Set("MCP-Protocol-Version", era)
	h.Set("Mcp-Method", e.Method)
	if name := e.Params.Name + e.Params.URI + e.Params.TaskID; name != "" {
		h.Set("Mcp-Name", headerValue(name))
	}
	var args map[string]json.RawMessage
	if e.Params.Name == "region" && json.Unmarshal(e.Params.Arguments, &args) == nil {
		var region string
		if json.Unmarshal(args["region"], &region) == nil {
			h.Set("Mcp-Param-Region", headerValue(region))
		}
	}
	return h
}

// headerValue writes what a header cannot hold in base64.
func headerValue(s string) string {
	plain := s == strings.TrimSpace(s)
	for _, r := range s {
		plain = plain && r >= ' ' && r < 0x7f
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// HTTP is a raw client over Streamable HTTP.
type HTTP struct {
	URL     string
	Era     string       // rawmcp.Modern, rawmcp.Legacy or rawmcp.Older
	Header  http.Header  // sent with each request, such as the key
	Session string       // as the server named it
	Answer  Answerer     // of the server's requests, or nil
	Client  *http.Client // nil: a connection for each request
}

// Bearer is a header with a key.
func Bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

// raw follows no redirect, and keeps no connection that a test of lost ones would find.
var raw = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Post sends a body as it is. Headers in more replace those of the era; an empty value removes one. The caller closes
// the response.
func (c *HTTP) Post(ctx context.Context, body []byte, more http.Header) (*http.Response, error) {
	h := Headers(c.Era, body)
	return c.send(ctx, http.MethodPost, body, h, more)
}

func (c *HTTP) send(ctx context.Context, method string, body []byte, h, more http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = h
	if c.Session != "" {
		h.Set("Mcp-Session-Id", c.Session)
	}
	for _, from := range []http.Header{c.Header, more} {
		for name, values := range from {
			switch {
			case len(values) == 1 && values[0] == "":
				h.Del(name)
			case strings.EqualFold(name, "Host"):
				r.Host = values[0]
			default:
				h[http.CanonicalHeaderKey(name)] = values
			}
		}
	}
	if c.Client != nil {
		return c.Client.Do(r)
	}
	return raw.Do(r)
}

// Exchange is one request over HTTP, as it was answered.
type Exchange struct {
	Status   int
	Header   http.Header
	Raw      []byte   // the whole body
	Messages [][]byte // the body, or the data of each event
	Events   []Event  // where it is a stream
}

// Exchange sends a body and reads the whole answer. What came before an error comes with it.
func (c *HTTP) Exchange(ctx context.Context, body []byte, more http.Header) (*Exchange, error) {
	resp, err := c.Post(ctx, body, more)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	x := &Exchange{Status: resp.StatusCode, Header: resp.Header}
	err = c.read(ctx, resp, func(e Event, stream bool) bool {
		x.Raw = append(x.Raw, e.Raw...)
		if stream {
			x.Events = append(x.Events, e)
		}
		if len(e.Data) > 0 {
			x.Messages = append(x.Messages, e.Data)
		}
		return true
	})
	return x, err
}

// read gives the events of an answer, or its body as the one event of none.
func (c *HTTP) read(ctx context.Context, resp *http.Response, give func(e Event, stream bool) bool) error {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(resp.Body)
		give(Event{Raw: body, Data: body}, false)
		return err
	}
	return ReadEvents(resp.Body, func(e Event) bool {
		if m := open(e.Data); m.Method != "" && len(m.ID) > 0 && c.Answer != nil {
			if answer := c.Answer(e.Data); answer != nil {
				if err := c.Notify(ctx, answer); err != nil {
					return false
				}
			}
		}
		return give(e, true)
	})
}

// Open begins.
func (c *HTTP) Open(ctx context.Context) ([]byte, error) {
	request := opening(c.Era)
	c.Session = ""
	x, err := c.Exchange(ctx, request, nil)
	if err != nil {
		return nil, err
	}
	if x.Status != http.StatusOK || len(x.Messages) == 0 {
		return nil, fmt.Errorf("opening: HTTP %d: %.300s", x.Status, x.Raw)
	}
	answer := x.Messages[len(x.Messages)-1]
	if c.Era == rawmcp.Modern {
		return answer, nil
	}
	c.Session = x.Header.Get("Mcp-Session-Id")
	return answer, c.Notify(ctx, []byte(initialized))
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

func opening(era string) []byte {
	if era == rawmcp.Modern {
		return Request(era, `"open"`, "server/discover", "")
	}
	return Request(era, `"open"`, "initialize",
		fmt.Sprintf(`"protocolVersion":%q,"capabilities":%s,"clientInfo":%s`, era, Capabilities, clientInfo))
}

// StatusError is an answer over HTTP that holds no message.
type StatusError struct {
	Status int
	Body   []byte
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP %d: %.300q", e.Status, e.Body) }

// Do sends a request and reads until its answer.
func (c *HTTP) Do(ctx context.Context, request []byte) (messages [][]byte, err error) {
	resp, err := c.Post(ctx, request, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	id, answered := open(request).ID, false
	err = c.read(ctx, resp, func(e Event, _ bool) bool {
		if len(e.Data) > 0 {
			messages = append(messages, e.Data)
		}
		m := open(e.Data)
		answered = m.answers(id)
		return !answered
	})
	switch {
	case answered:
		return messages, nil
	case err != nil:
		return messages, err
	case resp.StatusCode != http.StatusOK:
		return messages, &StatusError{resp.StatusCode, bytes.Join(messages, nil)}
	}
	return messages, fmt.Errorf("%w: the stream ended without an answer to %s", io.ErrUnexpectedEOF, id)
}

// Notify sends a message that has no answer.
func (c *HTTP) Notify(ctx context.Context, message []byte) error {
	x, err := c.Exchange(ctx, message, nil)
	if err == nil && x.Status != http.StatusAccepted {
		err = &StatusError{x.Status, x.Raw}
	}
	return err
}

// Listen reads the stream of a session's notifications in the older era, after the event of an id or from now on, until
// give says false.
func (c *HTTP) Listen(ctx context.Context, after string, give func(Event) bool) error {
	h := http.Header{"Accept": {"text/event-stream"}, "Mcp-Protocol-Version": {c.Era}}
	if after != "" {
		h.Set("Last-Event-ID", after)
	}
	resp, err := c.send(ctx, http.MethodGet, nil, h, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return &StatusError{Status: resp.StatusCode}
	}
	return ReadEvents(resp.Body, give)
}

// End ends the session, and gives the status of the answer.
func (c *HTTP) End(ctx context.Context) (status int, err error) {
	resp, err := c.send(ctx, http.MethodDelete, nil, http.Header{"Mcp-Protocol-Version": {c.Era}}, nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

type block struct{ Type, Text string }

func contentOf(message []byte) []block {
	var m struct {
		Result struct{ Content []block } `json:"result"`
	}
	if json.Unmarshal(message, &m) != nil {
		return nil
	}
	return m.Result.Content
}
