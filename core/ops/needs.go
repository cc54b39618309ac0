package ops

import (
	"context"
	"encoding/json"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// Store is what operations need of the state.
type Store interface {
	Keys
	Grants
	Kills
	Actions
	// Commit returns when the command's record is on disk, or with the reason why it is not.
	Commit(ctx context.Context, cmd store.Command) error
	// View is a deferred call as approvers see it; nil if there is none.
	View(token string) (json.RawMessage, error)
	AgentNote(d *store.Defer) (store.AgentNote, error)
	// OpenCall is the token of the open deferred call that a decision began, "" if there is none. It does not wait for the
	// disk.
	OpenCall(decision string) string
	// FindPending looks up which calls a page of the pending ones has.
	FindPending(page *store.ListPending)
	// CallDigest names a call to those who are shown it.
	CallDigest(call store.Hash) string
}

// Keys is what operations read of keys.
type Keys interface {
	// Key is the key with that id, revoked ones too, or nil.
	Key(id string) *store.Key
	Now() time.Time
	Times() store.Times
	// Keys lists all keys, tombstones too.
	Keys() []*store.Key
	// KeyStopped reports whether the key with that id is killed, expired, or revoked and not rolled.
	KeyStopped(id string) bool
}

// Grants is what operations read of standing grants.
type Grants interface {
	// GrantsFor lists the grants that may permit such a call, the narrowest first, args_match apart.
	GrantsFor(c *store.GrantCall) []*store.Grant
	// Grants calls fn with grants, newest first, from behind an id on, until it says no.
	Grants(after string, fn func(*store.Grant) bool) error
	// Signed reports whether somebody who signed the grant may still do so.
	Signed(g *store.Grant) bool
}

// Kills is what operations read of kills, and how one comes into effect before it is on disk.
type Kills interface {
	// Killed is a kill that covers such a call, or nil.
	Killed(k *store.Key, agent, session, tool string) *store.Kill
	// Began is what a call keeps of its beginning, read before Killed.
	Began() uint64
	// KilledSince is a kill that covers such a call, or has covered it since it began, or nil.
	KilledSince(began uint64, k *store.Key, agent, session, tool string) *store.Kill
	// Kept reports whether a kill of exactly that scope and target was answered and not undone.
	Kept(k store.Kill) bool
	// Kills lists the kills in effect.
	Kills() []store.Kill
	// Hold puts a kill in effect in memory; Release takes it back. A commit that answers in_effect_not_durable leaves it.
	Hold(k store.Kill) *store.Kill
	Release(held *store.Kill)
}

// Actions is what operations read of actions.
type Actions interface {
	// Actions lists actions, newest first. next is the Before of the page that follows, "" when there is none. All that it
	// has seen is on disk when it returns.
	Actions(ctx context.Context, q *store.ActionQuery) (page []*store.ActionRow, next string, err error)
}

// Trace follows one request. Its methods must not block. They are told no argument, no text and no name that an agent
// chose.
type Trace interface {
	// Stepped is called for each step that a chain asked, as Observer.Asked is. outcome is its effect, or what its receipt
	// says.
	Stepped(chain, step, plugin, outcome string, failed bool, began time.Time, took time.Duration)
	// Committed is called for each command that the request handed to the store, once that has answered.
	Committed(code sdk.Code, began time.Time, took time.Duration)
	// Ended is called once, when the operation has ended. result is as for Observer.Operated, decision the id of the
	// decision that it made, "" if it made none.
	Ended(operation, result, decision string, code sdk.Code, began, ended time.Time)
}

// Observer counts operations.
type Observer interface {
	// Operated is called once an operation has ended; it must not block. result is a decision's effect or a scan's
	// outcome.
	Operated(operation, result string, code sdk.Code, took time.Duration)
	// Asked is called for each step that a chain ("authorize" or "scan") asked; it must not block. plugin is the one that
	// the step called, "" if it called none. failed: it did not run to its end.
	Asked(chain, step, plugin string, failed bool, took time.Duration)
	// Refused is called for each API key that was not let in; it must not block.
	Refused(surface string, code sdk.Code)
	// Kept is called for what could not be kept or shown masked, and is withheld; it must not block.
	Kept(where, cause, scanner string)
}
