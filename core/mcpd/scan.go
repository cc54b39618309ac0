package mcpd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

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
	if err := b.find(v, nil, &x.g.set.Config); err != nil {
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

// binaries are the parts of a value that are no text: images, sounds and blobs, in base64. They are not scanned as the
// text that they are not.
type binaries struct {
	edits []edit   // takes each out
	paths [][]int  // where each stands: the numbers of members and elements from the root
	raws  []string // what each was
	texts []string // blobs that are text in truth
}

// mostTexts bounds the blobs that are scanned with one result.
const mostTexts = 255

func (b *binaries) find(v exact.Value, path []int, set policy) error {
	switch v.Kind() {
	case exact.Array:
		i := 0
		for e := range v.Elements() {
			if err := b.find(e, append(path, i), set); err != nil {
				return err
			}
			i++
		}
	case exact.Object:
		kind := v.Get("type").Str()
		i := 0
		for name, e := range v.Members() {
			at := append(path, i)
			i++
			var err error
			switch {
			case e.Kind() == exact.String && name == "data" && (kind == "image" || kind == "audio"):
				err = b.add(e, at, set, kind)
			case e.Kind() == exact.String && name == "blob":
				err = b.add(e, at, set, name)
			default:
				err = b.find(e, at, set)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *binaries) add(v exact.Value, path []int, set policy, kind string) error {
	do := set.BinaryPolicy(kind)
	if do == "deny" {
		return errBinary
	}
	raw, err := base64.StdEncoding.DecodeString(v.Str())
	if err != nil {
		return nil // no base64, so it is scanned as the text that it is
	}
	if do == "scan" && isText(raw) {
		if len(b.texts) == mostTexts {
			return errBinary
		}
		b.texts = append(b.texts, string(raw))
	}
	b.edits = append(b.edits, replace(v, `""`))
	b.paths = append(b.paths, append([]int(nil), path...))
	b.raws = append(b.raws, v.Raw())
	return nil
}

// isText reports whether bytes are text that a person could read: UTF-8 without control characters other than those of
// lines.
func isText(raw []byte) bool {
	return len(raw) > 0 && utf8.Valid(raw) && !bytes.ContainsFunc(raw, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' && r != 0x1b
	})
}

// policy says what becomes of binaries. *config.MCP has it.
type policy interface{ BinaryPolicy(kind string) string }

// put gives what is left of a value with the binaries back in their places.
func (b *binaries) put(raw, outcome string, clean json.RawMessage, lim exact.Limits) (string, verdict, error) {
	switch outcome {
	case outcomePass, outcomeWarned:
		return raw, passedOn, nil
	case outcomeRedacted:
	default:
		return "", withheld, nil
	}
	if len(clean) == 0 {
		return "", withheld, errors.New("the scan redacted the output and gave none")
	}
	if len(b.paths) == 0 {
		return string(clean), passedOn, nil
	}
	var doc exact.Doc
	if err := doc.Parse(string(clean), lim); err != nil {
		return "", withheld, err
	}
	edits := make([]edit, len(b.paths))
	for i, path := range b.paths {
		v, ok := walk(doc.Root(), path)
		if !ok || v.Raw() != `""` {
			return "", withheld, errors.New("the redacted output has another shape")
		}
		edits[i] = replace(v, b.raws[i])
	}
	return apply(string(clean), edits), passedOn, nil
}

// walk finds the value at a path.
func walk(v exact.Value, path []int) (exact.Value, bool) {
	for _, n := range path {
		var next exact.Value
		i := 0
		switch v.Kind() {
		case exact.Array:
			next = v.Index(n)
		case exact.Object:
			for _, e := range v.Members() {
				if i == n {
					next = e
					break
				}
				i++
			}
		}
		if !next.Exists() {
			return exact.Value{}, false
		}
		v = next
	}
	return v, true
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
