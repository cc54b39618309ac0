package model

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// answer is what the model says, before it has a form.
type answer struct {
	id    string // unique on the server: ids of messages are made of it
	model string
	text  string
	calls []Issued
}

// object is a JSON object whose members are written in order of their names.
type object = map[string]any

// list is a JSON array.
type list = []any

// form reads and writes one wire form. whole and stream return complete bodies.
type form struct {
	read   func(body []byte, r *Request) error
	whole  func(a *answer) ([]byte, error)
	stream func(a *answer, r *Request) ([]byte, error)
	fault  func(status int, text string) object
	prefix string // of the ids of calls
}

var forms = map[Form]form{
	Messages:  {readMessages, messagesWhole, messagesStream, messagesFault, "toolu_"},
	Responses: {readResponses, responsesWhole, responsesStream, openAIFault, "call_"},
	Chat:      {readChat, chatWhole, chatStream, openAIFault, "call_"},
	Gemini:    {readGemini, geminiWhole, geminiStream, geminiFault, "call_"},
}

// encode writes JSON on one line and leaves <, > and & as they are. Raw JSON in v keeps its numbers, order and escapes.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// events collects a stream of server-sent events.
type events struct {
	buf bytes.Buffer
	end string // what ends a line
	err error
}

// send adds an event; name "" leaves the event line out.
func (e *events) send(name string, data any) {
	raw, err := encode(data)
	if err != nil {
		e.err = err
		return
	}
	if name != "" {
		e.buf.WriteString("event: " + name + e.end)
	}
	e.buf.WriteString("data: ")
	e.buf.Write(raw)
	e.buf.WriteString(e.end + e.end)
}

func (e *events) bytes() ([]byte, error) { return e.buf.Bytes(), e.err }

// maxPiece is the most that one event carries of a text or of arguments.
const maxPiece = 8 << 10

// pieces cuts a text between characters. An empty text has none.
func pieces(text string) []string {
	var out []string
	for len(text) > maxPiece {
		cut := maxPiece
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		out, text = append(out, text[:cut]), text[cut:]
	}
	if text != "" {
		out = append(out, text)
	}
	return out
}

// tokens is a number for counts of tokens: nobody bills by it.
func (a *answer) tokens() int {
	n := len(a.text)
	for _, c := range a.calls {
		n += len(c.Arguments)
	}
	return 1 + n/4
}

func (a *answer) stop(calls, text string) string {
	if len(a.calls) > 0 {
		return calls
	}
	return text
}

// texts collects the strings under "text" in a JSON value that is a string or an array of parts, one a line.
func texts(raw json.RawMessage) string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one
	}
	var parts []struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var out []string
	for _, p := range parts {
		if p.Text != nil {
			out = append(out, *p.Text)
		}
	}
	return strings.Join(out, "\n")
}
