package author

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk"
)

// ruleErrors counts what a scanner did wrong on the rows of one rule (or entity, or source) of a set.
type ruleErrors struct {
	Set       string `json:"set"`
	Rule      string `json:"rule"`
	Positive  int    `json:"positive"`
	Misses    int    `json:"misses"`     // nothing touches a span
	OtherKind int    `json:"other_kind"` // found, but no kind names the entity; 0 where there is no entity
	Negative  int    `json:"negative"`
	False     int    `json:"false_positives"`
	Errors    int    `json:"errors"` // rows that could not be scanned: they are misses or false alarms too

	Instead    []kindCount `json:"instead,omitempty"`     // in rows that are missed or found as another kind
	FalseKinds []kindCount `json:"false_kinds,omitempty"` // in rows with a false alarm
}

// kindCount is a kind and in how many rows it stands.
type kindCount struct {
	Kind string `json:"kind"`
	Rows int    `json:"rows"`
}

// What stands for a kind where there is none.
const (
	kindNothing = "(nothing)"
	kindError   = "(error)"
)

// addErrors counts one row of a set for each of its rules.
func addErrors(rules map[string]*ruleErrors, set string, row *labelled, found []sdk.Finding, err error) {
	for _, c := range ruleClasses(row) {
		if rules[c.name] == nil {
			rules[c.name] = &ruleErrors{Set: set, Rule: c.name}
		}
		rules[c.name].add(row, c, found, err)
	}
}

func (r *ruleErrors) add(row *labelled, c class, found []sdk.Finding, err error) {
	if err != nil {
		r.Errors++
	}
	if !row.positive {
		r.Negative++
		if row.entity != "" {
			found = naming(found, row.entity)
		}
		if err != nil || len(found) > 0 {
			r.False++
			r.FalseKinds = countKinds(r.FalseKinds, found, err)
		}
		return
	}
	r.Positive++
	entity := row.entity
	if len(c.spans) > 0 && c.spans[0].entity != "" {
		entity = c.spans[0].entity
	}
	hits := touching(row.text, c.spans, found)
	switch {
	case err != nil || len(hits) == 0:
		r.Misses++
		r.Instead = countKinds(r.Instead, foreign(row, c, found), err)
	case entity != "" && len(naming(hits, entity)) == 0:
		r.OtherKind++
		r.Instead = countKinds(r.Instead, hits, nil)
	}
}

// foreign leaves out what lies in spans of the row that belong to other classes: it is right, and instead of nothing.
func foreign(row *labelled, c class, found []sdk.Finding) []sdk.Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f sdk.Finding) bool {
		return slices.ContainsFunc(row.spans, func(s labelSpan) bool {
			return !slices.Contains(c.spans, s) && len(s.places(row.text)) > 0 &&
				len(touching(row.text, []labelSpan{s}, []sdk.Finding{f})) > 0
		})
	})
}

// naming gives the findings whose kind names an entity.
func naming(found []sdk.Finding, entity string) (list []sdk.Finding) {
	for _, f := range found {
		if names(f.Kind, entity) {
			list = append(list, f)
		}
	}
	return list
}

// countKinds adds a row to the count of each kind that it has.
func countKinds(counts []kindCount, found []sdk.Finding, err error) []kindCount {
	var kinds []string
	for _, f := range found {
		kinds = append(kinds, f.Kind)
	}
	switch {
	case err != nil:
		kinds = []string{kindError}
	case len(kinds) == 0:
		kinds = []string{kindNothing}
	}
	slices.Sort(kinds)
	for _, kind := range slices.Compact(kinds) {
		i := slices.IndexFunc(counts, func(c kindCount) bool { return c.Kind == kind })
		if i < 0 {
			i = len(counts)
			counts = append(counts, kindCount{Kind: kind})
		}
		counts[i].Rows++
	}
	return counts
}

// rank lists the n rules with the most misses and false alarms, the worst first.
func (rep *evalReport) rank(n int) {
	for _, r := range rep.rules {
		if r.Misses+r.False+r.OtherKind == 0 {
			continue
		}
		for _, kinds := range [][]kindCount{r.Instead, r.FalseKinds} {
			slices.SortFunc(kinds, func(a, b kindCount) int {
				return cmp.Or(b.Rows-a.Rows, strings.Compare(a.Kind, b.Kind))
			})
		}
		rep.Worst = append(rep.Worst, r)
	}
	slices.SortFunc(rep.Worst, func(a, b *ruleErrors) int {
		return cmp.Or(b.Misses+b.False-a.Misses-a.False, b.OtherKind-a.OtherKind, strings.Compare(a.Set, b.Set),
			strings.Compare(a.Rule, b.Rule))
	})
	if len(rep.Worst) > n {
		rep.WorstLeftOut = len(rep.Worst) - n
		rep.Worst = rep.Worst[:n]
	}
}

// printWorst writes the listing as a table of its own.
func (rep *evalReport) printWorst(out *cli.Output, w io.Writer) error {
	if len(rep.Worst) == 0 {
		_, err := fmt.Fprintln(w, "\nNo rule has a miss or a false alarm.")
		return err
	}
	if _, err := fmt.Fprintln(w, "\nThe worst rules:"); err != nil {
		return err
	}
	var rows []any
	for _, r := range rep.Worst {
		rows = append(rows, r)
	}
	cols := []cli.Column{cli.Whole("SET"), cli.Whole("RULE"), cli.Cut("POSITIVE"), cli.Cut("MISSES"),
		cli.Cut("OTHER KIND"), cli.Cut("NEGATIVE"), cli.Cut("FALSE"), cli.Cut("ERRORS"), cli.Wrap("FALSE KINDS"),
		cli.Wrap("FOUND INSTEAD")}
	err := out.PrintRows(w, rows, false, cols, func(row any) []string {
		r := row.(*ruleErrors)
		n := strconv.Itoa
		return []string{r.Set, r.Rule, n(r.Positive), n(r.Misses), n(r.OtherKind), n(r.Negative), n(r.False), n(r.Errors),
			kindList(r.FalseKinds), kindList(r.Instead)}
	})
	if err != nil || rep.WorstLeftOut == 0 {
		return err
	}
	_, err = fmt.Fprintf(w, "Rules with errors of these sorts that are not listed: %d. A larger --worst lists them.\n",
		rep.WorstLeftOut)
	return err
}

// kindList is kinds as a table shows them; the data formats have all of them.
func kindList(kinds []kindCount) string {
	const shown = 4
	var list []string
	for _, k := range kinds[:min(len(kinds), shown)] {
		list = append(list, k.Kind+" "+strconv.Itoa(k.Rows))
	}
	if more := len(kinds) - shown; more > 0 {
		list = append(list, strconv.Itoa(more)+" more")
	}
	return cmp.Or(strings.Join(list, ", "), "-")
}
