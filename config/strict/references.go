package strict

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// maxSecret is the largest file with a secret, in bytes.
const maxSecret = 64 << 10

// Resolve looks up every reference in v. What is found appears in no message.
func (l *Loader) Resolve(v *Values, key string) {
	out, _ := mapStrings(v.written, key, func(at, s string) (string, error) {
		secret := func(value string) { v.secrets = append(v.secrets, Secret{at, value}) }
		text, err := l.expand(s, l.Report.Origins.At(at), secret)
		if err != nil {
			l.Report.Errorf(at, "%s", err)
		}
		if InClear(at, s) {
			secret(s)
		}
		return text, nil
	})
	v.resolved, _ = out.(map[string]any)
}

// expand replaces ${file:…} and ${env:…} in s, once: what they give is not looked at again, and told to secret.
// "$${" stands for "${".
func (l *Loader) expand(s string, pos Pos, secret func(value string)) (string, error) {
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
		value, err := l.Lookup(ref, pos)
		if err != nil {
			return "", err
		}
		secret(value)
		b.WriteString(s[:i] + value)
		s = rest
	}
}

// Lookup gives what a reference, file:path or env:NAME, leads to. A relative path begins where the layer of pos lies.
func (l *Loader) Lookup(ref string, pos Pos) (string, error) {
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
		text, err := l.SecretText(path)
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

// SecretText is the content of a file without the end of its last line.
func (l *Loader) SecretText(path string) (string, error) {
	data, err := l.Read(path, maxSecret)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}
