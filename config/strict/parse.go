package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// layer is one source of settings as a tree that still knows the place of every node.
type layer struct {
	label  string // a file's name, "env NAME" or "flag NAME"
	dir    string // what relative paths in it are relative to
	isFile bool   // two files may not define one list
	lines  bool   // its nodes have lines and columns
	root   *yaml.Node
}

func (l *layer) pos(n *yaml.Node) Pos {
	if !l.lines {
		return Pos{File: l.label}
	}
	return Pos{File: l.label, Line: n.Line, Column: n.Column}
}

// parseFile reads the text of a file; ext, the ending of its name, says how it is written. It gives one layer, or none
// when r got a problem.
func parseFile(r *Report, path, ext string, data []byte) *layer {
	l := &layer{label: path, dir: filepath.Dir(path), isFile: true, lines: true}
	if i := firstInvalid(data); i >= 0 {
		line, col := lineCol(data, i)
		r.Add(Pos{path, line, col}, "", "is not UTF-8 text")
		return nil
	}
	switch ext {
	case ".yaml", ".yml":
		l.root = parseYAML(r, path, data)
	case ".json":
		l.root = parseJSON(r, path, data)
	case ".toml":
		r.Add(Pos{File: path}, "", "TOML is not read by this version; write YAML (.yaml) or JSON (.json)")
	default:
		r.Add(Pos{File: path}, "", "the name must end in .yaml, .yml or .json")
	}
	if l.root == nil {
		return nil
	}
	return l
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// parserError matches what the YAML library's parser says, in contrast to its scanner: it counts lines from 0.
var parserError = regexp.MustCompile(`^did not find expected (<|node|'|key)`)

// yamlError takes the library's message apart. It knows no columns, and leaves the first line out.
func yamlError(err error) (line int, msg string) {
	msg = strings.TrimPrefix(err.Error(), "yaml: ")
	m := yamlLine.FindStringSubmatch(msg)
	if m == nil {
		return 1, msg
	}
	line, _ = strconv.Atoi(m[1])
	if parserError.MatchString(m[2]) {
		line++
	}
	return line, m[2]
}

// parseYAML reads exactly one document.
func parseYAML(r *Report, label string, data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		r.Add(Pos{File: label}, "", "is empty")
		return nil
	}
	if err == nil {
		switch err2 := dec.Decode(&more); {
		case err2 == nil:
			r.Add(Pos{label, more.Line, more.Column}, "", "a second document begins here; write one only")
			return nil
		case !errors.Is(err2, io.EOF):
			err = err2
		}
	}
	if err != nil {
		line, msg := yamlError(err)
		line, column, msg := yamlSlip(data, line, msg)
		r.Add(Pos{File: label, Line: line, Column: column}, "", "is not YAML: %s", msg)
		return nil
	}
	return doc.Content[0]
}

// parseEnv makes one layer of each variable that begins with prefix, in the order of their names.
func parseEnv(r *Report, prefix string, env []string) []*layer {
	var out []*layer
	seen := map[string]string{}
	vars := append([]string(nil), env...)
	sort.Strings(vars)
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		pos := Pos{File: "env " + name}
		path := strings.Split(strings.TrimPrefix(name, prefix), "__")
		for i, p := range path {
			// Shells like capitals; keys are lower case. Mixed case stays and is then an unknown key.
			if p == strings.ToUpper(p) {
				path[i] = strings.ToLower(p)
			}
		}
		key := strings.Join(path, ".")
		switch before, twice := seen[key]; {
		case slices.Contains(path, ""):
			r.Add(pos, "", "has an empty part; write %sSECTION__KEY", prefix)
			continue
		case twice:
			r.Add(pos, key, "is set by %s already", before)
			continue
		case !utf8.ValidString(value):
			r.Add(pos, key, "is not UTF-8 text")
			continue
		}
		seen[key] = name
		root := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
		if strings.TrimSpace(value) != "" {
			root = parseYAML(r, pos.File, []byte(value))
		}
		if root != nil {
			out = append(out, &layer{label: pos.File, root: nest(path, root)})
		}
	}
	return out
}

// nest wraps a node into sections by the names in path.
func nest(path []string, n *yaml.Node) *yaml.Node {
	for i := len(path) - 1; i >= 0; i-- {
		k := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: path[i]}
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{k, n}}
	}
	return n
}

// parseFlags makes one layer of each flag. A name with dots nests.
func parseFlags(r *Report, flags map[string]any) []*layer {
	var out []*layer
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		n, err := nodeOf(flags[name])
		if err != nil {
			r.Add(Pos{File: "flag " + name}, name, "%s", err)
			continue
		}
		out = append(out, &layer{label: "flag " + name, root: nest(strings.Split(name, "."), n)})
	}
	return out
}

// nodeOf turns a Go value into a tree.
func nodeOf(v any) (*yaml.Node, error) {
	scalar := func(tag, s string) (*yaml.Node, error) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: s, Style: yaml.DoubleQuotedStyle}, nil
	}
	rv := reflect.ValueOf(v)
	switch {
	case v == nil:
		return scalar("!!null", "")
	case rv.Type() == reflect.TypeFor[time.Duration]():
		return scalar("!!str", Duration(rv.Int()).String())
	case rv.Type() == durationType || rv.Type() == sizeType:
		return scalar("!!str", fmt.Sprint(v))
	}
	switch rv.Kind() {
	case reflect.String:
		return scalar("!!str", rv.String())
	case reflect.Bool:
		return scalar("!!bool", strconv.FormatBool(rv.Bool()))
	case reflect.Int, reflect.Int64, reflect.Int32:
		return scalar("!!int", strconv.FormatInt(rv.Int(), 10))
	case reflect.Float64:
		return scalar("!!float", strconv.FormatFloat(rv.Float(), 'f', -1, 64))
	case reflect.Slice:
		return seqOf(rv)
	case reflect.Map:
		return mapOf(rv)
	}
	return nil, fmt.Errorf("a value of type %s cannot be a setting", rv.Type())
}

func seqOf(rv reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for i := range rv.Len() {
		c, err := nodeOf(rv.Index(i).Interface())
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, c)
	}
	return n, nil
}

func mapOf(rv reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	keys := rv.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	for _, k := range keys {
		if k.Kind() != reflect.String {
			return nil, fmt.Errorf("a map with keys of type %s cannot be a setting", k.Type())
		}
		c, err := nodeOf(rv.MapIndex(k).Interface())
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: k.String()}, c)
	}
	return n, nil
}

// firstInvalid gives the offset of the first byte that is not UTF-8, or -1.
func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

func lineCol(data []byte, offset int) (line, col int) {
	before := data[:offset]
	return 1 + bytes.Count(before, []byte("\n")), offset - bytes.LastIndexByte(before, '\n')
}
