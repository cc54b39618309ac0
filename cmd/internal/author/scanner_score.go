package author

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/yett-dev/yett/sdk"
)

// evalReport is what `scanner eval` prints. The same module and sets give the same report.
type evalReport struct {
	Scanner string       `json:"scanner"`
	Version string       `json:"version"`
	Digest  string       `json:"digest"`
	Without []string     `json:"without,omitempty"`
	By      string       `json:"by,omitempty"`
	Rows    []evalRow    `json:"rows"`
	None    []evalNone   `json:"none,omitempty"`
	Failed  []evalFailed `json:"failed,omitempty"`

	Worst        []*ruleErrors `json:"worst,omitempty"`
	WorstLeftOut int           `json:"worst_left_out,omitempty"` // further rules that have errors too
	rules        []*ruleErrors
}

// evalRow counts one set, or a half or class of it. Rates are absent where there is nothing to divide by.
type evalRow struct {
	Set       string   `json:"set"`
	Half      string   `json:"half,omitempty"`
	Rule      string   `json:"rule,omitempty"`
	Source    string   `json:"source,omitempty"`
	Group     string   `json:"group,omitempty"`
	Label     string   `json:"label,omitempty"`
	Count     int      `json:"rows"`
	Positive  int      `json:"positive"`
	Hit       int      `json:"found"`
	HitWhole  int      `json:"found_whole"`
	Negative  int      `json:"negative"`
	False     int      `json:"false_positives"`
	Errors    int      `json:"errors"`
	Recall    *float64 `json:"recall"`
	Whole     *float64 `json:"recall_whole"`
	FPR       *float64 `json:"fpr"`
	FPREntity *float64 `json:"fpr_entity,omitempty"`
	Spans     int      `json:"spans,omitempty"`
	SpanF1    *float64 `json:"span_f1,omitempty"`

	class                 string // of the field of --by; "" for the whole set
	spans                 spanCount
	entities, falseEntity int // negative rows that are about one entity
}

// evalFailed is a row that counts as an error.
type evalFailed struct {
	Set   string `json:"set"`
	Line  int    `json:"line"`
	ID    string `json:"id,omitempty"`
	Error string `json:"error"`
}

// measure scans the rows of one set and adds its lines to the report.
func (rep *evalReport) measure(ctx context.Context, set string, rows []labelled, pair *modulePair, f *evalFlags) error {
	rows = leaveOut(rows, f.without)
	if len(rows) == 0 {
		return fmt.Errorf("%s: --without leaves no rows", set)
	}
	found, errs := pair.scan(ctx, rows)
	if err := ctx.Err(); err != nil {
		return err
	}
	rep.count(set, rows, found, errs, f)
	return nil
}

// count adds the lines of one set, whose texts have been scanned.
func (rep *evalReport) count(set string, rows []labelled, found [][]sdk.Finding, errs []error, f *evalFlags) {
	lines := map[[2]string]*evalRow{}
	at := func(half, class string) *evalRow {
		key := [2]string{half, class}
		if lines[key] == nil {
			lines[key] = newEvalRow(set, half, f.by, class)
		}
		return lines[key]
	}
	entities := entitiesOf(rows)
	rules := map[string]*ruleErrors{}
	for i := range rows {
		row := &rows[i]
		if errs[i] != nil {
			rep.Failed = append(rep.Failed, evalFailed{set, row.line, row.id, errs[i].Error()})
		}
		halves := []string{""}
		if row.half != "" {
			halves = append(halves, row.half)
		}
		for _, half := range halves {
			at(half, "").add(row, row.spans, found[i], errs[i])
			at(half, "").addSpans(row, entities, found[i])
			if f.by == "rule" { // a finding of an entity counts in rows without a span of it too
				for _, e := range entities {
					at(half, e).addSpans(row, []string{e}, found[i])
				}
			}
			for _, c := range classesBy(f.by, row) {
				at(half, c.name).add(row, c.spans, found[i], errs[i])
			}
		}
		if f.worst > 0 {
			addErrors(rules, set, row, found[i], errs[i])
		}
	}
	rep.rules = slices.AppendSeq(rep.rules, maps.Values(rules))
	rep.Rows = append(rep.Rows, ordered(lines)...)
	rep.addNone(set, rows, f)
}

// newEvalRow is a line without counts; its class stands under the name of the field that it is one of.
func newEvalRow(set, half, by, class string) *evalRow {
	r := &evalRow{Set: set, Half: half, class: class}
	switch by {
	case "rule":
		r.Rule = class
	case "source":
		r.Source = class
	case "group":
		r.Group = class
	case "label":
		r.Label = class
	}
	return r
}

// ordered lists lines with the whole set first, then its halves, then classes by name.
func ordered(lines map[[2]string]*evalRow) []evalRow {
	var out []evalRow
	for _, r := range lines {
		r.Recall, r.Whole = rate(r.Hit, r.Positive), rate(r.HitWhole, r.Positive)
		r.FPR, r.FPREntity = rate(r.False, r.Negative), rate(r.falseEntity, r.entities)
		r.Spans, r.SpanF1 = r.spans.labels, r.spans.f1()
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b evalRow) int {
		if c := strings.Compare(a.class, b.class); c != 0 {
			return c
		}
		return strings.Compare(a.Half, b.Half)
	})
	return out
}

func rate(n, of int) *float64 {
	if of == 0 {
		return nil
	}
	v := float64(n) / float64(of)
	return &v
}

func (r *evalRow) add(row *labelled, spans []labelSpan, found []sdk.Finding, err error) {
	r.Count++
	if err != nil {
		r.Errors++ // and it counts as not found, or as a false alarm, below: an error makes no figure better
	}
	if row.positive {
		r.Positive++
		if err == nil && len(touching(row.text, spans, found)) > 0 {
			r.Hit++
		}
		if err == nil && covered(row.text, spans, found) {
			r.HitWhole++
		}
		return
	}
	r.Negative++
	if err != nil || len(found) > 0 {
		r.False++
	}
	if row.entity != "" {
		r.entities++
		if err != nil || slices.ContainsFunc(found, func(f sdk.Finding) bool { return names(f.Kind, row.entity) }) {
			r.falseEntity++
		}
	}
}

// touching gives the findings that overlap a span. Without a span that is in the text any finding will do.
func touching(text string, spans []labelSpan, found []sdk.Finding) (list []sdk.Finding) {
	var places [][2]int
	for _, s := range spans {
		places = append(places, s.places(text)...)
	}
	if len(places) == 0 {
		return found
	}
	for _, f := range found {
		if slices.ContainsFunc(places, func(at [2]int) bool { return f.Start < at[1] && at[0] < f.End }) {
			list = append(list, f)
		}
	}
	return list
}

// covered: each span that is in the text lies within one finding (any of the places where its value occurs will do).
func covered(text string, spans []labelSpan, found []sdk.Finding) bool {
	for _, s := range spans {
		places := s.places(text)
		if len(places) > 0 && !slices.ContainsFunc(places, func(at [2]int) bool {
			return slices.ContainsFunc(found, func(f sdk.Finding) bool { return f.Start <= at[0] && at[1] <= f.End })
		}) {
			return false
		}
	}
	return len(found) > 0
}

// names says whether a kind (PII_US_SSN) is about an entity (US_SSN): the words of one are among those of the other.
func names(kind, entity string) bool {
	_, kind, _ = strings.Cut(kind, "_")
	a, b := strings.Split(kind, "_"), strings.Split(entity, "_")
	if len(a) > len(b) {
		a, b = b, a
	}
	return !slices.ContainsFunc(a, func(word string) bool { return !slices.Contains(b, word) })
}

// leaveOut drops rows of the named classes, and spans of the named entities. A row that has lost all its spans goes
// too: it holds something, so it is no negative.
func leaveOut(rows []labelled, without []string) []labelled {
	if len(without) == 0 {
		return rows
	}
	var out []labelled
	for _, row := range rows {
		if slices.ContainsFunc(strings.Split(row.rule, ":"), func(part string) bool {
			return slices.Contains(without, part)
		}) {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(row.spans), func(s labelSpan) bool {
			return slices.Contains(without, s.entity)
		})
		if len(kept) == 0 && len(row.spans) > 0 {
			continue
		}
		row.spans = kept
		out = append(out, row)
	}
	return out
}

// scan runs every text on both modules. The first sees them in order and as in the gateway, behind the pass for its
// triggers: a text that has none never reaches it. The second sees all of them, backwards and without hits, so that
// triggers which keep a finding from the module, and what an instance keeps from one text to the next, show as a
// difference.
func (p *modulePair) scan(ctx context.Context, rows []labelled) (found [][]sdk.Finding, errs []error) {
	again, againErrs := make([][]sdk.Finding, len(rows)), make([]error, len(rows))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := len(rows) - 1; i >= 0 && ctx.Err() == nil; i-- {
			again[i], againErrs[i] = p.second.ScanHits(ctx, rows[i].text, nil, false)
		}
	}()
	found, errs = make([][]sdk.Finding, len(rows)), make([]error, len(rows))
	for i := 0; i < len(rows) && ctx.Err() == nil; i++ {
		found[i], errs[i] = p.scanBehindPass(ctx, rows[i].text)
	}
	<-done
	for i := range rows {
		switch {
		case errs[i] != nil:
		case againErrs[i] != nil:
			errs[i] = againErrs[i]
		case !slices.Equal(found[i], again[i]):
			errs[i] = fmt.Errorf("two instances gave different findings, with the pass for triggers %d and without it %d",
				len(found[i]), len(again[i]))
		}
	}
	return found, errs
}

func (p *modulePair) scanBehindPass(ctx context.Context, text string) ([]sdk.Finding, error) {
	if p.pass == nil {
		return p.first.ScanHits(ctx, text, nil, false)
	}
	p.pass.Find(text, &p.hits)
	hits, complete := p.hits.Hits(0)
	if complete && len(hits) == 0 {
		return nil, nil
	}
	return p.first.ScanHits(ctx, text, hits, complete)
}
