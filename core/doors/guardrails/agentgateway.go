package guardrails

import (
	"net/http"
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// agentgateway is the guardrail webhook of agentgateway for language models. It tells the three actions apart by their
// members alone: what is neither a whole mask nor a whole reject is a pass.
type agentgateway struct{ door door }

// message is all that agentgateway sends of one, and all that it takes back.
type message struct{ role, content string }

// longestRole is longer than any role. A longer one is no role, and nobody scans roles.
const longestRole = 32

func (d *agentgateway) request(a *asked) ([]byte, error)  { return d.handle(a, "request", "messages") }
func (d *agentgateway) response(a *asked) ([]byte, error) { return d.handle(a, "response", "choices") }

func (d *agentgateway) handle(a *asked, what, member string) ([]byte, error) {
	if h := d.door.set.Config.Agentgateway.AgentHeader; h != "" {
		switch values := a.Header.Values(h); {
		case len(values) > 1:
			return nil, sdk.Errf(sdk.CodeBadRequest, "%s is there %d times; send one", h, len(values))
		case len(values) == 1 && values[0] != "":
			a.agent = values[0]
		}
	}
	messages, err := readMessages(a.body, member)
	if err != nil {
		return nil, err
	}
	var sent outputs
	for _, m := range messages {
		sent.text(m.content)
	}
	out, err := a.scan(what, sent)
	if err != nil {
		return nil, err
	}
	if err := out.refusal(); err != nil {
		return nil, err
	}
	released, changed := out.texts(0, len(messages))
	if !changed {
		o := wire.Object(nil)
		o.Object("action", func(w *wire.Writer) { w.Str("reason", "Nothing was found that must not pass.") })
		return o.Close(), nil
	}
	for i := range messages {
		messages[i].content = released[i]
	}
	return mask(member, messages), nil
}

// readMessages reads body.messages, or the messages of body.choices. A member that it does not know could bring text
// that nobody scans, so it is refused.
func readMessages(v exact.Value, member string) ([]message, error) {
	body := v.Get("body")
	if body.Kind() != exact.Object {
		return nil, wrong("body", "an object", body)
	}
	field := "body." + member
	entries := body.Get(member)
	if entries.Kind() != exact.Array {
		return nil, wrong(field, "a list", entries)
	}
	if err := knows(body, "body", member); err != nil {
		return nil, err
	}
	var out []message
	for e := range entries.Elements() {
		if member == "choices" {
			if err := knows(e, field, "message"); err != nil {
				return nil, err
			}
			e = e.Get("message")
		}
		if err := knows(e, field, "role", "content"); err != nil {
			return nil, err
		}
		role, content := e.Get("role"), e.Get("content")
		switch {
		case role.Kind() != exact.String || len(role.Str()) > longestRole:
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, field, "%s has a message without a role", field)
		case content.Kind() != exact.String:
			return nil, wrong(field+" content", "a string", content)
		}
		out = append(out, message{role.Str(), content.Str()})
	}
	return out, nil
}

// knows refuses what is no object with these members.
func knows(v exact.Value, field string, members ...string) error {
	if v.Kind() != exact.Object {
		return wrong(field, "a list of objects", v)
	}
	for name := range v.Members() {
		if !slices.Contains(members, name) {
			return sdk.FieldErrf(sdk.CodeInvalidField, field, "%s has a member that this door does not know: expected %s",
				field, strings.Join(members, ", "))
		}
	}
	return nil
}

// mask is the action that puts other texts in the place of those that came.
func mask(member string, messages []message) []byte {
	one := func(w *wire.Writer, m message) {
		w.Str("role", m.role)
		w.Str("content", m.content)
	}
	o := wire.Object(nil)
	o.Object("action", func(w *wire.Writer) {
		w.Object("body", func(w *wire.Writer) {
			w.List(member, len(messages), func(i int, w *wire.Writer) {
				if member == "choices" {
					w.Object("message", func(w *wire.Writer) { one(w, messages[i]) })
					return
				}
				one(w, messages[i])
			})
		})
		w.Str("reason", "The text was redacted.")
	})
	return o.Close()
}

// reject is the action that refuses. A webhook with messageFormat raw asks another question, and takes an answer
// without messages for a pass: a number in their place is an error there, and nothing here.
func reject(status int64, why string) []byte {
	o := wire.Object(nil)
	o.Object("action", func(w *wire.Writer) {
		w.Str("body", why)
		w.Int("status_code", status)
		w.Str("reason", why)
	})
	o.Int("messages", 0)
	return o.Close()
}

func denyAgentgateway(no *denied) []byte { return reject(http.StatusForbidden, no.Error()) }

// refuseAgentgateway answers with 200: what agentgateway makes of an error is up to its failureMode.
func refuseAgentgateway(w http.ResponseWriter, _ *front.Request, err *sdk.Error) {
	write(w, http.StatusOK, reject(http.StatusServiceUnavailable, told(err)))
}
