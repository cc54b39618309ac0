package main

import (
	"fmt"
	"slices"
	"strings"
)

// ratioRow is one line of the result. Rows that this version cannot measure are not there.
type ratioRow struct {
	ID       string     `json:"id"`
	Goal     float64    `json:"goal"`
	Measured float64    `json:"measured"` // the median of all rounds
	Verdict  string     `json:"verdict"`  // met, limited: short of the goal but above the release's floor, or missed
	Why      string     `json:"why"`
	What     string     `json:"what"`
	Better   string     `json:"better"` // higher or lower
	Spread   [2]float64 `json:"spread"` // the least and the most of all rounds
	Yett     float64    `json:"yett_per_second,omitempty"`
	Echo     float64    `json:"echo_per_second,omitempty"`
}

// ratioGoal is what a row is held against.
type ratioGoal struct {
	id, load string
	conns    int
	goal     float64
	floor    float64
	what     string
	short    string // why the goal cannot be met yet, "" when it can
	value    func(s *sample) float64
}

// floorRatio is what this release has to reach where a goal is not met.
const floorRatio = 0.25

const oneScanner = "the goal is for three scanners and this version has one"

var ratioGoals = []ratioGoal{
	{id: "S1", load: "authorize-digest", conns: 256, goal: 0.50, floor: floorRatio, what: "authorize, of raw echo"},
	{id: "S1-redacted", load: "authorize-redacted", conns: 256, goal: 0.50, floor: 0, what: "authorize with audit.args: redacted, of raw echo"},
	{id: "S2", load: "authorize-digest", conns: 64, goal: 0.33, floor: 0, what: "authorize, of raw echo"},
	{id: "S2-redacted", load: "authorize-redacted", conns: 64, goal: 0.33, floor: 0, what: "authorize with audit.args: redacted, of raw echo"},
	{id: "S6-bytes", load: "authorize-digest", conns: 256, goal: 2048, floor: 8192, what: "bytes allocated by the server for one authorize", value: func(s *sample) float64 { return s.BytesEach }},
	{id: "S6-objects", load: "authorize-digest", conns: 256, goal: 12, floor: 48, what: "objects allocated by the server for one authorize", value: func(s *sample) float64 { return s.ObjectsEach }},
	{id: "S8", load: "scan-clean", conns: 256, goal: 0.35, what: "scan of 4 KiB that trips nothing, of raw echo", short: oneScanner},
	{id: "S8-64", load: "scan-clean", conns: 64, goal: 0.35, what: "scan of 4 KiB that trips nothing, of raw echo", short: oneScanner},
	{id: "S8-dirty", load: "scan-dirty", conns: 256, goal: 0.35, what: "scan of 4 KiB with one secret, of raw echo", short: oneScanner},
	{id: "S8-dirty-64", load: "scan-dirty", conns: 64, goal: 0.35, what: "scan of 4 KiB with one secret, of raw echo", short: oneScanner},
}

// judge makes the rows from all samples.
func (r *ratioRun) judge(all []sample) []ratioRow {
	var rows []ratioRow
	for _, t := range ratioGoals {
		if slices.Contains(r.conns, t.conns) {
			rows = append(rows, t.judge(all, r.echoOf(t.load)))
		}
	}
	return rows
}

func (r *ratioRun) echoOf(name string) string {
	for _, l := range r.loads {
		if l.name == name {
			return l.echo
		}
	}
	return ""
}

// judge compares, round by round, with the echo of the same round.
func (t *ratioGoal) judge(all []sample, echo string) ratioRow {
	row := ratioRow{ID: t.id, Goal: t.goal, What: fmt.Sprintf("%s, %d connections", t.what, t.conns), Better: "higher"}
	var values, own, raw []float64
	var wrong []string
	echoes := map[int]*sample{}
	for i := range all {
		if s := &all[i]; s.Load == echo && s.Connections == t.conns {
			echoes[s.Round] = s
			raw = append(raw, s.PerSecond)
			wrong = append(wrong, s.wrong()...)
		}
	}
	for i := range all {
		s := &all[i]
		if s.Load != t.load || s.Connections != t.conns {
			continue
		}
		own = append(own, s.PerSecond)
		wrong = append(wrong, s.wrong()...)
		switch e := echoes[s.Round]; {
		case t.value != nil:
			values = append(values, t.value(s))
		case e != nil && e.PerSecond > 0:
			values = append(values, s.PerSecond/e.PerSecond)
		}
	}
	if t.value != nil {
		row.Better = "lower"
	}
	if len(values) > 0 {
		row.Measured, row.Spread = median(values), [2]float64{slices.Min(values), slices.Max(values)}
		row.Yett, row.Echo = median(own), median(raw)
	} else {
		wrong = append(wrong, "nothing was measured")
	}
	row.Verdict, row.Why = t.verdict(row.Measured, wrong)
	return row
}

// wrong says what of a sample was not as it has to be.
func (s *sample) wrong() (out []string) {
	if s.Bad > 0 {
		out = append(out, fmt.Sprintf("%d bad answers from %s in round %d, the first: %s", s.Bad, s.Load, s.Round, s.FirstBad))
	}
	if s.Unrecorded > 0 {
		out = append(out, fmt.Sprintf("%d answers of %s in round %d have no record", s.Unrecorded, s.Load, s.Round))
	}
	if s.Good == 0 {
		out = append(out, fmt.Sprintf("no good answer from %s in round %d", s.Load, s.Round))
	}
	return out
}

// verdict is the one place where figures become a word. Anything wrong is missed, however fast it was.
func (t *ratioGoal) verdict(measured float64, wrong []string) (verdict, why string) {
	reached := func(bound float64) bool {
		if t.value != nil {
			return measured <= bound
		}
		return measured >= bound
	}
	switch {
	case len(wrong) > 0:
		return "missed", strings.Join(wrong[:min(len(wrong), 3)], "; ")
	case reached(t.goal) && t.short == "":
		return "met", "median of all rounds"
	case reached(t.goal):
		return "limited", t.short
	case t.floor != 0 && reached(t.floor):
		return "limited", fmt.Sprintf("short of the goal; this release's floor is %g", t.floor)
	}
	return "missed", strings.Trim(fmt.Sprintf("short of the goal; %s", t.short), "; ")
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
