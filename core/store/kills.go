package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// The scopes of a kill.
const (
	KillGlobal  = "global"
	KillKey     = "key"
	KillAgent   = "agent"
	KillSession = "session"
	KillTool    = "tool"
)

// Kill is one kill in effect.
type Kill struct {
	Scope  string    `json:"scope"`
	Target string    `json:"target,omitempty"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`

	number uint64 // of the kills that this process has put in effect
}

// Killed is a kill that covers such a call of that key, or nil. It is in memory: what it says holds from now on.
func (s *Store) Killed(k *Key, agent, session, tool string) *Kill {
	set := s.kills.now.Load()
	if set == nil {
		return nil
	}
	return set.covering(k.root(), agent, session, tool)
}

// killsKey is a kill that covers the key itself, whatever it is used for, or nil: of everything, of its line, or of an
// agent that it acts as. Operators at the console are no keys.
func (s *Store) killsKey(k *Key) *Kill {
	set := s.kills.now.Load()
	if set == nil || k.person {
		return nil
	}
	for _, name := range [...]killName{{KillGlobal, ""}, {KillKey, k.root()}} {
		if kill := set.all[name]; kill != nil {
			return kill
		}
	}
	if k.scope&sdk.ScopeAuthorize != 0 {
		for name, kill := range set.all {
			if name.scope == KillAgent && sdk.OverlapsAgent(k.Agents, name.target) {
				return kill
			}
		}
	}
	return nil
}

// maySign refuses a killed key what lets somebody do something. k is nil for an operator at the console.
func (tx *tx) maySign(k *Key) error {
	if k == nil {
		return nil
	}
	if kill := tx.s.killsKey(k); kill != nil {
		return sdk.Errf(sdk.CodeKeyKilled, "the key %q is stopped by a kill of scope %s: until that is undone it approves "+
			"and grants nothing; it may still deny, withdraw, revoke and kill", k.Name, kill.Scope)
	}
	return nil
}

// KeyStopped reports whether the key with that id is killed, expired, or revoked and not rolled. Ids that no key has
// are not stopped.
func (s *Store) KeyStopped(id string) bool {
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	k, times := s.keys.byID[id], s.Times()
	if k == nil {
		return false
	}
	set := s.kills.now.Load()
	return k.Expired(k.At(times)) || !s.lives(k, times) || set != nil && set.all[killName{KillKey, k.root()}] != nil
}

// Barrier is a command that changes nothing: when it is answered, everything that Key's owner has been shown is on
// disk. Whoever reads beside the sequencer, which may be what a batch has changed and not yet synced, commits one
// before it answers.
type Barrier struct{ Key *Key }

func (c Barrier) apply(tx *tx) error { return tx.live(c.Key) }

// Kills lists the kills in effect, by scope and target.
func (s *Store) Kills() []Kill {
	var out []Kill
	if set := s.kills.now.Load(); set != nil {
		for _, k := range set.all {
			out = append(out, *k)
		}
	}
	slices.SortFunc(out, func(a, b Kill) int {
		if c := strings.Compare(a.Scope, b.Scope); c != 0 {
			return c
		}
		return strings.Compare(a.Target, b.Target)
	})
	return out
}

func killRow(scope, target string) []byte {
	return keyStr(prefixKill, scope+"\x00"+target)
}

func (s *Store) loadKills() error {
	var err error
	s.kills.change(func(t *killTable) {
		err = s.scan(prefixKill, func(key, value []byte) error {
			k := &Kill{}
			if err := json.Unmarshal(value, k); err != nil {
				return fmt.Errorf("kill %q: %w", key[1:], err)
			}
			t.kept[killName{k.Scope, k.Target}] = k
			return nil
		})
	})
	return err
}

// Hold puts a kill in effect in memory at once, before it is on disk. A KillSwitch command with it as Held takes it
// over; whoever holds it lets it go with Release if the command was refused for another reason than the disk. Where
// Commit answers in_effect_not_durable it stays, and is written as soon as the disk takes anything again.
func (s *Store) Hold(k Kill) *Kill {
	k.Target = s.killed(k)
	s.kills.change(func(t *killTable) { t.held[&k] = true })
	return &k
}

// Release takes back what Hold has put in effect. What a command has put in effect stays.
func (s *Store) Release(held *Kill) {
	s.kills.change(func(t *killTable) { delete(t.held, held) })
}

// Kept reports whether a kill of exactly that scope and target is in effect by a command.
func (s *Store) Kept(k Kill) bool {
	is, _, _ := s.kills.committed(killName{k.Scope, s.killed(k)})
	return is != nil
}

// killed is the name under which a kill is kept: a key's is that of the first of its line, so that rolling is no way
// out.
func (s *Store) killed(k Kill) string {
	if key := s.Key(k.Target); k.Scope == KillKey && key != nil {
		return key.root()
	}
	return k.Target
}

// Overtaken is the answer to a repeat whose first answer would not be true any more.
func Overtaken(undo bool) error {
	what := "the kill with this Idempotency-Key was undone since; to kill again, send it with another key"
	if undo {
		what = "it was killed again since this Idempotency-Key undid it; to undo that, send it with another key"
	}
	return sdk.Errf(sdk.CodeConflict, "%s", what)
}

// KillSwitch stops what a kill covers, or lets it go on again. Key is nil for operators at the console or on the
// machine.
type KillSwitch struct {
	Kill Kill
	Key  *Key
	By   Who
	Undo bool
	Held *Kill // what Hold has given for it; nil for an undo
	Idem *Idempotency
	// Answer makes what a repeat with the same Idempotency-Key is answered.
	Answer func(k Kill, denied int) []byte

	Out    Kill
	Denied int // deferred calls that it denied

	owed *sweep // what lists are told of while the disk does not take it
}

func (c *KillSwitch) apply(tx *tx) error {
	done, err := tx.admit(c.Key, c.Idem)
	if err != nil {
		return err
	}
	name := killName{c.Kill.Scope, tx.s.killed(c.Kill)}
	if is, _, _ := tx.s.kills.committed(name); done {
		if (is != nil) == c.Undo {
			return Overtaken(c.Undo)
		}
		return nil // it is as it was answered then
	}
	c.Kill.At = tx.now
	if c.Kill.Scope == KillKey {
		if tx.s.keys.byID[c.Kill.Target] == nil {
			return sdk.FieldErrf(sdk.CodeUnknownKey, "target", "there is no key %q", c.Kill.Target)
		}
	}
	if !c.Undo {
		c.stop(tx, name)
	} else if err := c.undo(tx, name); err != nil {
		return err
	}
	if c.Idem != nil {
		c.Idem.keep(tx, c.Answer(c.Out, c.Denied))
	}
	return nil
}

func (c *KillSwitch) stop(tx *tx, name killName) {
	k := c.Kill
	k.Target = name.target
	tx.putKill(&k)
	tx.s.kills.change(func(t *killTable) {
		t.kept[name] = &k
		delete(t.held, c.Held)
	})
	c.record(tx, "kill")
	c.Denied += tx.deny(&sweep{Kill: &k, At: tx.now, By: c.By, Why: "killed"})
	c.Out = c.Kill
}

func (tx *tx) putKill(k *Kill) {
	row, err := json.Marshal(k)
	tx.keep(err)
	tx.set(killRow(k.Scope, k.Target), row)
}

// undo lets go on again. Who is killed, or acts as an agent that is, does not undo a kill; nor does any key a global
// one.
func (c *KillSwitch) undo(tx *tx, name killName) error {
	was, all, coming := tx.s.kills.committed(name)
	if was != nil && tx.st.undone[name] == was {
		was = nil // by an earlier command of this batch: it stays in effect until that is on disk
	}
	switch {
	case coming: // it denies already, whatever this undoes
		return sdk.FieldErrf(sdk.CodeConflict, "target",
			"a kill of scope %s for %q is on its way to the disk; ask again once it is answered", name.scope, name.target)
	case was == nil:
		return sdk.FieldErrf(sdk.CodeUnknownKill, "target", "there is no kill of scope %s in effect for %q", name.scope,
			name.target)
	}
	if k := c.Key; k != nil {
		if (name.scope == KillSession || name.scope == KillTool) && k.scope&sdk.ScopeAuthorize != 0 {
			return sdk.Errf(sdk.CodeUndoRefused, "the key %q asks for calls itself, which this kill may stop", k.Name)
		}
		if name.scope == KillGlobal {
			return sdk.Errf(sdk.CodeUndoRefused, "a global kill is undone by yett unkill --global on the server's machine only")
		}
		for other, kill := range all {
			switch {
			case other.scope == KillGlobal, other == killName{KillKey, k.root()}:
				return sdk.Errf(sdk.CodeUndoRefused, "the key %q is killed itself", k.Name)
			case other.scope == KillAgent && k.scope&sdk.ScopeAuthorize != 0 && sdk.OverlapsAgent(k.Agents, kill.Target):
				return sdk.Errf(sdk.CodeUndoRefused, "the key %q acts as an agent that is killed", k.Name)
			}
		}
	}
	tx.del(killRow(name.scope, name.target))
	c.record(tx, "unkill")
	c.Out = *was
	c.Out.Target = c.Kill.Target
	tx.st.undone[name] = was
	tx.onSync = append(tx.onSync, func(refused bool) { // not before it is on disk, and not what has come into effect since
		delete(tx.st.undone, name)
		if refused {
			return // then it is void: the kill was in effect all the time
		}
		tx.s.kills.change(func(t *killTable) {
			if t.kept[name] == was {
				t.remember(was, tx.now)
				delete(t.kept, name)
			}
		})
		tx.st.wakeApproved()
	})
	return nil
}

func (c *KillSwitch) record(tx *tx, typ string) {
	o := tx.record(typ)
	c.By.write(&o)
	o.Str("scope", c.Kill.Scope)
	o.Str("target", c.Kill.Target)
	if line := tx.s.killed(c.Kill); line != c.Kill.Target { // a key that was rolled: what is stopped is all of its line
		o.Str("target_line", line)
	}
	o.Opt("reason", c.Kill.Reason)
	if c.Kill.Scope == KillAgent {
		o.Str("agent_id", c.Kill.Target)
	}
	tx.end(o)
}
