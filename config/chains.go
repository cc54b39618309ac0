package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// Chains are the two ordered lists of steps.
type Chains struct {
	Authorize  Authorize  `koanf:"authorize" doc:"What decides a call. Verdicts combine: deny over defer over permit."`
	ScanOutput ScanOutput `koanf:"scan_output" doc:"What looks through a tool's output, and what is done about its findings."`
}

// Authorize is the chain that decides calls.
type Authorize struct {
	Budget  Duration        `koanf:"budget" default:"60ms" min:"1ms" max:"60s" doc:"Time for the whole chain; what is left of it is each step's deadline."`
	Default string          `koanf:"default" default:"deny" enum:"deny|permit|defer" doc:"The effect when every step abstains."`
	Steps   []AuthorizeStep `koanf:"steps" empty:"ok" doc:"Steps in order. Each has either rules (files) or use (a plugin of kind authorizer)."`
}

// AuthorizeStep is one step of the authorize chain: Rules or Use is set, never both.
type AuthorizeStep struct {
	Name      string    `koanf:"name" format:"name" example:"house-rules" doc:"Name in answers and the audit log, unique in the chain; with use, the plugin's name if not given."`
	RuleFiles []Path    `koanf:"rules" example:"[\"rules/house.yaml\"]" doc:"Rules files, read in order as one list."`
	Use       string    `koanf:"use" format:"name" example:"entitle" doc:"Name of a plugin of kind authorizer."`
	Match     Match     `koanf:"match" doc:"Which calls the step sees; all of them if not given."`
	Timeout   Duration  `koanf:"timeout" min:"1ms" max:"60s" example:"25ms" doc:"Time for this step; the plugin's limit, and never more than the budget, if not given."`
	OnError   string    `koanf:"on_error" default:"deny" enum:"deny|defer|abstain" doc:"What the step says when it did not run to its end: deny, defer or abstain; rules never less than the deny or defer they were looking at."`
	Mode      string    `koanf:"mode" default:"enforce" enum:"enforce|shadow" doc:"enforce, or shadow: run and recorded, without effect."`
	ScanArgs  bool      `koanf:"scan_args" default:"false" doc:"Run the scan_output chain over the args first: what it would redact or deny is denied."`
	Rules     []RuleSet `koanf:"-"` // the files of RuleFiles, read
	Pos       Pos       `koanf:"-"`
}

// Match says which calls a step sees. An empty list matches everything.
type Match struct {
	Tools    []string `koanf:"tools" format:"glob" example:"[\"payments/**\"]" doc:"Patterns of tools; * stays within one / segment, ** goes across."`
	Agents   []string `koanf:"agents" format:"glob" example:"[\"billing-*\"]" doc:"Patterns of agents."`
	Sessions []string `koanf:"sessions" format:"glob" example:"[\"batch-*\"]" doc:"Patterns of sessions."`
}

// ScanMatch says which texts a scan step sees. An empty list matches everything.
type ScanMatch struct {
	Tools  []string `koanf:"tools" format:"glob" example:"[\"mail/**\"]" doc:"Patterns of tools; * stays within one / segment, ** goes across."`
	Agents []string `koanf:"agents" format:"glob" example:"[\"billing-*\"]" doc:"Patterns of agents."`
}

// Reserved lists the keys that later versions will know: a text to scan carries no session as far as steps can see.
func (ScanMatch) Reserved() []string { return []string{"sessions"} }

// ScanOutput is the chain that scans texts.
type ScanOutput struct {
	Budget  Duration   `koanf:"budget" default:"120ms" min:"1ms" max:"60s" doc:"Time for the whole chain."`
	Steps   []ScanStep `koanf:"steps" empty:"ok" doc:"Scanners; all of them see the original text."`
	Actions []Action   `koanf:"actions" empty:"ok" doc:"What is done about a finding: the first entry that matches it. Unless one of them matches everything, {action: flag} follows."`
}

// ScanStep is one step of the scan_output chain.
type ScanStep struct {
	Name    string    `koanf:"name" format:"name" example:"secrets" doc:"Name in receipts, unique in the chain; the plugin's name if not given."`
	Use     string    `koanf:"use" req:"true" format:"name" example:"secrets" doc:"Name of a plugin of kind scanner."`
	Match   ScanMatch `koanf:"match" doc:"Which texts the step sees; all of them if not given."`
	Timeout Duration  `koanf:"timeout" min:"1ms" max:"60s" example:"50ms" doc:"Time for this step; the plugin's limit, and never more than the budget, if not given."`
	OnError string    `koanf:"on_error" default:"deny" enum:"deny|abstain" doc:"What happens to the text when the step did not run to its end: deny, or abstain (the other steps decide; the receipt says so; if none of them looked, the text is denied)."`
	Mode    string    `koanf:"mode" default:"enforce" enum:"enforce|shadow" doc:"enforce, or shadow: run and recorded, without effect."`
	Pos     Pos       `koanf:"-"`
}

// Action says what is done about the findings it matches; what is not given matches everything.
type Action struct {
	Kinds         []string `koanf:"kinds" format:"glob" example:"[\"SECRET_*\"]" doc:"Patterns of kinds of findings."`
	Scanners      []string `koanf:"scanners" format:"glob" example:"[\"secrets\"]" doc:"Patterns of the names of plugins that found it."`
	Tools         []string `koanf:"tools" format:"glob" example:"[\"mail/**\"]" doc:"Patterns of tools."`
	Severity      string   `koanf:"severity" enum:"info|low|medium|high|critical|>=info|>=low|>=medium|>=high|>=critical" example:"\">=high\"" doc:"One severity, or with >= it and all above: info, low, medium, high, critical."`
	MinConfidence float64  `koanf:"min_confidence" min:"0" max:"1" example:"0.7" doc:"Least confidence, from 0 to 1."`
	Action        string   `koanf:"action" req:"true" enum:"allow|flag|redact|deny" example:"redact" doc:"allow (ignore), flag (report), redact (replace the text) or deny (withhold the whole output)."`
	Replacement   string   `koanf:"replacement" format:"text" maxlen:"256" example:"\"[{kind}]\"" doc:"What stands in for a redacted finding. {kind} is its kind; {mask} is a keyed hash, the same for the same value in a session: put it in brackets, as in [{kind} {mask}], or a scanner may take it for a value; {format} is the value with asterisks for all but its separators and, from 12 letters and digits on, the last four of them. {token} is a token of the value in its session, which a key with scope reveal reads. [{kind}] stands in instead: for {mask} and {token} where the text has no session, for {token} where the value has more than 512 bytes, for {format} and {token} where the finding touches another one. [{kind}] if not given. Only with redact."`
	Pos           Pos      `koanf:"-"`
}

// MinSeverity takes Severity apart: its name ("" when not given) and whether higher ones match too.
func (a *Action) MinSeverity() (name string, orHigher bool) {
	return strings.TrimPrefix(a.Severity, ">="), strings.HasPrefix(a.Severity, ">=")
}

// CatchAll says whether the entry matches every finding.
func (a *Action) CatchAll() bool {
	any := func(list []string) bool { return len(list) == 0 || slices.Contains(list, "**") }
	kinds := any(a.Kinds) || slices.Contains(a.Kinds, "*") // kinds and scanners have no "/" segments
	scanners := any(a.Scanners) || slices.Contains(a.Scanners, "*")
	return kinds && scanners && any(a.Tools) && (a.Severity == "" || a.Severity == ">=info") && a.MinConfidence == 0
}

func (l *loader) finishAuthorize(c *Authorize) {
	names := map[string]Pos{}
	for i := range c.Steps {
		s, key := &c.Steps[i], fmt.Sprintf("chains.authorize.steps[%d]", i)
		s.Pos = l.Report.Origins.At(key)
		limit := c.Budget
		switch {
		case len(s.RuleFiles) > 0 && s.Use != "":
			l.Report.Errorf(key, "has both rules and use; a step is one of them")
		case len(s.RuleFiles) == 0 && s.Use == "":
			l.Report.Errorf(key, "needs rules (files) or use (a plugin)")
		case s.Use != "":
			limit = min(limit, l.plugin(s.Use, KindAuthorizer, strict.Join(key, "use")))
		case s.Name == "":
			l.Report.Errorf(strict.Join(key, "name"), "is required for a step with rules")
		}
		for j, path := range s.RuleFiles {
			s.Rules = append(s.Rules, l.readRules(string(path), fmt.Sprintf("%s.rules[%d]", key, j)))
		}
		uniqueIDs(l.Report, s.Rules)
		s.Name, s.Timeout = l.nameStep(names, key, s.Name, s.Use), orDefault(s.Timeout, limit)
	}
}

func (l *loader) finishScan(c *ScanOutput) {
	names := map[string]Pos{}
	for i := range c.Steps {
		s, key := &c.Steps[i], fmt.Sprintf("chains.scan_output.steps[%d]", i)
		s.Pos = l.Report.Origins.At(key)
		limit := min(c.Budget, l.plugin(s.Use, KindScanner, strict.Join(key, "use")))
		s.Name, s.Timeout = l.nameStep(names, key, s.Name, s.Use), orDefault(s.Timeout, limit)
	}
	for i := range c.Actions {
		c.Actions[i].Pos = l.Report.Origins.At(fmt.Sprintf("chains.scan_output.actions[%d]", i))
		c.Actions[i].finish(l.Report, fmt.Sprintf("chains.scan_output.actions[%d]", i))
	}
	if !slices.ContainsFunc(c.Actions, func(a Action) bool { return a.CatchAll() }) {
		c.Actions = append(c.Actions, Action{Action: "flag"})
	}
}

func (a *Action) finish(r *strict.Report, key string) {
	if a.Action != "redact" {
		if a.Replacement != "" {
			r.Errorf(strict.Join(key, "replacement"), "allowed only with action redact, not with %s", a.Action)
		}
		return
	}
	if a.Replacement == "" {
		a.Replacement = "[{kind}]"
	}
	rest := strings.NewReplacer("{kind}", "", "{mask}", "", "{format}", "", "{token}", "").Replace(a.Replacement)
	if strings.ContainsAny(rest, "{}") {
		r.Errorf(strict.Join(key, "replacement"), "knows {kind}, {mask}, {format} and {token} only; other braces are refused")
	}
}

// plugin looks up what a step uses and gives the time one call of it may take.
func (l *loader) plugin(name, kind, key string) Duration {
	p, ok := l.config.Plugins[name]
	switch {
	case !ok:
		l.Report.Errorf(key, "no plugin %s is defined%s", strict.Literal(name),
			strict.Meant(name, slices.Sorted(maps.Keys(l.config.Plugins))))
	case p.Kind != kind:
		l.Report.Errorf(key, "%s is a plugin of kind %s; this chain takes %s only", strict.Literal(name), p.Kind, kind)
	default:
		return p.Limits.Timeout
	}
	return 0
}

// nameStep gives the step's name and refuses a second of the same name.
func (l *loader) nameStep(names map[string]Pos, key, name, use string) string {
	if name == "" {
		name = use
	}
	if first, ok := names[name]; ok && name != "" {
		l.Report.Errorf(key, "a step named %s stands at %s already; give this one another name", strict.Literal(name), first)
	}
	names[name] = l.Report.Origins.At(key)
	return name
}

func orDefault(d, otherwise Duration) Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
