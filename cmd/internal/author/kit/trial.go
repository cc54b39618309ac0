package kit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// TestReport is what a module made of vectors.
type TestReport struct {
	Module  string       `json:"module"`
	Version string       `json:"version"`
	Digest  string       `json:"digest"`
	OK      bool         `json:"ok"`
	Results []TestResult `json:"results"`
}

// TestResult is what a module made of one vector.
type TestResult struct {
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Name     string        `json:"name"`
	OK       bool          `json:"ok"`
	Runs     int           `json:"runs"`            // ways in which the vector was run
	Cuts     int           `json:"cuts,omitempty"`  // places at which it was cut in two as a stream
	Notes    []string      `json:"notes,omitempty"` // what was left out, and why
	Problems []TestProblem `json:"problems,omitempty"`
}

// TestProblem is one way of running a vector that did not give what was wanted.
type TestProblem struct {
	Run  string   `json:"run"`
	Diff []string `json:"diff"` // one line each; parts of texts are made printable
}

// Test runs vectors: each whole, as the gateway prefilters it, on a second instance, after another vector, and as a
// stream cut at every byte where the module declares one. The error is about running at all; what failed is in the
// report.
func (s Settings) Test(ctx context.Context, m Module, files []*Vectors) (rep *TestReport, err error) {
	st, err := s.stage(ctx, m)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.close(ctx)) }()
	rep = &TestReport{Module: m.Name, OK: true}
	t := &trial{stage: st}
	for _, f := range files {
		for i := range f.List {
			v := &f.List[i]
			before := &f.List[(i+1)%len(f.List)]
			res := t.run(ctx, f.File, v, before)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			rep.OK = rep.OK && res.OK
			rep.Results = append(rep.Results, res)
		}
	}
	for _, sub := range st.loaded {
		about := sub.first.About()
		rep.Version, rep.Digest = about.Version, about.Digest
		break
	}
	if rep.Digest == "" {
		rep.Digest = pin.Digest(m.Code)
	}
	return rep, nil
}

// trial is one run over vectors.
type trial struct{ *stage }

func (t *trial) run(ctx context.Context, file string, v, before *Vector) TestResult {
	res := TestResult{File: file, Line: v.Line, Name: v.Name}
	sub, err := t.with(ctx, v.Config)
	switch {
	case err != nil && v.Error == WantRefused && host.IsConfig(err):
		res.Runs = 1
	case err != nil:
		res.add("load", "error: "+unset(v.Config, err).Error())
	case v.Error == WantRefused:
		res.add("load", "the configuration was taken, want it refused")
	case v.Call != nil:
		t.calls(ctx, sub, v, &res)
	default:
		t.scans(ctx, sub, v, before, &res)
	}
	res.OK = len(res.Problems) == 0
	return res
}

func (r *TestResult) add(run string, diff ...string) {
	r.Runs++
	if len(diff) > 0 {
		r.Problems = append(r.Problems, TestProblem{run, diff})
	}
}

// scans runs a vector about a text in all ways.
func (t *trial) scans(ctx context.Context, sub *subject, v, before *Vector, res *TestResult) {
	res.add("whole", v.diff(whole(ctx, sub.first, v.Text))...)
	if sub.triggers != nil {
		res.add("prefiltered", v.prefiltered(sub.filtered(ctx, v.Text))...)
	}
	res.add("second instance", v.diff(whole(ctx, sub.second, v.Text))...)
	if before != v && before.Call == nil {
		whole(ctx, sub.second, before.Text) // what it gives is judged in its own turn
		res.add(fmt.Sprintf("after %q", Printable(before.Name, 60)), v.diff(whole(ctx, sub.second, v.Text))...)
	}
	if !streams(sub.first) || len(res.Problems) > 0 {
		return
	}
	if len(v.Findings) >= abi.MaxFindings {
		res.Notes = append(res.Notes, fmt.Sprintf("not run as a stream: with %d findings a whole text may end in one that "+
			"covers the rest", len(v.Findings)))
		return
	}
	t.streams(ctx, sub, v, res)
}

// streams runs a vector as a stream. The first cut that differs is shown; the rest are counted.
func (t *trial) streams(ctx context.Context, sub *subject, v *Vector, res *TestResult) {
	cuts := cutsOf(v)
	if all := len(v.Text) - 1; len(cuts) < all {
		res.Notes = append(res.Notes, fmt.Sprintf("cut at %d of %d places: around the findings and evenly between", len(cuts),
			all))
	}
	res.Cuts = len(cuts)
	cut(ctx, v, cuts, "stream cut at byte %d", res, func(at int) outcome {
		return stream(ctx, sub.first, v.Text[:at], v.Text[at:])
	})
	if sub.prefilters() && v.Error == "" {
		cut(ctx, v, cuts, "windows cut at byte %d, with the host's hits", res, func(at int) outcome {
			return sub.windows(ctx, v.Text, at)
		})
	}
	if len(v.Text) <= wholeCuts {
		pieces := make([]string, len(v.Text))
		for i := range pieces {
			pieces[i] = v.Text[i : i+1]
		}
		res.add("stream byte by byte", v.diff(stream(ctx, sub.first, pieces...))...)
	}
}

// cut runs a vector once for each cut and shows the first that differs.
func cut(ctx context.Context, v *Vector, cuts []int, name string, res *TestResult, run func(at int) outcome) {
	failed := 0
	for _, at := range cuts {
		if ctx.Err() != nil {
			return
		}
		if diff := v.diff(run(at)); len(diff) > 0 {
			if failed++; failed == 1 {
				res.add(fmt.Sprintf(name, at), diff...)
			}
		}
	}
	if failed == 0 {
		res.Runs++
	} else if failed > 1 {
		res.Notes = append(res.Notes, fmt.Sprintf("%d of %d cuts differ; the first is shown", failed, len(cuts)))
	}
}

// A text of up to wholeCuts bytes is cut at every byte; a longer one near what is found and at someCuts other places,
// because every cut scans the text again.
const (
	wholeCuts = 2048
	someCuts  = 256
	nearCuts  = 8
)

func cutsOf(v *Vector) []int {
	n := len(v.Text)
	if n <= wholeCuts {
		cuts := make([]int, 0, n)
		for at := 1; at < n; at++ {
			cuts = append(cuts, at)
		}
		return cuts
	}
	var cuts []int
	for i := range someCuts {
		cuts = append(cuts, 1+i*(n-2)/(someCuts-1))
	}
	for i, f := range v.Findings {
		if i == someCuts/nearCuts {
			break
		}
		for at := max(1, f.Start-nearCuts); at <= min(n-1, f.Start+nearCuts); at++ {
			cuts = append(cuts, at)
		}
		for at := max(1, f.End-nearCuts); at <= min(n-1, f.End+nearCuts); at++ {
			cuts = append(cuts, at)
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// prefiltered compares what the gateway's way gave. A module that is not called has found nothing and said nothing.
func (v *Vector) prefiltered(o outcome) []string {
	diff := v.diff(o)
	if len(diff) > 0 && o.skipped {
		diff = append(diff, "none of the module's triggers is in the text, so the gateway does not call it: declare "+
			"triggers that are")
	}
	return diff
}

// diff says how an outcome differs from what is wanted, one line each.
func (v *Vector) diff(o outcome) []string {
	switch {
	case v.Error == WantStatus && errors.Is(o.err, host.ErrStatus):
		return nil
	case v.Error == WantStatus && o.err == nil:
		return append([]string{"want a status other than ok"}, v.compare(o.findings)...)
	case o.err != nil:
		return []string{"error: " + o.err.Error()}
	}
	return v.compare(o.findings)
}

// compare matches findings one by one. Both lists may be in any order.
func (v *Vector) compare(got []sdk.Finding) (diff []string) {
	used := make([]bool, len(got))
	for i := range v.Findings {
		want := &v.Findings[i]
		at := 0
		for at < len(got) && (used[at] || !want.is(&got[at])) {
			at++
		}
		if at == len(got) {
			diff = append(diff, "missing    "+want.describe(v.Text))
			continue
		}
		used[at] = true
	}
	for i := range got {
		if !used[i] {
			diff = append(diff, "unexpected "+describe(&got[i], v.Text))
		}
	}
	return diff
}

func (w *Finding) is(f *sdk.Finding) bool {
	return w.Kind == f.Kind && w.Start == f.Start && w.End == f.End &&
		(w.Confidence == nil || math.Abs(*w.Confidence-float64(f.Confidence)) < 1e-6) &&
		(w.Severity == nil || *w.Severity == f.Severity) &&
		(w.Action == nil || *w.Action == f.Suggested) &&
		(w.Replacement == nil || *w.Replacement == f.Replacement)
}

func (w *Finding) describe(text string) string {
	s := fmt.Sprintf("%s %d–%d %q", w.Kind, w.Start, w.End, Printable(text[w.Start:w.End], 60))
	if w.Confidence != nil {
		s += fmt.Sprintf(" confidence %g", *w.Confidence)
	}
	if w.Severity != nil {
		s += " " + w.Severity.String()
	}
	if w.Action != nil {
		s += " " + w.Action.String()
	}
	if w.Replacement != nil {
		s += fmt.Sprintf(" replacement %q", Printable(*w.Replacement, 60))
	}
	return s
}

func describe(f *sdk.Finding, text string) string {
	s := fmt.Sprintf("%s %d–%d %q confidence %g %s %s", f.Kind, f.Start, f.End, Printable(text[f.Start:f.End], 60),
		f.Confidence, f.Severity, f.Suggested)
	if f.Replacement != "" {
		s += fmt.Sprintf(" replacement %q", Printable(f.Replacement, 60))
	}
	return s
}

// calls runs a vector about a call on both instances.
func (t *trial) calls(ctx context.Context, sub *subject, v *Vector, res *TestResult) {
	call, err := readCall(v.Call)
	if err != nil {
		res.add("call", "error: "+err.Error())
		return
	}
	for _, run := range []struct {
		name string
		m    *host.Module
	}{{"first instance", sub.first}, {"second instance", sub.second}, {"again", sub.first}} {
		verdict, err := run.m.Check(ctx, call)
		res.add(run.name, v.judge(verdict, advised(err))...)
	}
}

func (v *Vector) judge(got sdk.Verdict, err error) []string {
	switch {
	case v.Error == WantStatus && errors.Is(err, host.ErrStatus):
		return nil
	case err != nil:
		return []string{"error: " + err.Error()}
	case v.Error == WantStatus:
		return []string{"want a status other than ok, got " + got.Effect.String()}
	}
	var diff []string
	differs := func(what string, got, want any) { diff = append(diff, fmt.Sprintf("%s %v, want %v", what, got, want)) }
	w := v.Decision
	if got.Effect != w.Effect {
		differs("effect", got.Effect, w.Effect)
	}
	if w.Code != nil && got.Code != *w.Code {
		differs("code", got.Code, *w.Code)
	}
	if w.Reason != nil && got.Reason != *w.Reason {
		differs("reason", Printable(got.Reason, 200), Printable(*w.Reason, 200))
	}
	if w.TTLms != nil && got.TTL != time.Duration(*w.TTLms)*time.Millisecond {
		differs("ttl", got.TTL, time.Duration(*w.TTLms)*time.Millisecond)
	}
	return diff
}

// readCall makes a call of an object: agent_id, session_id, tool_id, operation, call_id, args and context.
func readCall(text []byte) (*chain.Call, error) {
	var doc exact.Doc
	if err := doc.Parse(string(text), exact.DefaultLimits); err != nil {
		return nil, fmt.Errorf("call: %w", err)
	}
	if kind := doc.Root().Kind(); kind != exact.Object {
		return nil, fmt.Errorf("call: want an object, got %s", kind)
	}
	c := &chain.Call{}
	words := map[string]*string{"agent_id": &c.AgentID, "session_id": &c.SessionID, "tool_id": &c.ToolID,
		"operation": &c.Operation, "call_id": &c.CallID}
	objects := map[string]*exact.Value{"args": &c.Args, "context": &c.Context}
	for name, value := range doc.Root().Members() {
		switch word, object := words[name], objects[name]; {
		case word != nil && value.Kind() == exact.String:
			*word = value.Str()
		case object != nil && value.Kind() == exact.Object:
			*object = value
		case word == nil && object == nil:
			return nil, fmt.Errorf("call.%s: unknown; a call has agent_id, session_id, tool_id, operation, call_id, args "+
				"and context", Printable(name, 80))
		default:
			return nil, fmt.Errorf("call.%s: %s does not fit", name, value.Kind())
		}
	}
	c.ToolID = wire.ToolOf(c.ToolID, c.Operation)
	c.Operation = wire.OperationOf(c.ToolID, c.Operation)
	return c, nil
}
