package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// Rate bounds how many permits of its rule one agent, session or key gets in a window.
type Rate struct {
	Limit  int64 // 1 to 1 000 000 000
	Window time.Duration
	Per    string // agent, session or key
}

// Budget bounds the sum of an amount over the permits of its rule in a window.
type Budget struct {
	Amount string // a CEL expression over the variables of a condition; its value is a number that is not negative
	Limit  string // an exact decimal above 0, at most 30 digits before its point and 18 behind
	Window time.Duration
	Per    string // agent, session or key
}

// Loop bounds how often one and the same call is permitted in a window.
type Loop struct {
	Limit  int64 // 1 to 1 000 000 000
	Window time.Duration
}

// Bounds of limits.
const (
	maxLimits   = 8 // of each kind, in one rule
	maxCount    = 1_000_000_000
	maxWindow   = 366 * 24 * time.Hour
	maxAmount   = 2048 // characters of a budget's expression
	limitWhole  = 30   // digits of a budget's limit before its point
	limitPlaces = 18   // and behind it

	// sumPlaces is how many digits behind the point an amount may have. A sum keeps all of them, so a call must not
	// decide how many there are.
	sumPlaces = 64
	// sumWhole is up to how many digits before the point an amount is passed on as it is. It is beyond any limit's.
	sumWhole = 64
)

// beyond stands for every amount above sumWhole digits: it is over any limit, as they are, and short.
var beyond = "1" + strings.Repeat("0", sumWhole)

// amount is one budget expression and the places in a verdict's Limits that its value fills.
type amount struct {
	expr *condition
	at   []int
}

var pers = []string{"agent", "session", "key"}

// limits compiles what r bounds: the limits as a verdict carries them and what of them each call fills in. Rates come
// first, then budgets, then loops, each in the rule's order.
func (c *compiler) limits(r *Rule) ([]sdk.Limit, []amount) {
	var out []sdk.Limit
	var amounts []amount
	if len(r.Rates)+len(r.Budgets)+len(r.Loops) == 0 {
		return nil, nil
	}
	before := len(c.errs)
	c.checkLimits(r, "rate", len(r.Rates))
	c.checkLimits(r, "budget", len(r.Budgets))
	c.checkLimits(r, "loop", len(r.Loops))
	if len(c.errs) > before {
		return nil, nil
	}
	seen := map[sdk.Limit]bool{}
	for i, rate := range r.Rates {
		field := fmt.Sprintf("rate[%d]", i)
		c.checkWindow(r, field, rate.Window, rate.Per, seen)
		out = append(out, sdk.Limit{Kind: sdk.LimitRate, Rule: r.ID, Per: rate.Per, Window: rate.Window, Amount: "1",
			Max: c.count(r, field, rate.Limit)})
	}
	clear(seen)
	for i, budget := range r.Budgets {
		field := fmt.Sprintf("budget[%d]", i)
		c.checkWindow(r, field, budget.Window, budget.Per, seen)
		amounts = c.amount(r, field, budget.Amount, len(out), amounts)
		out = append(out, sdk.Limit{Kind: sdk.LimitBudget, Rule: r.ID, Per: budget.Per, Window: budget.Window,
			Max: c.sum(r, field, budget.Limit)})
	}
	clear(seen)
	for i, loop := range r.Loops {
		field := fmt.Sprintf("loop[%d]", i)
		c.checkWindow(r, field, loop.Window, "", seen)
		out = append(out, sdk.Limit{Kind: sdk.LimitLoop, Rule: r.ID, Window: loop.Window, Amount: "1",
			Max: c.count(r, field, loop.Limit)})
	}
	return out, amounts
}

func (c *compiler) checkLimits(r *Rule, field string, n int) {
	switch {
	case n > maxLimits:
		c.fault(r, field, "%d entries, the limit is %d", n, maxLimits)
	case n > 0 && r.Effect != sdk.Permit && r.Effect != sdk.Defer:
		c.fault(r, field, "only a rule that permits or defers can have one")
	}
}

// checkWindow wants each counter once: a rule's counters are told apart by kind, window and per alone.
func (c *compiler) checkWindow(r *Rule, field string, window time.Duration, per string, seen map[sdk.Limit]bool) {
	if window < time.Second || window > maxWindow || window%time.Second != 0 {
		c.fault(r, field+".window", "%v, must be whole seconds, 1s to 366 days", window)
	}
	if per != "" && !slices.Contains(pers, per) || per == "" && !strings.HasPrefix(field, "loop") {
		c.fault(r, field+".per", "%q, must be agent, session or key", per)
	}
	one := sdk.Limit{Window: window, Per: per}
	if seen[one] {
		c.fault(r, field, "an earlier entry has the same window and per; one counter cannot have two limits")
	}
	seen[one] = true
}

func (c *compiler) count(r *Rule, field string, n int64) string {
	if n < 1 || n > maxCount {
		c.fault(r, field+".limit", "%d, must be 1 to %d", n, maxCount)
	}
	return strconv.FormatInt(n, 10)
}

func (c *compiler) sum(r *Rule, field, text string) string {
	d, err := exact.ParseDecimal(text)
	if err != nil {
		c.fault(r, field+".limit", "not a number")
		return ""
	}
	_, digits, point := d.Parts()
	if d.Sign() <= 0 || point > limitWhole || len(digits)-point > limitPlaces {
		c.fault(r, field+".limit", "must be above 0, with at most %d digits before the point and %d behind it", limitWhole,
			limitPlaces)
	}
	return d.String()
}

// amount compiles a budget's expression, whose value fills the limit at place at. One expression is evaluated once.
func (c *compiler) amount(r *Rule, field, source string, at int, known []amount) []amount {
	field += ".amount"
	switch {
	case strings.TrimSpace(source) == "":
		c.fault(r, field, "missing")
		return known
	case len(source) > maxAmount:
		c.fault(r, field, "%d bytes, the limit is %d", len(source), maxAmount)
		return known
	}
	expr := c.expression(r, field, source, c.amounts, compileAmount)
	for i := range known {
		if known[i].expr == expr {
			known[i].at = append(known[i].at, at)
			return known
		}
	}
	return append(known, amount{expr, []int{at}})
}

// limited fills in the amounts that v's budgets count for this call. Where one is missing or is no number that can be
// summed, the rule speaks DENY.
func (r *compiled) limited(sc *scope, v sdk.Verdict) (sdk.Verdict, error) {
	if len(r.amounts) == 0 {
		return v, nil
	}
	limits := slices.Clone(v.Limits) // r's own are shared by all calls
	for _, a := range r.amounts {
		text, err := a.of(sc)
		if why := sc.over(); why != nil && err != nil {
			return r.unfinished(), interrupted(why)
		}
		if err != nil {
			return sdk.Verdict{
				Effect: sdk.Deny, Code: sdk.ReasonSchemaInvalid, RuleID: v.RuleID, Priority: v.Priority,
				Reason:  fmt.Sprintf("rule %s: the amount of its budget failed: %v", v.RuleID, err),
				Message: "A budget counts an amount of this call, and that amount is missing or is no number that can be counted.",
			}, nil
		}
		for _, at := range a.at {
			limits[at].Amount = text
		}
	}
	if !sc.inTime() {
		return r.unfinished(), interrupted(sc.late)
	}
	v.Limits = limits
	return v, nil
}

// of evaluates to a canonical decimal that is not negative. The error is a class, as a condition's.
func (a *amount) of(sc *scope) (string, error) {
	v, err := a.expr.value(sc)
	if err != nil {
		return "", err
	}
	n, ok := asNumber(v)
	if !ok {
		return "", errNotNum
	}
	d := n.decimal()
	neg, digits, point := d.Parts()
	switch {
	case neg:
		return "", errNegative
	case len(digits)-point > sumPlaces:
		return "", errDigits
	case point > sumWhole:
		return beyond, nil
	}
	return d.String(), nil
}
