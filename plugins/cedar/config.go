package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/yett-dev/yett/sdk/plugin"
)

// The bounds of the settings. Those of schema.json are the same.
const (
	maxPolicyText = 256 << 10 // bytes of policy
	maxPaths      = 64
	maxTypes      = 64
	maxPointers   = 256
	minReload     = 100 * time.Millisecond
	maxReload     = time.Hour
)

// config is what the operator writes. README.md says what each member means.
type config struct {
	Policy        string   `json:"policy"`
	Policies      []string `json:"policies"`
	Entities      string   `json:"entities"`
	Schema        string   `json:"schema"`
	Principal     part     `json:"principal"`
	Action        part     `json:"action"`
	Resource      part     `json:"resource"`
	ContextFrom   string   `json:"context_from"`
	ContextValues string   `json:"context_values"`
	Decimals      []string `json:"decimals"`
	Nulls         string   `json:"nulls"`
	OnPolicyError string   `json:"on_policy_error"`
	OnNoPermit    string   `json:"on_no_permit"`
	Reload        string   `json:"reload"`

	every    time.Duration // Reload; 0 is never
	decimals *places       // Decimals
}

// part says how a call becomes the principal, the action or the resource: an id under a fixed type, or a whole uid.
type part struct {
	Type  string   `json:"type"`
	ID    string   `json:"id"`
	UID   string   `json:"uid"`
	Types []string `json:"types"`
}

// The values of the settings that are one of a few.
const (
	plain     = "plain"
	cedarJSON = "cedar"
	fail      = "fail"
	omit      = "omit"
	deny      = "deny"
	skip      = "skip"
	abstain   = "abstain"
)

// parse reads the settings and checks all that can be checked without opening a file.
func parse(s plugin.Settings) (*config, error) {
	c := config{ContextValues: plain, Nulls: fail, OnPolicyError: deny, OnNoPermit: deny, Reload: "10s"}
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	var ps plugin.Problems
	add := func(field, format string, a ...any) {
		ps = append(ps, plugin.Problem{Field: field, Message: fmt.Sprintf(format, a...)})
	}
	c.checkSources(add)
	c.Principal.check(add, "/principal", part{Type: "Agent", ID: "agent_id"})
	c.Action.check(add, "/action", part{Type: "Action", ID: "tool_id"})
	c.Resource.check(add, "/resource", part{Type: "Tool", ID: "tool_id"})
	c.checkValues(add)
	c.checkChoices(add)
	if len(ps) > 0 {
		return nil, ps
	}
	return &c, nil
}

type addProblem func(field, format string, a ...any)

func (c *config) checkSources(add addProblem) {
	if (c.Policy == "") == (len(c.Policies) == 0) {
		add("", "exactly one of policy and policies must be given")
	}
	if len(c.Policy) > maxPolicyText {
		add("/policy", "%d bytes; at most %d: use policies", len(c.Policy), maxPolicyText)
	}
	if len(c.Policies) > maxPaths {
		add("/policies", "%d entries; at most %d", len(c.Policies), maxPaths)
	}
	for i, p := range c.Policies {
		if !filepath.IsAbs(p) {
			add(fmt.Sprintf("/policies/%d", i), "not an absolute path")
		}
	}
	if c.Entities != "" && !filepath.IsAbs(c.Entities) {
		add("/entities", "not an absolute path")
	}
	if c.Schema != "" && !filepath.IsAbs(c.Schema) {
		add("/schema", "not an absolute path")
	}
	d, err := time.ParseDuration(c.Reload)
	if err != nil || d != 0 && (d < minReload || d > maxReload) {
		add("/reload", "%q; a duration with a unit from %v to %v, or 0s for never", c.Reload, minReload, maxReload)
	}
	c.every = d
}

// fields are the call's own names that an id can be taken from.
var fields = []string{"agent_id", "session_id", "tool_id", "operation", "key_id", "key_name"}

func isPointer(s string) bool {
	return strings.HasPrefix(s, "/args/") || strings.HasPrefix(s, "/context/")
}

// check fills in the default and reports what is wrong.
func (p *part) check(add addProblem, field string, def part) {
	if p.Type == "" && p.ID == "" && p.UID == "" && len(p.Types) == 0 {
		*p = def
		return
	}
	if p.UID != "" {
		p.checkUID(add, field)
		return
	}
	if len(p.Types) > 0 {
		add(field+"/types", "only with uid")
	}
	if p.Type == "" {
		p.Type = def.Type
	}
	if p.ID == "" {
		p.ID = def.ID
	}
	if _, err := types.NewEntityType(p.Type); err != nil {
		add(field+"/type", "%.64q is not the name of an entity type", p.Type)
	}
	if !slices.Contains(fields, p.ID) && !isPointer(p.ID) {
		add(field+"/id", "%.64q is not one of %s, and no path such as /args/account", p.ID, strings.Join(fields, " "))
	}
}

func (p *part) checkUID(add addProblem, field string) {
	if p.Type != "" || p.ID != "" {
		add(field, "either uid with types, or type and id")
	}
	if !isPointer(p.UID) {
		add(field+"/uid", "%.64q is no path such as /args/account", p.UID)
	}
	if len(p.Types) == 0 || len(p.Types) > maxTypes {
		add(field+"/types", "1 to %d entity types that the caller may name", maxTypes)
	}
	for i, t := range p.Types {
		if _, err := types.NewEntityType(t); err != nil {
			add(fmt.Sprintf("%s/types/%d", field, i), "%.64q is not the name of an entity type", t)
		}
	}
}

func (c *config) checkValues(add addProblem) {
	if from := c.ContextFrom; from != "" && from != "/args" && from != "/context" && !isPointer(from) {
		add("/context_from", "%.64q is neither /args nor a path such as /args/context", from)
	}
	oneOf(add, "/context_values", c.ContextValues, plain, cedarJSON)
	oneOf(add, "/nulls", c.Nulls, fail, omit)
	if c.ContextValues == cedarJSON {
		if c.ContextFrom == "" {
			add("/context_values", "cedar needs context_from")
		}
		if len(c.Decimals) > 0 || c.Nulls != fail {
			add("/context_values", "cedar takes neither decimals nor nulls: values are read as Cedar's JSON has them")
		}
	}
	if len(c.Decimals) > maxPointers {
		add("/decimals", "%d entries; at most %d", len(c.Decimals), maxPointers)
	}
	c.decimals = &places{}
	for i, d := range c.Decimals {
		if !isPointer(d) {
			add(fmt.Sprintf("/decimals/%d", i), "%.64q is no path such as /args/amount", d)
			continue
		}
		c.decimals.add(d)
	}
}

func (c *config) checkChoices(add addProblem) {
	oneOf(add, "/on_policy_error", c.OnPolicyError, deny, skip)
	oneOf(add, "/on_no_permit", c.OnNoPermit, deny, abstain)
}

func oneOf(add addProblem, field, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		add(field, "%.64q; one of %s", value, strings.Join(allowed, " and "))
	}
}
