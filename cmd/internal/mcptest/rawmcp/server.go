// Package rawmcp is an MCP server for tests, by the specification alone: it shares no code with the gateway and uses no
// SDK. It writes every result as fixed bytes, so that a test can tell what a gateway did to them, and it records the
// bytes and headers that it received. It speaks 2026-07-28 and the older era with sessions, over HTTP and stdio. A call
// selects what the server does by the tool's name, Options.Modes by the server's start; some of both are attacks. It
// must never be stricter or kinder to a gateway than to a client: it does not know which of them is asking.
package rawmcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
)

// The protocol versions that the server speaks. The older two open with initialize.
const (
	Modern = "2026-07-28"
	Legacy = "2025-11-25"
	Older  = "2025-06-18"
)

// Codes of JSON-RPC errors that the specification names.
const (
	codeMethod    = -32601
	codeParams    = -32602
	codeHeader    = -32020
	codeVersion   = -32022
	codeURLNeeded = -32042
)

// Options say how a server behaves.
type Options struct {
	Versions []string  // what it speaks; nil: all three
	Modes    []string  // of Modes
	Key      string    // over HTTP, the bearer token that it demands
	Secret   string    // what its secret tools and tasks give away
	SSE      bool      // over HTTP, each answer is a stream of events, not only those with several messages
	Record   io.Writer // gets each Record as a line of JSON
}

// Modes are what a server can be started with, each with what it does then.
var Modes = map[string]string{
	"poison":    "tool descriptions, names of parameters and prompts give orders to the model",
	"changed":   "the definition of echo differs in each list after the first",
	"pages":     "lists have two entries a page, and an empty page in between",
	"endless":   "lists have no last page",
	"cycle":     "the second page of a list leads to the first",
	"challenge": "over HTTP, every request is answered with 401 and a foreign authorization server",
}

// Server is one server. Its state is shared by all connections to it, as an HTTP server's is.
type Server struct {
	opt      Options
	mu       sync.Mutex
	records  []Record
	sessions map[string]*session
	modern   *session // stands for all requests of the era without sessions
	listens  map[*listener]bool
	tasks    map[string]*task
	running  map[string]context.CancelFunc // of calls, by session and id
	lists    int                           // how many lists of tools began
	extra    bool                          // whether the tool extra is offered
	ids      int
}

// session is what lasts from initialize to DELETE, or as long as the process on stdio.
type session struct {
	id      string
	mu      sync.Mutex
	count   int
	waiting map[string]chan message // requests of the server, by id
	events  [][]byte                // notifications outside of answers
	more    chan struct{}           // closed when an event comes
}

// New makes a server. It panics on an unknown mode: a test that selects nothing would show nothing.
func New(opt Options) *Server {
	for _, mode := range opt.Modes {
		if Modes[mode] == "" {
			panic("unknown mode " + mode)
		}
	}
	if opt.Versions == nil {
		opt.Versions = []string{Modern, Legacy, Older}
	}
	return &Server{opt: opt, sessions: map[string]*session{}, modern: newSession(""), listens: map[*listener]bool{},
		tasks: map[string]*task{}, running: map[string]context.CancelFunc{}}
}

func newSession(id string) *session {
	return &session{id: id, waiting: map[string]chan message{}, more: make(chan struct{})}
}

func (s *Server) mode(name string) bool      { return slices.Contains(s.opt.Modes, name) }
func (s *Server) speaks(version string) bool { return slices.Contains(s.opt.Versions, version) }

func (s *Server) nextID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	return s.ids
}

// message is what the server reads of a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params params          `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (m *message) request() bool { return m.Method != "" && len(m.ID) > 0 }
func (m *message) answer() bool  { return m.Method == "" && len(m.ID) > 0 }

// params are the members of any method's parameters that the server reads.
type params struct {
	Name            string                     `json:"name"`
	URI             string                     `json:"uri"`
	Cursor          string                     `json:"cursor"`
	TaskID          string                     `json:"taskId"`
	Arguments       json.RawMessage            `json:"arguments"`
	Task            json.RawMessage            `json:"task"`
	State           string                     `json:"requestState"`
	Responses       map[string]json.RawMessage `json:"inputResponses"`
	ProtocolVersion string                     `json:"protocolVersion"`
	RequestID       json.RawMessage            `json:"requestId"`
	Meta            struct {
		Progress json.RawMessage `json:"progressToken"`
		Version  string          `json:"io.modelcontextprotocol/protocolVersion"`
		Client   struct {
			Extensions map[string]json.RawMessage `json:"extensions"`
		} `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
}

// sink is where the messages of one answer go.
type sink interface {
	send(message []byte) error
	raw() (io.WriteCloser, error) // one message, written in parts as they are
	die()                         // ends the connection in the middle of a message
}

// call is one request while it is answered.
type call struct {
	ctx     context.Context
	s       *Server
	sess    *session
	modern  bool
	id      json.RawMessage
	method  string
	p       params
	out     sink
	request []byte // as it came
}

// rpcError is an answer that is an error.
type rpcError struct {
	code    int
	message string
	data    string // JSON, or ""
}

func (e *rpcError) Error() string { return e.message }

func (e *rpcError) answer(id json.RawMessage) []byte {
	if e.data == "" {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, e.code, e.message)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q,"data":%s}}`, id, e.code, e.message,
		e.data)
}

// errAnswered says that a tool has sent its answer, or none, by itself.
var errAnswered = fmt.Errorf("answered")

// serve answers one request.
func (c *call) serve() error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	c.ctx = ctx
	key := c.sess.id + " " + string(c.id)
	c.s.mu.Lock()
	c.s.running[key] = cancel
	c.s.mu.Unlock()
	defer func() {
		c.s.mu.Lock()
		delete(c.s.running, key)
		c.s.mu.Unlock()
	}()
	result, err := c.dispatch()
	switch e, ok := err.(*rpcError); {
	case err == errAnswered:
		return nil
	case ok:
		return c.out.send(e.answer(c.id))
	case err != nil:
		return err
	}
	return c.out.send(c.answer(result))
}

// answer wraps a result, which begins with a brace. In the newer era each result says what it is.
func (c *call) answer(result string) []byte {
	if c.modern && len(result) > 1 && !hasResultType(result) {
		comma := ","
		if result == "{}" {
			comma = ""
		}
		result = `{"resultType":"complete"` + comma + result[1:]
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, c.id, result)
}

func hasResultType(result string) bool {
	const start = `{"resultType":`
	return len(result) > len(start) && result[:len(start)] == start
}

// dispatch gives a request's result as JSON, or why there is none.
func (c *call) dispatch() (string, error) {
	switch c.method {
	case "initialize":
		return c.initialize()
	case "server/discover":
		if !c.modern {
			break
		}
		return fmt.Sprintf(`{"supportedVersions":%s,"capabilities":%s,"_meta":{"io.modelcontextprotocol/serverInfo":%s},`+
			`"ttlMs":0,"cacheScope":"private"}`, toJSON(c.s.opt.Versions), modernCapabilities, serverInfo), nil
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		if c.modern {
			break
		}
		return `{}`, nil
	case "subscriptions/listen":
		if c.modern {
			return c.listen()
		}
	case "tools/list", "resources/list", "resources/templates/list", "prompts/list":
		return c.list()
	case "tools/call":
		return c.tool()
	case "resources/read":
		return c.resource()
	case "prompts/get":
		return c.prompt()
	case "completion/complete":
		return `{"completion":{"values":["alpha","beta"],"total":12345678901234567890,"hasMore":false}}`, nil
	case "tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update":
		return c.tasks()
	case "vendor/raw":
		return `{"vendor":0.10}`, nil // a method that no specification names
	}
	return "", &rpcError{code: codeMethod, message: "unknown method " + c.method}
}

const (
	serverInfo         = `{"name":"yett-raw","version":"1.0.0","x-vendor":12345678901234567890}`
	capabilities       = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{},"experimental":{"x":{"n":0.10}}`
	legacyCapabilities = capabilities + `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	modernCapabilities = capabilities + `,"extensions":{"` + tasksExtension + `":{}}}`
)

func (c *call) initialize() (string, error) {
	version := c.p.ProtocolVersion
	if version == Modern || !c.s.speaks(version) {
		version = Legacy
	}
	if !c.s.speaks(version) {
		return "", unsupported(c.s.opt.Versions, c.p.ProtocolVersion)
	}
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":%s,"instructions":"Call echo."}`, version,
		legacyCapabilities, serverInfo), nil
}

func unsupported(speaks []string, version string) *rpcError {
	return &rpcError{code: codeVersion, message: "unsupported protocol version",
		data: fmt.Sprintf(`{"supported":%s,"requested":%q}`, toJSON(speaks), version)}
}

// toJSON writes what JSON can hold.
func toJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// notified handles what comes without an id, and answers to the server's own requests.
func (s *Server) notified(sess *session, m *message) {
	switch {
	case m.answer():
		sess.mu.Lock()
		wait := sess.waiting[string(m.ID)]
		delete(sess.waiting, string(m.ID))
		sess.mu.Unlock()
		if wait != nil {
			wait <- *m
		}
	case m.Method == "notifications/cancelled":
		s.mu.Lock()
		cancel := s.running[sess.id+" "+string(m.Params.RequestID)]
		s.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	}
}
