package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
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

// Secret is one value that a plugin is handed in secret.
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

// JSON gives the settings with secrets resolved as one JSON object, members sorted by name; "{}" if there are none.
func (v Values) JSON() []byte { return encode(v.Map()) }

// encode writes what this package builds itself: strings, numbers checked before, and lists and maps of them.
func encode(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("config: " + err.Error())
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
			c, err := mapStrings(e, join(key, name), f)
			out[name], all = c, errors.Join(all, err)
		}
		return out, all
	}
	return v, nil
}

// maxSecret is the largest file with a secret, in bytes.
const maxSecret = 64 << 10

// resolve looks up every reference in v. What is found appears in no message.
func (l *loader) resolve(v *Values, key string) {
	out, _ := mapStrings(v.written, key, func(at, s string) (string, error) {
		secret := func(value string) { v.secrets = append(v.secrets, Secret{at, value}) }
		text, err := l.expand(s, l.report.at(at), secret)
		if err != nil {
			l.report.errorf(at, "%s", err)
		}
		if inClear(at, s) {
			secret(s)
		}
		return text, nil
	})
	v.resolved, _ = out.(map[string]any)
}

// expand replaces ${file:…} and ${env:…} in s, once: what they give is not looked at again, and told to secret.
// "$${" stands for "${".
func (l *loader) expand(s string, pos Pos, secret func(value string)) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		ref, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok {
			return "", errors.New("a reference begins with ${ and has no }; write $${ if the text is meant")
		}
		value, err := l.lookup(ref, pos)
		if err != nil {
			return "", err
		}
		secret(value)
		b.WriteString(s[:i] + value)
		s = rest
	}
}

func (l *loader) lookup(ref string, pos Pos) (string, error) {
	kind, name, _ := strings.Cut(ref, ":")
	if name == "" || kind != "file" && kind != "env" {
		return "", errors.New("wants ${file:path} or ${env:NAME}; write $${ if the text is meant")
	}
	var value string
	if kind == "env" {
		l.envRead[name] = true
		for _, v := range l.src.Env {
			if n, x, _ := strings.Cut(v, "="); n == name {
				value = x
			}
		}
	} else {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.dirs[pos.File], path)
		}
		text, err := l.secretText(path)
		if err != nil {
			return "", err
		}
		value = text
	}
	switch {
	case value == "":
		return "", fmt.Errorf("${%s} is empty or not set", ref)
	case !utf8.ValidString(value):
		return "", fmt.Errorf("${%s} is not UTF-8 text", ref)
	}
	return value, nil
}

// secretText is the content of a file without the end of its last line.
func (l *loader) secretText(path string) (string, error) {
	data, err := l.read(path, maxSecret)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

var secretName = regexp.MustCompile(`(?i)(^|[_.-])(secret|token|password|passwd|passphrase|credentials?|api_?key|private_?key)$`)

// inClear says whether a setting looks like a secret that is written out rather than referred to.
func inClear(key, value string) bool {
	return secretName.MatchString(key[strings.LastIndexByte(key, '.')+1:]) && !strings.Contains(value, "${")
}

// masked replaces the text of secrets that are written out.
func (v Values) masked(key string) any {
	out, _ := mapStrings(v.written, key, func(at, s string) (string, error) {
		if inClear(at, s) {
			return "***", nil
		}
		return s, nil
	})
	return out
}
