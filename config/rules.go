package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/config/strict"
	"github.com/yett-dev/yett/core/pin"
)

// Rule is one rule of a rules file. When is text: its type is checked by the engine that runs it.
type Rule struct {
	ID        string    `koanf:"id" req:"true" format:"id" example:"no-drop" doc:"Name of the rule in answers and the audit log; unique within its step."`
	Tools     []string  `koanf:"tools" req:"true" format:"glob" example:"[\"db/**\"]" doc:"Patterns of tools; * stays within one / segment, ** goes across."`
	Agents    []string  `koanf:"agents" format:"glob" example:"[\"billing-*\"]" doc:"Patterns of agents; a lone * is every agent, as if none is given."`
	When      string    `koanf:"when" format:"text" maxlen:"8192" example:"args.amount > 100" doc:"A CEL condition over agent, session, tool, operation, args, context, key and now."`
	Effect    string    `koanf:"effect" req:"true" enum:"permit|deny|defer" example:"deny" doc:"What a match says: permit, deny or defer."`
	Code      string    `koanf:"code" format:"code" example:"NO_DROP" doc:"Reason code of the answer; RULE_PERMIT, RULE_DENY or RULE_DEFER if not given."`
	Reason    string    `koanf:"reason" format:"text" maxlen:"1024" example:"dropping tables needs a change request" doc:"Why, for people and logs."`
	Message   string    `koanf:"message" format:"text" maxlen:"1024" example:"Ask for a change request first." doc:"What a model may be told."`
	Priority  string    `koanf:"priority" enum:"low|medium|high" example:"high" doc:"How much it matters to whoever looks at the call: low, medium or high."`
	Approvals Approvals `koanf:"approvals" short:"n" doc:"Who has to approve a defer. A number alone is n. Only with defer."`
	Expires   Duration  `koanf:"expires" min:"1s" max:"365d" example:"5m" doc:"How long a defer waits; defers.ttl if not given. Only with defer."`
	Rates     []Rate    `koanf:"rate" one:"ok" most:"8" doc:"How many permits of this rule there are in a window; one, or a list. Only with permit and defer."`
	Budgets   []Budget  `koanf:"budget" one:"ok" most:"8" doc:"How large the sum of an amount over the permits of this rule may be in a window; one, or a list. Only with permit and defer."`
	Loops     []Loop    `koanf:"loop" one:"ok" most:"8" doc:"How often this rule permits one and the same call in a window; one, or a list. Only with permit and defer."`
	Pos       Pos       `koanf:"-"`
}

// Approvals say who has to approve a call that waits.
type Approvals struct {
	N    int      `koanf:"n" min:"1" max:"100" example:"2" doc:"How many different approvers are needed; 1 if not given."`
	From []string `koanf:"from" format:"signer" most:"100" example:"[\"key:alice\", \"role:operator\"]" doc:"Whose approval counts: key:NAME, role:approver, role:operator; everybody's who may approve if not given."`
}

// Forms are those of the texts here.
func (Approvals) Forms() map[string]strict.Form {
	return map[string]strict.Form{"signer": {Check: func(s string) error {
		return errors.Join(strict.Matches(signerForm, s, "key:NAME, role:approver or role:operator"), strict.Printable(s, ""))
	}}}
}

var signerForm = regexp.MustCompile(`^(key:.+|role:(approver|operator))$`)

// Rate bounds how many permits a rule gives in a window.
type Rate struct {
	Limit  int      `koanf:"limit" req:"true" min:"1" max:"1000000000" example:"10" doc:"How many permits."`
	Window Duration `koanf:"window" req:"true" min:"1s" max:"366d" example:"1m" doc:"In which time, in whole seconds. Windows begin at multiples of their length (UTC)."`
	Per    string   `koanf:"per" req:"true" enum:"agent|session|key" example:"agent" doc:"For whom: each agent, session or key. A limit per session needs another one per agent or key beside it: callers choose their sessions."`
}

// Budget bounds a sum over what a rule permits in a window. Amount is text, as Rule.When.
type Budget struct {
	Amount string   `koanf:"amount" req:"true" format:"text" maxlen:"2048" example:"args.amount" doc:"What is summed: a CEL expression over what when knows. A call for which it is negative or no number is denied."`
	Limit  Decimal  `koanf:"limit" req:"true" example:"1000.50" doc:"How large the sum may be; exact."`
	Window Duration `koanf:"window" req:"true" min:"1s" max:"366d" example:"24h" doc:"In which time, in whole seconds. Windows begin at multiples of their length (UTC)."`
	Per    string   `koanf:"per" req:"true" enum:"agent|session|key" example:"agent" doc:"For whom: each agent, session or key. As in rate, a budget per session needs one of the same amount per agent or key beside it."`
}

// Loop bounds how often one and the same call is permitted in a window.
type Loop struct {
	Limit  int      `koanf:"limit" req:"true" min:"1" max:"1000000000" example:"3" doc:"How often."`
	Window Duration `koanf:"window" req:"true" min:"1s" max:"366d" example:"1m" doc:"In which time, in whole seconds. Windows begin at multiples of their length (UTC)."`
}

// RuleSet is one rules file as it was read.
type RuleSet struct {
	Path   string // the file, as it was opened
	Digest string // "sha256:<hex>" of its bytes
	Rules  []Rule // in order; the first that matches speaks
}

type rulesFile struct {
	Rules []Rule `koanf:"rules" req:"true" doc:"Rules in order; the first that matches speaks."`
}

// maxRulesFile is the largest rules file that is read, in bytes.
const maxRulesFile = 64 << 20

// ParseRules reads the text of one rules file; name stands for the file in what is wrong with it. Nothing else is read.
// The error is an *Error.
func ParseRules(name string, data []byte) (RuleSet, error) {
	l := newLoader(Sources{}, Default())
	if len(data) > maxRulesFile {
		l.Report.Errorf("", "is %d bytes long, more than the limit of %d", len(data), maxRulesFile)
		return RuleSet{}, l.Report.Err()
	}
	set := l.parseRules(name, data)
	uniqueIDs(l.Report, []RuleSet{set})
	return set, l.Report.Err()
}

// readRules reads one rules file. What is wrong with it goes into r, placed in that file.
func (l *loader) readRules(path, key string) RuleSet {
	data, err := l.Read(path, maxRulesFile)
	if err != nil {
		l.Report.Errorf(key, "%s", err)
		return RuleSet{Path: path}
	}
	return l.parseRules(path, data)
}

func (l *loader) parseRules(path string, data []byte) RuleSet {
	set := RuleSet{Path: path, Digest: pin.Digest(data)}
	r := strict.NewReport()
	var file rulesFile
	strict.ReadText(r, path, filepath.Ext(path), data, &file)
	for i := range file.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		file.Rules[i].Pos = r.Origins.At(at)
		file.Rules[i].validate(r, at, l.config.Defers.MaxTTL)
	}
	l.Report.AddAll(r)
	set.Rules = file.Rules
	return set
}

// ReadRules reads rules files by themselves, as one list in the order given. defers.max_ttl is its default. The error
// is an *Error.
func ReadRules(paths ...string) ([]RuleSet, error) {
	l := newLoader(Sources{}, Default())
	var sets []RuleSet
	for _, path := range paths {
		sets = append(sets, l.readRules(path, ""))
	}
	uniqueIDs(l.Report, sets)
	return sets, l.Report.Err()
}

func (u *Rule) validate(r *strict.Report, key string, most Duration) {
	u.validateLimits(r, key)
	if u.Effect != "defer" {
		if u.Approvals.N != 0 || u.Approvals.From != nil {
			r.Errorf(strict.Join(key, "approvals"), "allowed only with effect defer, not with %s", u.Effect)
		}
		if u.Expires != 0 {
			r.Errorf(strict.Join(key, "expires"), "allowed only with effect defer, not with %s", u.Effect)
		}
		return
	}
	if u.Approvals.N == 0 {
		u.Approvals.N = 1
	}
	u.Approvals.validate(r, strict.Join(key, "approvals"))
	if u.Expires > most {
		r.Errorf(strict.Join(key, "expires"), "%s is longer than defers.max_ttl (%s)", u.Expires, most)
	}
}

// validate finds a quorum that can never come together.
func (a *Approvals) validate(r *strict.Report, key string) {
	keys := 0
	for i, from := range a.From {
		if slices.Contains(a.From[:i], from) {
			r.Errorf(fmt.Sprintf("%s.from[%d]", key, i), "%s stands there twice", strict.Literal(from))
		}
		if strings.HasPrefix(from, "key:") {
			keys++
		}
	}
	if keys > 0 && keys == len(a.From) && a.N > keys {
		r.Errorf(strict.Join(key, "n"), "%d approvers are needed and only %d can approve; name more in from", a.N, keys)
	}
}

// counter is what tells the counters of one rule's limits of one kind apart.
type counter struct {
	window Duration
	per    string
}

func (u *Rule) validateLimits(r *strict.Report, key string) {
	var rates, budgets, loops []counter
	for _, x := range u.Rates {
		rates = append(rates, counter{x.Window, x.Per})
	}
	for _, x := range u.Budgets {
		budgets = append(budgets, counter{x.Window, x.Per})
	}
	for _, x := range u.Loops {
		loops = append(loops, counter{window: x.Window})
	}
	u.validateCounters(r, strict.Join(key, "rate"), rates)
	u.validateCounters(r, strict.Join(key, "budget"), budgets)
	u.validateCounters(r, strict.Join(key, "loop"), loops)
	u.wantTwins(r, strict.Join(key, "rate"), rates, func(int, int) bool { return true }, "a rate")
	u.wantTwins(r, strict.Join(key, "budget"), budgets, func(i, j int) bool {
		return strings.TrimSpace(u.Budgets[i].Amount) == strings.TrimSpace(u.Budgets[j].Amount)
	}, "a budget of the same amount")
}

func (u *Rule) validateCounters(r *strict.Report, key string, list []counter) {
	if len(list) > 0 && u.Effect == "deny" {
		r.Errorf(key, "allowed only with effect permit or defer, not with %s", u.Effect)
	}
	for i, c := range list {
		at := fmt.Sprintf("%s[%d]", key, i)
		if c.window%Duration(time.Second) != 0 {
			r.Errorf(strict.Join(at, "window"), "%s is not whole seconds", c.window)
		}
		if slices.Contains(list[:i], c) {
			r.Errorf(at, "an entry before has the same window%s; they would share one counter",
				map[bool]string{true: " and per"}[c.per != ""])
		}
	}
}

// wantTwins refuses a limit per session without one per agent or key: callers make up their session ids, so by itself
// it limits nobody.
func (u *Rule) wantTwins(r *strict.Report, key string, list []counter, alike func(i, j int) bool, what string) {
	for i, c := range list {
		twin := c.per != "session"
		for j, other := range list {
			twin = twin || other.per != "session" && alike(i, j)
		}
		if !twin {
			r.Errorf(fmt.Sprintf("%s[%d].per", key, i),
				"rule %s limits each session and nothing else, and callers choose their sessions; add %s per agent or per key "+
					"to the rule", strict.Literal(u.ID), what)
		}
	}
}

// uniqueIDs wants each rule id once in all the files of one step: the id is what answers and records name.
func uniqueIDs(r *strict.Report, sets []RuleSet) {
	seen := map[string]Pos{}
	for _, set := range sets {
		for _, u := range set.Rules {
			if first, ok := seen[u.ID]; ok {
				r.Add(u.Pos, "id", "rule %s is defined before, at %s; ids are unique within a step", strict.Literal(u.ID), first)
				continue
			}
			seen[u.ID] = u.Pos
		}
	}
}
