package main

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

// outputFormats are what -o takes. Every command that prints data takes all of them.
var outputFormats = []string{"table", "json", "jsonl", "yaml"}

// output is the -o flag: how a command prints data.
type output struct{ format string }

// bind adds -o to a command, and refuses an unknown format before the command does anything.
func (o *output) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "table", "output format: table, json, jsonl or yaml")
	run := cmd.RunE
	if run == nil {
		return // a command that gets its RunE later checks for itself
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

func (o *output) check() error {
	if !slices.Contains(outputFormats, o.format) {
		return usage("-o %s: must be one of %s", o.format, strings.Join(outputFormats, ", "))
	}
	return nil
}

// table reports whether a person reads what is printed.
func (o *output) table() bool { return o.format == "table" }

// printOr writes one thing: as data, or with -o table as text does.
func (o *output) printOr(w io.Writer, v any, text func(w io.Writer) error) error {
	if o.table() {
		return text(w)
	}
	return o.printData(w, []any{v}, true)
}

// done says that something was done: as data on stdout, or with -o table as a sentence on stderr.
func (o *output) done(cmd *cobra.Command, v any, format string, args ...any) error {
	if !o.table() {
		return o.printData(cmd.OutOrStdout(), []any{v}, true)
	}
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	return err
}

// printLine writes one of many things as they come: a line of JSON, or a document of YAML.
func (o *output) printLine(w io.Writer, v any) error {
	if o.format == "yaml" {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
	}
	return o.printData(w, []any{v}, true)
}

// print writes rows. one is true when the command is about a single thing: then json is an object, not a list. The last
// column of a table is wrapped, the others are cut, so that it fits.
func (o *output) print(w io.Writer, rows []any, one bool, header []string, cells func(row any) []string) error {
	var cols []column
	for i, name := range header {
		switch i {
		case 0:
			cols = append(cols, whole(name))
		case len(header) - 1:
			cols = append(cols, wrap(name))
		default:
			cols = append(cols, cut(name))
		}
	}
	return o.printRows(w, rows, one, cols, cells)
}

// printRows writes rows in the format asked for, a table fitted to the terminal.
func (o *output) printRows(w io.Writer, rows []any, one bool, cols []column, cells func(row any) []string) error {
	if !o.table() {
		return o.printData(w, rows, one)
	}
	var table [][]string
	for _, r := range rows {
		table = append(table, cells(r))
	}
	return printTable(w, tableWidth(w), cols, table)
}

// printData writes rows as JSON or YAML. What could hide or move text on a terminal is escaped.
func (o *output) printData(w io.Writer, rows []any, one bool) error {
	if o.format == "yaml" { // which quotes such text itself
		return printYAML(w, rows, one)
	}
	if rows == nil {
		rows = []any{}
	}
	lines := rows
	if o.format == "json" && !one {
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
	_, err := w.Write(visibleJSON(b.Bytes()))
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

// yamlText is a text that stands in double quotes where it holds what no reader of YAML takes as it is, or what hides or moves
// text on a terminal. A block has lines alone that need no escape.
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
