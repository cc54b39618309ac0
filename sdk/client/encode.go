package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// encode makes a request body. Text that is not UTF-8 is refused: encoding/json would replace its bytes, and the server
// would decide on something other than what is going to run.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, &Error{Code: sdk.CodeInvalidJSON, Detail: "the request cannot be written as JSON: " + err.Error()}
	}
	if replaced(string(b)) {
		return nil, &Error{Code: sdk.CodeInvalidJSON, Detail: "the request holds text that is not valid UTF-8"}
	}
	return b, nil
}

// replaced finds the escape that encoding/json writes for invalid bytes. A real U+FFFD it writes as it is.
func replaced(s string) bool {
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return false
		}
		if strings.HasPrefix(s[i+1:], "ufffd") {
			return true
		}
		s = s[i+2:]
	}
}

// object writes v as a JSON object for a member of that name; nil and JSON null are nothing. A json.RawMessage or
// []byte is taken as JSON, byte for byte, after a strict check.
func object(name string, v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	var b []byte
	switch raw := v.(type) {
	case json.RawMessage:
		b = raw
	case []byte:
		b = raw
	default:
		var err error
		if b, err = encode(v); err != nil {
			return nil, fieldErr(sdk.CodeInvalidJSON, name, err.Error())
		}
	}
	if len(b) == 0 || string(b) == "null" {
		return nil, nil
	}
	one, kind, err := value(name, b)
	if err == nil && kind != exact.Object {
		err = fieldErr(sdk.CodeInvalidField, name, "must be a JSON object, not "+kind.String())
	}
	if err != nil {
		return nil, err
	}
	return one, nil
}

// value is JSON for a member of that name, checked strictly and without the space between its parts: over the socket a
// line is a message. All else keeps its bytes.
func value(name string, b []byte) (json.RawMessage, exact.Kind, error) {
	var doc exact.Doc
	if err := doc.Parse(string(b), answerLimits); err != nil {
		return nil, exact.Absent, fieldErr(sdk.CodeInvalidJSON, name, err.Error())
	}
	var one bytes.Buffer
	if err := json.Compact(&one, b); err != nil {
		return nil, exact.Absent, fieldErr(sdk.CodeInvalidJSON, name, err.Error())
	}
	return one.Bytes(), doc.Root().Kind(), nil
}

// body writes the members of a request one by one, and keeps the first thing that cannot be sent.
type body struct {
	w   wire.Writer
	err error
}

func newBody() *body { return &body{w: wire.Object(nil)} }

// str adds a string member unless it is empty.
func (b *body) str(name, v string) {
	if v != "" {
		b.text(name, v)
	}
}

// text adds a string member.
func (b *body) text(name, v string) {
	if b.err == nil && !utf8.ValidString(v) {
		b.err = fieldErr(sdk.CodeInvalidField, name, "is not valid UTF-8")
	}
	b.w.Str(name, v)
}

// raw adds a member that is JSON already.
func (b *body) raw(name string, v json.RawMessage) {
	one, _, err := value(name, v)
	if err != nil && b.err == nil {
		b.err = err
	}
	if err == nil {
		b.w.Raw(name, one)
	}
}

// object adds an object member unless v is nil.
func (b *body) object(name string, v any) {
	raw, err := object(name, v)
	if err != nil && b.err == nil {
		b.err = err
	}
	if raw != nil && err == nil {
		b.w.Raw(name, raw)
	}
}

// yes adds true, or nothing.
func (b *body) yes(name string, v bool) {
	if v {
		b.w.Bool(name, true)
	}
}

// number adds a number unless it is 0.
func (b *body) number(name string, v int64) {
	if v != 0 {
		b.w.Int(name, v)
	}
}

func (b *body) bytes() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	return b.w.Close(), nil
}

func fieldErr(code sdk.Code, name, why string) *Error {
	return &Error{Code: code, Field: name, Detail: name + ": " + why}
}
