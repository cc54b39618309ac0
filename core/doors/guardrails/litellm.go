package guardrails

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// liteLLM is the generic guardrail API of LiteLLM's proxy. The proxy takes an action that it does not know for a pass,
// and so it takes texts that are missing; it asks about a stream again and again, each time with all of it so far.
type liteLLM struct{ door door }

// wholeText holds back a text of any length.
const wholeText = 1 << 30

// agentFrom is the member of request_data that names the agent.
var agentFrom = map[string]string{"key_alias": "user_api_key_alias", "user_id": "user_api_key_user_id",
	"team_alias": "user_api_key_team_alias", "end_user_id": "user_api_key_end_user_id"}

// liteLLMAsk is a request as far as it counts here.
type liteLLMAsk struct {
	response bool
	texts    []string
	tools    exact.Value
	calls    []call
	decides  bool   // the calls are to run, and no memory of calls
	others   leaves // strings of all other members
}

func (d *liteLLM) handle(a *asked) ([]byte, error) {
	q, err := d.read(a)
	if err != nil {
		return nil, err
	}
	what := "request"
	if q.response {
		what = "response"
	}
	released, tools, err := d.scan(a, q, what)
	if err == nil && q.decides {
		err = a.permit(q.calls)
	}
	if err != nil {
		return nil, err
	}
	o := wire.Object(nil)
	if released == nil && tools == nil {
		o.Str("action", "NONE")
	} else {
		o.Str("action", "GUARDRAIL_INTERVENED")
		if released == nil {
			released = q.texts
		}
		o.Strs("texts", released)
		if tools != nil {
			o.Raw("tools", tools)
		}
	}
	if q.response && len(q.texts) > 0 {
		d.holdback(&o, len(q.texts))
	}
	return o.Close(), nil
}

// holdback says how much of each text a stream keeps for later. What the client has cannot be redacted any more.
func (d *liteLLM) holdback(o *wire.Writer, texts int) {
	n := d.door.set.Config.LiteLLM.StreamHoldback
	if n <= 0 {
		n = wholeText
	}
	list := []byte{'['}
	for i := range texts {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, int64(n), 10)
	}
	o.Raw("stream_holdback_chars", append(list, ']'))
}

// read takes a request apart. Members that no text for a model can be in are ignored.
func (d *liteLLM) read(a *asked) (*liteLLMAsk, error) {
	q := &liteLLMAsk{}
	switch t := a.body.Get("input_type"); t.Str() {
	case "request":
	case "response":
		q.response = true
	default:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "input_type", `input_type must be "request" or "response"`)
	}
	if member := agentFrom[d.door.set.Config.LiteLLM.AgentFrom]; member != "" {
		if err := a.named(a.body.Get("request_data").Get(member), "request_data."+member); err != nil {
			return nil, err
		}
	}
	var err error
	if q.texts, err = strs(a.body.Get("texts"), "texts"); err != nil {
		return nil, err
	}
	toolCalls, messages := a.body.Get("tool_calls"), a.body.Get("structured_messages")
	if q.calls, err = a.calls(toolCalls, "tool_calls"); err != nil {
		return nil, err
	}
	for _, field := range []string{"structured_messages", "tools"} {
		if _, err := list(a.body.Get(field), field); err != nil {
			return nil, err
		}
	}
	images, err := strs(a.body.Get("images"), "images")
	if err != nil {
		return nil, err
	}
	q.decides = q.response || messages.Len() == 0 // calls among messages have been made
	q.tools = a.body.Get("tools")
	q.others.mark(q.texts...)
	for e := range toolCalls.Elements() {
		q.others.mark(e.Get("function").Get("arguments").Str())
	}
	q.others.add(toolCalls)
	q.others.add(messages)
	for _, s := range images {
		q.others.kinds = append(q.others.kinds, "image")
		if !strings.HasPrefix(s, "data:") {
			q.others.one(s)
		}
	}
	return q, a.unscannable(q.others.kinds)
}

// scan gives the texts to release and the tools, each nil where nothing changes.
func (d *liteLLM) scan(a *asked, q *liteLLMAsk, what string) (texts []string, tools []byte, err error) {
	var sent outputs
	for _, s := range q.texts {
		sent.text(s)
	}
	calls := len(sent)
	for _, c := range q.calls {
		sent.json([]byte(c.args.Raw()))
	}
	others, toolsAt := -1, -1
	if len(q.others.texts) > 0 {
		others = len(sent)
		sent.json(q.others.json())
	}
	if q.tools.Len() > 0 {
		toolsAt = len(sent)
		sent.json([]byte(q.tools.Raw()))
	}
	out, err := a.scan(what, sent)
	if err != nil {
		return nil, nil, err
	}
	if err := out.refusal(); err != nil {
		return nil, nil, err
	}
	for i := range q.calls {
		if err := out.keeps(calls+i, "the arguments of a call of "+name(q.calls[i].name)); err != nil {
			return nil, nil, err
		}
	}
	if others >= 0 {
		if err := out.keeps(others, "a member of the messages that is not among the texts"); err != nil {
			return nil, nil, err
		}
	}
	if toolsAt >= 0 && out.changed(toolsAt) {
		tools = out.verdicts[toolsAt].SanitizedJSON
	}
	if released, changed := out.texts(0, len(q.texts)); changed {
		texts = released
	}
	return texts, tools, nil
}

func blocked(why string) []byte {
	o := wire.Object(nil)
	o.Str("action", "BLOCKED")
	o.Str("blocked_reason", why)
	return o.Close()
}

func denyLiteLLM(no *denied) []byte { return blocked(no.Error()) }

// refuseLiteLLM answers with 200: of an error the proxy's settings may make a pass.
func refuseLiteLLM(w http.ResponseWriter, _ *front.Request, err *sdk.Error) {
	write(w, http.StatusOK, blocked(told(err)))
}
