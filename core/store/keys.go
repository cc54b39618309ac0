package store

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Key is one API key. The fields are fixed when it is made; what changes later is behind methods. Safe for concurrent
// use.
type Key struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Environment string    `json:"environment,omitempty"`
	Scopes      []string  `json:"scopes"`
	Preset      string    `json:"preset,omitempty"` // what it was made with: its role where a rule asks for one
	Agents      []string  `json:"agents,omitempty"` // globs; empty means every agent
	CreatedAt   time.Time `json:"created_at"`
	CreatedBy   string    `json:"created_by"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	Note        string    `json:"note,omitempty"`
	MAC         []byte    `json:"mac"`            // HMAC-SHA-256 of the value; the value itself is nowhere
	Root        string    `json:"root,omitempty"` // id of the first of a line of rolled keys; "" for itself
	// Explicit: a request redeems only the approval that it names, by its token or by the call_id of its call.
	Explicit bool `json:"explicit,omitempty"`

	scope   sdk.Scope
	person  bool // no key at all, but an operator who answers: see Operator.Approver
	revoked atomic.Pointer[Revocation]
	used    atomic.Int64               // Unix seconds
	again   atomic.Bool                // it may be rolled although it is revoked
	held    atomic.Pointer[Revocation] // one that the disk has not taken: see taker
}

// Revocation says when and by whom a key was revoked. With Grace, At lay ahead: a rolled key lives on until then.
// Without it no clock is asked, so that one that is set back brings nothing back to life.
type Revocation struct {
	At    time.Time
	By    string
	Grace bool
}

// root identifies a key and all that it was rolled from: they are one approver and one asker.
func (k *Key) root() string {
	if k.Root != "" {
		return k.Root
	}
	return k.ID
}

// Line identifies a key and all that it was rolled from and to.
func (k *Key) Line() string { return k.root() }

// Scope is the key's set of scopes.
func (k *Key) Scope() sdk.Scope { return k.scope }

// Revoked is the revocation if the key is revoked at that time, else nil. It holds before it is on disk.
func (k *Key) Revoked(now time.Time) *Revocation {
	if r := k.held.Load(); r != nil {
		return r
	}
	return k.ended(now)
}

// ended is Revoked by what commands have done.
func (k *Key) ended(now time.Time) *Revocation {
	if r := k.revoked.Load(); r != nil && (!r.Grace || !now.Before(r.At)) {
		return r
	}
	return nil
}

// Revocation is the key's revocation, one that lies ahead too, or nil.
func (k *Key) Revocation() *Revocation {
	if r := k.held.Load(); r != nil {
		return r
	}
	return k.revoked.Load()
}

// Expired reports whether the key's time is over.
func (k *Key) Expired(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// ActsAs reports whether the key acts as that agent: it has scope authorize and its agents cover it.
func (k *Key) ActsAs(agent string) bool {
	return k.scope&sdk.ScopeAuthorize != 0 && sdk.MatchAgent(k.Agents, agent)
}

// Sees reports whether the key's agents cover that agent.
func (k *Key) Sees(agent string) bool { return sdk.MatchAgent(k.Agents, agent) }

// touch notes that the key was used. The row follows once a minute, in the batch of what it was used for.
func (tx *tx) touch(k *Key) {
	if sec := tx.now.Unix(); sec/60 != k.used.Load()/60 {
		k.used.Store(sec)
		tx.putKey(k, k.state())
	}
}

// keyState is what of a key's row changes. In memory it is behind methods.
type keyState struct {
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
	Again     bool      `json:"roll_again,omitempty"`  // it was rolled, and nobody was told the new value
	Grace     bool      `json:"grace,omitempty"`       // RevokedAt lay ahead when the key was rolled
	LastUsed  time.Time `json:"last_used_at,omitzero"` // to the minute
}

// state is what commands have made of the key.
func (k *Key) state() keyState {
	out := keyState{Again: k.again.Load(), LastUsed: k.LastUsedAt()}
	if r := k.revoked.Load(); r != nil {
		out.RevokedAt, out.RevokedBy, out.Grace = r.At, r.By, r.Grace
	}
	return out
}

// LastUsedAt is the last use, to the minute; zero if never.
func (k *Key) LastUsedAt() time.Time {
	if sec := k.used.Load(); sec != 0 {
		return time.Unix(sec, 0).UTC()
	}
	return time.Time{}
}

// live is nil or the error for a key that must not be used at that time.
func (k *Key) live(now time.Time) error {
	if r := k.Revoked(now); r != nil {
		return sdk.Errf(sdk.CodeKeyRevoked, "the API key was revoked")
	}
	if k.Expired(now) {
		return sdk.Errf(sdk.CodeKeyExpired, "the API key is expired")
	}
	return nil
}

// Key is the key with that id, revoked ones too, or nil.
func (s *Store) Key(id string) *Key {
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	return s.keys.byID[id]
}

// Keys lists all keys, tombstones too, by name and then id.
func (s *Store) Keys() []*Key {
	s.keys.mu.RLock()
	out := make([]*Key, 0, len(s.keys.byID))
	for _, k := range s.keys.byID {
		out = append(out, k)
	}
	s.keys.mu.RUnlock()
	slices.SortFunc(out, func(a, b *Key) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// ready works out what is not stored, and takes the state of the row.
func (k *Key) ready(is keyState) error {
	for _, name := range k.Scopes {
		s, ok := sdk.ParseScope(name)
		if !ok {
			return fmt.Errorf("unknown scope %q", name)
		}
		k.scope |= s
	}
	if !is.RevokedAt.IsZero() {
		k.revoked.Store(&Revocation{is.RevokedAt, is.RevokedBy, is.Grace})
	}
	if is.Again {
		k.again.Store(true)
	}
	if !is.LastUsed.IsZero() {
		k.used.Store(is.LastUsed.Unix())
	}
	return nil
}

func (tx *tx) putKey(k *Key, is keyState) {
	row, err := storedKey{k, is}.appendRow(tx.row[:0])
	if err != nil {
		tx.keep(fmt.Errorf("the row of key %q: %w", k.ID, err))
		return
	}
	tx.row = row
	tx.set(keyStr(prefixKey, k.ID), row)
}

func (tx *tx) keyRecord(typ string, k *Key, by Who, revoked time.Time) {
	o := tx.record(typ)
	by.write(&o)
	o.Str("key_id", k.ID)
	o.Str("name", k.Name)
	o.Strs("scopes", k.Scopes)
	o.Strs("agents", k.Agents)
	if k.Explicit {
		o.Str("redeem", "explicit")
	}
	o.Opt("line", k.Root) // the first of a line of rolled keys: a kill of a key names that
	if typ == "key_revoked" {
		o.Str("revoked_at", revoked.UTC().Format(time.RFC3339Nano))
	}
	tx.end(o)
}

// Who caused a change: a key or a console user, over which surface, from where.
type Who struct {
	Principal string // key id, "console:<user>" or "admin:<uid>"
	Method    string // api_key, oauth, console, peer_uid, system
	Surface   string // http, socket, console, admin, system
	Peer      string // address or uid
	RequestID string
	Trace     string // W3C trace id, hex
	Note      string // what the caller, or its token, says of who it is: nothing hangs on it
}

func (w Who) write(o *wire.Writer) {
	o.Str("principal_id", w.Principal)
	o.Str("principal_method", w.Method)
	o.Str("surface", w.Surface)
	o.Opt("peer", w.Peer)
	o.Opt("request_id", w.RequestID)
	o.Opt("trace_id", w.Trace)
	o.Opt("who_note", w.Note)
}

// CreateKey makes a key. Names are unique among live keys.
type CreateKey struct {
	Key *Key
	By  Who
}

func (c *CreateKey) apply(tx *tx) error {
	t := &tx.s.keys
	if err := c.Key.ready(keyState{}); err != nil {
		return sdk.FieldErrf(sdk.CodeInvalidField, "scopes", "%v", err)
	}
	if id, taken := t.names[c.Key.Name]; taken {
		kind := "a live key"
		if t.byID[id].Expired(tx.now) {
			kind = "an expired key that is not revoked"
		}
		return sdk.FieldErrf(sdk.CodeNameTaken, "name", "%s is called %q already; revoke it first or choose another name",
			kind, c.Key.Name)
	}
	if _, taken := t.byID[c.Key.ID]; taken {
		return sdk.Errf(sdk.CodeConflict, "the key id is taken")
	}
	tx.putKey(c.Key, keyState{})
	tx.keyRecord("key_created", c.Key, c.By, time.Time{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[c.Key.ID] = c.Key
	t.names[c.Key.Name] = c.Key.ID
	return nil
}

// RevokeKey ends a key for ever, and denies what it had pending. Revoking a revoked key is an error.
type RevokeKey struct {
	ID    string
	Grace time.Duration // the key stays valid for so long
	By    Who
}

func (c *RevokeKey) apply(tx *tx) error {
	k := tx.s.keys.byID[c.ID]
	if k == nil {
		return sdk.Errf(sdk.CodeUnknownKey, "there is no key %q", c.ID)
	}
	if r := k.ended(tx.now); r != nil {
		tx.anchor() // it tells that the key is revoked
		return sdk.Errf(sdk.CodeConflict, "the key was revoked at %s by %s", r.At.UTC().Format(time.RFC3339), r.By)
	}
	if r := k.revoked.Load(); r != nil && c.Grace > 0 { // never put off
		return sdk.Errf(sdk.CodeConflict, "the key is to be revoked at %s by %s already", r.At.UTC().Format(time.RFC3339),
			r.By)
	}
	tx.revoke(k, tx.now.Add(c.Grace), c.By)
	return nil
}

func (tx *tx) revoke(k *Key, at time.Time, by Who) {
	gone := k.state()
	gone.RevokedAt, gone.RevokedBy, gone.Grace = at, by.Principal, at.After(tx.now)
	tx.putKey(k, gone)
	tx.keyRecord("key_revoked", k, by, at)
	k.revoked.Store(&Revocation{at, by.Principal, gone.Grace})
	k.held.Store(nil)
	t := &tx.s.keys
	t.mu.Lock()
	if t.names[k.Name] == k.ID {
		delete(t.names, k.Name)
	}
	t.mu.Unlock()
	if !gone.Grace {
		tx.denyPendingOf(k, by)
	} else {
		for _, d := range tx.st.live {
			if d.KeyID == k.ID {
				tx.st.remind(d, tx.s.ends(d)) // what it has pending ends with it
			}
		}
	}
}

// RollKey makes a new key with the settings of an old one, and revokes the old one now or after a grace time.
type RollKey struct {
	ID    string
	New   *Key // ID, MAC, CreatedAt, CreatedBy; the rest is copied
	Grace time.Duration
	By    Who
}

func (c *RollKey) apply(tx *tx) error {
	old := tx.s.keys.byID[c.ID]
	if old == nil {
		return sdk.Errf(sdk.CodeUnknownKey, "there is no key %q", c.ID)
	}
	again := old.again.Load()
	if r := old.revoked.Load(); r != nil && !again {
		return sdk.Errf(sdk.CodeConflict, "the key was revoked at %s by %s", r.At.UTC().Format(time.RFC3339), r.By)
	}
	if tx.s.keys.byID[c.New.ID] != nil {
		return sdk.Errf(sdk.CodeConflict, "the key id is taken")
	}
	if old.Expired(old.At(tx.times)) {
		return sdk.Errf(sdk.CodeConflict, "the key expired at %s and a rolled one would be expired too; revoke it, and "+
			"create a new key",
			old.ExpiresAt.UTC().Format(time.RFC3339))
	}
	n := c.New
	n.Root, n.Explicit = old.root(), old.Explicit
	n.Name, n.Environment, n.Scopes, n.Preset, n.Agents, n.ExpiresAt, n.Note = old.Name, old.Environment, old.Scopes,
		old.Preset, old.Agents, old.ExpiresAt, old.Note
	if !again {
		tx.revoke(old, tx.now.Add(c.Grace), c.By)
	}
	if err := (&CreateKey{n, c.By}).apply(tx); err != nil || !again {
		return err
	}
	old.again.Store(false)
	tx.putKey(old, old.state())
	return nil
}
