package author

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/regular"
)

// labelled is one text and what is known of it.
type labelled struct {
	line     int
	id       string
	text     string
	positive bool
	half     string // "", dev or held
	rule     string // "" when its classes are those of its spans
	entity   string // a negative row with one is negative for this entity only
	source   string
	group    string
	label    string // T, F or "" where the row does not say
	spans    []labelSpan
}

// labelSpan is something that a scanner should find. A span without a place is looked for in the text.
type labelSpan struct {
	entity     string
	value      string
	start, end int // bytes; -1 when the set names the value alone
}

// places are where the span lies: one place, or each occurrence of its value.
func (s labelSpan) places(text string) (out [][2]int) {
	if s.start >= 0 {
		return [][2]int{{s.start, s.end}}
	}
	for at := 0; s.value != "" && at < len(text); {
		i := strings.Index(text[at:], s.value)
		if i < 0 {
			break
		}
		out = append(out, [2]int{at + i, at + i + len(s.value)})
		at += i + 1
	}
	return out
}

// setLineBytes bounds one line of a set.
const setLineBytes = 64 << 20

// readSet reads a labelled set, gzipped or plain. A row that cannot be read fails the whole set: figures over a part of
// it would look like figures over all of it.
func readSet(ctx context.Context, path string) (rows []labelled, err error) {
	f, err := regular.Named(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, setLineBytes)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		row, keep, err := readRow(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if keep {
			row.line = n
			rows = append(rows, row)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has no rows to measure on", path)
	}
	return rows, nil
}

// readRow reads one line. keep is false for a row that its makers could not label.
func readRow(line []byte) (row labelled, keep bool, err error) {
	var in struct {
		ID, Rule, Entity, Source, Label string
		Text                            *string
		Secret, PII, Injection          *bool
		Group                           json.RawMessage
		Half                            string            `json:"group_half"`
		Spans                           []json.RawMessage // strings or objects
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return row, false, err
	}
	if in.Text == nil {
		return row, false, errors.New("the row has no text")
	}
	row = labelled{id: in.ID, text: *in.Text, half: in.Half, entity: in.Entity, rule: cmp.Or(in.Rule, in.Entity),
		source: in.Source, group: nameOf(in.Group), label: in.Label}
	for _, said := range []*bool{in.Secret, in.PII, in.Injection} {
		row.positive = row.positive || said != nil && *said
		if in.Label == "" && said != nil {
			row.label = map[bool]string{false: "F", true: "T"}[row.positive]
		}
	}
	switch in.Label {
	case "", "T", "F":
		if in.Label != "" {
			row.positive = in.Label == "T"
		}
	case "X":
		return row, false, nil
	default:
		return row, false, fmt.Errorf("label %q: want T, F or X", in.Label)
	}
	for _, raw := range in.Spans {
		s, err := readSpan(raw, row.text)
		if err != nil {
			return row, false, err
		}
		row.spans = append(row.spans, s)
	}
	if row.rule == "" && !slices.ContainsFunc(row.spans, func(s labelSpan) bool { return s.entity != "" }) {
		row.rule = in.Source
	}
	return row, true, nil
}

// nameOf gives a group's name: a string, or what else the set writes there as it is.
func nameOf(raw json.RawMessage) (name string) {
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	return string(raw)
}

func readSpan(raw json.RawMessage, text string) (labelSpan, error) {
	s := labelSpan{start: -1}
	if json.Unmarshal(raw, &s.value) == nil {
		return s, nil
	}
	var in struct {
		Entity, Value string
		Start, End    *int
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return s, fmt.Errorf("a span is neither a string nor an object: %w", err)
	}
	s.entity, s.value = in.Entity, in.Value
	if in.Start == nil || in.End == nil {
		if s.value == "" {
			return s, errors.New("a span has neither start and end nor value")
		}
		return s, nil
	}
	start, ok1 := byteOffset(text, *in.Start)
	end, ok2 := byteOffset(text, *in.End)
	if !ok1 || !ok2 || start > end || s.value != "" && text[start:end] != s.value {
		return s, fmt.Errorf("a span from character %d to %d does not fit the text or its value", *in.Start, *in.End)
	}
	s.start, s.end = start, end
	return s, nil
}

// byteOffset turns an offset in characters, as the sets have it, into one in bytes.
func byteOffset(text string, chars int) (int, bool) {
	at := 0
	for ; chars > 0 && at < len(text); chars-- {
		_, n := utf8.DecodeRuneInString(text[at:])
		at += n
	}
	return at, chars == 0
}
