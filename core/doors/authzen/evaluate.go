package authzen

import (
	"context"
	"net/http"
	"time"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// outcome is the answer to one evaluation.
type outcome struct {
	permit  bool
	context []byte        // a JSON object
	dec     *ask.Decision // what it tells; nil for an error
}

// members writes the answer.
func (o *outcome) members(w *wire.Writer) {
	w.Bool("decision", o.permit)
	w.Raw("context", o.context)
}

// settle takes a permit back that a kill or the end of the key has overtaken while others were decided. It is between
// the last decision and the answer.
func (d *door) settle(r *front.Request, o *outcome) {
	if !o.permit || !o.dec.Overtaken() && !d.set.Asker.Stopped(r.Caller, "", "", "") {
		return
	}
	w := wire.Object(nil)
	w.Str("evaluation_id", o.dec.DecisionID)
	w.Str("decision_id", o.dec.DecisionID)
	w.Str("reason_code", sdk.ReasonKillSwitch)
	o.permit, o.context = false, w.Close()
}

// decisions are those that one answer tells of.
type decisions struct{ all []*ask.Decision }

// sent says that the answer has left.
func (ds *decisions) sent() {
	for _, d := range ds.all {
		d.Sent()
	}
}

// failed is the answer to one evaluation of a batch that could not be decided.
func failed(err *sdk.Error) *outcome {
	c := wire.Object(nil)
	c.Object("error", func(w *wire.Writer) {
		w.Int("status", int64(statusOf(err)))
		w.Str("message", messageOf(err))
	})
	return &outcome{context: c.Close()}
}

// evaluation answers one evaluation.
func (d *door) evaluation(w http.ResponseWriter, r *front.Request) {
	req, err := body(r, &d.set.Limits)
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	d.single(w, r, req)
}

func (d *door) single(w http.ResponseWriter, r *front.Request, req exact.Value) {
	c, bad := readCall(req, exact.Value{}, &d.set.Limits)
	if bad != nil {
		d.refuse(w, r, bad)
		return
	}
	var asked decisions
	defer asked.sent()
	o, err := d.decide(r.Context(), r, c, &asked)
	if err != nil {
		d.refuse(w, r, d.told(r, err))
		return
	}
	d.settle(r, o)
	out := wire.Object(nil)
	o.members(&out)
	d.answer(w, r, http.StatusOK, kindJSON, out.Close())
}

// Why an approval that a request brings is not what permits it.
const (
	approvalExpired = "approval_expired"
	outOfScope      = "out_of_scope"
	policyDenied    = "policy_denied"
	unverifiable    = "approval_unverifiable"
	needsApproval   = "approval_required"
)

// decide asks about one call. A call with an approval that fits redeems it; with any other it is asked about as if it
// had none, and the answer says why.
func (d *door) decide(ctx context.Context, r *front.Request, c *call, asked *decisions) (*outcome, error) {
	why := ""
	if c.approval.Exists() {
		var ref *approval
		if ref, why = d.redeemable(r.Caller.Key.ID, c); why == "" {
			dec, err := d.ask(ctx, r, c, asked, ref.Token)
			switch {
			case err != nil:
				return nil, err
			case dec.Effect != sdk.Deny.String() || dec.ReasonCode != sdk.ReasonApprovalMismatch:
				return d.tell(r, c, dec, ref, policyDenied)
			}
			why = approvalExpired
		}
	}
	dec, err := d.ask(ctx, r, c, asked, "")
	if err != nil {
		return nil, err
	}
	return d.tell(r, c, dec, nil, why)
}

// ask asks the operations. There is no call_id: two evaluations of one call are two calls, and none is a repeat.
func (d *door) ask(ctx context.Context, r *front.Request, c *call, asked *decisions, token string) (*ask.Decision,
	error) {
	dec, err := d.set.Asker.Authorize(ctx, r.Caller, &wire.AuthorizeRequest{AgentID: c.agent, ToolID: c.tool,
		Args: c.args, Context: c.context, DeferToken: token})
	if err != nil {
		return nil, err
	}
	asked.all = append(asked.all, dec)
	return dec, nil
}

// tell writes a decision. ref is the approval that the call was asked about with, nil if none; why says what is wrong
// with the one that the request brought, "" if it brought none.
func (d *door) tell(r *front.Request, c *call, dec *ask.Decision, ref *approval, why string) (*outcome, error) {
	permit := dec.Permits()
	w := wire.Object(nil)
	w.Str("evaluation_id", dec.DecisionID)
	w.Str("evaluated_at", d.set.Now().UTC().Format(time.RFC3339))
	w.Str("decision_id", dec.DecisionID)
	w.Str("reason_code", dec.ReasonCode)
	w.Opt("rule_id", dec.RuleID)
	language := func(name, text string) {
		if text != "" {
			w.Object(name, func(in *wire.Writer) { in.Str("en", text) })
		}
	}
	language("reason_admin", dec.Reason)
	language("reason_user", dec.Message)
	switch {
	case permit && ref != nil:
		w.Object("approval", func(in *wire.Writer) {
			in.Str("id", ref.ID)
			in.Str("approved_until", ref.Until)
		})
	case permit:
	case dec.Effect == sdk.Defer.String():
		if ref != nil || why == "" {
			why = needsApproval
		}
		w.Str("reason", why)
		if c.approval.Exists() {
			w.Str("next_action", "request")
		}
		text, err := d.accessRequest(r, c, dec)
		if err != nil {
			return nil, err
		}
		w.Raw("access_request", text)
	default:
		denied(&w, dec, why)
	}
	return &outcome{permit: permit, context: w.Close(), dec: dec}, nil
}

// denied writes what a client may do after a DENY.
func denied(w *wire.Writer, dec *ask.Decision, why string) {
	retry := dec.Retry != nil && dec.Retry.Class == "after"
	switch {
	case why != "" && retry:
		w.Str("reason", dec.ReasonCode)
		w.Str("next_action", "retry")
	case why != "":
		w.Str("reason", why)
		w.Str("next_action", "none")
	}
	if retry {
		w.Int("retry_after", int64(max(dec.Retry.AfterSeconds, 1)))
	}
}
