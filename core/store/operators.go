package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// The roles of console operators.
const (
	RoleAdmin    = "admin"    // everything
	RoleApprover = "approver" // answers what waits for a person; reads
	RoleAuditor  = "auditor"  // reads
)

// Limits of console sessions. They are part of the contract, not of the configuration.
const (
	SessionIdle  = 15 * time.Minute // since it was seen last
	SessionWhole = 8 * time.Hour    // since it began

	maxOperators = 1000
	maxSessions  = 10          // per operator; one more ends the one seen longest ago
	touchEvery   = time.Minute // how often a session's last use is written
)

// Operator is a person who may use the console.
type Operator struct {
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Hash      string    `json:"hash"` // argon2id of the password, PHC string
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
}

// Session is one sign-in. Its id is known to the browser alone; what is kept is the id's SHA-256.
type Session struct {
	IDHash     [32]byte  `json:"-"` // the row's key
	Operator   string    `json:"operator"`
	Created    time.Time `json:"created_at"`
	Seen       time.Time `json:"seen_at"` // exact in memory, to the minute on disk
	SignedInAt time.Time `json:"signed_in_at"`
	Peer       string    `json:"peer,omitempty"` // address it was begun from

	written time.Time // Seen as on disk
	ended   bool      // for its browser; the disk has not taken it yet
}

// Live reports whether the session may be used at that time.
func (s *Session) Live(now time.Time) bool {
	return now.Sub(s.Seen) < SessionIdle && now.Sub(s.Created) < SessionWhole
}

// Operators are the console's operators and sessions, in memory and on disk. Safe for concurrent use.
type Operators struct {
	s *Store

	mu       sync.RWMutex
	byName   map[string]*Operator
	sessions map[[32]byte]*Session
}

// LoadOperators reads operators and sessions, and ends the sessions whose time is over or whose operator is gone. Call
// it once per open store, before the console answers.
func LoadOperators(ctx context.Context, s *Store) (*Operators, error) {
	o := &Operators{s: s, byName: map[string]*Operator{}, sessions: map[[32]byte]*Session{}}
	if err := s.guarded(o.load); err != nil {
		return nil, fmt.Errorf("load operators: %w", err)
	}
	now := s.Now()
	for id, sess := range o.sessions {
		if o.byName[sess.Operator] != nil && sess.Live(now) {
			continue
		}
		by := Who{Principal: "console:" + sess.Operator, Method: "system", Surface: "system"}
		// on a full disk it is in effect, and its record comes later
		err := s.Commit(ctx, &EndSession{In: o, ID: id, Why: "expired", By: by})
		if e, ok := errors.AsType[*sdk.Error](err); err != nil && (!ok || e.Code != sdk.CodeNotDurable) {
			return nil, fmt.Errorf("load operators: end an expired session: %w", err)
		}
	}
	return o, nil
}

func (o *Operators) load() error {
	err := o.s.scan(prefixOperator, func(key, value []byte) error {
		op := &Operator{}
		if err := json.Unmarshal(value, op); err != nil {
			return fmt.Errorf("operator %q: %w", key[1:], err)
		}
		if op.Name != string(key[1:]) {
			return fmt.Errorf("operator %q: its row says %q", key[1:], op.Name)
		}
		o.byName[op.Name] = op
		return nil
	})
	if err != nil {
		return err
	}
	return o.s.scan(prefixSession, func(key, value []byte) error {
		sess := &Session{}
		if len(key) != 1+len(sess.IDHash) {
			return errors.New("a session key of the wrong length")
		}
		if err := json.Unmarshal(value, sess); err != nil {
			return fmt.Errorf("session %x: %w", key[1:9], err)
		}
		copy(sess.IDHash[:], key[1:])
		sess.written = sess.Seen
		o.sessions[sess.IDHash] = sess
		return nil
	})
}

// HasOperators reports whether anybody may use the console.
func (o *Operators) HasOperators() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return len(o.byName) > 0
}

// Operator is a copy of the operator with that name.
func (o *Operators) Operator(name string) (Operator, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if op := o.byName[name]; op != nil {
		return *op, true
	}
	return Operator{}, false
}

// AddFirstOperator makes the first operator; it fails with conflict when there is one already. It is on disk, with its
// record, when it returns nil.
func (o *Operators) AddFirstOperator(ctx context.Context, op Operator, by Who) error {
	return o.s.Commit(ctx, &PutOperator{In: o, Operator: op, First: true, By: by})
}

// NoteRefused records that a sign-in was refused. operator is "" for a name that nobody has: what was typed there may
// be a password. unrecorded is how many refusals before this one left no record of their own.
func (o *Operators) NoteRefused(ctx context.Context, operator, why string, unrecorded int, by Who) error {
	return o.s.Commit(ctx, &SignInRefused{Operator: operator, Why: why, Unrecorded: unrecorded, By: by})
}

// Session is a copy of the session with that hash of its id, live or not. One that was ended is none.
func (o *Operators) Session(id [32]byte) (Session, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if sess := o.sessions[id]; sess != nil && !sess.ended {
		return *sess, true
	}
	return Session{}, false
}

// StartSession begins a session and ends the one it replaces, if replaces is not nil and there is one. Both are on disk
// when it returns nil.
func (o *Operators) StartSession(ctx context.Context, sess Session, replaces *[32]byte, by Who) error {
	return o.s.Commit(ctx, &PutSession{In: o, Session: sess, Replaces: replaces, By: by})
}

// TouchSession notes a use. The row follows at most once a minute; when that fails the session only ends earlier after
// a restart.
func (o *Operators) TouchSession(ctx context.Context, id [32]byte, now time.Time) error {
	o.mu.Lock()
	sess := o.sessions[id]
	if sess == nil {
		o.mu.Unlock()
		return nil
	}
	if now.After(sess.Seen) {
		sess.Seen = now
	}
	due := sess.Seen.Sub(sess.written) >= touchEvery
	if due {
		sess.written = sess.Seen
	}
	o.mu.Unlock()
	if !due {
		return nil
	}
	return o.s.Commit(ctx, &TouchSession{In: o, ID: id})
}

// EndSession ends a session for ever. One that is gone already is no error.
func (o *Operators) EndSession(ctx context.Context, id [32]byte, why string, by Who) error {
	return o.s.Commit(ctx, &EndSession{In: o, ID: id, Why: why, By: by})
}

// PutOperator makes an operator. Names are unique.
type PutOperator struct {
	In       *Operators
	Operator Operator
	First    bool // refused when anybody is there already
	By       Who
}

func (c *PutOperator) apply(tx *tx) error {
	op := c.Operator
	c.In.mu.Lock()
	defer c.In.mu.Unlock()
	switch {
	case c.First && len(c.In.byName) > 0:
		return sdk.Errf(sdk.CodeConflict, "an operator exists already, so the link for the first one is worth nothing "+
			"any more")
	case op.Name == "" || op.Hash == "":
		return sdk.FieldErrf(sdk.CodeInvalidField, "name", "an operator needs a name and a password")
	case !slices.Contains([]string{RoleAdmin, RoleApprover, RoleAuditor}, op.Role):
		return sdk.FieldErrf(sdk.CodeInvalidField, "role", "unknown role %q; roles are admin, approver, auditor", op.Role)
	case c.In.byName[op.Name] != nil:
		return sdk.FieldErrf(sdk.CodeNameTaken, "name", "an operator is called %q already", op.Name)
	case len(c.In.byName) >= maxOperators:
		return sdk.Errf(sdk.CodeConflict, "there are %d operators, the most there can be", maxOperators)
	}
	row, err := json.Marshal(op)
	tx.keep(err)
	tx.set(keyStr(prefixOperator, op.Name), row)
	tx.operatorRecord("operator_added", c.By, op.Name, op.Role, func(o *wire.Writer) {
		if c.First {
			o.Str("how", "one_time_link")
		}
	})
	c.In.byName[op.Name] = &op
	return nil
}

// PutSession begins a session.
type PutSession struct {
	In       *Operators
	Session  Session
	Replaces *[32]byte
	By       Who
}

func (c *PutSession) apply(tx *tx) error {
	sess := c.Session
	sess.written = sess.Seen
	c.In.mu.Lock()
	defer c.In.mu.Unlock()
	op := c.In.byName[sess.Operator]
	switch {
	case op == nil:
		return sdk.Errf(sdk.CodeConflict, "there is no operator %q", sess.Operator)
	case c.In.sessions[sess.IDHash] != nil:
		return sdk.Errf(sdk.CodeConflict, "the session id is taken")
	}
	if c.Replaces != nil {
		c.In.end(tx, *c.Replaces, "replaced", c.By)
	}
	c.In.makeRoom(tx, op.Name, c.By)
	tx.putSession(&sess)
	tx.operatorRecord("console_sign_in", c.By, op.Name, op.Role, sess.name)
	c.In.sessions[sess.IDHash] = &sess
	return nil
}

// makeRoom keeps an operator's sessions within the limit. o.mu is held.
func (o *Operators) makeRoom(tx *tx, operator string, by Who) {
	var own []*Session
	for _, s := range o.sessions {
		if s.Operator == operator {
			own = append(own, s)
		}
	}
	slices.SortFunc(own, func(a, b *Session) int {
		if c := a.Seen.Compare(b.Seen); c != 0 {
			return c
		}
		return bytes.Compare(a.IDHash[:], b.IDHash[:])
	})
	for _, s := range own[:max(0, len(own)-maxSessions+1)] {
		o.end(tx, s.IDHash, "too_many", by)
	}
}

// TouchSession writes a session's last use. It makes no record.
type TouchSession struct {
	In *Operators
	ID [32]byte
}

func (c *TouchSession) apply(tx *tx) error {
	c.In.mu.RLock()
	defer c.In.mu.RUnlock()
	if sess := c.In.sessions[c.ID]; sess != nil { // one that has ended meanwhile stays ended
		tx.putSession(sess)
	}
	return nil
}

// EndSession ends a session for ever.
type EndSession struct {
	In  *Operators
	ID  [32]byte
	Why string // signed_out, replaced, expired, too_many
	By  Who
}

func (c *EndSession) apply(tx *tx) error {
	c.In.mu.Lock()
	defer c.In.mu.Unlock()
	c.In.end(tx, c.ID, c.Why, c.By)
	return nil
}

// end takes a session away. o.mu is held.
func (o *Operators) end(tx *tx, id [32]byte, why string, by Who) {
	sess := o.sessions[id]
	if sess == nil {
		return
	}
	delete(o.sessions, id)
	tx.del(keyStr(prefixSession, string(id[:])))
	tx.operatorRecord("console_sign_out", by, sess.Operator, "", func(w *wire.Writer) {
		sess.name(w)
		w.Str("why", why)
	})
}

// SignInRefused records a refused sign-in. How many of them are recorded is the caller's to limit.
type SignInRefused struct {
	Operator   string // "" for a name that nobody has
	Why        string // wrong, too_many
	Unrecorded int    // refusals before this one without a record
	By         Who
}

func (c *SignInRefused) apply(tx *tx) error {
	tx.operatorRecord("console_sign_in_refused", c.By, c.Operator, "", func(o *wire.Writer) {
		o.Str("why", c.Why)
		o.Int("unrecorded", int64(c.Unrecorded))
	})
	return nil
}

func (tx *tx) operatorRecord(typ string, by Who, name, role string, more func(o *wire.Writer)) {
	o := tx.record(typ)
	by.write(&o)
	o.Str("operator", name)
	o.Opt("role", role)
	more(&o)
	tx.end(o)
}

func (tx *tx) putSession(sess *Session) {
	row, err := json.Marshal(sess)
	tx.keep(err)
	tx.set(keyStr(prefixSession, string(sess.IDHash[:])), row)
}

// name writes what tells sessions apart in the log. The hash of an id is no help to whoever wants to use the session.
func (s *Session) name(o *wire.Writer) { o.Str("session", hex.EncodeToString(s.IDHash[:8])) }
