package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// linkFor is how long the link for the first operator works.
const linkFor = 24 * time.Hour

// firstLink is the one link that makes the first operator. Its token is kept as a hash and in memory only: a restart
// ends it.
type firstLink struct {
	mu    sync.Mutex
	hash  [32]byte
	until time.Time // zero: there is no link
}

// FirstLink makes the one-time link with which the first operator signs up, under base ("http://127.0.0.1:8422"). An
// earlier link ends. It is an error when an operator exists. The link works once, within 24 hours, in this process.
func (c *Console) FirstLink(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("first operator: %q is no address of the console", base)
	}
	if c.set.State.HasOperators() {
		return "", errors.New("first operator: there is an operator already; sign in at the console")
	}
	raw := make([]byte, 32)
	c.set.Random(raw)
	token := base64.RawURLEncoding.EncodeToString(raw)
	c.first.mu.Lock()
	c.first.hash, c.first.until = sha256.Sum256([]byte(token)), c.set.Now().Add(linkFor)
	c.first.mu.Unlock()
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/setup",
		RawQuery: url.Values{"token": {token}}.Encode()}).String(), nil
}

// opens reports whether the token is the link's, and the link still good.
func (l *firstLink) opens(token string, now time.Time) bool {
	sum := sha256.Sum256([]byte(token))
	l.mu.Lock()
	defer l.mu.Unlock()
	return subtle.ConstantTimeCompare(sum[:], l.hash[:]) == 1 && now.Before(l.until)
}

func (l *firstLink) burn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hash, l.until = [32]byte{}, time.Time{}
}

// setupPage is the form for the first operator.
type setupPage struct {
	Token, Name string
	Least       int
}

func (c *Console) showSetup(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()["token"]
	if len(q) != 1 || !c.first.opens(q[0], c.set.Now()) || c.set.State.HasOperators() {
		c.refuseLink(w)
		return
	}
	c.render(w, http.StatusOK, "setup", view{Title: "First operator", Page: setupPage{Token: q[0], Least: passwordLeast}})
}

func (c *Console) refuseLink(w http.ResponseWriter) {
	text := "This link is not good, or not any more: it works once, for 24 hours, until the gateway is restarted or " +
		"makes another one. Take the newest link from where the gateway was started."
	if c.set.State.HasOperators() {
		text = "There is an operator already, so the link for the first one is worth nothing any more. If it was not you " +
			"who used it, take the gateway off the network and look for operator_added in its audit log."
	}
	c.refuse(w, nil, http.StatusForbidden, "The link does not work", text)
}

// setup makes the first operator. The token is looked at before anything else, and it stays good until an operator was
// made: a password that is too short costs nobody the link.
func (c *Console) setup(w http.ResponseWriter, r *http.Request) {
	f, err := readForm(r)
	if err != nil {
		c.refuseError(w, nil, err)
		return
	}
	token, err := f.one("token")
	if err != nil || !c.first.opens(token, c.set.Now()) || c.set.State.HasOperators() {
		c.refuseLink(w)
		return
	}
	op, err := c.firstOperator(w, r, f)
	if err != nil {
		var e *sdk.Error
		status, text := c.statusOf(err)
		field := ""
		if errors.As(err, &e) {
			field = e.Field
		}
		c.render(w, status, "setup", view{Title: "First operator", Error: text, Field: field,
			Page: setupPage{Token: token, Name: f.first("name"), Least: passwordLeast}})
		return
	}
	c.first.burn()
	if _, err := c.begin(w, r, op); err != nil {
		c.set.Log("console: the first operator is made, but not signed in: %v", err)
		http.Redirect(w, r, "/signin", http.StatusSeeOther)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// nameRule keeps names to what cannot be mistaken for another.
var nameRule = regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,63}$`)

func (c *Console) firstOperator(w http.ResponseWriter, r *http.Request, f form) (store.Operator, error) {
	var none store.Operator
	name, password, err := f.two("name", "password")
	if err != nil {
		return none, err
	}
	again, err := f.one("again")
	if err != nil {
		return none, err
	}
	if name = operatorName(name); !nameRule.MatchString(name) {
		return none, sdk.FieldErrf(sdk.CodeInvalidField, "name",
			"A name is 1 to 64 characters: letters a to z, digits, and . _ @ - after the first.")
	}
	if err := checkPassword(password); err != nil {
		return none, err
	}
	if again != password {
		return none, sdk.FieldErrf(sdk.CodeInvalidField, "again", "The two passwords are not the same.")
	}
	phc, err := c.vault.hash(r.Context(), password)
	if err != nil {
		return none, sdk.Errf(sdk.CodeTooManyRequests, "Too many sign-ins are being checked. Try again in a moment.")
	}
	by := who(w, r, name)
	op := store.Operator{Name: name, Role: store.RoleAdmin, Hash: phc, CreatedAt: c.set.Now().UTC(),
		CreatedBy: by.Principal}
	return op, c.set.State.AddFirstOperator(r.Context(), op, by)
}
