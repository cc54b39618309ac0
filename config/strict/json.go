package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// jsonTree builds the same tree from JSON as YAML gives, with the place of every node. JSON is not read as YAML: the
// two disagree about tabs and about characters outside the basic plane.
type jsonTree struct {
	r    *Report
	path string
	data []byte
	dec  *json.Decoder
}

func parseJSON(r *Report, path string, data []byte) *yaml.Node {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		pos := Pos{File: path}
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			pos.Line, pos.Column = lineCol(data, min(len(data), max(0, int(syntax.Offset)-1)))
		}
		r.Add(pos, "", "is not JSON: %s", jsonSlip(err.Error()))
		return nil
	}
	t := &jsonTree{r: r, path: path, data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	t.dec.UseNumber()
	n, err := t.value()
	if err != nil {
		r.Add(Pos{File: path}, "", "is not JSON: %s", err)
		return nil
	}
	return n
}

func (t *jsonTree) value() (*yaml.Node, error) {
	at := int(t.dec.InputOffset())
	for at < len(t.data) && strings.IndexByte(" \t\r\n,:", t.data[at]) >= 0 {
		at++
	}
	line, col := lineCol(t.data, at)
	tok, err := t.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: line, Column: col}
	switch v := tok.(type) {
	case nil:
		n.Tag = "!!null"
	case bool:
		n.Tag, n.Value = "!!bool", map[bool]string{true: "true", false: "false"}[v]
	case json.Number:
		n.Tag, n.Value = "!!int", v.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case string:
		n.Tag, n.Value, n.Style = "!!str", v, yaml.DoubleQuotedStyle
		if strings.ContainsRune(v, '\uFFFD') {
			t.r.Add(Pos{t.path, line, col}, "", "has a character that cannot be read (half of a surrogate pair, or U+FFFD)")
		}
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for t.dec.More() {
			c, err := t.value()
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, c)
		}
		_, err = t.dec.Token()
	}
	return n, err
}
