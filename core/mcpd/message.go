package mcpd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// The error codes of JSON-RPC and of MCP that the gateway answers with.
const (
	codeParse        = -32700
	codeInvalid      = -32600
	codeNoMethod     = -32601
	codeParams       = -32602
	codeInternal     = -32603
	codeDenied       = -32001
	codeNotFound     = -32002
	codeHeaders      = -32020 // headers and body differ
	codeVersion      = -32022 // of the protocol, unknown
	codeURLsNeeded   = -32042 // a person has to open a page first
	versionModern    = "2026-07-28"
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
)

// kind is what a message is.
type kind uint8

const (
	request kind = iota
	notification
	response
)

// message is one JSON-RPC message with its bytes.
type message struct {
	raw    string
	doc    *exact.Doc
	kind   kind
	method string
	id     exact.Value // of a request or a response
	params exact.Value // an object, or absent
}

// fault is an error that the sender of a message is told: a code of JSON-RPC and a sentence.
type fault struct {
	code   int
	msg    string
	status int    // of HTTP; 0: 200
	data   string // JSON; "" for none
}

// Error implements error.
func (f *fault) Error() string { return f.msg }

func invalid(msg string) *fault { return &fault{code: codeInvalid, msg: msg, status: 400} }

// parse reads one message of a client strictly. Members that are there twice are refused: programs differ on which one
// counts. Batches are refused, as MCP does since 2025-06-18.
func parse(raw string, lim exact.Limits) (*message, *fault) {
	m, f := read(raw, lim)
	if f == nil {
		f = ambiguous(m)
	}
	return m, f
}

// read reads one message of either side.
func read(raw string, lim exact.Limits) (*message, *fault) {
	m := &message{raw: raw, doc: new(exact.Doc)}
	if err := m.doc.Parse(raw, lim); err != nil {
		return nil, &fault{code: codeParse, msg: err.Error(), status: 400}
	}
	root := m.doc.Root()
	if root.Kind() != exact.Object {
		return nil, invalid("a message must be one JSON object; batches are no part of MCP any more")
	}
	if name := alike(root, envelope); name != "" {
		return nil, unlike(name)
	}
	if root.Get("jsonrpc").Str() != "2.0" {
		return nil, invalid(`the member jsonrpc must be "2.0"`)
	}
	m.id = root.Get("id")
	switch m.id.Kind() {
	case exact.Absent, exact.String, exact.Number:
	case exact.Null:
		if !root.Get("error").Exists() {
			return nil, invalid("the member id must be a string or a number")
		}
	default:
		return nil, invalid("the member id must be a string or a number")
	}
	method := root.Get("method")
	switch {
	case method.Exists() && method.Kind() != exact.String:
		return nil, invalid("the member method must be a string")
	case method.Exists() && (root.Get("result").Exists() || root.Get("error").Exists()):
		return nil, invalid("a message has a method, or a result or an error, not both")
	case method.Exists():
		m.method = method.Str()
		if !m.id.Exists() {
			m.kind = notification
		}
	case root.Get("result").Exists() == root.Get("error").Exists():
		return nil, invalid("a message has a method, a result or an error")
	case !m.id.Exists():
		return nil, invalid("an answer must have an id")
	default:
		m.kind = response
	}
	m.params = root.Get("params")
	if m.params.Exists() && m.params.Kind() != exact.Object {
		return nil, &fault{code: codeParams, msg: "the member params must be an object", status: 400}
	}
	return m, nil
}

// parseAnswer reads one message of a server. Tools show what they find, so NUL characters and halves of surrogate pairs
// are no reason to refuse it: they are read as signs that stand for them, and stay in the bytes.
func parseAnswer(raw string, lim exact.Limits) (*message, *fault) {
	m, f := read(tame(raw), lim)
	if f == nil {
		m.raw = raw
	}
	return m, f
}

// tame puts other escapes in the place of those that a strict reader refuses. Every byte keeps its place.
func tame(raw string) string {
	if !strings.Contains(raw, `\u`) {
		return raw
	}
	out := []byte(raw)
	for i := 0; i+1 < len(out); i += 2 {
		for out[i] != '\\' {
			if i++; i+1 >= len(out) {
				return string(out)
			}
		}
		if out[i+1] != 'u' || i+6 > len(out) {
			continue
		}
		r, err := strconv.ParseUint(string(out[i+2:i+6]), 16, 16)
		switch {
		case err != nil:
			continue
		case r == 0:
			copy(out[i:], `\u2400`)
		case utf16.IsSurrogate(rune(r)):
			if pairs(out[i:], rune(r)) {
				i += 10
				continue
			}
			copy(out[i:], `\ufffd`)
		}
		i += 4
	}
	return string(out)
}

// pairs reports whether an escape is the first half of a pair whose other half follows.
func pairs(text []byte, high rune) bool {
	if len(text) < 12 || text[6] != '\\' || text[7] != 'u' {
		return false
	}
	low, err := strconv.ParseUint(string(text[8:12]), 16, 16)
	return err == nil && utf16.DecodeRune(high, rune(low)) != utf8.RuneError
}

// member is a member of the whole message.
func (m *message) member(name string) exact.Value { return m.doc.Root().Get(name) }

// sameID reports whether two ids are the same value.
func sameID(a, b exact.Value) bool {
	return a.Exists() && b.Exists() && a.Kind() == b.Kind() && idOf(a) == idOf(b)
}

// idOf is an id as a key for maps: the decoded text of a string, the canonical form of a number.
func idOf(v exact.Value) string {
	if v.Kind() == exact.String {
		return "s" + v.Str()
	}
	return "n" + string(v.AppendCanonical(nil))
}

// edit is one change of a text: what stands between from and to is replaced.
type edit struct {
	from, to int
	with     string
}

// apply makes changes, which must not overlap, and leaves every other byte as it is.
func apply(text string, edits []edit) string {
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(text[at:e.from])
		b.WriteString(e.with)
		at = e.to
	}
	b.WriteString(text[at:])
	return b.String()
}

// replace is the edit that puts another text in the place of a value.
func replace(v exact.Value, with string) edit {
	from, to := v.Span()
	return edit{from, to, with}
}

// without is the text of an object that is part of text without some members. Every other member keeps its bytes.
func without(text string, obj exact.Value, names ...string) string {
	at, end := obj.Span()
	at++
	var kept []string
	for name, v := range obj.Members() {
		_, to := v.Span()
		if !slices.Contains(names, name) {
			kept = append(kept, text[at:to])
		}
		for to < end-1 && text[to] != ',' {
			to++
		}
		at = to + 1
	}
	return "{" + strings.Join(kept, ",") + "}"
}

// failure is an answer that says why a request has no result. id is its id as sent, "" for null.
func failure(id string, f *fault) string {
	o := wire.Object(nil)
	o.Str("jsonrpc", "2.0")
	o.Raw("id", []byte(cmp.Or(id, "null")))
	o.Object("error", func(w *wire.Writer) {
		w.Int("code", int64(f.code))
		w.Str("message", f.msg)
		if f.data != "" {
			w.Raw("data", []byte(f.data))
		}
	})
	return string(o.Close())
}

// refusedResult is the result of a tool that was not run, or whose output is withheld: text that a model can read.
func refusedResult(id, text string, modern bool) string {
	o := wire.Object(nil)
	o.Str("jsonrpc", "2.0")
	o.Raw("id", []byte(id))
	o.Object("result", func(w *wire.Writer) {
		if modern {
			w.Str("resultType", "complete")
		}
		w.List("content", 1, func(_ int, w *wire.Writer) {
			w.Str("type", "text")
			w.Str("text", text)
		})
		w.Bool("isError", true)
	})
	return string(o.Close())
}
