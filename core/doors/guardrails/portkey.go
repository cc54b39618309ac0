package guardrails

import (
	"context"
	"net/http"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// portkey is Portkey's webhook guardrail. Portkey takes an error, and an answer that comes late, for a pass.
type portkey struct{ door door }

// portkeyEvents are the members with the text, by event.
var portkeyEvents = map[string]string{"beforeRequestHook": "request", "afterRequestHook": "response"}

func (d *portkey) handle(a *asked) ([]byte, error) {
	ctx, cancel := context.WithTimeout(a.ctx, d.door.set.Config.Portkey.Timeout.Std())
	defer cancel()
	a.ctx = ctx
	member := portkeyEvents[a.body.Get("eventType").Str()]
	if member == "" {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "eventType",
			"eventType must be beforeRequestHook or afterRequestHook")
	}
	if field := d.door.set.Config.Portkey.AgentMetadata; field != "" {
		if err := a.named(a.body.Get("metadata").Get(field), "metadata."+field); err != nil {
			return nil, err
		}
	}
	value := a.body.Get(member).Get("json")
	if value.Kind() != exact.Object && value.Kind() != exact.Array {
		return nil, wrong(member+".json", "an object", value)
	}
	return d.decide(a, member, value)
}

// decide gives the answer that passes, or an error.
func (d *portkey) decide(a *asked, member string, value exact.Value) ([]byte, error) {
	var others leaves
	others.add(value)
	if err := a.unscannable(others.kinds); err != nil {
		return nil, err
	}
	if member == "request" && d.door.set.Config.Portkey.Streams != "pass" {
		if stream := value.Get("stream"); stream.Exists() && stream.Kind() != exact.Null && stream.Raw() != "false" {
			return nil, &denied{code: "STREAM", why: "Portkey asks about a streamed answer when the client has it: ask " +
				"without stream (doors.portkey.streams)"}
		}
	}
	var calls []call
	if member == "response" {
		var err error
		if calls, err = a.answerCalls(value); err != nil {
			return nil, err
		}
	}
	var sent outputs
	sent.json([]byte(value.Raw()))
	for _, c := range calls {
		sent.json([]byte(c.args.Raw()))
	}
	out, err := a.scan(member, sent)
	if err != nil {
		return nil, err
	}
	if err := out.refusal(); err != nil {
		return nil, err
	}
	for i := range calls {
		if err := out.keeps(1+i, "the arguments of a call of "+name(calls[i].name)); err != nil {
			return nil, err
		}
	}
	changed := out.changed(0)
	if changed && d.door.set.Config.Portkey.Redacted != "pass" {
		return nil, &denied{code: out.verdicts[0].ReasonCode,
			why: "something is to be redacted, and doors.portkey.redacted is block"}
	}
	if err := a.permit(calls); err != nil {
		return nil, err
	}
	code := out.verdicts[0].ReasonCode
	if !changed {
		return portkeyVerdict(true, code, "Nothing was found that must not pass.", "", nil), nil
	}
	return portkeyVerdict(true, code, "The text was redacted.", member, out.verdicts[0].SanitizedJSON), nil
}

// portkeyVerdict is a whole answer. data never holds what was found.
func portkeyVerdict(verdict bool, code, explanation, member string, transformed []byte) []byte {
	o := wire.Object(nil)
	o.Bool("verdict", verdict)
	o.Object("data", func(w *wire.Writer) {
		w.Str("reason_code", code)
		w.Str("explanation", explanation)
	})
	if transformed != nil {
		o.Object("transformedData", func(w *wire.Writer) {
			w.Object(member, func(w *wire.Writer) { w.Raw("json", transformed) })
		})
	}
	return o.Close()
}

func denyPortkey(no *denied) []byte { return portkeyVerdict(false, no.code, no.Error(), "", nil) }

// refusePortkey answers with 200: any other status is a pass.
func refusePortkey(w http.ResponseWriter, _ *front.Request, err *sdk.Error) {
	write(w, http.StatusOK, portkeyVerdict(false, string(err.Code), told(err), "", nil))
}

// answerCalls finds the calls of tools in a model's answer: of chat completions, of the responses API and of
// Anthropic's messages.
func (a *asked) answerCalls(v exact.Value) ([]call, error) {
	var all []call
	for choice := range v.Get("choices").Elements() {
		m := choice.Get("message")
		calls, err := a.calls(m.Get("tool_calls"), "tool_calls")
		if err != nil {
			return nil, err
		}
		all = append(all, calls...)
		if fn := m.Get("function_call"); fn.Exists() && fn.Kind() != exact.Null {
			c, err := a.call(fn.Get("name"), fn.Get("arguments"), "function_call")
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	for _, form := range [...]struct{ list, kind, args string }{{"output", "function_call", "arguments"},
		{"content", "tool_use", "input"}} {
		for e := range v.Get(form.list).Elements() {
			if e.Get("type").Str() != form.kind {
				continue
			}
			c, err := a.call(e.Get("name"), e.Get(form.args), form.list)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	if len(all) > maxCalls {
		return nil, sdk.Errf(sdk.CodeTooLarge, "there are %d calls, more than the limit of %d", len(all), maxCalls)
	}
	return all, nil
}
