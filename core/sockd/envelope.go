package sockd

import (
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// Names of the operations that are the socket's own, and of the one that a message without a name asks for.
const (
	opHello  = "hello"
	opAuth   = "auth"
	opGovern = "govern"
)

// maxID bounds the id of a message, in bytes as written: answers repeat it.
const maxID = 1024

// envelope is what a message says about itself, whatever its operation.
type envelope struct {
	op    string      // "" when the message cannot be understood
	id    string      // as it was sent, "" if there is none
	rpc   bool        // spelled as JSON-RPC
	mute  bool        // a JSON-RPC notification: nothing answers it
	keyed bool        // it has a key of its own
	key   string      //
	body  exact.Value // what the operation gets
}

// noParams is the body of a JSON-RPC message without params.
var noParams = func() *exact.Doc {
	d := new(exact.Doc)
	_ = d.Parse("{}", exact.DefaultLimits) // cannot fail
	return d
}()

// parts are the members that an envelope is made of.
type parts struct{ jsonrpc, id, method, params, kind, key exact.Value }

// read takes a message apart. On an error the envelope still says how to spell the answer and with what id.
func (e *envelope) read(root exact.Value) *sdk.Error {
	*e = envelope{rpc: root.Kind() == exact.Array}
	switch root.Kind() {
	case exact.Object:
	case exact.Array:
		return sdk.Errf(sdk.CodeBadRequest, "batches are not served: send one message a line")
	default:
		return sdk.Errf(sdk.CodeBadRequest, "a message must be a JSON object, not %v", root.Kind())
	}
	var p parts
	for name, v := range root.Members() {
		switch name {
		case "jsonrpc":
			p.jsonrpc = v
		case "id":
			p.id = v
		case "method":
			p.method = v
		case "params":
			p.params = v
		case "type":
			p.kind = v
		case "api_key":
			p.key = v
		}
	}
	e.rpc = p.jsonrpc.Exists() || p.method.Exists()
	if err := e.readID(p.id); err != nil {
		return err
	}
	if !e.rpc {
		return e.flat(root, &p)
	}
	return e.call(&p)
}

func (e *envelope) readID(id exact.Value) *sdk.Error {
	switch id.Kind() {
	case exact.Absent:
		return nil
	case exact.String, exact.Number, exact.Null:
		if n := len(id.Raw()); n > maxID {
			return sdk.FieldErrf(sdk.CodeBadRequest, "id", "id is %d bytes long, more than the limit of %d", n, maxID)
		}
		e.id = id.Raw()
		return nil
	}
	return sdk.FieldErrf(sdk.CodeBadRequest, "id", "id must be a string, a number or null, not %v", id.Kind())
}

// flat is {"type":…, …}: the message is the body.
func (e *envelope) flat(root exact.Value, p *parts) *sdk.Error {
	op := opGovern
	switch p.kind.Kind() {
	case exact.Absent:
	case exact.String:
		op = p.kind.Str()
	default:
		return sdk.FieldErrf(sdk.CodeBadRequest, "type", "type must be a string, not %v", p.kind.Kind())
	}
	if err := e.readKey(p.key); err != nil {
		return err
	}
	e.op, e.body = op, root
	return nil
}

// call is {"jsonrpc":"2.0","method":…,"params":{…}}.
func (e *envelope) call(p *parts) *sdk.Error {
	switch {
	case p.jsonrpc.Kind() != exact.String || p.jsonrpc.Str() != "2.0":
		return sdk.FieldErrf(sdk.CodeBadRequest, "jsonrpc", `jsonrpc must be "2.0"`)
	case p.kind.Exists():
		return sdk.FieldErrf(sdk.CodeBadRequest, "type", "a message has type or method, not both")
	case p.method.Kind() != exact.String:
		return sdk.FieldErrf(sdk.CodeBadRequest, "method", "method must be a string, not %v", p.method.Kind())
	}
	op := p.method.Str()
	switch p.params.Kind() {
	case exact.Absent:
		e.body = noParams.Root()
	case exact.Object:
		e.body = p.params
	default:
		e.op = op
		return sdk.FieldErrf(sdk.CodeInvalidField, "params", "params must be an object, not %v", p.params.Kind())
	}
	for _, key := range []exact.Value{p.key, e.body.Get("api_key")} {
		if err := e.readKey(key); err != nil {
			return err
		}
	}
	e.op, e.mute = op, e.id == ""
	return nil
}

// readKey takes a key; two that differ are refused, since which one counts would be a guess.
func (e *envelope) readKey(key exact.Value) *sdk.Error {
	switch key.Kind() {
	case exact.Absent, exact.Null:
		return nil
	case exact.String:
	default:
		return sdk.FieldErrf(sdk.CodeBadRequest, "api_key", "api_key must be a string, not %v", key.Kind())
	}
	if e.keyed && e.key != key.Str() {
		return sdk.FieldErrf(sdk.CodeBadRequest, "api_key", "api_key is there twice, with different values")
	}
	e.keyed, e.key = true, key.Own()
	return nil
}
