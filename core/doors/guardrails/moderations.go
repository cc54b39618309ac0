package guardrails

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// moderations answers as OpenAI's moderation API does. It has no way to redact: a client learns what kinds of findings
// a text has, and decides.
type moderations struct{ door door }

// openAICategories are the names that its clients expect. Yett's scanners look for none of them, so they are false,
// unless a scanner of somebody's own has a kind of that name.
var openAICategories = []string{"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit",
	"illicit/violent", "self-harm", "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence",
	"violence/graphic"}

// moderationModel is the model that answers: whichever the client asks for, the scan chain looks.
const moderationModel = "yett-scan"

// result is what is said of one input.
type result struct {
	flagged bool
	found   map[string]bool    // by category
	scores  map[string]float32 // by category
}

func (d *moderations) handle(a *asked) ([]byte, error) {
	inputs, err := moderationInputs(a.body.Get("input"))
	if err != nil {
		return nil, err
	}
	var sent outputs
	for _, in := range inputs {
		for _, text := range in {
			sent.text(text)
		}
	}
	out, err := a.scan("input", sent)
	if err != nil {
		return nil, err
	}
	results := make([]result, len(inputs))
	of := make([]int, 0, len(sent)) // the input of each output
	for i, in := range inputs {
		results[i] = result{found: map[string]bool{}, scores: map[string]float32{}}
		for range in {
			of = append(of, i)
		}
	}
	for i := range of {
		results[of[i]].judge(&out.verdicts[i])
	}
	for _, f := range out.findings {
		r := &results[of[*f.Index]]
		r.scores[f.Kind] = max(r.scores[f.Kind], f.Confidence)
		if f.Action != sdk.Allow.String() {
			r.found[f.Kind], r.flagged = true, true
		}
	}
	return moderation(a.ID, results), nil
}

// judge flags what is not clean. A refusal without a finding, as a kill or a scanner that was late, has its code for a
// category.
func (r *result) judge(v *wire.ScanVerdict) {
	if v.Outcome == pass {
		return
	}
	r.flagged = true
	if v.Outcome == refused {
		r.found[v.ReasonCode], r.scores[v.ReasonCode] = true, 1
	}
}

// moderationInputs are the texts of each input: a string, a list of strings, or a list of parts, which is one input.
func moderationInputs(v exact.Value) ([][]string, error) {
	switch {
	case v.Kind() == exact.String:
		return [][]string{{v.Str()}}, nil
	case v.Kind() != exact.Array || v.Len() == 0:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "input", "input must be a string, a list of strings or a list of "+
			`parts {"type":"text","text":"…"}, and not empty`)
	}
	var texts, parts []string
	for e := range v.Elements() {
		switch text := e.Get("text"); {
		case e.Kind() == exact.String:
			texts = append(texts, e.Str())
		case e.Get("type").Str() == "text" && text.Kind() == exact.String:
			parts = append(parts, text.Str())
		default:
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, "input",
				"input has a part that is no text: nothing here looks at images")
		}
	}
	switch {
	case texts == nil:
		return [][]string{parts}, nil
	case parts != nil:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "input", "input mixes strings and parts: send one or the other")
	}
	out := make([][]string, len(texts))
	for i, s := range texts {
		out[i] = []string{s}
	}
	return out, nil
}

func moderation(id string, results []result) []byte {
	o := wire.Object(nil)
	o.Str("id", "modr-"+id)
	o.Str("model", moderationModel)
	o.List("results", len(results), func(i int, w *wire.Writer) {
		r := &results[i]
		names := r.categories()
		w.Bool("flagged", r.flagged)
		w.Raw("categories", members(names, func(name string) []byte { return strconv.AppendBool(nil, r.found[name]) }))
		w.Raw("category_scores", members(names, func(name string) []byte {
			return strconv.AppendFloat(nil, float64(r.scores[name]), 'f', -1, 32)
		}))
		w.Raw("category_applied_input_types", members(names, func(name string) []byte {
			if _, looked := r.scores[name]; looked {
				return []byte(`["text"]`)
			}
			return []byte("[]")
		}))
	})
	return o.Close()
}

// categories are OpenAI's names and behind them the kinds that were found.
func (r *result) categories() []string {
	names := slices.Clone(openAICategories)
	for _, kind := range slices.Sorted(maps.Keys(r.scores)) {
		if !slices.Contains(openAICategories, kind) {
			names = append(names, kind)
		}
	}
	return names
}

// members is an object. Its names are kinds of findings, which a scanner's author chose.
func members(names []string, value func(name string) []byte) []byte {
	out := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(exact.AppendString(out, name), ':')
		out = append(out, value(name)...)
	}
	return append(out, '}')
}

// refuseModeration answers as OpenAI's API does when it fails. Its clients raise an error then; the schema has no
// result that says "unknown".
func refuseModeration(w http.ResponseWriter, _ *front.Request, err *sdk.Error) {
	status := wire.StatusOf(err.Code).HTTP
	switch {
	case status < http.StatusBadRequest:
		status = http.StatusInternalServerError
	case status == http.StatusUnprocessableEntity:
		status = http.StatusBadRequest // that API has no other for a member that it does not take
	}
	kind := "invalid_request_error"
	if status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	o := wire.Object(nil)
	o.Object("error", func(w *wire.Writer) {
		w.Str("message", told(err))
		w.Str("type", kind)
		w.Null("param", err.Field)
		w.Str("code", string(err.Code))
	})
	write(w, status, o.Close())
}
