// Package mcpbridge is `yett mcp --server NAME`: it lets a client that starts MCP servers as commands reach one at
// the gateway. It owns the lines on stdin and stdout, the session of the older era, and that each request gets an
// answer. It must never change a message, send one twice, write anything but messages to stdout, or take a gateway or a
// key from the environment or a project unless it is told to. The gateway decides; nothing is decided here.
package mcpbridge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// The bounds of a bridge.
const (
	MaxMessage  = 64 << 20 // bytes of a message, either way: as much as mcp.max_result can be
	mostAtOnce  = 1024     // requests without an answer
	endSession  = 5 * time.Second
	streamPause = time.Second // before a stream is opened again
)

// Bridge carries messages between one client and one server at the gateway.
type Bridge struct {
	URL    string // of the server at the gateway
	Key    string
	Client *http.Client
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	out     sync.Mutex // held while something is written
	failed  error      // of stdout
	stop    context.CancelFunc
	flights sync.WaitGroup // requests
	streams sync.WaitGroup // what ends when stdin does

	mu      sync.Mutex
	session string              // of the older era; "" for none
	version string              // of the protocol, as initialize has settled it
	over    bool                // there was a session, and it is gone
	open    map[string]*message // requests without an answer, by id
	listens context.CancelFunc  // ends the stream of the older era; nil: there is none
}

// Run carries messages until stdin ends and all requests have their answer, or until ctx ends.
func (b *Bridge) Run(ctx context.Context) error {
	ctx, b.stop = context.WithCancel(ctx)
	defer b.stop()
	b.open = map[string]*message{}
	beside, endStreams := context.WithCancel(ctx)
	defer endStreams()
	lines := make(chan line)
	go readLines(ctx, b.Stdin, lines) // a read of stdin cannot be ended: it is left behind
	for going := true; going; {
		select {
		case l := <-lines:
			if l.err != nil {
				if !errors.Is(l.err, io.EOF) {
					b.warn("stdin: %v", l.err)
				}
				going = false
				break
			}
			b.take(ctx, beside, l)
		case <-ctx.Done():
			going = false
		}
	}
	b.flights.Wait()
	endStreams()
	b.streams.Wait()
	b.endSession()
	b.out.Lock()
	defer b.out.Unlock()
	return b.failed
}

// line is one line of stdin.
type line struct {
	text string
	long bool // it has more than MaxMessage bytes
	err  error
}

// readLines gives the lines of stdin, without the empty ones. The last one may have no end.
func readLines(ctx context.Context, from io.Reader, to chan<- line) {
	in := bufio.NewReaderSize(from, 64<<10)
	var got []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(got) <= MaxMessage {
			got = append(got, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l := line{long: len(got) > MaxMessage}
		if !l.long {
			l.text = string(bytes.TrimSpace(got))
		}
		got = nil
		for _, l := range []line{l, {err: err}} {
			if l.err == nil && l.text == "" && !l.long {
				continue
			}
			select {
			case to <- l:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// The error codes that the bridge answers with.
const (
	codeParse    = -32700
	codeInvalid  = -32600
	codeInternal = -32603
	codeOver     = -32001
)

// take sends one message on its way.
func (b *Bridge) take(ctx, beside context.Context, l line) {
	if l.long {
		b.fail("", codeInvalid, fmt.Sprintf("the message has more than %d bytes", MaxMessage))
		return
	}
	m, why := read(l.text)
	if why != "" {
		b.fail("", codeParse, why)
		return
	}
	if m.id == "" || m.method == "" { // nobody waits for an answer
		b.tell(ctx, beside, m)
		return
	}
	b.mu.Lock()
	lost := b.over && !m.modern && m.method != "initialize"
	_, twice := b.open[m.key]
	many := len(b.open) >= mostAtOnce
	if lost || twice || many {
		b.mu.Unlock()
		switch {
		case lost:
			b.fail(m.id, codeOver, sessionOver)
		case twice:
			b.fail(m.id, codeInvalid, "a request of this id has no answer yet: use each id once")
		default:
			b.fail(m.id, codeInternal, fmt.Sprintf("%d requests wait for their answers: send this one later", mostAtOnce))
		}
		return
	}
	if m.method == "subscriptions/listen" { // it has no end of its own
		ctx = beside
	}
	ctx, cancel := context.WithCancel(ctx)
	m.cancel, b.open[m.key] = cancel, m
	b.mu.Unlock()
	written := make(chan struct{})
	group := &b.flights
	if m.method == "subscriptions/listen" {
		group = &b.streams
	}
	group.Go(func() {
		defer cancel()
		defer b.answered(m)
		b.request(ctx, m, sync.OnceFunc(func() { close(written) }))
	})
	<-written                     // what follows may be about it
	if m.method == "initialize" { // and belongs to the session that it opens
		<-ctx.Done()
	}
}

// answered takes a request out, before its answer is written: its id may be used again then.
func (b *Bridge) answered(m *message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[m.key] == m {
		delete(b.open, m.key)
	}
}

const sessionOver = "this session is over: send initialize again"

// tell sends a notification or an answer. What goes wrong is said on stderr: nobody waits for an answer.
func (b *Bridge) tell(ctx, beside context.Context, m *message) {
	cancelled := m.method == "notifications/cancelled"
	if !cancelled || !m.modern {
		status, body, err := b.post(ctx, m)
		switch {
		case err != nil:
			b.warn("a message was not delivered: %v", b.why(err))
		case status >= 300:
			b.warn("a message was refused: HTTP status %d %.200s", status, body)
			b.lose(status, m)
		}
	}
	switch {
	case cancelled: // in the newer era this is how a request is given up
		b.mu.Lock()
		if given := b.open[m.cancels]; given != nil {
			given.cancel()
		}
		b.mu.Unlock()
	case m.method == "notifications/initialized" && !m.modern:
		b.listen(beside)
	}
}

// lose forgets a session that the gateway does not know any more.
func (b *Bridge) lose(status int, m *message) {
	if status != http.StatusNotFound || m.modern {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session != "" && b.session == m.session {
		b.session, b.version, b.over = "", "", true
		if b.listens != nil {
			b.listens()
			b.listens = nil
		}
	}
}

// write puts one message on a line. Line ends within are spaces: outside of strings they mean nothing, and inside there
// are none.
func (b *Bridge) write(text string) {
	text = strings.NewReplacer("\n", " ", "\r", " ").Replace(text) + "\n"
	b.out.Lock()
	defer b.out.Unlock()
	if b.failed != nil {
		return
	}
	if _, err := io.WriteString(b.Stdout, text); err != nil {
		b.failed = fmt.Errorf("stdout: %w", err)
		b.stop()
	}
}

func (b *Bridge) warn(format string, args ...any) {
	b.out.Lock()
	defer b.out.Unlock()
	fmt.Fprintf(b.Stderr, "yett mcp: "+format+"\n", args...)
}

// fail answers a request with an error. id is as it was sent, "" for one that is not known.
func (b *Bridge) fail(id string, code int64, why string) {
	if id == "" {
		id = "null"
	}
	b.warn("a request is answered with an error: %s", why)
	o := wire.Object(nil)
	o.Str("jsonrpc", "2.0")
	o.Raw("id", []byte(id))
	o.Object("error", func(w *wire.Writer) {
		w.Int("code", code)
		w.Str("message", why)
	})
	b.write(string(o.Close()))
}

// message is one message of the client, with its very bytes.
type message struct {
	text    string
	id      string // as sent; "" for none
	key     string // the same id as a key for maps
	method  string // "" for an answer
	version string // of the newer era, or ""
	modern  bool
	name    string // what Mcp-Name repeats
	cancels string // the key of the request that it gives up
	session string // with which it was sent
	cancel  context.CancelFunc
}

const firstModern = "2026-07-28"

// named are the members of params that Mcp-Name repeats.
var named = map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

// read finds out what a message is. why is "" if it is one.
func read(text string) (m *message, why string) {
	doc, err := parse(text)
	if err != nil {
		return nil, "the line is no acceptable JSON: " + err.Error()
	}
	root := doc.Root()
	if root.Kind() != exact.Object {
		return nil, "a message must be one JSON object on one line"
	}
	params := root.Get("params")
	m = &message{text: text, method: root.Get("method").Str()}
	switch id := root.Get("id"); {
	case id.Kind() == exact.String || id.Kind() == exact.Number:
		m.id, m.key = id.Raw(), keyOf(id)
	case id.Exists() && m.method != "":
		return nil, "the id of a request must be a string or a number"
	}
	m.version = params.Get("_meta").Get("io.modelcontextprotocol/protocolVersion").Str()
	m.modern = m.version >= firstModern
	m.name = params.Get(named[m.method]).Str()
	m.cancels = keyOf(params.Get("requestId"))
	return m, ""
}

// parse reads JSON as strictly as the gateway does, and without its limits, which are the gateway's to apply.
func parse(text string) (*exact.Doc, error) {
	doc := new(exact.Doc)
	return doc, doc.Parse(text, exact.Limits{Depth: 1000, Tokens: len(text) + 1})
}

// keyOf is an id as a key for maps.
func keyOf(v exact.Value) string {
	switch v.Kind() {
	case exact.String:
		return "s" + v.Str()
	case exact.Number:
		return "n" + string(v.AppendCanonical(nil))
	}
	return ""
}
