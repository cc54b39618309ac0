package console

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// cookieName begins with __Host-, so that a browser takes it over https (or from this very machine) only, sends it to
// this host only, and lets no neighbouring name plant one.
const cookieName = "__Host-yett"

// freshFor is how long after a sign-in the password is not asked again for what cannot be undone.
const freshFor = 10 * time.Minute

// visit is one request of somebody who is signed in.
type visit struct {
	op   store.Operator
	sess store.Session
	by   store.Who
}

// fresh reports whether the password was given a short while ago.
func (v *visit) fresh(now time.Time) bool {
	age := now.Sub(v.sess.SignedInAt)
	return age >= 0 && age < freshFor
}

func who(w http.ResponseWriter, r *http.Request, operator string) store.Who {
	return store.Who{Principal: "console:" + operator, Method: "console", Surface: "console", Peer: peer(r),
		RequestID: w.Header().Get("X-Request-Id")}
}

// page is a handler for somebody who is signed in.
type page func(w http.ResponseWriter, r *http.Request, v *visit)

// inside lets in who is signed in. Reads of others are sent to the sign-in, writes are refused.
func (c *Console) inside(next page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := c.visitor(w, r)
		switch {
		case err != nil:
			c.set.Log("console: %v", err)
			c.refuse(w, nil, http.StatusServiceUnavailable, "Not possible now",
				"The end of your session could not be recorded. Nothing else was done.")
		case v != nil:
			next(w, r, v)
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			http.Redirect(w, r, signInFor(r), http.StatusSeeOther)
		default:
			c.refuse(w, nil, http.StatusForbidden, "Not signed in",
				"You are not signed in, or your session has ended, so nothing was done.")
		}
	}
}

// only lets in who is signed in and has one of those roles.
func (c *Console) only(next page, roles ...string) http.HandlerFunc {
	return c.inside(func(w http.ResponseWriter, r *http.Request, v *visit) {
		if !slices.Contains(roles, v.op.Role) {
			c.refuse(w, v, http.StatusForbidden, "Not yours to do",
				fmt.Sprintf("This takes the role %s; yours is %s. Nothing was done.", strings.Join(roles, " or "), v.op.Role))
			return
		}
		next(w, r, v)
	})
}

// sessionID is the hash of the id in the request's cookie. Two cookies of that name are none: one of them was planted.
func sessionID(r *http.Request) (id [32]byte, ok bool) {
	found := r.CookiesNamed(cookieName)
	if len(found) != 1 {
		return id, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(found[0].Value)
	if err != nil || len(raw) != 32 {
		return id, false
	}
	return sha256.Sum256(raw), true
}

// visitor is who sent the request, or nil. A session whose time is over is ended here, so that no clock brings it back.
func (c *Console) visitor(w http.ResponseWriter, r *http.Request) (*visit, error) {
	id, ok := sessionID(r)
	if !ok {
		return nil, nil
	}
	sess, ok := c.set.State.Session(id)
	if !ok {
		dropCookie(w)
		return nil, nil
	}
	now := c.set.Now()
	op, known := c.set.State.Operator(sess.Operator)
	if !known || !sess.Live(now) {
		dropCookie(w)
		if err := c.set.State.EndSession(r.Context(), id, "expired", who(w, r, sess.Operator)); err != nil &&
			codeOf(err) != sdk.CodeNotDurable {
			return nil, fmt.Errorf("end an expired session: %w", err)
		}
		return nil, nil
	}
	if err := c.set.State.TouchSession(r.Context(), id, now); err != nil {
		c.set.Log("console: the last use of a session was not written, so it may end earlier: %v", err)
	}
	edge.Visitor(r).Know(true)
	return &visit{op: op, sess: sess, by: who(w, r, op.Name)}, nil
}

// begin starts a session under a new id. The id that the browser came with is over: it may be known to somebody else.
func (c *Console) begin(w http.ResponseWriter, r *http.Request, op store.Operator) (*visit, error) {
	raw := make([]byte, 32)
	c.set.Random(raw)
	now := c.set.Now().UTC()
	sess := store.Session{IDHash: sha256.Sum256(raw), Operator: op.Name, Created: now, Seen: now, SignedInAt: now,
		Peer: peer(r)}
	var replaces *[32]byte
	if old, ok := sessionID(r); ok {
		replaces = &old
	}
	v := &visit{op: op, sess: sess, by: who(w, r, op.Name)}
	if err := c.set.State.StartSession(r.Context(), sess, replaces, v.by); err != nil {
		return nil, fmt.Errorf("start a session: %w", err)
	}
	// Whatever the browser said last about this cookie in this answer, this is what counts.
	w.Header().Del("Set-Cookie")
	setCookie(w, base64.RawURLEncoding.EncodeToString(raw), 0)
	c.rememberDevice(w, r, op, now)
	return v, nil
}

func setCookie(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: maxAge, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
}

func dropCookie(w http.ResponseWriter) { setCookie(w, "", -1) }

func (c *Console) signOut(w http.ResponseWriter, r *http.Request, v *visit) {
	err := c.set.State.EndSession(r.Context(), v.sess.IDHash, "signed_out", v.by)
	dropCookie(w)
	if err != nil {
		c.set.Log("console: sign out: %v", err)
		c.refuse(w, nil, http.StatusServiceUnavailable, "Signed out, but not on disk",
			"You are signed out, but that could not be recorded. If the gateway is restarted now, the session may live until "+
				"its time is over.")
		return
	}
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

// recordRefusal records that a sign-in was refused, unless there were too many in this minute: then the next record
// says how many. A name that nobody has is left out: what was typed there may be a password.
func (c *Console) recordRefusal(ctx context.Context, operator, why string, by store.Who) {
	record, before := c.notes.countRefusal(c.set.Now())
	if !record {
		return
	}
	if err := c.set.State.NoteRefused(ctx, operator, why, before, by); err != nil {
		c.notes.lost(before + 1)
		c.set.Log("console: a refused sign-in could not be recorded: %v", err)
	}
}
