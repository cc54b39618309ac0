package authzen

import (
	"crypto/sha256"
	"encoding/base64"
	"mime"
	"slices"
	"strings"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// call is one evaluation as the operations are asked about it.
type call struct {
	agent, tool   string
	args, context exact.Value // objects; context may be absent
	approval      exact.Value // context.approval, which is no part of the call; absent if there is none

	argsSum, contextSum string
	names               []string // of the members of context
}

// size is how many bytes the operations are asked about.
func (c *call) size() int { return len(c.args.Raw()) + len(c.context.Raw()) }

// malformed is the error of a request that the specification does not allow.
func malformed(format string, args ...any) *sdk.Error {
	return sdk.Errf(sdk.CodeBadRequest, format, args...)
}

// body reads the JSON object that a request holds.
func body(r *front.Request, lim *config.Limits) (exact.Value, *sdk.Error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return exact.Value{}, malformed("Content-Type must be application/json")
	}
	return object(string(r.Body), lim)
}

// object reads a text that is one JSON object.
func object(text string, lim *config.Limits) (exact.Value, *sdk.Error) {
	var doc exact.Doc
	if err := doc.Parse(text, lim.JSON()); err != nil {
		return exact.Value{}, sdk.Errf(sdk.CodeInvalidJSON, "%s", err)
	}
	if k := doc.Root().Kind(); k != exact.Object {
		return exact.Value{}, malformed("the body must be an object, not %s", k)
	}
	return doc.Root(), nil
}

// entity is a subject, an action or a resource: its text, and the members that it must have.
type entity struct {
	text string
	of   map[string]string
}

// readEntity reads the member of that name. What one evaluation of a batch lacks comes from top: the whole entity, or
// the members that it must have. All else of an entity replaces what top says.
func readEntity(one, top exact.Value, name string, needs ...string) (entity, *sdk.Error) {
	v, usual := one.Get(name), top.Get(name)
	if !v.Exists() {
		v = usual
	}
	switch v.Kind() {
	case exact.Object:
	case exact.Absent:
		return entity{}, malformed("%s is required", name)
	default:
		return entity{}, malformed("%s must be an object, not %s", name, v.Kind())
	}
	e := entity{of: map[string]string{}}
	added := ""
	for _, need := range needs {
		m := v.Get(need)
		if !m.Exists() {
			if m = usual.Get(need); m.Exists() {
				added += `"` + need + `":` + m.Raw() + ","
			}
		}
		switch {
		case !m.Exists():
			return entity{}, malformed("%s.%s is required", name, need)
		case m.Kind() != exact.String:
			return entity{}, malformed("%s.%s must be a string, not %s", name, need, m.Kind())
		case m.Str() == "":
			return entity{}, malformed("%s.%s is empty", name, need)
		}
		e.of[need] = m.Str()
	}
	if p := v.Get("properties"); p.Exists() && p.Kind() != exact.Object {
		return entity{}, malformed("%s.properties must be an object, not %s", name, p.Kind())
	}
	e.text = v.Raw()
	if added != "" && v.Len() == 0 {
		added = strings.TrimSuffix(added, ",")
	}
	if added != "" {
		e.text = "{" + added + v.Raw()[1:]
	}
	return e, nil
}

// readCall reads one evaluation; top has the defaults of a batch, or is absent.
func readCall(one, top exact.Value, lim *config.Limits) (*call, *sdk.Error) {
	subject, err := readEntity(one, top, "subject", "type", "id")
	if err != nil {
		return nil, err
	}
	action, err := readEntity(one, top, "action", "name")
	if err != nil {
		return nil, err
	}
	resource, err := readEntity(one, top, "resource", "type", "id")
	if err != nil {
		return nil, err
	}
	c := &call{agent: agentOf(subject.of["type"], subject.of["id"]), tool: toolOf(resource.of["type"], action.of["name"])}
	switch most := lim.Name; {
	case len(c.agent) > most:
		return nil, malformed("subject.type and subject.id are %d bytes long together, more than the limit of %d "+
			"(limits.name)", len(c.agent), most)
	case len(c.tool) > most:
		return nil, malformed("resource.type and action.name are %d bytes long together, more than the limit of %d "+
			"(limits.name)", len(c.tool), most)
	}
	c.args, err = object(`{"subject":`+subject.text+`,"action":`+action.text+`,"resource":`+resource.text+`}`, lim)
	if err != nil {
		return nil, err
	}
	c.argsSum = digest(c.args.AppendCanonical(nil))
	v := one.Get("context")
	if !v.Exists() {
		v = top.Get("context")
	}
	return c, c.readContext(v, lim)
}

// readContext takes the approval out of a context. What is left is part of the call.
func (c *call) readContext(v exact.Value, lim *config.Limits) (err *sdk.Error) {
	switch v.Kind() {
	case exact.Absent:
		c.contextSum = sumOf(v, nil)
		return nil
	case exact.Object:
	default:
		return malformed("context must be an object, not %s", v.Kind())
	}
	c.context, c.approval = v, v.Get("approval")
	if c.approval.Exists() {
		if c.context, err = object(without(v, "approval"), lim); err != nil {
			return err
		}
	}
	for name := range c.context.Members() {
		c.names = append(c.names, name)
	}
	slices.Sort(c.names)
	c.contextSum = sumOf(c.context, c.names)
	return nil
}

// without is an object's text without one of its members.
func without(v exact.Value, member string) string {
	out := []byte{'{'}
	for name, m := range v.Members() {
		if name == member {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(exact.AppendString(out, name), ':'), m.Raw()...)
	}
	return string(append(out, '}'))
}

// sumOf hashes the members of an object that have these names, which are sorted. A name that the object lacks counts
// too.
func sumOf(v exact.Value, names []string) string {
	out := []byte{'{'}
	for _, name := range names {
		out = append(exact.AppendString(out, name), ':')
		out = append(v.Get(name).AppendCanonical(out), ',')
	}
	return digest(append(out, '}'))
}

// digest is a hash of a text.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// asAgent and asTool keep apart what stands before the separator of a name from what stands behind it.
var (
	asAgent = strings.NewReplacer("%", "%25", ":", "%3A")
	asTool  = strings.NewReplacer("%", "%25", "/", "%2F")
)

// agentOf is the agent_id of a subject.
func agentOf(kind, id string) string { return asAgent.Replace(kind) + ":" + id }

// toolOf is the tool_id of an action on a resource.
func toolOf(kind, action string) string { return asTool.Replace(kind) + "/" + action }
