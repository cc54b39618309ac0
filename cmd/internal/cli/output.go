package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// OutputFormats are what -o takes. Every command that prints data takes all of them.
var OutputFormats = []string{"table", "json", "jsonl", "yaml"}

// Output is the -o flag: how a command prints data.
type Output struct{ Format string }

// Bind adds -o to a command, and refuses an unknown format before the command does anything.
func (o *Output) Bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.Format, "output", "o", "table", "output format: table, json, jsonl or yaml")
	run := cmd.RunE
	if run == nil {
		return // a command that gets its RunE later checks for itself
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.Check(); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

func (o *Output) Check() error {
	if !slices.Contains(OutputFormats, o.Format) {
		return Usage("-o %s: must be one of %s", o.Format, strings.Join(OutputFormats, ", "))
	}
	return nil
}

// Table reports whether a person reads what is printed.
func (o *Output) Table() bool { return o.Format == "table" }

// PrintOr writes one thing: as data, or with -o table as text does.
func (o *Output) PrintOr(w io.Writer, v any, text func(w io.Writer) error) error {
	if o.Table() {
		return text(w)
	}
	return o.PrintData(w, []any{v}, true)
}

// Done says that something was done: as data on stdout, or with -o table as a sentence on stderr.
func (o *Output) Done(cmd *cobra.Command, v any, format string, args ...any) error {
	if !o.Table() {
		return o.PrintData(cmd.OutOrStdout(), []any{v}, true)
	}
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	return err
}

// PrintLine writes one of many things as they come: a line of JSON, or a document of YAML.
func (o *Output) PrintLine(w io.Writer, v any) error {
	if o.Format == "yaml" {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
	}
	return o.PrintData(w, []any{v}, true)
}

// Print writes rows. one is true when the command is about a single thing: then json is an object, not a list. The last
// column of a table is wrapped, the others are cut, so that it fits.
func (o *Output) Print(w io.Writer, rows []any, one bool, header []string, cells func(row any) []string) error {
	var cols []Column
	for i, name := range header {
		switch i {
		case 0:
			cols = append(cols, Whole(name))
		case len(header) - 1:
			cols = append(cols, Wrap(name))
		default:
			cols = append(cols, Cut(name))
		}
	}
	return o.PrintRows(w, rows, one, cols, cells)
}

// PrintRows writes rows in the format asked for, a table fitted to the terminal.
func (o *Output) PrintRows(w io.Writer, rows []any, one bool, cols []Column, cells func(row any) []string) error {
	if !o.Table() {
		return o.PrintData(w, rows, one)
	}
	var table [][]string
	for _, r := range rows {
		table = append(table, cells(r))
	}
	return PrintTable(w, TableWidth(w), cols, table)
}

// PrintData writes rows as JSON or YAML. What could hide or move text on a terminal is escaped.
func (o *Output) PrintData(w io.Writer, rows []any, one bool) error {
	if o.Format == "yaml" { // which quotes such text itself
		return printYAML(w, rows, one)
	}
	if rows == nil {
		rows = []any{}
	}
	lines := rows
	if o.Format == "json" && !one {
		lines = []any{rows}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, v := range lines {
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	_, err := w.Write(VisibleJSON(b.Bytes()))
	return err
}

// printYAML goes through JSON, so that both formats have the same names and digits.
func printYAML(w io.Writer, rows []any, one bool) error {
	var v any = rows
	if one {
		v = rows[0]
	} else if rows == nil {
		v = []any{}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return err
	}
	out, err := yaml.Marshal(yamlOf(tree))
	if err != nil {
		return err
	}
	_, err = w.Write(visibleYAML(out))
	return err
}

// yamlOf is a decoded JSON value as it is written in YAML.
func yamlOf(v any) any {
	switch v := v.(type) {
	case string:
		return yamlText(v)
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = yamlOf(v[i])
		}
		return out
	case map[string]any:
		out := make(map[yamlText]any, len(v))
		for name, member := range v {
			out[yamlText(name)] = yamlOf(member)
		}
		return out
	}
	return v
}

// yamlText is a text that stands in double quotes where it holds what no reader of YAML takes as it is, or what hides
// or moves text on a terminal. A block has lines alone that need no escape.
type yamlText string

// MarshalYAML chooses the quotes.
func (t yamlText) MarshalYAML() (any, error) {
	s := string(t)
	lines := strings.ContainsRune(s, '\n')
	if s == "<<" || strings.ContainsFunc(s, hides) || lines && strings.TrimLeft(s, " \n") != s {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: s}, nil
	}
	return s, nil
}

func hides(r rune) bool { return r != '\n' && !plain(r) }

// visibleYAML escapes what hides: all of it stands in double quotes.
func visibleYAML(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case !hides(r):
			out = utf8.AppendRune(out, r)
		case r <= 0xffff:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = fmt.Appendf(out, `\U%08x`, r)
		}
	}
	return out
}
