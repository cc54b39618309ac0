package author

import (
	"slices"

	"github.com/yett-dev/yett/sdk"
)

// spanCount counts labelled spans, and the findings whose kind names one of the entities counted.
type spanCount struct{ labels, labelsFound, reported, reportedRight int }

// f1 is the harmonic mean of precision and recall; nil where no span is labelled.
func (c spanCount) f1() *float64 {
	if c.labels == 0 {
		return nil
	}
	v := 0.0
	if c.labelsFound > 0 && c.reportedRight > 0 {
		p, r := float64(c.reportedRight)/float64(c.reported), float64(c.labelsFound)/float64(c.labels)
		v = 2 * p * r / (p + r)
	}
	return &v
}

// entitiesOf lists the entities that spans of a set are labelled with.
func entitiesOf(rows []labelled) (list []string) {
	for _, row := range rows {
		for _, s := range row.spans {
			if s.entity != "" && !slices.Contains(list, s.entity) {
				list = append(list, s.entity)
			}
		}
	}
	return list
}

// addSpans counts one row for the given entities. A finding of another kind counts for nothing: what a set does not
// label it does not judge. A finding is right when it and a span of an entity that its kind names have more than half
// of the longer one in common.
func (r *evalRow) addSpans(row *labelled, entities []string, found []sdk.Finding) {
	right := make([]bool, len(found))
	for _, s := range row.spans {
		if !slices.Contains(entities, s.entity) {
			continue
		}
		r.spans.labels++
		hit := false
		for i, f := range found {
			if names(f.Kind, s.entity) && slices.ContainsFunc(s.places(row.text), func(at [2]int) bool {
				common := min(f.End, at[1]) - max(f.Start, at[0])
				return 2*common > max(f.End-f.Start, at[1]-at[0])
			}) {
				hit, right[i] = true, true
			}
		}
		if hit {
			r.spans.labelsFound++
		}
	}
	for i, f := range found {
		if slices.ContainsFunc(entities, func(e string) bool { return names(f.Kind, e) }) {
			r.spans.reported++
			if right[i] {
				r.spans.reportedRight++
			}
		}
	}
}
