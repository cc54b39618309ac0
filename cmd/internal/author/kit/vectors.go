package kit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/sdk"
)

// Bounds on vectors.
const (
	maxVectorsFile = 16 << 20 // bytes
	maxVectors     = 10_000   // in one file
	maxText        = 64 << 20 // bytes of one text
)

// Outcomes that a vector may want instead of findings.
const (
	WantRefused = "refused" // the module, or its schema, does not take the configuration
	WantStatus  = "status"  // the scan, or the check, answers with a status other than ok
)

// Vectors is one file of vectors: inputs and what a module makes of them.
type Vectors struct {
	File   string
	Config json.RawMessage // for every vector without one of its own; nil: the file has none
	List   []Vector
}

// Vector is one input and what is wanted. It is about a scan (Text, Findings), about a check (Call, Decision), or about
// an Error of either.
type Vector struct {
	Name     string
	Line     int
	Config   json.RawMessage // the file's when the vector has none of its own; nil is {}
	Text     string
	Findings []Finding
	Call     json.RawMessage // nil: the vector is about a scan
	Decision *Decision
	Error    string // "", WantRefused or WantStatus
}

// Finding is a wanted finding. What is nil may be anything.
type Finding struct {
	Kind        string
	Start, End  int // bytes
	Confidence  *float64
	Severity    *sdk.Severity
	Action      *sdk.Action
	Replacement *string
}

// Decision is a wanted decision. What is nil may be anything.
type Decision struct {
	Effect sdk.Effect
	Code   *string
	Reason *string
	TTLms  *int
}

// VectorError is a mistake in a file of vectors.
type VectorError struct {
	File   string
	Line   int
	Reason string
}

func (e *VectorError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// FindVectors lists the vectors beside a module or in a project: testdata/*.yaml below dir, sorted.
func FindVectors(dir string) ([]string, error) {
	var out []string
	for _, pattern := range []string{"*.yaml", "*.yml"} {
		files, err := filepath.Glob(filepath.Join(globSafe(dir), "testdata", pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	slices.Sort(out)
	return out, nil
}

// globSafe keeps the characters of a folder's name from being taken for a pattern.
func globSafe(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// ReadVectors reads one file. A mistake is a *VectorError: nothing of a file with one is run.
func ReadVectors(path string) (*Vectors, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxVectorsFile+1))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return ParseVectors(path, data)
}

// ParseVectors reads the text of a file; file is its name in messages.
func ParseVectors(file string, data []byte) (*Vectors, error) {
	r := &vectorReader{file: file}
	if len(data) > maxVectorsFile {
		return nil, r.fail(&yaml.Node{Line: 1}, "the file has more than %d bytes", maxVectorsFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, r.syntax(err)
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return nil, r.fail(&doc, "the file has more than one document")
	}
	v := &Vectors{File: file}
	var list *yaml.Node
	err := r.members(doc.Content[0], map[string]func(*yaml.Node) error{
		"config":  func(n *yaml.Node) (err error) { v.Config, err = r.object(n); return },
		"vectors": func(n *yaml.Node) error { list = n; return nil },
	})
	if err != nil {
		return nil, err
	}
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return nil, r.fail(&doc, "vectors: want a list with at least one vector")
	}
	if len(list.Content) > maxVectors {
		return nil, r.fail(list, "vectors: %d of them, at most %d are allowed", len(list.Content), maxVectors)
	}
	names := map[string]int{}
	for _, n := range list.Content {
		one := Vector{Line: n.Line, Config: v.Config}
		if err := r.vector(n, &one); err != nil {
			return nil, err
		}
		if first := names[one.Name]; first != 0 {
			return nil, r.fail(n, "name: %q is the name of the vector in line %d too", one.Name, first)
		}
		names[one.Name] = n.Line
		v.List = append(v.List, one)
	}
	return v, nil
}

func (r *vectorReader) vector(n *yaml.Node, v *Vector) error {
	given := map[string]bool{}
	note := func(key string, read func(*yaml.Node) error) func(*yaml.Node) error {
		return func(n *yaml.Node) error { given[key] = true; return read(n) }
	}
	var findings *yaml.Node
	err := r.members(n, map[string]func(*yaml.Node) error{
		"name":     func(n *yaml.Node) error { return r.str(n, &v.Name) },
		"config":   func(n *yaml.Node) (err error) { v.Config, err = r.object(n); return },
		"text":     note("text", func(n *yaml.Node) error { return r.str(n, &v.Text) }),
		"base64":   note("base64", func(n *yaml.Node) (err error) { v.Text, err = r.base64(n); return }),
		"repeat":   note("repeat", func(n *yaml.Node) (err error) { v.Text, err = r.repeat(n); return }),
		"call":     note("call", func(n *yaml.Node) (err error) { v.Call, err = r.call(n); return }),
		"findings": note("findings", func(n *yaml.Node) error { findings = n; return nil }),
		"decision": note("decision", func(n *yaml.Node) (err error) { v.Decision, err = r.decision(n); return }),
		"error":    note("error", func(n *yaml.Node) error { return r.word(n, &v.Error, WantRefused, WantStatus) }),
	})
	if err != nil {
		return err
	}
	inputs, outcomes := 0, 0
	for _, key := range []string{"text", "base64", "repeat", "call"} {
		if given[key] {
			inputs++
		}
	}
	for _, key := range []string{"findings", "decision", "error"} {
		if given[key] {
			outcomes++
		}
	}
	switch {
	case v.Name == "":
		return r.fail(n, "name is missing")
	case inputs != 1 && !(inputs == 0 && v.Error == WantRefused):
		return r.fail(n, "%q: want exactly one of text, base64, repeat and call", v.Name)
	case outcomes != 1:
		return r.fail(n, "%q: want exactly one of findings ([] for none), decision and error", v.Name)
	case given["call"] && given["findings"] || !given["call"] && given["decision"]:
		return r.fail(n, "%q: findings are about a text, a decision is about a call", v.Name)
	case findings != nil:
		return r.findings(findings, v)
	}
	return nil
}

func (r *vectorReader) call(n *yaml.Node) (json.RawMessage, error) {
	text, err := r.object(n)
	if err != nil {
		return nil, err
	}
	if _, err := readCall(text); err != nil {
		return nil, r.fail(n, "%v", err)
	}
	return text, nil
}

func (r *vectorReader) base64(n *yaml.Node) (string, error) {
	var s string
	if err := r.str(n, &s); err != nil {
		return "", err
	}
	b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		return "", r.fail(n, "not base64: %v", err)
	}
	return string(b), nil
}

func (r *vectorReader) repeat(n *yaml.Node) (string, error) {
	text, times := "", -1
	err := r.members(n, map[string]func(*yaml.Node) error{
		"text":  func(n *yaml.Node) error { return r.str(n, &text) },
		"times": func(n *yaml.Node) error { return r.number(n, &times) },
	})
	switch {
	case err != nil:
		return "", err
	case times < 0:
		return "", r.fail(n, "repeat: want text and times, 0 or more")
	case len(text) > 0 && times > maxText/len(text):
		return "", r.fail(n, "repeat: %d times %d bytes is more than %d", times, len(text), maxText)
	}
	return strings.Repeat(text, times), nil
}

func (r *vectorReader) findings(list *yaml.Node, v *Vector) error {
	if list.Kind != yaml.SequenceNode {
		return r.fail(list, "findings: want a list")
	}
	for _, n := range list.Content {
		f := Finding{Start: -1, End: -1}
		var text *string
		err := r.members(n, map[string]func(*yaml.Node) error{
			"kind":        func(n *yaml.Node) error { return r.str(n, &f.Kind) },
			"start":       func(n *yaml.Node) error { return r.number(n, &f.Start) },
			"end":         func(n *yaml.Node) error { return r.number(n, &f.End) },
			"text":        func(n *yaml.Node) error { text = new(string); return r.str(n, text) },
			"confidence":  func(n *yaml.Node) (err error) { f.Confidence, err = r.confidence(n); return },
			"severity":    func(n *yaml.Node) (err error) { f.Severity, err = r.severity(n); return },
			"action":      func(n *yaml.Node) (err error) { f.Action, err = r.action(n); return },
			"replacement": func(n *yaml.Node) error { f.Replacement = new(string); return r.str(n, f.Replacement) },
		})
		switch {
		case err != nil:
			return err
		case f.Kind == "":
			return r.fail(n, "kind is missing")
		case f.Start < 0 || f.End <= f.Start || f.End > len(v.Text):
			return r.fail(n, "start %d and end %d: want 0 ≤ start < end ≤ %d, the bytes of the text", f.Start, f.End,
				len(v.Text))
		case text != nil && v.Text[f.Start:f.End] != *text:
			return r.fail(n, "text: bytes %d–%d are %q, not %q", f.Start, f.End, Printable(v.Text[f.Start:f.End], 80),
				Printable(*text, 80))
		}
		v.Findings = append(v.Findings, f)
	}
	return nil
}

func (r *vectorReader) decision(n *yaml.Node) (*Decision, error) {
	var d Decision
	var effect string
	err := r.members(n, map[string]func(*yaml.Node) error{
		"effect": func(n *yaml.Node) error { return r.word(n, &effect, effectNames...) },
		"code":   func(n *yaml.Node) error { d.Code = new(string); return r.str(n, d.Code) },
		"reason": func(n *yaml.Node) error { d.Reason = new(string); return r.str(n, d.Reason) },
		"ttl_ms": func(n *yaml.Node) error { d.TTLms = new(int); return r.number(n, d.TTLms) },
	})
	if err == nil && effect == "" {
		err = r.fail(n, "effect is missing")
	}
	d.Effect = effects[effect]
	return &d, err
}
