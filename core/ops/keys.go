package ops

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// KeySpec is what an operator says of a new key. A name is enough.
type KeySpec struct {
	Name        string
	Environment string
	Preset      string   // agent if neither preset nor scopes are given
	Scopes      []string // instead of a preset
	Agents      []string // globs; empty means every agent
	ExpiresAt   time.Time
	Note        string
	Redeem      string // explicit: redeem: "auto" of a call counts as explicit; auto or "" lets calls choose
}

// NewKey is a key just made, with the value that is shown this once.
type NewKey struct {
	Key   *store.Key
	Value string
}

func (k *KeySpec) scopes() ([]string, error) {
	if len(k.Scopes) > 0 && k.Preset != "" {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "scopes", "give a preset or scopes, not both")
	}
	if len(k.Scopes) == 0 {
		preset := k.Preset
		if preset == "" {
			preset = "agent"
		}
		s, ok := sdk.Presets[preset]
		if !ok {
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, "preset",
				"unknown preset %q; presets are agent, approver, auditor, operator", preset)
		}
		return s.Names(), nil
	}
	var set sdk.Scope
	for _, name := range k.Scopes {
		s, ok := sdk.ParseScope(name)
		if !ok {
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, "scopes",
				"unknown scope %q; scopes are authorize, scan, approve, grants, kill, audit, reveal", name)
		}
		set |= s
	}
	return set.Names(), nil
}

// check refuses a spec that makes no sense, naming the field.
func (s *Service) check(k *KeySpec, now time.Time) error {
	if err := noKeys(append([]string{k.Name, k.Environment, k.Note}, k.Agents...)...); err != nil {
		return err
	}
	if err := wire.CheckName("name", k.Name, s.set.Limits.Name, true); err != nil {
		return err
	}
	for _, g := range k.Agents {
		if err := wire.CheckName("agents", g, s.set.Limits.Name, true); err != nil {
			return err
		}
	}
	if len(k.Agents) > 100 {
		return sdk.FieldErrf(sdk.CodeInvalidField, "agents", "%d agent patterns, more than the limit of 100", len(k.Agents))
	}
	if len(k.Note) > reasonBytes || len(k.Environment) > s.set.Limits.Name {
		return sdk.FieldErrf(sdk.CodeInvalidField, "note", "note is limited to %d bytes, environment to %d", reasonBytes,
			s.set.Limits.Name)
	}
	if k.Redeem != "" && k.Redeem != redeemAuto && k.Redeem != redeemExplicit {
		return sdk.FieldErrf(sdk.CodeInvalidField, "redeem", "redeem must be %s or %s, got %q", redeemAuto, redeemExplicit,
			k.Redeem)
	}
	if k.ExpiresAt.After(now.AddDate(100, 0, 0)) { // rows hold years of four digits; who means "never" leaves it out
		return sdk.FieldErrf(sdk.CodeInvalidField, "expires_at",
			"expires_at lies more than 100 years ahead; leave it out for a key that does not expire")
	}
	if !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(now) {
		return sdk.FieldErrf(sdk.CodeInvalidField, "expires_at", "expires_at lies in the past")
	}
	return nil
}

func (s *Service) blank(by store.Who) *NewKey {
	id, value := s.newValue()
	sum := s.macs.sum(value)
	return &NewKey{&store.Key{ID: id, MAC: sum[:], CreatedAt: s.set.Store.Now().UTC(), CreatedBy: by.Principal}, value}
}

// CreateKey makes a key. Its value is in the answer and nowhere else.
func (s *Service) CreateKey(ctx context.Context, spec KeySpec, by store.Who) (*NewKey, error) {
	scopes, err := spec.scopes()
	if err != nil {
		return nil, err
	}
	if err := s.check(&spec, s.set.Store.Now()); err != nil {
		return nil, err
	}
	n := s.blank(by)
	k := n.Key
	if len(spec.Scopes) == 0 {
		k.Preset = cmp.Or(spec.Preset, "agent")
	}
	k.Name, k.Environment, k.Scopes, k.Agents, k.ExpiresAt, k.Note = spec.Name, spec.Environment, scopes,
		slices.Clone(spec.Agents), spec.ExpiresAt, spec.Note
	k.Explicit = spec.Redeem == redeemExplicit
	if err := s.set.Store.Commit(ctx, &store.CreateKey{Key: k, By: by}); err != nil {
		return nil, err
	}
	return n, nil
}

// RevokeKey ends a key for ever, by id.
func (s *Service) RevokeKey(ctx context.Context, id string, by store.Who) error {
	err := s.set.Store.Commit(ctx, &store.RevokeKey{ID: id, By: by})
	s.sweepScans()
	return err
}

// RetireKey ends a key after grace. One that ends already, sooner or later, stays as it is.
func (s *Service) RetireKey(ctx context.Context, id string, grace time.Duration, by store.Who) error {
	k := s.set.Store.Key(id)
	if k == nil || k.Revocation() != nil || !k.ExpiresAt.IsZero() && k.ExpiresAt.Before(s.set.Store.Now().Add(grace)) {
		return nil
	}
	err := s.set.Store.Commit(ctx, &store.RevokeKey{ID: id, Grace: grace, By: by})
	if codeOf(err) == sdk.CodeConflict {
		return nil
	}
	return err
}

// RollKey makes a key with the settings of an old one and revokes the old one after grace (0 = now, at most 30 days).
func (s *Service) RollKey(ctx context.Context, id string, grace time.Duration, by store.Who) (*NewKey, error) {
	if grace < 0 || grace > 30*24*time.Hour {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "grace", "grace must be 0 to 30 days (720h), not %v", grace)
	}
	n := s.blank(by)
	if err := s.set.Store.Commit(ctx, &store.RollKey{ID: id, New: n.Key, Grace: grace, By: by}); err != nil {
		return nil, err
	}
	return n, nil
}

// Keys lists all keys, tombstones too.
func (s *Service) Keys() []*store.Key { return s.set.Store.Keys() }

// keyName is what a person knows a key by; "" for what is no key's id, such as an operator at the console.
func (s *Service) keyName(id string) string {
	if k := s.set.Store.Key(id); k != nil {
		return k.Name
	}
	return ""
}

// Note writes a record of something that is no operation: a start, a configuration.
func (s *Service) Note(ctx context.Context, typ string, fields ...[2]string) error {
	return s.NoteBy(ctx, store.Who{Principal: "system", Method: "system", Surface: "system"}, typ, fields...)
}

// NoteBy is Note for what somebody did.
func (s *Service) NoteBy(ctx context.Context, who store.Who, typ string, fields ...[2]string) error {
	return s.set.Store.Commit(ctx, &store.Note{Type: typ, By: who, Fields: fields})
}

// Times is what the store's clock says.
func (s *Service) Times() store.Times { return s.set.Store.Times() }

// BelieveClock takes a wall clock for right that is ahead of what can be true, and gives by how much it was.
func (s *Service) BelieveClock(ctx context.Context, by store.Who) (was time.Duration, err error) {
	cmd := &store.BelieveClock{By: by}
	err = s.set.Store.Commit(ctx, cmd)
	return cmd.Was, err
}
