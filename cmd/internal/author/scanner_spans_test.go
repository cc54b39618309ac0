package author

import (
	"testing"

	"github.com/yett-dev/yett/sdk"
)

func TestSpanF1(t *testing.T) {
	row := labelled{text: "mail a@b.example or call 555-0100, or 555-0199", spans: []labelSpan{
		{entity: "EMAIL_ADDRESS", start: 5, end: 16},
		{entity: "PHONE_NUMBER", start: 25, end: 33},
		{entity: "PHONE_NUMBER", start: 38, end: 46},
		{entity: "PERSON", start: 0, end: 4},
	}}
	found := []sdk.Finding{
		{Kind: "PII_EMAIL", Start: 5, End: 16},
		{Kind: "PII_PHONE", Start: 25, End: 33},
		{Kind: "PII_PHONE", Start: 38, End: 41},   // less than half of it
		{Kind: "PII_EMAIL", Start: 25, End: 33},   // the place of another entity
		{Kind: "PII_US_SSN", Start: 25, End: 33},  // no entity of the set: not judged
		{Kind: "PII_PHONE_X", Start: 24, End: 34}, // another kind too
	}
	for _, c := range []struct {
		entities []string
		want     spanCount
	}{
		{[]string{"EMAIL_ADDRESS"}, spanCount{labels: 1, labelsFound: 1, reported: 2, reportedRight: 1}},
		{[]string{"PHONE_NUMBER"}, spanCount{labels: 2, labelsFound: 1, reported: 2, reportedRight: 1}},
		{[]string{"PERSON"}, spanCount{labels: 1}},
		{[]string{"EMAIL_ADDRESS", "PHONE_NUMBER"}, spanCount{labels: 3, labelsFound: 2, reported: 4, reportedRight: 2}},
	} {
		var r evalRow
		r.addSpans(&row, c.entities, found)
		if r.spans != c.want {
			t.Errorf("%v: %+v, want %+v", c.entities, r.spans, c.want)
		}
	}
	if f := (spanCount{labels: 2, labelsFound: 1, reported: 1, reportedRight: 1}).f1(); f == nil || *f != 2.0/3 {
		t.Errorf("F1 of precision 1 and recall 0.5: %v", f)
	}
	if f := (spanCount{}).f1(); f != nil {
		t.Errorf("F1 of no spans: %v", *f)
	}
	if f := (spanCount{labels: 1, reported: 1}).f1(); f == nil || *f != 0 {
		t.Errorf("F1 of nothing found: %v", f)
	}
	if got := entitiesOf([]labelled{row, row}); len(got) != 3 {
		t.Errorf("entities %v", got)
	}
}
