package guardrails

import "github.com/yett-dev/yett/sdk/exact"

// readable are the kinds of parts of a message that hold text alone. Any other part may be an image, a sound or a file.
var readable = map[string]bool{"text": true, "input_text": true, "output_text": true, "refusal": true, "thinking": true,
	"redacted_thinking": true, "reasoning": true, "summary_text": true, "tool_use": true, "tool_result": true,
	"function_call": true, "function_call_output": true, "message": true}

// opaque are members that hold files in messages without types.
var opaque = map[string]bool{"inlineData": true, "inline_data": true, "fileData": true, "file_data": true}

// parts calls other for each part of a message that is not text: an object in a list of parts whose type is not
// readable, a sound or a file. It does not look into these. visit is called for every other string, names of members
// included.
func parts(v exact.Value, inContent bool, other func(kind string), visit func(s string)) {
	switch v.Kind() {
	case exact.String:
		visit(v.Str())
	case exact.Array:
		for e := range v.Elements() {
			parts(e, inContent, other, visit)
		}
	case exact.Object:
		if t := v.Get("type"); inContent && t.Exists() && !readable[t.Str()] {
			other(t.Str())
			return
		}
		for name, m := range v.Members() {
			visit(name)
			if opaque[name] || name == "audio" && m.Get("data").Exists() {
				other(name)
				continue
			}
			parts(m, name == "content" || name == "parts" || name == "output" || name == "images", other, visit)
		}
	}
}

// unscannable refuses a part that no scanner can look at, unless the configuration lets it pass.
func (a *asked) unscannable(kinds []string) error {
	if len(kinds) == 0 || !a.door.blocksUnscanned {
		return nil
	}
	return &denied{code: "UNSCANNABLE", why: "no scanner can look at a part of type " + name(kinds[0]) +
		" (doors." + a.door.name + ".unscanned)"}
}

// name is a kind as a refusal shows it: what is long or unseen does not get into a text for people.
func name(kind string) string {
	if len(kind) > 64 {
		kind = "?"
	}
	for _, c := range []byte(kind) {
		if c < 0x21 || c > 0x7e {
			return "?"
		}
	}
	return or(kind, "?")
}

// leaves gathers strings that a contract has no place to change: ids, roles, names of members.
type leaves struct {
	seen  map[string]bool
	texts []string
	kinds []string // of parts that no scanner can look at
}

// mark says that a string is scanned on its own.
func (l *leaves) mark(texts ...string) {
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	for _, s := range texts {
		l.seen[s] = true
	}
}

// add takes the strings of v that were not seen yet.
func (l *leaves) add(v exact.Value) {
	parts(v, false, func(kind string) { l.kinds = append(l.kinds, kind) }, l.one)
}

func (l *leaves) one(s string) {
	if !l.seen[s] {
		l.mark(s)
		l.texts = append(l.texts, s)
	}
}

// json is one list of them.
func (l *leaves) json() []byte {
	raw := []byte{'['}
	for i, s := range l.texts {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = exact.AppendString(raw, s)
	}
	return append(raw, ']')
}
