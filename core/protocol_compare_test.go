package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// check compares an answer with what is wanted of it.
func (p *play) check(got any, code string, want *vectorWant) error {
	var bad []error
	if code != want.Code {
		bad = append(bad, fmt.Errorf("code %q, want %q", code, want.Code))
	}
	bad = append(bad, p.within(got, want.Body, ""))
	for _, path := range want.Has {
		if at(got, path) == errAbsent {
			bad = append(bad, fmt.Errorf("there is no %s", path))
		}
	}
	for _, path := range want.Lacks {
		if at(got, path) != errAbsent {
			bad = append(bad, fmt.Errorf("there is a %s", path))
		}
	}
	for path, pattern := range want.Match {
		v := at(got, path)
		if v == errAbsent || v == nil && pattern != "null" {
			bad = append(bad, fmt.Errorf("%s is %v, want %s", path, v, pattern))
			continue
		}
		text := fmt.Sprint(v)
		if v == nil {
			text = "null"
		}
		if ok, err := regexp.MatchString("^(?:"+p.fill(pattern)+")$", text); !ok || err != nil {
			bad = append(bad, fmt.Errorf("%s is %q, want %s (%v)", path, text, pattern, err))
		}
	}
	recorded := member(got, "record_id") != nil || member(got, "event_type") != nil
	if effect, ok := member(got, "effect").(string); ok && !recorded && code == "" && effect != "PERMIT" &&
		effect != "DENY" && effect != "DEFER" {
		bad = append(bad, fmt.Errorf("effect %q", effect))
	}
	return errors.Join(bad...)
}

// within checks that got has everything that want has: members of objects, all elements of arrays, equal leaves.
func (p *play) within(got, want any, path string) error {
	switch w := want.(type) {
	case map[string]any:
		if w == nil {
			return nil
		}
		var bad []error
		for name, v := range w {
			bad = append(bad, p.within(member(got, name), v, path+"."+name))
		}
		if _, ok := got.(map[string]any); !ok {
			bad = append(bad, fmt.Errorf("%s is no object", path))
		}
		return errors.Join(bad...)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Errorf("%s is %v, want %d elements", path, got, len(w))
		}
		var bad []error
		for i := range w {
			bad = append(bad, p.within(g[i], w[i], fmt.Sprintf("%s.%d", path, i)))
		}
		return errors.Join(bad...)
	case string:
		want = p.fill(w)
	}
	if got != want {
		return fmt.Errorf("%s is %v, want %v", path, got, want)
	}
	return nil
}

func (p *play) save(st *vectorStep, got any) error {
	for name, path := range st.Save {
		v := at(got, path)
		if v == errAbsent {
			return fmt.Errorf("there is no %s to save", path)
		}
		p.vars[name] = fmt.Sprint(v)
	}
	return nil
}

// decoded reads JSON with its numbers as they are written.
func decoded(text string) (v any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one JSON value")
	}
	return v, nil
}

// errAbsent stands for what is not there, as nil does for null.
var errAbsent any = errors.New("missing")

// at follows a path of member names and indices.
func at(v any, path string) any {
	for _, name := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = in[name]; !ok {
				return errAbsent
			}
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return errAbsent
			}
			v = in[i]
		default:
			return errAbsent
		}
	}
	return v
}

// member is a member of an object, nil if there is none.
func member(v any, name string) any {
	m, _ := v.(map[string]any)
	return m[name]
}
