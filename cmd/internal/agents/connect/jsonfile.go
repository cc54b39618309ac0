package connect

import (
	"bytes"
	"slices"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/jsontext"
)

// jsonFile edits a JSON file with hooks, or with settings only.
type jsonFile struct {
	agent    hook.Agent
	dialect  jsontext.Dialect
	events   []event
	entries  map[string]jsontext.Fields // by event
	settings []setting
	offs     []off
	servers  *jsonServers // MCP servers; nil: none are looked at
}

// root reads a text of which the value is an object, or that holds no value.
func (j *jsonFile) root(text []byte) (*jsontext.Doc, error) {
	d, err := jsontext.Parse(text, j.dialect)
	if err != nil {
		return nil, err
	}
	if d.Root != nil && d.Root.Kind != jsontext.Object {
		return nil, d.ErrorAt(d.Root.Start, "expected an object, got %s", d.Root.Kind)
	}
	return d, nil
}

func (j *jsonFile) put(text []byte) (out []byte, notes []string, err error) {
	d, err := j.root(text)
	if err != nil {
		return nil, nil, err
	}
	if err := j.switchedOff(d); err != nil {
		return nil, nil, err
	}
	if d.Root == nil {
		fresh := j.fresh()
		if len(fresh) == 0 {
			return text, nil, nil
		}
		return d.Start(fresh), nil, nil
	}
	out = text
	for _, s := range j.settings {
		var note string
		if out, note, err = j.set(out, s); err != nil {
			return nil, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	for {
		next, err := j.step(out)
		if err != nil || bytes.Equal(next, out) {
			return out, notes, err
		}
		out = next
	}
}

// fresh is the value of a new file.
func (j *jsonFile) fresh() jsontext.Fields {
	var all jsontext.Fields
	for _, s := range j.settings {
		all = append(all, jsontext.Field{Name: s.path[0], Value: nested(s.path[1:], s.value)})
	}
	if len(j.events) > 0 {
		all = append(all, jsontext.Field{Name: "hooks", Value: j.hooks()})
	}
	if s := j.servers; s != nil && len(s.names) > 0 {
		all = append(all, jsontext.Field{Name: s.members[0], Value: nested(s.members[1:], s.value(j.agent))})
	}
	return all
}

// hooks is the value of "hooks" where there was none.
func (j *jsonFile) hooks() jsontext.Fields {
	var hooks jsontext.Fields
	for _, e := range j.events {
		hooks = append(hooks, jsontext.Field{Name: e.name, Value: jsontext.List{j.entries[e.name]}})
	}
	return hooks
}

func nested(path []string, value any) any {
	for _, name := range slices.Backward(path) {
		value = jsontext.Fields{{Name: name, Value: value}}
	}
	return value
}

// switchedOff is an error if a setting in the file switches hooks off.
func (j *jsonFile) switchedOff(d *jsontext.Doc) error {
	for _, o := range j.offs {
		n, err := d.Get(o.path...)
		if err != nil {
			return err
		}
		if n == nil {
			continue
		}
		found := string(d.Compact(n)) == o.value
		for i := range n.Len() {
			found = found || n.Kind == jsontext.Array && string(d.Compact(n.At(i))) == o.value
		}
		if found {
			return d.ErrorAt(n.Start, "%s switches Yett's hooks off: take that out first", strings.Join(o.path, "."))
		}
	}
	return nil
}

// set writes one setting that is missing.
func (j *jsonFile) set(text []byte, s setting) (out []byte, note string, err error) {
	d, err := j.root(text)
	if err != nil {
		return nil, "", err
	}
	parent := d.Root
	for i := range s.path {
		n, err := d.Get(s.path[:i+1]...)
		if err != nil {
			return nil, "", err
		}
		if n == nil {
			if parent.Kind != jsontext.Object {
				return nil, "", d.ErrorAt(parent.Start, "expected an object, got %s", parent.Kind)
			}
			return d.Add(parent, s.path[i], nested(s.path[i+1:], s.value)), "", nil
		}
		parent = n
	}
	if bytes.Equal(d.Compact(parent), jsontext.CompactOf(s.value)) {
		return text, "", nil
	}
	if s.note {
		return text, s.other, nil
	}
	return nil, "", d.ErrorAt(parent.Start, "%s", s.other)
}

// step makes one change that brings the hooks closer to what they must be, or none.
func (j *jsonFile) step(text []byte) ([]byte, error) {
	d, err := j.root(text)
	if err != nil {
		return nil, err
	}
	if j.servers != nil {
		if next, err := j.servers.step(j.agent, d); err != nil || next != nil {
			return next, err
		}
	}
	hooks, err := d.Get("hooks")
	if err != nil || len(j.events) == 0 && (hooks == nil || j.servers != nil) {
		return text, err
	}
	if hooks == nil {
		return d.Add(d.Root, "hooks", j.hooks()), nil
	}
	if hooks.Kind != jsontext.Object {
		return nil, d.ErrorAt(hooks.Start, "hooks: expected an object, got %s", hooks.Kind)
	}
	for _, e := range j.events {
		next, err := j.stepEvent(d, hooks, e)
		if err != nil || next != nil {
			return next, err
		}
	}
	for i := range hooks.Len() { // an event that no longer gets a hook
		name := hooks.Name(i)
		if slices.ContainsFunc(j.events, func(e event) bool { return e.name == name }) {
			continue
		}
		if next := j.removeOne(d, hooks.At(i), -1); next != nil {
			return next, nil
		}
	}
	return text, nil
}

// stepEvent makes one change within an event, nil if it is as it must be.
func (j *jsonFile) stepEvent(d *jsontext.Doc, hooks *jsontext.Node, e event) ([]byte, error) {
	list, err := d.Get("hooks", e.name)
	want := j.entries[e.name]
	if err != nil {
		return nil, err
	}
	if list == nil {
		return d.Add(hooks, e.name, jsontext.List{want}), nil
	}
	if list.Kind != jsontext.Array {
		return nil, d.ErrorAt(list.Start, "hooks.%s: expected an array, got %s", e.name, list.Kind)
	}
	keep := -1
	for i := range list.Len() {
		if mine, all := j.isOurs(d, list.At(i)); mine && all {
			keep = i
			break
		}
	}
	if next := j.removeOne(d, list, keep); next != nil {
		return next, nil
	}
	if keep < 0 {
		return d.Append(list, want), nil
	}
	if n := list.At(keep); !bytes.Equal(d.Compact(n), jsontext.CompactOf(want)) {
		return d.Replace(n, want), nil
	}
	return nil, nil
}

// removeOne takes one entry of ours out of an event's array, but not the one at keep. It gives nil if no entry is.
func (j *jsonFile) removeOne(d *jsontext.Doc, list *jsontext.Node, keep int) []byte {
	if list.Kind != jsontext.Array {
		return nil
	}
	for i := range list.Len() {
		mine, all := j.isOurs(d, list.At(i))
		switch {
		case !mine || i == keep:
		case all:
			return d.Remove(list, i)
		default: // somebody put it into a group of theirs
			handlers := list.At(i).At(list.At(i).Find("hooks"))
			for k := range handlers.Len() {
				if j.isHandler(d, handlers.At(k)) {
					return d.Remove(handlers, k)
				}
			}
		}
	}
	return nil
}

// isOurs says whether an element of an event's array has a handler of ours, and whether it has no other.
func (j *jsonFile) isOurs(d *jsontext.Doc, n *jsontext.Node) (mine, all bool) {
	if !grouped(j.agent) {
		mine = j.isHandler(d, n)
		return mine, mine
	}
	if n.Kind != jsontext.Object || n.Find("hooks") < 0 || n.At(n.Find("hooks")).Kind != jsontext.Array {
		return false, false
	}
	handlers := n.At(n.Find("hooks"))
	all = true
	for i := range handlers.Len() {
		if j.isHandler(d, handlers.At(i)) {
			mine = true
		} else {
			all = false
		}
	}
	return mine, mine && all
}

func (j *jsonFile) isHandler(d *jsontext.Doc, n *jsontext.Node) bool {
	if n.Kind != jsontext.Object {
		return false
	}
	return slices.ContainsFunc(lineMembers, func(name string) bool {
		i := n.Find(name)
		return i >= 0 && ours(j.agent, d.Str(n.At(i)))
	})
}
