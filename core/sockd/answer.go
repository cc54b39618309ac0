package sockd

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// The error codes of JSON-RPC 2.0.
const (
	rpcParse   = -32700
	rpcRequest = -32600
	rpcMethod  = -32601
	rpcParams  = -32602
	rpcOurs    = -32000
)

// rpcCode is what a JSON-RPC client is told for a code of ours.
func rpcCode(c sdk.Code) int64 {
	switch c {
	case sdk.CodeInvalidJSON:
		return rpcParse
	case sdk.CodeBadRequest:
		return rpcRequest
	case sdk.CodeUnknownOperation:
		return rpcMethod
	case sdk.CodeInvalidField, sdk.CodeMissingField:
		return rpcParams
	}
	return rpcOurs
}

// appendAnswer appends the whole line that answers a message.
func (e *envelope) appendAnswer(dst []byte, resp ops.Response) []byte {
	if e.rpc {
		dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), e.id...), `,"result":`...)
		return append(resp.AppendJSON(dst), '}', '\n')
	}
	if e.id == "" {
		return append(resp.AppendJSON(dst), '\n')
	}
	dst = append(append(dst, `{"id":`...), e.id...)
	at := len(dst)
	dst = resp.AppendJSON(dst)
	if dst[at+1] == '}' {
		return append(dst[:at], '}', '\n')
	}
	dst[at] = ',' // the object goes on where the answer's began
	return append(dst, '\n')
}

// verdict says in what way an error is a DENY.
type verdict uint8

const (
	noVerdict  verdict = iota // of an operation that decides nothing
	denied                    // carries effect DENY, so that a failure cannot be read as a permit
	deniedRead                // the same, also where clients look that read an answer's result before its error
)

// deniedAs is what an error answer to this message has to say. Public clients of govern read result.effect without a
// look at error and take its absence for a permit, so whatever they may get has one: also where it cannot be known what
// was asked.
func (e *envelope) deniedAs(op *ops.Op) verdict {
	switch {
	case e.op == opHello || e.op == opAuth || op != nil && !op.Decides:
		return noVerdict
	case e.op == "", e.rpc: // govern, or something that somebody took for it
		return deniedRead
	}
	return denied
}

// appendError appends the whole line that tells of an error. Err of the error is never shown, nor any API key.
func (e *envelope) appendError(dst []byte, err *sdk.Error, v verdict) []byte {
	err = ops.Told(err)
	text := err.Msg
	if text == "" || err.Code == sdk.CodeInternal {
		text = wire.StatusOf(err.Code).Title + "."
	}
	if !e.rpc {
		o := wire.Object(dst)
		if e.id != "" {
			o.Raw("id", []byte(e.id))
		}
		o.Bool("ok", false)
		o.Str("error", text)
		details(&o, err, v)
		reading(&o, err, text, v)
		return append(o.Close(), '\n')
	}
	id := e.id
	if id == "" {
		id = "null"
	}
	in := wire.Object(nil)
	in.Int("code", rpcCode(err.Code))
	in.Str("message", text)
	data := wire.Object(nil)
	details(&data, err, v)
	in.Raw("data", data.Close())
	o := wire.Object(dst)
	o.Str("jsonrpc", "2.0")
	o.Raw("id", []byte(id))
	o.Raw("error", in.Close())
	reading(&o, err, text, v)
	return append(o.Close(), '\n')
}

// details are the members that both spellings have.
func details(o *wire.Writer, err *sdk.Error, v verdict) {
	o.Str("code", string(err.Code))
	o.Opt("field", err.Field)
	if v != noVerdict {
		o.Str("effect", sdk.Deny.String())
		o.Str("reason_code", reasonCode(err))
	}
	if err.Code == sdk.CodeNoCommonVersion {
		o.Raw("protocol", spoken)
	}
	names := make([]string, 0, len(err.More))
	for name := range err.More {
		switch name {
		case "effect", "reason_code":
			if v == noVerdict && err.More["effect"] != "" { // the error of something else that was decided
				names = append(names, name)
			}
		case "id", "ok", "error", "code", "field", "protocol", "result":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		o.Str(name, err.More[name])
	}
}

func reading(o *wire.Writer, err *sdk.Error, text string, v verdict) {
	if v != deniedRead {
		return
	}
	in := wire.Object(nil)
	in.Str("effect", sdk.Deny.String())
	in.Str("reason_code", reasonCode(err))
	in.Str("reason", text)
	o.Raw("result", in.Close())
}

// reasonCode is the error's own, or else its code as reason codes are written.
func reasonCode(err *sdk.Error) string {
	if own := err.More["reason_code"]; own != "" {
		return own
	}
	return strings.ToUpper(string(err.Code))
}

// shown makes any error one that may be told. Unknown ones are internal and say nothing.
func shown(err error) *sdk.Error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		e = &sdk.Error{Code: sdk.CodeInternal, Err: err}
	}
	return e
}

// looksRPC guesses how the sender of something that cannot be read spells its messages.
func looksRPC(line []byte) bool {
	return bytes.Contains(line[:min(len(line), headBytes)], []byte(`"jsonrpc"`))
}

// spoken lists the protocol versions that this server speaks.
var spoken = []byte(`[1]`)

const version = 1

// helloAnswer answers hello.
type helloAnswer struct {
	server   string
	features []string
}

// AppendJSON appends the answer.
func (h *helloAnswer) AppendJSON(dst []byte) []byte {
	o := wire.Object(dst)
	o.Bool("ok", true)
	o.Int("protocol", version)
	o.Str("server", h.server)
	o.Strs("features", h.features)
	return o.Close()
}

// negotiate looks for our version among those that a hello offers.
func negotiate(body exact.Value) *sdk.Error {
	offered := body.Get("protocol")
	switch offered.Kind() {
	case exact.Absent, exact.Null:
		return sdk.FieldErrf(sdk.CodeMissingField, "protocol", "protocol is required: a list of versions, such as [1]")
	case exact.Number:
		if isVersion(offered) {
			return nil
		}
	case exact.Array:
		for v := range offered.Elements() {
			if v.Kind() != exact.Number {
				return sdk.FieldErrf(sdk.CodeInvalidField, "protocol", "protocol must be a list of numbers; it has %v", v.Kind())
			}
		}
		for v := range offered.Elements() {
			if isVersion(v) {
				return nil
			}
		}
	default:
		return sdk.FieldErrf(sdk.CodeInvalidField, "protocol", "protocol must be a list of versions, such as [1], not %v",
			offered.Kind())
	}
	return sdk.FieldErrf(sdk.CodeNoCommonVersion, "protocol", "no version in common: this server speaks %s", spoken)
}

func isVersion(v exact.Value) bool {
	n, ok := v.Decimal().Int64()
	return ok && n == version
}

// authAnswer answers auth.
type authAnswer struct {
	id, name string
	scopes   []string
}

// AppendJSON appends the answer.
func (a *authAnswer) AppendJSON(dst []byte) []byte {
	o := wire.Object(dst)
	o.Bool("ok", true)
	o.Str("key_id", a.id)
	o.Str("name", a.name)
	o.Strs("scopes", a.scopes)
	return o.Close()
}
