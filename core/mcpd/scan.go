package mcpd

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// verdict is whether a part of a message goes on.
type verdict uint8

const (
	withheld verdict = iota
	passedOn         // as it came, or redacted
)

// The outcomes of a scan, as the operations name them.
const (
	outcomePass     = "PASS"
	outcomeWarned   = "WARNED"
	outcomeRedacted = "REDACTED"
)

// scan has a value of a message scanned under the name of a tool. text is the whole message with what may be passed on
// in the value's place: its very bytes if nothing is redacted.
func (x *exchange) scan(ctx context.Context, tool string, m *message, v exact.Value) (text string, is verdict) {
	raw, is, err := x.scanValue(ctx, tool, v)
	if err != nil {
		x.srv.logs.Log("withheld what could not be scanned: %s", front.AsError(err).Code)
		return "", withheld
	}
	if is == withheld {
		return "", withheld
	}
	if raw == v.Raw() {
		return m.raw, passedOn
	}
	return apply(m.raw, []edit{replace(v, raw)}), passedOn
}

// errBinary says why a result is withheld that holds what is no text.
var errBinary = errors.New("the result holds what the configuration does not let pass")

// scanValue gives the value as it may be passed on.
func (x *exchange) scanValue(ctx context.Context, tool string, v exact.Value) (raw string, is verdict, err error) {
	raw = v.Raw()
	if !strings.Contains(raw, `"`) {
		return raw, passedOn, nil // no text, and no name of a member
	}
	var b binaries
	if err := b.find(v, nil, false, &x.g.set.Config); err != nil {
		return "", withheld, nil
	}
	from, _ := v.Span()
	for i := range b.edits {
		b.edits[i].from -= from
		b.edits[i].to -= from
	}
	q := &wire.ScanRequest{ToolID: tool, AgentID: agentOf(x.r.Caller.Key, x.c), SessionID: x.c.sessionID()}
	if len(b.texts) == 0 {
		q.OutputJSON = json.RawMessage(apply(raw, b.edits))
		s, err := x.g.set.Asker.Scan(ctx, x.r.Caller, q)
		if err != nil {
			return "", withheld, err
		}
		return b.put(raw, s.Outcome, s.SanitizedJSON, x.g.lim)
	}
	q.Outputs = []wire.ScanOutput{{OutputJSON: json.RawMessage(apply(raw, b.edits))}}
	for _, t := range b.texts {
		q.Outputs = append(q.Outputs, wire.ScanOutput{Output: t})
	}
	s, err := x.g.set.Asker.Scan(ctx, x.r.Caller, q)
	if err != nil {
		return "", withheld, err
	}
	if len(s.Outputs) != len(q.Outputs) {
		return "", withheld, errors.New("the scan has not as many verdicts as outputs")
	}
	for _, o := range s.Outputs[1:] { // a binary cannot be redacted
		if o.Outcome != outcomePass && o.Outcome != outcomeWarned {
			return "", withheld, nil
		}
	}
	return b.put(raw, s.Outputs[0].Outcome, s.Outputs[0].SanitizedJSON, x.g.lim)
}

// scrubAnswer scans an answer: a result or an error.
func (x *exchange) scrubAnswer(ctx context.Context, m *message) string {
	if e := m.member("error"); e.Exists() {
		text, v := x.scan(ctx, x.tool, m, e)
		if v == withheld {
			return failure(m.id.Raw(), &fault{code: codeDenied, msg: "the server's error is withheld by policy"})
		}
		return text
	}
	result := m.member("result")
	if tools := result.Get("tools"); tools.Kind() == exact.Array && (x.msg == nil || x.msg.method == "tools/list") {
		return x.scrubTools(ctx, m, result, tools)
	}
	if why := x.mayAskAll(ctx, m, result); why != nil {
		return x.withheldAnswer(m.id.Raw(), "The server asked for something that policy does not permit", why)
	}
	text, v := x.scan(ctx, x.tool, m, result)
	if v == withheld {
		return x.withheldAnswer(m.id.Raw(), "The output of this call is withheld by policy: it was not scanned whole, or "+
			"holds what may not be passed on", nil)
	}
	if text != m.raw && x.breaksSchema(text) {
		return x.withheldAnswer(m.id.Raw(), "The output of this call is withheld: redacted, it does not fit the schema "+
			"that the tool promises", nil)
	}
	return text
}

// withheldAnswer stands in for an answer.
func (x *exchange) withheldAnswer(id, text string, why *fault) string {
	if x.msg != nil && x.msg.method == callTool {
		return refusedResult(id, text+". The tool itself may have run.", x.c.modern)
	}
	f := &fault{code: codeDenied, msg: text}
	if why != nil {
		f.data = why.data
	}
	return failure(id, f)
}

// mostInputs bounds what a server of the newer era asks for at once.
const mostInputs = 16

// mayAskAll asks about everything that a server of the newer era wants of the client before it goes on.
func (x *exchange) mayAskAll(ctx context.Context, m *message, result exact.Value) *fault {
	wants := result.Get("inputRequests")
	if !wants.Exists() {
		return nil
	}
	if wants.Kind() != exact.Object || wants.Len() > mostInputs {
		return &fault{code: codeDenied, msg: "too many requests at once"}
	}
	for _, one := range wants.Members() {
		name := one.Get("method").Str()
		row, known := fromServers[name]
		params := one.Get("params")
		if !known || params.Exists() && params.Kind() != exact.Object {
			return &fault{code: codeNoMethod, msg: "unknown method"}
		}
		if row.how == passed {
			continue
		}
		if f := x.mayAsk(ctx, &message{raw: m.raw, doc: m.doc, method: name, params: params}); f != nil {
			return f
		}
	}
	return nil
}
