package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// operationsTable is the one table of operations.
func operationsTable() string {
	var b strings.Builder
	b.WriteString("| operation | HTTP | socket | scope | what it does |\n|---|---|---|---|---|\n")
	for i := range ops.Table {
		op := &ops.Table[i]
		http, socket := "–", "–"
		if op.Path != "" {
			http = "`" + op.Method + " " + op.Path + "`"
		}
		if op.Socket {
			socket = "`" + op.Name + "`"
		}
		scope := strings.Join(op.Needs.Names(), " or ")
		if op.Needs == sdk.AnyScope {
			scope = "any"
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s |\n", op.Name, op.Name, http, socket, scope, markValues(op.Doc))
	}
	return b.String()
}

// values are what a text names as it is on the wire: what it quotes, names of members and headers, and effects.
var values = regexp.MustCompile(`"[^"]+"|\b[a-z]+(?:_[a-z]+)+(?:[=/][a-z0-9]+)?\b|\b[A-Z][a-z]*(?:-[A-Z][A-Za-z]*)+\b|` +
	`\b(?:PERMIT|DENY|DEFER|ABSTAIN|EXECUTE|HALT|PASS|WARNED|REDACTED|DENIED|[A-Z]+(?:_[A-Z]+)+|true|false|null)\b`)

// markValues sets the values of a text apart from its prose. A struct tag cannot hold backquotes.
func markValues(text string) string {
	return values.ReplaceAllStringFunc(text, func(v string) string { return "`" + strings.Trim(v, `"`) + "`" })
}

// errorsTable is the registry of error codes, by status.
func errorsTable() string {
	var b strings.Builder
	b.WriteString("| code | HTTP | JSON-RPC | title |\n|---|---|---|---|\n")
	codes := slices.Sorted(maps.Keys(wire.Statuses))
	for _, c := range codes {
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s |\n", c, wire.Statuses[c].HTTP, rpcNumber(c), wire.Statuses[c].Title)
	}
	return b.String()
}

// fieldTables writes the members of an operation's request and answer from the types of sdk/wire. A type that several
// operations have is written where it comes first.
type fieldTables struct {
	at map[reflect.Type]string // operation that shows a type
}

func (f *fieldTables) of(op *ops.Op) string {
	req, resp := op.Run.Req, op.Run.Resp
	if op.Stream.Open != nil {
		req, resp = op.Stream.Req, op.Stream.Resp
	}
	var b strings.Builder
	if rows, later := f.rows(req, true); rows == "" {
		b.WriteString("Request: no members.\n")
	} else {
		b.WriteString("Request:\n\n" + rows + f.below(op, later))
	}
	switch {
	case op.Stream.Open != nil && !op.Socket:
		b.WriteString("\nAnswer: a stream of server-sent events.\n")
	default:
		b.WriteString("\n" + f.answer(op, resp))
	}
	return b.String()
}

func (f *fieldTables) answer(op *ops.Op, t reflect.Type) string {
	if first, ok := f.at[t]; ok {
		return fmt.Sprintf("Answer: %s, as in [%s](#%s).\n", t.Name(), first, first)
	}
	f.at[t] = op.Name
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yett") == "bare" {
			of := t.Field(i).Type.Elem()
			if first, ok := f.at[of]; ok {
				return fmt.Sprintf("Answer: a bare list of %s, as in [%s](#%s).\n", of.Name(), first, first)
			}
			return fmt.Sprintf("Answer: a bare list of %s.\n", of.Name()) + f.below(op, []reflect.Type{of})
		}
	}
	rows, later := f.rows(t, false)
	return fmt.Sprintf("Answer (%s):\n\n", t.Name()) + rows + f.below(op, later)
}

// below shows the types that have been mentioned.
func (f *fieldTables) below(op *ops.Op, types []reflect.Type) string {
	var b strings.Builder
	for _, t := range types {
		if _, ok := f.at[t]; ok {
			continue
		}
		f.at[t] = op.Name
		rows, later := f.rows(t, false)
		fmt.Fprintf(&b, "\n%s:\n\n%s", t.Name(), rows)
		b.WriteString(f.below(op, later))
	}
	return b.String()
}

// rows is the table of one type, "" if it has no members, and the types that it mentions.
func (f *fieldTables) rows(t reflect.Type, request bool) (string, []reflect.Type) {
	var b strings.Builder
	var later []reflect.Type
	for i := range t.NumField() {
		field := t.Field(i)
		name, opts, _ := strings.Cut(field.Tag.Get("json"), ",")
		rules := strings.Split(field.Tag.Get("yett"), ",")
		if name == "-" {
			continue
		}
		if name == "" { // the members of another answer
			of := field.Type.Elem()
			fmt.Fprintf(&b, "| … | | | all members of %s, as in [%s](#%s) |\n", of.Name(), f.at[of], f.at[of])
			continue
		}
		text, mentioned := typeText(field.Type, rules)
		if mentioned != nil {
			later = append(later, mentioned)
		}
		presence := "always"
		switch {
		case slices.Contains(rules, "required"), slices.Contains(rules, "needed"): // needed: its operation refuses without it
			presence = "required"
		case request:
			presence = "optional"
		case strings.Contains(opts, "omitempty"):
			presence = "may be absent"
		case slices.Contains(rules, "null"):
			presence = "may be null"
		}
		for _, where := range []string{"path", "query"} {
			if slices.Contains(rules, where) {
				presence += ", in the " + where
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, text, presence,
			strings.ReplaceAll(markValues(field.Tag.Get("doc")), "|", "\\|"))
	}
	if b.Len() == 0 {
		return "", nil
	}
	return "| member | type | presence | meaning |\n|---|---|---|---|\n" + b.String(), later
}

// typeText names a type as readers of JSON do, and gives the struct that it mentions.
func typeText(t reflect.Type, rules []string) (string, reflect.Type) {
	switch {
	case slices.Contains(rules, "any"), t == reflect.TypeFor[[]byte](), t == reflect.TypeFor[json.RawMessage]():
		return "JSON", nil
	case t == reflect.TypeFor[exact.Value]():
		return "object", nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeText(t.Elem(), rules)
	case reflect.Slice:
		text, mentioned := typeText(t.Elem(), nil)
		return "list of " + text, mentioned
	case reflect.Struct:
		return t.Name(), t
	case reflect.Bool:
		return "boolean", nil
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "whole number", nil
	case reflect.Float32:
		return "number", nil
	}
	if slices.Contains(rules, "name") {
		return "name", nil
	}
	return "string", nil
}
