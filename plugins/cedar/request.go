package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/plugin"
)

// document is a call with its two JSON objects read.
type document struct {
	call          *plugin.Call
	args, context exact.Doc
}

func documentOf(c *plugin.Call) (*document, error) {
	d := &document{call: c}
	if err := object(&d.args, c.Args); err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	if err := object(&d.context, c.Context); err != nil {
		return nil, fmt.Errorf("context: %w", err)
	}
	return d, nil
}

// object reads a JSON object. Without one it is an empty object.
func object(d *exact.Doc, raw []byte) error {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if err := d.Parse(string(raw), exact.DefaultLimits); err != nil {
		return err
	}
	if k := d.Root().Kind(); k != exact.Object {
		return fmt.Errorf("%s, not an object", k)
	}
	return nil
}

// at is the value that a pointer such as /args/account leads to, through objects only.
func (d *document) at(pointer string) exact.Value {
	path := steps(pointer)
	v := d.args.Root()
	if path[0] == "context" {
		v = d.context.Root()
	}
	for _, step := range path[1:] {
		v = v.Get(step)
	}
	return v
}

// unfit is a well-formed call that cannot be put to these policies as it is.
type unfit struct{ error }

// request is what Cedar is asked for a call. The error is an unfit unless the call is malformed.
func (c *config) request(call *plugin.Call) (types.Request, error) {
	d, err := documentOf(call)
	if err != nil {
		return types.Request{}, err
	}
	var r types.Request
	if r.Principal, err = c.Principal.of(d); err != nil {
		return r, unfit{fmt.Errorf("principal: %w", err)}
	}
	if r.Action, err = c.Action.of(d); err != nil {
		return r, unfit{fmt.Errorf("action: %w", err)}
	}
	if r.Resource, err = c.Resource.of(d); err != nil {
		return r, unfit{fmt.Errorf("resource: %w", err)}
	}
	if r.Context, err = c.contextOf(d); err != nil {
		return r, unfit{fmt.Errorf("context: %w", err)}
	}
	return r, nil
}

// of is the entity that a call means.
func (p *part) of(d *document) (types.EntityUID, error) {
	if p.UID != "" {
		return p.uid(d)
	}
	var id string
	if isPointer(p.ID) {
		v := d.at(p.ID)
		if v.Kind() != exact.String {
			return types.EntityUID{}, fmt.Errorf("no string at %s", p.ID)
		}
		id = v.Str()
	} else if id = d.field(p.ID); id == "" {
		return types.EntityUID{}, fmt.Errorf("the call has no %s", p.ID)
	}
	return types.NewEntityUID(types.EntityType(p.Type), types.String(id)), nil
}

func (p *part) uid(d *document) (types.EntityUID, error) {
	v := d.at(p.UID)
	typ, id := v.Get("type"), v.Get("id")
	if v.Len() != 2 || typ.Kind() != exact.String || id.Kind() != exact.String {
		return types.EntityUID{}, fmt.Errorf("no object with the strings type and id at %s", p.UID)
	}
	if !slices.Contains(p.Types, typ.Str()) {
		return types.EntityUID{}, fmt.Errorf("%s names an entity type that is not one of types", p.UID)
	}
	return types.NewEntityUID(types.EntityType(typ.Str()), types.String(id.Str())), nil
}

func (d *document) field(name string) string {
	switch name {
	case "agent_id":
		return d.call.AgentID
	case "session_id":
		return d.call.SessionID
	case "tool_id":
		return d.call.ToolID
	case "operation":
		return d.call.Operation
	case "key_id":
		return d.call.KeyID
	case "key_name":
		return d.call.KeyName
	}
	return ""
}

// contextOf is Cedar's context: the whole call, or the object that context_from points to.
func (c *config) contextOf(d *document) (types.Record, error) {
	s := values{omitNulls: c.Nulls == omit}
	if c.ContextFrom == "" {
		return c.callRecord(d, s)
	}
	v := d.at(c.ContextFrom)
	if v.Kind() != exact.Object {
		return types.Record{}, fmt.Errorf("no object at %s", c.ContextFrom)
	}
	if c.ContextValues == cedarJSON {
		var r types.Record
		if err := r.UnmarshalJSON([]byte(v.Raw())); err != nil {
			return r, errors.New("not in Cedar's JSON form") // the parser's own words quote values
		}
		return r, nil
	}
	at := c.decimals
	for _, step := range steps(c.ContextFrom) {
		at = at.at(step)
	}
	return s.record(v, at)
}

func (c *config) callRecord(d *document, s values) (types.Record, error) {
	args, err := s.record(d.args.Root(), c.decimals.at("args"))
	if err != nil {
		return args, fmt.Errorf("args: %w", err)
	}
	context, err := s.record(d.context.Root(), c.decimals.at("context"))
	if err != nil {
		return context, fmt.Errorf("context: %w", err)
	}
	m := types.RecordMap{"args": args, "context": context}
	for _, f := range fields {
		m[types.String(f)] = types.String(d.field(f))
	}
	if !d.call.Time.IsZero() {
		m["time"] = types.NewDatetime(d.call.Time)
	}
	return types.NewRecord(m), nil
}
