package author

import (
	"fmt"
	"io"
	"slices"
)

// evalFields are what --by accepts: set is the lines that every report has, the others add a line for each value that
// rows have in that field.
var evalFields = []string{"set", "source", "rule", "group", "label"}

// noClass is the line of rows that do not have the field.
const noClass = "(none)"

// evalNone says how many rows of a set do not have a field that was asked for.
type evalNone struct {
	Set   string `json:"set"`
	Field string `json:"field"`
	None  int    `json:"without_it"`
	Count int    `json:"rows"`
}

// class is one line that a row counts for, and the spans that it is judged by there.
type class struct {
	name  string
	spans []labelSpan
}

// classesBy are the lines that a row counts for with --by, besides those of its set.
func classesBy(by string, row *labelled) []class {
	name := ""
	switch by {
	case "rule":
		return ruleClasses(row)
	case "source":
		name = row.source
	case "group":
		name = row.group
	case "label":
		name = row.label
	default:
		return nil
	}
	if name == "" {
		name = noClass
	}
	return []class{{name, row.spans}}
}

// ruleClasses are a row's rule, or each entity that it has spans of.
func ruleClasses(row *labelled) (out []class) {
	if row.rule != "" || len(row.spans) == 0 {
		if row.rule == "" {
			return []class{{noClass, row.spans}}
		}
		return []class{{row.rule, row.spans}}
	}
	for _, s := range row.spans {
		name := s.entity
		if name == "" {
			name = noClass
		}
		i := slices.IndexFunc(out, func(c class) bool { return c.name == name })
		if i < 0 {
			i = len(out)
			out = append(out, class{name: name})
		}
		out[i].spans = append(out[i].spans, s)
	}
	return out
}

// addNone counts the rows that do not have a field that was asked for.
func (rep *evalReport) addNone(set string, rows []labelled, f *evalFlags) {
	fields := []string{f.by}
	if f.worst > 0 && f.by != "rule" {
		fields = append(fields, "rule")
	}
	for _, field := range fields {
		n := 0
		for i := range rows {
			if slices.ContainsFunc(classesBy(field, &rows[i]), func(c class) bool { return c.name == noClass }) {
				n++
			}
		}
		if n > 0 {
			rep.None = append(rep.None, evalNone{set, field, n, len(rows)})
		}
	}
}

// sayNone tells of rows that stand under (none), so that nobody takes the other lines for all.
func (rep *evalReport) sayNone(w io.Writer) {
	for _, n := range rep.None {
		field := n.Field
		if field == "rule" {
			field = "rule, entity or source"
		}
		fmt.Fprintf(w, "%s: %d of %d rows have no %s: they count under %s\n", n.Set, n.None, n.Count, field, noClass)
	}
}
