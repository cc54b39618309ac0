//go:build linux

package bench

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
	Echo     float64    `json:"echo_per_second,omitempty"` // what it is compared with, if that is an echo
	Base     float64    `json:"base_per_second,omitempty"` // the same, if that is a gateway
}

// ratioGoal is what a row is held against.
type ratioGoal struct {
	id    string
	load  string
	base  string // load that it is compared with, of the same round
	conns int
	goal  float64
	floor float64
	what  string
	short string // why the goal cannot be met yet, "" when it can
	large bool   // only when asked for: it takes long to prepare
	lower bool   // less is better

	value func(own, base *sample) float64 // what is held against the goal; nil for the rates' ratio
}

// floorRatio is what this release has to reach where a goal is not met.
const floorRatio = 0.25

const oneScanner = "the goal is for three scanners and this row runs one"

const (
	echoCalls  = "echo-authorize"
	echoScan   = "echo-scan"
	plainCalls = "authorize-digest"
)

var ratioGoals = []ratioGoal{
	{id: "S1", load: plainCalls, base: echoCalls, conns: 256, goal: 0.50, floor: floorRatio, what: "authorize, of raw echo"},
	{id: "S1-redacted", load: "authorize-redacted", base: echoCalls, conns: 256, goal: 0.50, what: "authorize with audit.args: redacted, of raw echo"},
	{id: "S2", load: plainCalls, base: echoCalls, conns: 64, goal: 0.33, what: "authorize, of raw echo"},
	{id: "S2-redacted", load: "authorize-redacted", base: echoCalls, conns: 64, goal: 0.33, what: "authorize with audit.args: redacted, of raw echo"},
	{id: "S4-16", load: "govern-8x16", base: echoCalls, conns: 64, goal: 0.9, what: "govern on the socket"},
	{id: "S4-64", load: "govern-8x64", base: echoCalls, conns: 64, goal: 1.3, what: "govern on the socket"},
	{id: "S6-bytes", load: plainCalls, base: echoCalls, conns: 256, goal: 2048, floor: 8192, what: "bytes allocated by the server for one authorize", lower: true, value: func(s, _ *sample) float64 { return s.BytesEach }},
	{id: "S6-objects", load: plainCalls, base: echoCalls, conns: 256, goal: 12, floor: 48, what: "objects allocated by the server for one authorize", lower: true, value: func(s, _ *sample) float64 { return s.ObjectsEach }},
	{id: "S7-redeem", load: "redeem", base: plainCalls, conns: 256, goal: 0.70, what: "redeeming approvals, of plain authorize"},
	{id: "S7-redeem-64", load: "redeem", base: plainCalls, conns: 64, goal: 0.70, what: "redeeming approvals, of plain authorize"},
	{id: "S7-grant", load: "grant", base: plainCalls, conns: 256, goal: 0.70, what: "spending standing grants, of plain authorize"},
	{id: "S7-grant-64", load: "grant", base: plainCalls, conns: 64, goal: 0.70, what: "spending standing grants, of plain authorize"},
	{id: "S8", load: "scan-clean", base: echoScan, conns: 256, goal: 0.35, what: "scan of 4 KiB that trips nothing, of raw echo", short: oneScanner},
	{id: "S8-64", load: "scan-clean", base: echoScan, conns: 64, goal: 0.35, what: "scan of 4 KiB that trips nothing, of raw echo", short: oneScanner},
	{id: "S8-dirty", load: "scan-dirty", base: echoScan, conns: 256, goal: 0.35, what: "scan of 4 KiB with one secret, of raw echo", short: oneScanner},
	{id: "S8-dirty-64", load: "scan-dirty", base: echoScan, conns: 64, goal: 0.35, what: "scan of 4 KiB with one secret, of raw echo", short: oneScanner},
	{id: "S9", load: "pass-5000", base: "textbook-5000", conns: 256, goal: 500, what: "MB/s of the one pass for 5 000 literals and byte classes, text that trips nothing, one core", value: megabytes},
	{id: "S9-textbook", load: "pass-5000", base: "textbook-5000", conns: 256, goal: 1.43, what: "the same, of a textbook automaton that looks for the literals only"},
	{id: "S11", load: "sandbox-clean", base: "textbook-5000", conns: 256, goal: 300, what: "MB/s of the built-in scanners, 64 KiB that trip nothing, one core", value: megabytes},
	{id: "S11-dirty", load: "sandbox-dirty", base: "textbook-5000", conns: 256, goal: 15, what: "MB/s of the built-in scanners, 64 KiB with a secret in each KiB, one core", value: megabytes},
	{id: "rules-1000", load: "rules-1000", base: "rules-10", conns: 256, goal: 0.8, what: "authorize with 1 000 rules, of 10"},
	{id: "rules-1000-64", load: "rules-1000", base: "rules-10", conns: 64, goal: 0.8, what: "authorize with 1 000 rules, of 10"},
	{id: "rules-100000", load: "rules-100000", base: "rules-10", conns: 256, goal: 0.8, what: "authorize with 100 000 rules, of 10", large: true},
	{id: "rules-100000-64", load: "rules-100000", base: "rules-10", conns: 64, goal: 0.8, what: "authorize with 100 000 rules, of 10", large: true},
	{id: "subscribers-p99", load: "authorize-followed", base: "authorize-quiet", conns: 256, goal: 1.5, lower: true,
		what: fmt.Sprintf("p99 of authorize at %g of S1's rate with %d idle and %d stuck subscribers, of the p99 without",
			quietShare, idleSubscribers, stuckSubscribers), value: tails},
	{id: "S14", load: "authorize-plugin", base: plainCalls, conns: 1, goal: 150, lower: true, what: "µs at p50 that an authorizer in a process of its own (GOMAXPROCS=1) adds to authorize",
		value: func(s, without *sample) float64 { return s.P50 - without.P50 }},
	{id: "S14-rate", load: "checks", base: echoCalls, conns: 64, goal: 50, what: "thousand checks a second through one plugin, 64 callers", value: megabytes},
	{id: "S14-four", load: "authorize-plugins", base: "authorize-plugin", conns: 1, goal: 1.5, lower: true, what: "p50 of authorize with 4 such authorizers side by side, of that with one",
		value: func(s, one *sample) float64 { return ratio(s.P50, one.P50) }},
	{id: "S14-excluded", load: "authorize-excluded", base: plainCalls, conns: 64, goal: 1.02, lower: true, what: "processor time of an authorize that match keeps from 4 plugins, of one without plugins",
		value: func(s, without *sample) float64 { return ratio(s.CPUEach, without.CPUEach) }},
	{id: "subscriber-p99", load: "authorize-subscribed", base: "authorize-unsubscribed", conns: 64, goal: 1.1, lower: true,
		what: fmt.Sprintf("p99 of authorize at %g of its highest rate with a plugin that follows the audit log, of the "+
			"p99 without", quietShare), value: tails},
}

func tails(own, base *sample) float64 { return ratio(own.P99, base.P99) }

// ratio is 0, which counts as not measured, where there is nothing to compare with.
func ratio(own, base float64) float64 {
	if base == 0 {
		return 0
	}
	return own / base
}

// judge makes the rows from all samples.
func (r *ratioRun) judge(all []sample) []ratioRow {
	var rows []ratioRow
	for _, t := range r.goals {
		rows = append(rows, t.judge(all, r.load(t.load), r.load(t.base)))
	}
	return rows
}

// judge compares, round by round, with the base of the same round.
func (t *ratioGoal) judge(all []sample, load, base *load) ratioRow {
	row := ratioRow{ID: t.id, Goal: t.goal, What: t.said(load), Better: "higher"}
	if t.lower {
		row.Better = "lower"
	}
	var values, own, raw []float64
	var wrong []string
	bases := map[int]*sample{}
	for i := range all {
		if s := &all[i]; s.Load == base.name && s.Connections == base.at(t.conns) {
			bases[s.Round] = s
			raw = append(raw, s.PerSecond)
			wrong = append(wrong, s.wrong()...)
		}
	}
	for i := range all {
		s := &all[i]
		if s.Load != load.name || s.Connections != load.at(t.conns) {
			continue
		}
		own = append(own, s.PerSecond)
		wrong = append(wrong, s.wrong()...)
		if v, ok := t.measured(s, bases[s.Round]); ok {
			values = append(values, v)
		} else {
			wrong = append(wrong, fmt.Sprintf("nothing to compare %s with in round %d", s.Load, s.Round))
		}
	}
	if len(values) > 0 {
		row.Measured, row.Spread = median(values), [2]float64{slices.Min(values), slices.Max(values)}
		row.Yett = median(own)
	} else {
		wrong = append(wrong, "nothing was measured")
	}
	if len(raw) > 0 && base.gateway == "" {
		row.Echo = median(raw)
	} else if len(raw) > 0 {
		row.Base = median(raw)
	}
	row.Verdict, row.Why = t.verdict(row.Measured, wrong)
	return row
}

// said is the row in words.
func (t *ratioGoal) said(load *load) string {
	if load.work != nil {
		return t.what
	}
	if load.depth > 0 {
		return fmt.Sprintf("%s, %d connections × %d in flight, of raw HTTP echo with %d connections", t.what,
			load.at(t.conns), load.depth, t.conns)
	}
	return fmt.Sprintf("%s, %d connections", t.what, t.conns)
}

// measured is a round's figure; not ok without the base of the round.
func (t *ratioGoal) measured(own, base *sample) (v float64, ok bool) {
	switch {
	case base == nil || base.PerSecond <= 0:
		return 0, false
	case t.value != nil:
		v = t.value(own, base)
		return v, v > 0
	}
	return own.PerSecond / base.PerSecond, true
}

// wrong says what of a sample was not as it has to be.
func (s *sample) wrong() (out []string) {
	if s.Bad > 0 {
		out = append(out, fmt.Sprintf("%d bad answers from %s in round %d, the first: %s", s.Bad, s.Load, s.Round,
			s.FirstBad))
	}
	if s.Unrecorded > 0 {
		out = append(out, fmt.Sprintf("%d answers of %s in round %d have no record", s.Unrecorded, s.Load, s.Round))
	}
	if s.Late > 0 {
		out = append(out, fmt.Sprintf("%d calls of %s in round %d were not answered in time", s.Late, s.Load, s.Round))
	}
	if s.Disturbed != "" {
		out = append(out, fmt.Sprintf("%s in round %d: %s", s.Load, s.Round, s.Disturbed))
	}
	if s.Good == 0 {
		out = append(out, fmt.Sprintf("no good answer from %s in round %d", s.Load, s.Round))
	}
	return out
}

// verdict is the one place where figures become a word. Anything wrong is missed, however fast it was.
func (t *ratioGoal) verdict(measured float64, wrong []string) (verdict, why string) {
	reached := func(bound float64) bool {
		if t.lower {
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
