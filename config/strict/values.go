package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Path is the path of a file or directory. A relative one is relative to the directory of the file that it is written
// in; in the environment and in flags, to the working directory.
type Path string

// Values are free settings: whatever JSON can say, numbers kept as written. Secrets that they refer to are in Map and
// JSON only; printing Values prints none. Values are immutable and safe for concurrent use.
type Values struct {
	written  map[string]any // with references
	resolved map[string]any // with what they refer to
	secrets  []Secret       // those among them
}

// Secret is one value that must be shown nowhere, and the key of the setting that holds it.
type Secret struct{ Key, Value string }

// String prints no secret.
func (s Secret) String() string { return "(secret of " + s.Key + ")" }

// GoString prints no secret either.
func (s Secret) GoString() string { return s.String() }

// Map gives a copy with secrets resolved: string, bool, json.Number, []any and map[string]any. It is never nil.
func (v Values) Map() map[string]any {
	if v.resolved == nil {
		return map[string]any{}
	}
	out, _ := mapStrings(v.resolved, "", func(_, s string) (string, error) { return s, nil })
	return out.(map[string]any)
}

// All gives the settings of the first level as they were written, by name.
func (v Values) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, name := range slices.Sorted(maps.Keys(v.written)) {
			if !yield(name, v.written[name]) {
				return
			}
		}
	}
}

// Secrets lists what the settings refer to, and those that look like a secret.
func (v Values) Secrets() []Secret { return slices.Clone(v.secrets) }

// InClear lists the keys of settings that look like a secret that is written out; key is that of the whole.
func (v Values) InClear(key string) (keys []string) {
	_, _ = mapStrings(v.written, key, func(at, s string) (string, error) {
		if InClear(at, s) {
			keys = append(keys, at)
		}
		return s, nil
	})
	return keys
}

// JSON gives the settings with secrets resolved as one JSON object, members sorted by name; "{}" if there are none.
func (v Values) JSON() []byte { return encode(v.Map()) }

// encode writes what this package builds itself: strings, numbers checked before, and lists and maps of them.
func encode(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("strict: " + err.Error())
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// String prints no setting, since some may be secret.
func (v Values) String() string { return fmt.Sprintf("(%d settings)", len(v.written)) }

// GoString prints no setting either.
func (v Values) GoString() string { return v.String() }

// mapStrings copies a tree and puts every string through f, which is told the string's key.
func mapStrings(v any, key string, f func(key, s string) (string, error)) (any, error) {
	var all error
	switch x := v.(type) {
	case string:
		return f(key, x)
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			c, err := mapStrings(e, fmt.Sprintf("%s[%d]", key, i), f)
			out[i], all = c, errors.Join(all, err)
		}
		return out, all
	case map[string]any:
		out := make(map[string]any, len(x))
		for name, e := range x {
			c, err := mapStrings(e, Join(key, name), f)
			out[name], all = c, errors.Join(all, err)
		}
		return out, all
	}
	return v, nil
}

var secretName = regexp.MustCompile(`(?i)(^|[_.-])(secret|token|password|passwd|passphrase|credentials?|api_?key|private_?key)$`)

// SecretName says whether what has that name is a secret.
func SecretName(name string) bool { return secretName.MatchString(name) }

// InClear says whether a setting looks like a secret that is written out rather than referred to.
func InClear(key, value string) bool {
	return SecretName(key[strings.LastIndexByte(key, '.')+1:]) && !strings.Contains(value, "${")
}

// masked replaces the text of secrets that are written out.
func (v Values) masked(key string) any {
	out, _ := mapStrings(v.written, key, func(at, s string) (string, error) {
		if InClear(at, s) {
			return "***", nil
		}
		return s, nil
	})
	return out
}
