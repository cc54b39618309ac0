package connect

import (
	"bytes"

	"github.com/yett-dev/yett/cmd/internal/agents/jsontext"
)

// made names the members that put would make in this text: settings, "hooks" and its events, parents first.
func (j *jsonFile) made(text []byte) [][]string {
	d, err := j.root(text)
	if err != nil {
		return nil
	}
	var made [][]string
	missing := func(path ...string) {
		if n, err := d.Get(path...); n == nil && err == nil {
			made = append(made, path)
		}
	}
	for _, s := range j.settings {
		for i := range s.path {
			missing(s.path[:i+1]...)
		}
	}
	if len(j.events) > 0 {
		missing("hooks")
	}
	for _, e := range j.events {
		missing("hooks", e.name)
	}
	if s := j.servers; s != nil && len(s.names) > 0 {
		for i := range s.members {
			missing(s.members[:i+1]...)
		}
	}
	return made
}

func (j *jsonFile) take(text []byte, made [][]string) ([]byte, error) {
	for {
		d, err := j.root(text)
		if err != nil {
			return nil, err
		}
		next, err := j.takeOne(d)
		if err != nil {
			return nil, err
		}
		if next == nil {
			break
		}
		text = next
	}
	for i := len(made) - 1; i >= 0; i-- {
		d, err := j.root(text)
		if err != nil {
			return nil, err
		}
		if text, err = j.takeMade(d, made[i]); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// takeOne takes one entry out. It gives nil if no entry is ours.
func (j *jsonFile) takeOne(d *jsontext.Doc) ([]byte, error) {
	if j.servers != nil {
		if next, err := j.servers.takeOne(d); err != nil || next != nil {
			return next, err
		}
	}
	hooks, err := d.Get("hooks")
	if err != nil || hooks == nil || hooks.Kind != jsontext.Object {
		return nil, err
	}
	for i := range hooks.Len() {
		if next := j.removeOne(d, hooks.At(i), -1); next != nil {
			return next, nil
		}
	}
	return nil, nil
}

// takeMade takes a member out that put has made, if it still holds what put wrote, or nothing.
func (j *jsonFile) takeMade(d *jsontext.Doc, path []string) ([]byte, error) {
	parent, err := d.Get(path[:len(path)-1]...)
	if err != nil || parent == nil || parent.Kind != jsontext.Object {
		return d.Text, err
	}
	i := parent.Find(path[len(path)-1])
	if i < 0 {
		return d.Text, nil
	}
	n := parent.At(i)
	same := n.Kind >= jsontext.Array && n.Len() == 0 && !bytes.ContainsRune(d.Raw(n), '/') // else a comment is in it
	for _, s := range j.settings {
		if len(s.path) == len(path) && pathEqual(s.path, path) {
			same = bytes.Equal(d.Compact(n), jsontext.CompactOf(s.value))
		}
	}
	if !same {
		return d.Text, nil
	}
	return d.Remove(parent, i), nil
}

func pathEqual(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// blank says whether nothing but an empty object is left.
func (j *jsonFile) blank(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	return len(bytes.Trim(text, "{} \t\r\n")) == 0
}
