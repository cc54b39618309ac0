package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Rule is one rule of a rules file. When is text: its type is checked by the engine that runs it.
type Rule struct {
	ID        string   `koanf:"id" req:"true" format:"id" example:"no-drop" doc:"Name of the rule in answers and the audit log; unique within its step."`
	Tools     []string `koanf:"tools" req:"true" format:"glob" example:"[\"db/**\"]" doc:"Patterns of tools; * stays within one / segment, ** goes across."`
	Agents    []string `koanf:"agents" format:"glob" example:"[\"billing-*\"]" doc:"Patterns of agents; every agent if not given."`
	When      string   `koanf:"when" format:"text" maxlen:"8192" example:"args.amount > 100" doc:"A CEL condition over agent, session, tool, operation, args, context, key and now."`
	Effect    string   `koanf:"effect" req:"true" enum:"permit|deny|defer" example:"deny" doc:"What a match says: permit, deny or defer."`
	Code      string   `koanf:"code" format:"code" example:"NO_DROP" doc:"Reason code of the answer; RULE_PERMIT, RULE_DENY or RULE_DEFER if not given."`
	Reason    string   `koanf:"reason" format:"text" maxlen:"1024" example:"dropping tables needs a change request" doc:"Why, for people and logs."`
	Message   string   `koanf:"message" format:"text" maxlen:"1024" example:"Ask for a change request first." doc:"What a model may be told."`
	Approvals int      `koanf:"approvals" min:"1" max:"100" example:"1" doc:"How many different approvers a defer needs; 1 if not given. Only with defer."`
	Expires   Duration `koanf:"expires" min:"1s" max:"365d" example:"5m" doc:"How long a defer waits; defers.ttl if not given. Only with defer."`
	Pos       Pos      `koanf:"-"`
}

// reserved lists the keys that later versions will know.
func (Rule) reserved() []string { return []string{"rate", "budget", "loop", "priority"} }

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
const maxRulesFile = 16 << 20

// readRules reads one rules file. What is wrong with it goes into r, placed in that file.
func (l *loader) readRules(path, key string) RuleSet {
	data, err := l.read(path, maxRulesFile)
	if err != nil {
		l.report.errorf(key, "%s", err)
		return RuleSet{Path: path}
	}
	sum := sha256.Sum256(data)
	set := RuleSet{Path: path, Digest: "sha256:" + hex.EncodeToString(sum[:])}
	r := newReport()
	var file rulesFile
	layers := parseFile(r, path, data)
	m := newMerger(r, rulesFile{})
	for _, one := range layers {
		m.add(one)
	}
	if len(layers) > 0 {
		m.decode(&file)
	}
	for i := range file.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		file.Rules[i].Pos = r.at(at)
		file.Rules[i].validate(r, at, l.config.Defers.MaxTTL)
	}
	l.report.take(r)
	set.Rules = file.Rules
	return set
}

func (u *Rule) validate(r *report, key string, most Duration) {
	if u.Effect != "defer" {
		if u.Approvals != 0 {
			r.errorf(join(key, "approvals"), "goes with effect defer only, not with %s", u.Effect)
		}
		if u.Expires != 0 {
			r.errorf(join(key, "expires"), "goes with effect defer only, not with %s", u.Effect)
		}
		return
	}
	if u.Approvals == 0 {
		u.Approvals = 1
	}
	if u.Expires > most {
		r.errorf(join(key, "expires"), "%s is longer than defers.max_ttl (%s)", u.Expires, most)
	}
}

// uniqueIDs wants each rule id once in all the files of one step: the id is what answers and records name.
func uniqueIDs(r *report, sets []RuleSet) {
	seen := map[string]Pos{}
	for _, set := range sets {
		for _, u := range set.Rules {
			if first, ok := seen[u.ID]; ok {
				r.add(u.Pos, "id", "rule %s is defined before, at %s; ids are unique within a step", quote(u.ID), first)
				continue
			}
			seen[u.ID] = u.Pos
		}
	}
}
