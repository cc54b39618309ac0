package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Limits of what a page shows.
const (
	mostWaiting = 100       // calls in the list; those that expire soonest
	mostShown   = 256 << 10 // bytes of a call: more than a person reads, and what is not shown cannot be approved here
)

// decisionID is how ids of decisions look, as a regular expression.
const decisionID = `dec_[0-9A-HJKMNP-TV-Z]{26}`

var isDecision = regexp.MustCompile(`^` + decisionID + `$`)

// approvalsPage is the list of calls that wait.
type approvalsPage struct {
	Rows  []approvalRow
	Total int
	More  int // that are not shown
}

// approvalRow is one deferred call in a few words.
type approvalRow struct {
	store.Defer
	Asker string // the name of the key that asked
	Left  string // until it expires
}

// RuleNames lists the rules that defer the call as it is now. A single rule has the name that the decision has.
func (r approvalRow) RuleNames() string {
	rules, _ := r.Rules()
	if r.Modified == nil && len(rules) <= 1 {
		return r.RuleID
	}
	return strings.Join(slices.DeleteFunc(rules, func(rule string) bool { return rule == "" }), ", ")
}

func (c *Console) listApprovals(w http.ResponseWriter, r *http.Request, v *visit) {
	list, total, err := c.set.Approvals.Waiting(r.Context(), v.op, mostWaiting)
	if err != nil {
		c.refuseError(w, v, err)
		return
	}
	names := c.keyNames()
	p := approvalsPage{Total: total, More: total - len(list)}
	for _, d := range list {
		p.Rows = append(p.Rows, approvalRow{Defer: d, Asker: names[d.KeyID], Left: left(d.Expires, c.set.Now())})
	}
	title := "Approvals"
	if total > 0 {
		title = fmt.Sprintf("Approvals (%d)", total)
	}
	c.render(w, http.StatusOK, "approvals", view{Title: title, Visit: v, Page: p})
}

// keyNames are the names of all keys by their ids.
func (c *Console) keyNames() map[string]string {
	out := map[string]string{}
	for _, k := range c.set.Keys.Keys() {
		out[k.ID] = k.Name
	}
	return out
}

// left is how long there is until then.
func left(until, now time.Time) string {
	return max(until.Sub(now), 0).Round(time.Second).String()
}

// approvalPage is one deferred call, in whatever state it is.
type approvalPage struct {
	approvalRow
	Text    string   // the call, laid out for reading; "" when it is too large
	Size    int      // of the call, bytes
	Most    int      // bytes that are shown
	Hidden  []string // parts that could not be masked, and why
	Says    string   // what the agent says about the call
	NotSaid string   // why that is not shown, "" if it is
	From    []string
	Signs   []signRow
	By      string // who ended it
	Digest  string // of the call that this page shows; the form sends it back
	Answers bool   // the operator's role may answer
	Mine    bool   // the operator has signed it off
	Yes, No string // reasons as they were typed, to approve and to deny or withdraw
}

// signRow is one sign-off.
type signRow struct {
	By, Reason string
	At         time.Time
	Grant      bool
}

// MayApprove reports whether the page has a form that approves.
func (p approvalPage) MayApprove() bool {
	return p.Answers && p.Status == store.Pending && p.Text != "" && !p.Mine && len(p.From) == 0
}

// MayDeny reports whether the page has a form that denies.
func (p approvalPage) MayDeny() bool { return p.Answers && p.Status == store.Pending }

// MayWithdraw reports whether the page has a form that takes an approval back.
func (p approvalPage) MayWithdraw() bool { return p.Answers && p.Status == store.Approved }

func (c *Console) showApproval(w http.ResponseWriter, r *http.Request, v *visit) {
	if d := c.deferral(w, r, v); d != nil {
		c.renderApproval(w, v, http.StatusOK, d, answerForm{}, nil)
	}
}

// deferral is the call that the address names, or nil when the answer is written.
func (c *Console) deferral(w http.ResponseWriter, r *http.Request, v *visit) *ops.Deferral {
	id := r.PathValue("id")
	err := error(sdk.Errf(sdk.CodeUnknownDefer, "no id of a decision"))
	var d *ops.Deferral
	if isDecision.MatchString(id) {
		d, err = c.set.Approvals.Deferral(r.Context(), id)
	}
	var e *sdk.Error
	switch {
	case err == nil:
		return d
	case errors.As(err, &e) && e.Code == sdk.CodeUnknownDefer:
		c.refuse(w, v, http.StatusNotFound, "No such call",
			"No call with this id waits for an answer or has waited for one. Is the link whole, and is it one of this "+
				"gateway? What waits now is listed under Approvals.")
	default:
		c.refuseError(w, v, err)
	}
	return nil
}

// renderApproval writes the page of one call; err is why an answer to it came to nothing.
func (c *Console) renderApproval(w http.ResponseWriter, v *visit, status int, d *ops.Deferral, f answerForm,
	err error) {
	now, names := c.set.Now(), c.keyNames()
	who := func(id string) string {
		if name := names[id]; name != "" {
			return name + " (" + id + ")"
		}
		return id
	}
	p := approvalPage{approvalRow: approvalRow{d.Defer, names[d.KeyID], left(d.Expires, now)}, Text: laidOut(d.Call),
		Size: len(d.Call), Most: mostShown, By: who(d.ResolvedBy), Digest: d.Digest,
		Answers: v.op.Approver().Scope()&sdk.ScopeApprove != 0, Yes: f.yes, No: f.no}
	p.Hidden = hidden(d.Call)
	if p.Says = d.Note.Text; d.Note.Withheld != nil {
		p.NotSaid = d.Note.Withheld.String()
	}
	for _, s := range d.Signed {
		p.Signs = append(p.Signs, signRow{By: who(s.Key), Reason: s.Reason, At: s.At, Grant: s.Grant != nil})
		p.Mine = p.Mine || s.Key == v.by.Principal
	}
	if !d.Open {
		p.From = named(d.Quorums)
	}
	out := view{Title: "Approval", Visit: v, Page: p}
	if err != nil {
		status, out.Error = c.statusOf(err)
		out.Field = fieldOf(err)
	}
	c.render(w, status, "approval", out)
}

// hidden says which parts of a call are not shown, and why.
func hidden(call json.RawMessage) (out []string) {
	var parts struct {
		Args    *wire.Withheld `json:"args_withheld"`
		Context *wire.Withheld `json:"context_withheld"`
	}
	if json.Unmarshal(call, &parts) != nil {
		return nil
	}
	if parts.Args != nil {
		out = append(out, "the arguments ("+parts.Args.String()+")")
	}
	if parts.Context != nil {
		out = append(out, "the context ("+parts.Context.String()+")")
	}
	return out
}

// named are those whom quorums name, each once.
func named(quorums []sdk.Quorum) (out []string) {
	for _, q := range quorums {
		for _, f := range q.From {
			if !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// laidOut is a call with a line for each value; "" when it is too large to be shown. One that only its layout makes too
// large stays on one line.
func laidOut(call json.RawMessage) string {
	if len(call) > mostShown {
		return ""
	}
	var b bytes.Buffer
	if err := json.Indent(&b, call, "", "  "); err != nil || b.Len() > 4*mostShown {
		return string(call)
	}
	return b.String()
}

// answerForm is what was typed, by form.
type answerForm struct{ yes, no string }

// The answers that a page of a call sends.
const (
	approve  = "approve"
	deny     = "deny"
	withdraw = "withdraw"
)

// answer signs the call off that the address names, denies it, or takes its approval back.
func (c *Console) answer(what string) page {
	return func(w http.ResponseWriter, r *http.Request, v *visit) {
		f, err := readForm(r)
		if err != nil {
			c.refuseError(w, v, err)
			return
		}
		id := r.PathValue("id")
		if what == approve || !isDecision.MatchString(id) { // what is denied need not be read: the disk may take nothing
			if c.deferral(w, r, v) == nil {
				return
			}
		}
		reason, shown, err := f.two("reason", "digest")
		if err != nil {
			c.refuseError(w, v, err)
			return
		}
		a := ops.Answer{Decision: id, Approved: what == approve, Withdraw: what == withdraw,
			Reason: strings.TrimSpace(strings.ReplaceAll(reason, "\r\n", "\n"))}
		typed := answerForm{no: a.Reason}
		if a.Approved {
			typed = answerForm{yes: a.Reason}
			if a.Digest = shown; !isDigest.MatchString(shown) {
				err = sdk.FieldErrf(sdk.CodeInvalidField, "digest",
					"The form does not say which call it approves. Nothing was approved; reload the page.")
			}
		}
		if err == nil {
			_, err = c.set.Approvals.AnswerAs(r.Context(), v.op, v.by, a)
		}
		if err == nil {
			http.Redirect(w, r, "/approvals/"+a.Decision, http.StatusSeeOther)
			return
		}
		if codeOf(err) == sdk.CodeNotDurable {
			c.refuseError(w, v, err)
			return
		}
		if d := c.deferral(w, r, v); d != nil { // as it is now: somebody else may have been faster
			c.renderApproval(w, v, http.StatusOK, d, typed, err)
		}
	}
}

var isDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
