package guardrails

import (
	"strings"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// call is one call of a tool that a model wants.
type call struct {
	name string
	args exact.Value // an object with the bytes that the tool gets
}

// maxCalls bounds the calls of one answer. Each is a decision with a record.
const maxCalls = 128

// calls reads a list of calls as OpenAI's chat completions have them.
func (a *asked) calls(v exact.Value, field string) ([]call, error) {
	if _, err := list(v, field); err != nil {
		return nil, err
	}
	var out []call
	for e := range v.Elements() {
		fn := e.Get("function")
		if fn.Kind() != exact.Object {
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, field, "%s has a call that is not one of a function", field)
		}
		c, err := a.call(fn.Get("name"), fn.Get("arguments"), field)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) > maxCalls {
		return nil, sdk.FieldErrf(sdk.CodeTooLarge, field, "%s has %d calls, more than the limit of %d", field, len(out),
			maxCalls)
	}
	return out, nil
}

// call reads one call. Its arguments are an object, as JSON or as a text with that JSON.
func (a *asked) call(name, args exact.Value, field string) (call, error) {
	if name.Kind() != exact.String || name.Str() == "" {
		return call{}, sdk.FieldErrf(sdk.CodeInvalidField, field, "%s has a call without the name of its function", field)
	}
	c := call{name: name.Own(), args: args}
	if args.Kind() == exact.String || !args.Exists() || args.Kind() == exact.Null {
		text := or(strings.TrimSpace(args.Str()), "{}") // models leave out what is empty
		var doc exact.Doc
		if err := doc.Parse(text, a.door.set.Limits.JSON()); err != nil {
			return call{}, sdk.FieldErrf(sdk.CodeInvalidField, field, "the arguments of a call in %s are no JSON: %s", field,
				err)
		}
		c.args = doc.Root()
	}
	if c.args.Kind() != exact.Object {
		return call{}, sdk.FieldErrf(sdk.CodeInvalidField, field, "the arguments of a call in %s must be an object, not %v",
			field, c.args.Kind())
	}
	return c, nil
}

// permit asks for each call whether it may run. Scans come before it: a permit spends what rules count. The error is a
// *denied for the first call that may not.
func (a *asked) permit(calls []call) error {
	if !a.door.authorizes {
		return nil
	}
	for _, c := range calls {
		d, err := a.door.set.Asker.Authorize(a.ctx, a.Caller, &wire.AuthorizeRequest{AgentID: a.agent,
			ToolID: a.door.prefix + c.name, Args: c.args, Redeem: "auto"})
		if err != nil {
			return err
		}
		a.decisions = append(a.decisions, d)
		if d.Permits() {
			continue
		}
		no := &denied{code: d.ReasonCode, why: or(d.Message, or(d.Reason, "the call of "+c.name+" is not permitted"))}
		if d.Effect == sdk.Defer.String() {
			no.why = "the call of " + c.name + " waits for approval"
			no.link = a.approval(d.DecisionID)
		}
		return no
	}
	return a.late()
}

// approval is the page on which an operator answers. It opens for operators alone and holds no token.
func (a *asked) approval(decision string) string {
	if console := a.door.set.Console(); console != "" {
		return console + "/approvals/" + decision
	}
	return "the console of Yett, decision " + decision
}
