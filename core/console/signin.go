package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// signInPage is what the sign-in page shows.
type signInPage struct {
	Name  string
	Empty bool   // there is no operator yet
	Next  string // the page that was asked for, "" for none
}

// nextRule is every page that a sign-in leads back to: those that messages link to. No host, no dots, nothing to
// decode.
var nextRule = regexp.MustCompile(`^/approvals/` + decisionID + `$`)

// signInFor is the sign-in for somebody who asked for a page.
func signInFor(r *http.Request) string {
	if !nextRule.MatchString(r.URL.Path) {
		return "/signin"
	}
	return "/signin?" + url.Values{"next": {r.URL.Path}}.Encode()
}

// afterSignIn is where a sign-in leads. Anything but a page of nextRule is none of ours.
func afterSignIn(next string) (string, error) {
	switch {
	case next == "":
		return "/", nil
	case nextRule.MatchString(next):
		return next, nil
	}
	return "", sdk.FieldErrf(sdk.CodeInvalidField, "next",
		"The page to go on to does not belong to this console. Nobody was signed in.")
}

func (c *Console) showSignIn(w http.ResponseWriter, r *http.Request) {
	next := r.URL.Query().Get("next")
	to, err := afterSignIn(next)
	if err != nil {
		to, next = "/", ""
	}
	if id, ok := sessionID(r); ok {
		if sess, ok := c.set.State.Session(id); ok && sess.Live(c.set.Now()) {
			http.Redirect(w, r, to, http.StatusSeeOther)
			return
		}
	}
	c.render(w, http.StatusOK, "signin", view{Title: "Sign in",
		Page: signInPage{Empty: !c.set.State.HasOperators(), Next: next}})
}

func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	f, err := readForm(r)
	if err != nil {
		c.refuseError(w, nil, err)
		return
	}
	name, password, err := f.two("name", "password")
	if err != nil {
		c.refuseError(w, nil, err)
		return
	}
	next, err := f.one("next")
	to := ""
	if err == nil {
		to, err = afterSignIn(next)
	}
	if err != nil {
		c.refuseError(w, nil, err)
		return
	}
	name = operatorName(name)
	op, err := c.admit(w, r, name, password)
	if err == nil {
		_, err = c.begin(w, r, op)
	}
	if err != nil {
		status, text := c.explain(w, err)
		c.render(w, status, "signin", view{Title: "Sign in", Error: text,
			Page: signInPage{Name: name, Empty: !c.set.State.HasOperators(), Next: next}})
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// operatorName is how a typed name is looked up.
func operatorName(typed string) string { return strings.ToLower(strings.TrimSpace(typed)) }

// refusal is a sign-in that did not come about, with what the page says of it.
type refusal struct {
	status int
	text   string
	wait   time.Duration
}

// Error is what the page says.
func (r *refusal) Error() string { return r.text }

// admit checks a name and a password. Every try counts before it is looked at; whether the name exists shows neither in
// the answer nor in the time.
func (c *Console) admit(w http.ResponseWriter, r *http.Request, name, password string) (store.Operator, error) {
	now := c.set.Now()
	op, _ := c.set.State.Operator(name)
	by := who(w, r, op.Name)
	table, counted := c.guesses, subjects(name, network(r))
	id, known := c.device(r, op, now)
	if known {
		table, counted = c.known, deviceSubjects(name, id)
	}
	if wait := table.countTry(now, counted); wait > 0 {
		c.recordRefusal(r.Context(), op.Name, "too_many", by)
		return op, &refusal{http.StatusTooManyRequests,
			fmt.Sprintf("There were too many tries. Wait %d seconds. From one address, %d tries a minute are allowed for an "+
				"account.", seconds(wait), guessesPerMinute), wait}
	}
	right, err := c.vault.verifyPassword(r.Context(), op.Hash, password)
	switch {
	case errors.Is(err, errBusy):
		if known { // nothing was looked at: others who keep us busy must not spend the tries of its owner
			table.giveBack(now, counted)
		}
		return op, &refusal{http.StatusServiceUnavailable, "Too many sign-ins are being checked. Try again in a moment.",
			hashQueued}
	case err != nil:
		return op, fmt.Errorf("the password hash of operator %s: %w", op.Name, err)
	case !right:
		c.recordRefusal(r.Context(), op.Name, "wrong", by)
		return op, &refusal{http.StatusForbidden, "The name or the password is not right.", 0}
	}
	table.giveBack(now, counted)
	return op, nil
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// confirm asks for the password again when the sign-in is not fresh. It returns who goes on, or nil when the answer is
// written. The form's other values go along, so that nothing has to be typed twice.
func (c *Console) confirm(w http.ResponseWriter, r *http.Request, v *visit, f form) *visit {
	if v.fresh(c.set.Now()) {
		return v
	}
	ask := view{Title: "Your password again", Visit: v,
		Page: confirmPage{Action: r.URL.Path, Values: f.without(confirmField),
			Back: "/" + strings.SplitN(r.URL.Path, "/", 3)[1]}}
	if !f.has(confirmField) {
		c.render(w, http.StatusForbidden, "confirm", ask)
		return nil
	}
	password, err := f.one(confirmField)
	if err != nil {
		c.refuseError(w, v, err)
		return nil
	}
	op, err := c.admit(w, r, v.op.Name, password)
	if err == nil {
		v, err = c.begin(w, r, op)
	}
	if err != nil {
		status, text := c.explain(w, err)
		ask.Error = text
		c.render(w, status, "confirm", ask)
		return nil
	}
	return v
}

// confirmField holds the password that is asked for again.
const confirmField = "current_password"

// confirmPage asks for the password again.
type confirmPage struct {
	Action string
	Values []pair
	Back   string // the page that the action is of
}

// explain gives status and text for a sign-in that failed, and sets Retry-After.
func (c *Console) explain(w http.ResponseWriter, err error) (int, string) {
	var no *refusal
	if !errors.As(err, &no) {
		return c.statusOf(err)
	}
	if no.wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds(no.wait)))
	}
	return no.status, no.text
}
