package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
	exptypes "github.com/cedar-policy/cedar-go/x/exp/types"

	"github.com/yett-dev/yett/plugins/internal/policyfiles"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

// The bounds of what is loaded and answered.
const (
	maxPolicies = 10_000
	maxRuleID   = 256  // bytes of a policy's id
	maxMessage  = 1024 // bytes of an @message
	maxNamed    = 8    // policies that a reason names
)

// Reason codes of this plugin's own.
const (
	codeNoPermit    = "CEDAR_NO_PERMIT"
	codePolicyError = "CEDAR_POLICY_ERROR"
	codeUnfit       = "CEDAR_UNFIT_CALL"
)

// engine is one loaded set of policies with its entities. It is never changed, and may be asked by many at once.
type engine struct {
	config   *config
	policies cedar.PolicyMap
	entities types.EntityMap
	requests *validate.Validator // nil without a schema
}

// load makes an engine of what was read. An error is for the operator: nothing of it was put to use.
func load(c *config, s *source) (*engine, error) {
	if err := checkTokens(s); err != nil {
		return nil, err
	}
	e := &engine{config: c, policies: cedar.PolicyMap{}}
	for _, f := range s.policies {
		if err := e.addPolicies(f, len(s.policies) > 1); err != nil {
			return nil, err
		}
	}
	if len(e.policies) == 0 {
		return nil, errors.New("the files hold no policy")
	}
	var rs *resolved.Schema
	if s.schema != nil {
		var err error
		if rs, err = e.useSchema(s.schema); err != nil {
			return nil, err
		}
	}
	if err := e.useEntities(s.entities, rs); err != nil {
		return nil, fmt.Errorf("entities: %w", err)
	}
	return e, nil
}

// addPolicies adds the policies of one file. A policy's id is its @id, or else its place: "policy0", "policy1", with
// the file's name in front where there are several files.
func (e *engine) addPolicies(f policyfiles.File, several bool) error {
	err := checkNesting(f.Data)
	var list cedar.PolicyList
	if err == nil {
		list, err = cedar.NewPolicyListFromBytes(f.Name, f.Data)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	for i, p := range list {
		id := fmt.Sprintf("policy%d", i)
		if several {
			id = f.Name + ":" + id
		}
		if given, ok := p.Annotations()["id"]; ok && given != "" {
			id = string(given)
		}
		switch {
		case len(id) > maxRuleID:
			return fmt.Errorf("%s: the id of policy %d has %d bytes; at most %d", f.Name, i, len(id), maxRuleID)
		case e.policies[cedar.PolicyID(id)] != nil:
			return fmt.Errorf("%s: two policies have the id %q", f.Name, id)
		case len(p.Annotations()["message"]) > maxMessage:
			return fmt.Errorf("%s: @message of %q has %d bytes; at most %d", f.Name, id, len(p.Annotations()["message"]),
				maxMessage)
		case len(e.policies) >= maxPolicies:
			return fmt.Errorf("more than %d policies", maxPolicies)
		}
		e.policies[cedar.PolicyID(id)] = p
	}
	return nil
}

// useSchema checks all policies against the schema, and from now on every request.
func (e *engine) useSchema(text []byte) (*resolved.Schema, error) {
	var s schema.Schema
	err := checkNesting(text)
	switch {
	case err != nil:
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		err = s.UnmarshalJSON(text)
	default:
		err = s.UnmarshalCedar(text)
	}
	if err == nil {
		err = checkSize(s.AST())
	}
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	rs, err := s.Resolve()
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	v := validate.New(rs)
	for _, id := range e.sorted() {
		if err := v.Policy(string(id), (*ast.Policy)(e.policies[id].AST())); err != nil {
			return nil, fmt.Errorf("policy %q does not hold to the schema: %w", id, err)
		}
	}
	e.requests = v
	return rs, nil
}

func (e *engine) sorted() []cedar.PolicyID {
	ids := make([]cedar.PolicyID, 0, len(e.policies))
	for id := range e.policies {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// useEntities reads the entities. The actions of a schema are entities too.
func (e *engine) useEntities(text []byte, rs *resolved.Schema) error {
	e.entities = types.EntityMap{}
	if text != nil {
		if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
			return errors.New("not a JSON array of entities")
		}
		err := knownMembers(text)
		switch {
		case err != nil:
		case rs == nil:
			err = e.entities.UnmarshalJSON(text)
		default:
			err = (*exptypes.EntityMap)(&e.entities).UnmarshalJSONWithSchema(text, rs)
		}
		if err != nil {
			return err
		}
	}
	if rs != nil {
		for uid, a := range rs.Actions {
			e.entities[uid] = a.Entity
		}
	}
	return nil
}

// knownMembers refuses entities with a member that Cedar has not. Its parser drops such ones, and with them what a
// misspelt parents or tags should have said.
func knownMembers(text []byte) error {
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for i, one := range all {
		for name := range one {
			if !slices.Contains([]string{"uid", "attrs", "parents", "tags"}, name) {
				return fmt.Errorf("/%d: unknown member %.64q", i, name)
			}
		}
	}
	return nil
}

// Decide asks the policies about one call. One that cannot be put to them as it is, is denied; a malformed one is an
// error. Cedar's policies have no loops: what one question costs is bounded by the policies and the call, so that the
// deadline is looked at only before it is asked.
func (e *engine) Decide(ctx context.Context, call *plugin.Call) (sdk.Verdict, error) {
	r, err := e.config.request(call)
	if err == nil && e.requests != nil && e.requests.Request(r) != nil {
		err = unfit{errors.New("the call does not hold to the schema")} // the validator's own words quote values
	}
	if errors.As(err, &unfit{}) {
		return sdk.Verdict{Effect: sdk.Deny, Code: codeUnfit, Reason: clip(err.Error())}, nil
	}
	if err != nil {
		return sdk.Verdict{}, err
	}
	if err := ctx.Err(); err != nil {
		return sdk.Verdict{}, err
	}
	decision, diag := cedar.Authorize(e.policies, e.entities, r)
	return e.verdict(decision, diag), nil
}

// verdict is what Cedar's answer means. A forbid that could not be evaluated counts as one that holds, unless the
// operator chose Cedar's own way, which leaves it out. A permit that could not be evaluated permits nothing either way.
func (e *engine) verdict(decision cedar.Decision, diag cedar.Diagnostic) sdk.Verdict {
	var failed, forbids []string
	for _, f := range diag.Errors {
		failed = append(failed, string(f.PolicyID))
		if p := e.policies[f.PolicyID]; p == nil || p.Effect() != cedar.Permit {
			forbids = append(forbids, string(f.PolicyID))
		}
	}
	var held []string
	for _, r := range diag.Reasons {
		held = append(held, string(r.PolicyID))
	}
	for _, ids := range [][]string{failed, forbids, held} {
		slices.Sort(ids)
	}
	v := sdk.Verdict{Effect: sdk.Deny}
	switch {
	case decision != cedar.Allow && len(held) > 0:
		v.Code, v.RuleID, v.Reason = sdk.ReasonRuleDeny, held[0], "forbidden by "+names(held)
	case len(forbids) > 0 && e.config.OnPolicyError == deny:
		v.Code, v.RuleID, v.Reason = codePolicyError, forbids[0], "could not be evaluated, and would forbid: "+names(forbids)
	case decision == cedar.Allow && len(held) > 0:
		v.Effect, v.Code, v.RuleID, v.Reason = sdk.Permit, sdk.ReasonRulePermit, held[0], "permitted by "+names(held)
	case e.config.OnNoPermit == abstain:
		v.Effect, v.Reason = sdk.Abstain, "no policy permits this call"
	default:
		v.Code, v.Reason = codeNoPermit, "no policy permits this call"
	}
	if p := e.policies[cedar.PolicyID(v.RuleID)]; p != nil {
		v.Message = string(p.Annotations()["message"])
	}
	if len(failed) > 0 && v.Code != codePolicyError {
		v.Reason += "; could not be evaluated: " + names(failed)
	}
	return v
}

// clip cuts a text to what a reason may be.
func clip(text string) string {
	const most = 1024
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(" (cut)")], "") + " (cut)"
}

// names lists ids, so many that a reason stays within its bound of 1024 bytes.
func names(ids []string) string {
	const room = 400
	var b strings.Builder
	for i, id := range ids {
		if i == maxNamed || b.Len()+len(id) > room {
			fmt.Fprintf(&b, " and %d more", len(ids)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(id)
	}
	return b.String()
}
