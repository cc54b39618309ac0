package authzen

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// denial is what a binding_token holds: the call that waits, and the evaluation that said so. The key that asked is
// bound by the seal.
type denial struct {
	task
	Names []string `json:"names"` // of the context's members
}

// task is what the id of a task holds.
type task struct {
	Token      string `json:"token"` // of the call that waits
	Evaluation string `json:"evaluation"`
	Expires    string `json:"expires"` // the denial, as it was said
	Args       string `json:"args"`    // what was evaluated, as hashes
	Context    string `json:"context"`
}

// approval is what approval.state holds, and what the client sees of it.
type approval struct {
	task
	ID    string `json:"id"`
	Until string `json:"until"`
}

// taskLife is how long a task can be looked at, and its approval be used, after its denial has expired.
const taskLife = 24 * time.Hour

// end is when a task is over.
func (t *task) end() time.Time {
	at, err := time.Parse(time.RFC3339Nano, t.Expires)
	if err != nil {
		return time.Time{} // over; nobody but this door could have sealed it
	}
	return at.Add(taskLife)
}

// fresh says whether the denial has not expired.
func (t *task) fresh(now time.Time) bool {
	at, err := time.Parse(time.RFC3339Nano, t.Expires)
	return err == nil && !now.After(at)
}

// accessRequest is what a client needs to follow the call that waits.
func (d *door) accessRequest(r *front.Request, c *call, dec *ask.Decision) ([]byte, error) {
	if dec.DeferToken == "" || dec.DeferExpiresAt == "" {
		return nil, errors.New("a call that waits has no token, or no end")
	}
	token, err := d.seals.seal(sealDenial, r.Caller.Key.ID, &denial{task{Token: dec.DeferToken, Evaluation: dec.DecisionID,
		Expires: dec.DeferExpiresAt, Args: c.argsSum, Context: c.contextSum}, c.names})
	if err != nil {
		return nil, err
	}
	w := wire.Object(nil)
	w.Str("endpoint", d.base+pathRequests)
	w.Str("expires_at", dec.DeferExpiresAt)
	w.Str("binding_token", token)
	w.Object("display", func(in *wire.Writer) {
		in.Str("title", "A person has to approve this")
		in.Opt("description", dec.Message)
	})
	return w.Close(), nil
}

// submit answers a request for what was denied. The call waits for a person since it was evaluated, so there is nothing
// left to start: the client gets the handle.
func (d *door) submit(w http.ResponseWriter, r *front.Request) {
	req, bad := body(r, &d.set.Limits)
	if bad != nil {
		d.problem(w, r, bad)
		return
	}
	for _, member := range []string{"items", "callback"} {
		if req.Get(member).Exists() {
			d.fail(w, r, notRequestable, "this gateway takes no "+member+"; request one access without it, and ask its "+
				"status_endpoint")
			return
		}
	}
	c, bad := readCall(req, exact.Value{}, &d.set.Limits)
	if bad != nil {
		d.problem(w, r, bad)
		return
	}
	key, now := r.Caller.Key.ID, d.set.Now()
	header := r.Header.Get("Idempotency-Key")
	name, sum := sha256.Sum256([]byte(header)), sha256.Sum256(req.AppendCanonical(nil))
	before, again := d.sent.get(key, name, now)
	if again && before != sum {
		d.fail(w, r, duplicate, "another request was sent with this Idempotency-Key; send this one with a new key")
		return
	}
	t, f, detail := d.bind(key, c, req.Get("denial"))
	if t != nil && !again && !t.fresh(now) {
		t, f, detail = nil, expiredDenial, "the denial expired at "+t.Expires+"; evaluate again"
	}
	if t == nil {
		d.fail(w, r, f, detail)
		return
	}
	id, err := d.seals.seal(sealTask, key, t)
	if err != nil {
		d.problem(w, r, d.told(r, err))
		return
	}
	st, f, detail, err := d.look(r, id, t)
	switch {
	case err != nil:
		d.problem(w, r, d.told(r, err))
		return
	case st == nil && f == taskExpired: // as a denial it cannot be requested any more
		d.fail(w, r, notRequestable, detail)
		return
	case st == nil:
		d.fail(w, r, f, detail)
		return
	}
	if header != "" && !d.sent.put(key, name, sum, now, t.end()) {
		d.sent.drop(key)
		d.sent.put(key, name, sum, now, t.end())
	}
	status := http.StatusCreated
	if st.status == "pending" {
		status = http.StatusAccepted
	}
	w.Header().Set("Location", d.at(id))
	d.answer(w, r, status, kindJSON, st.text)
}

// bind opens a denial and compares what is requested with what was denied. The task is nil where they differ.
func (d *door) bind(key string, c *call, given exact.Value) (*task, fault, string) {
	token, expires, evaluation := given.Get("binding_token"), given.Get("expires_at"), given.Get("evaluation_id")
	var is denial
	switch {
	case given.Kind() != exact.Object:
		return nil, notRequestable, "denial is required; it comes from the context of a denied evaluation"
	case token.Kind() != exact.String:
		return nil, invalidBinding, "denial.binding_token is required; it comes from context.access_request"
	case !d.seals.open(sealDenial, key, token.Str(), &is):
		return nil, invalidBinding, "denial.binding_token is not one that this gateway made for this API key since it " +
			"started; evaluate again"
	case expires.Str() != is.Expires:
		return nil, invalidBinding, "denial.expires_at is not what context.access_request.expires_at was"
	case evaluation.Exists() && evaluation.Str() != is.Evaluation:
		return nil, invalidBinding, "denial.evaluation_id is not that of the denied evaluation"
	case c.argsSum != is.Args:
		return nil, invalidBinding, "subject, action and resource are not those that were denied"
	case sumOf(c.context, is.Names) != is.Context:
		return nil, invalidBinding, "context lacks a member that was denied, or has it with another value"
	}
	return &is.task, fault{}, ""
}

// at is the address of a task.
func (d *door) at(id string) string { return d.base + pathRequests + "/" + id }

// standing is how a task stands, and the answer that says so.
type standing struct {
	status string
	text   []byte
}

// find opens the id of a task in the path. The task is nil where there is none for this key.
func (d *door) find(w http.ResponseWriter, r *front.Request) (id string, t *task) {
	id, t = r.PathValue("id"), &task{}
	if !d.seals.open(sealTask, r.Caller.Key.ID, id, t) {
		d.fail(w, r, unknownTask, "there is no such task, or it is not this API key's, or the gateway has started anew "+
			"since; evaluate again")
		return id, nil
	}
	return id, t
}

// look finds out how a task stands. It gives nil, and why, for one that is over.
func (d *door) look(r *front.Request, id string, t *task) (*standing, fault, string, error) {
	now := d.set.Now()
	if now.After(t.end()) {
		return nil, taskExpired, "the task is over; evaluate again", nil
	}
	if d.isCancelled(r.Caller.Key.ID, t, now) {
		return &standing{"cancelled", d.taskText(id, t, "cancelled", "", nil)}, fault{}, "", nil
	}
	st, err := d.set.Asker.DeferStatus(r.Context(), r.Caller, t.Token, 0)
	var e *sdk.Error
	switch {
	case errors.As(err, &e) && e.Code == sdk.CodeUnknownDefer:
		return nil, taskExpired, "the gateway has forgotten the call; evaluate again", nil
	case err != nil:
		return nil, fault{}, "", err
	case st.Status == "consumed":
		return nil, taskExpired, "the approval was used; evaluate again", nil
	}
	status, words := st.Status, st.Reason
	var ref *approval
	switch st.Status {
	case "pending", "denied", "expired":
	case "approved":
		if st.ModifiedArgs != nil {
			status, words = "denied", "an approver permits this only with other values: "+string(st.ModifiedArgs)
			break
		}
		ref = &approval{*t, d.approvalID(r.Caller.Key.ID, t), st.ExpiresAt}
	default:
		status = "failed"
	}
	text := d.taskText(id, t, status, words, nil)
	if ref != nil {
		state, err := d.seals.seal(sealApproval, r.Caller.Key.ID, ref)
		if err != nil {
			return nil, fault{}, "", err
		}
		text = d.taskText(id, t, status, words, func(w *wire.Writer) {
			w.Str("id", ref.ID)
			w.Str("approved_until", ref.Until)
			w.Str("state", state)
		})
	}
	return &standing{status, text}, fault{}, "", nil
}

// taskText is the answer about a task; approved writes the approval of one that has it.
func (d *door) taskText(id string, t *task, status, words string, approved func(w *wire.Writer)) []byte {
	out := wire.Object(nil)
	out.Object("task", func(w *wire.Writer) {
		w.Str("id", id)
		w.Str("status", status)
		w.Str("status_endpoint", d.at(id))
		w.Str("expires_at", t.end().UTC().Format(time.RFC3339))
		if words != "" {
			w.Object("display", func(in *wire.Writer) { in.Str("description", words) })
		}
		if status == "pending" {
			w.Object("links", func(in *wire.Writer) {
				in.Str("cancel", d.at(id)+"/cancel")
				in.Opt("review", d.review())
			})
		}
	})
	if approved != nil {
		out.Object("result", func(w *wire.Writer) {
			w.Str("mode", "reevaluate")
			w.Object("approval", approved)
		})
	}
	return out.Close()
}

// pollAfter is how long a client waits between two looks at a task, seconds.
const pollAfter = "2"

// status answers how a task stands.
func (d *door) status(w http.ResponseWriter, r *front.Request) {
	id, t := d.find(w, r)
	if t == nil {
		return
	}
	st, f, detail, err := d.look(r, id, t)
	switch {
	case err != nil:
		d.problem(w, r, d.told(r, err))
	case st == nil:
		d.fail(w, r, f, detail)
	default:
		if st.status == "pending" {
			w.Header().Set("Retry-After", pollAfter)
		}
		d.answer(w, r, http.StatusOK, kindJSON, st.text)
	}
}

// cancel ends a task. Only an approver can end the call itself: until then it is shown to them, but no approval of it
// is of use to this task.
func (d *door) cancel(w http.ResponseWriter, r *front.Request) {
	id, t := d.find(w, r)
	if t == nil {
		return
	}
	st, f, detail, err := d.look(r, id, t)
	switch {
	case err != nil:
		d.problem(w, r, d.told(r, err))
		return
	case st == nil:
		d.fail(w, r, f, detail)
		return
	case st.status != "pending" && st.status != "cancelled":
		d.fail(w, r, invalidForState, "the task is "+st.status+"; only one that is pending can be cancelled")
		return
	}
	key, now := r.Caller.Key.ID, d.set.Now()
	if !d.cancelled.put(key, d.nameOf(t), [32]byte{}, now, t.end()) {
		d.problem(w, r, sdk.Errf(sdk.CodeTooManyRequests, "this key has %d cancelled tasks that are not over; let this "+
			"one expire", notesPerKey))
		return
	}
	d.answer(w, r, http.StatusOK, kindJSON, d.taskText(id, t, "cancelled", "", nil))
}

// nameOf is what a task is remembered by.
func (d *door) nameOf(t *task) [32]byte {
	return sha256.Sum256([]byte(t.Token + "\x00" + t.Evaluation))
}

func (d *door) isCancelled(key string, t *task, now time.Time) bool {
	_, yes := d.cancelled.get(key, d.nameOf(t), now)
	return yes
}

// approvalID is the name of a task's approval.
func (d *door) approvalID(key string, t *task) string {
	sum := d.seals.sum([]byte("approval"), []byte(key), []byte(t.Token), []byte(t.Evaluation))
	return "apr_" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// redeemable opens the approval that a call brings. It is nil where it is not for this call, or over, or not ours; why
// says which.
func (d *door) redeemable(key string, c *call) (is *approval, why string) {
	is, now := &approval{}, d.set.Now()
	given := c.approval
	if !d.seals.open(sealApproval, key, given.Get("state").Str(), is) || given.Get("id").Str() != is.ID ||
		given.Get("approved_until").Str() != is.Until {
		return nil, unverifiable
	}
	until, err := time.Parse(time.RFC3339Nano, is.Until)
	if err != nil || now.After(until) || now.After(is.end()) || d.isCancelled(key, &is.task, now) {
		return nil, approvalExpired
	}
	if c.argsSum != is.Args || c.contextSum != is.Context {
		return nil, outOfScope
	}
	return is, ""
}
