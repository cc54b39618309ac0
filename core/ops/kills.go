package ops

import (
	"context"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// KillSwitch stops, or lets go on again.
func (s *Service) KillSwitch(r *Request, in *wire.KillRequest) (*wire.KillResponse, error) {
	return s.kill(r.Ctx, r.Key, r.Who, in, idempotency(r, "kill"))
}

// Kill is KillSwitch for an operator at the console or on the machine.
func (s *Service) Kill(ctx context.Context, by store.Who, in *wire.KillRequest) (*wire.KillResponse, error) {
	return s.kill(ctx, nil, by, in, nil)
}

func (s *Service) kill(ctx context.Context, key *store.Key, by store.Who, in *wire.KillRequest,
	idem *store.Idempotency) (*wire.KillResponse, error) {
	k, err := killOf(key, in)
	if err != nil {
		return nil, err
	}
	k.By, k.At = by.Principal, s.set.Store.Now()
	cmd := &store.KillSwitch{Kill: k, Key: key, By: by, Undo: in.Undo, Idem: idem}
	active := !in.Undo // the command may be asked for its answer when in belongs to another request
	cmd.Answer = func(k store.Kill, denied int) []byte { return s.killed(k, denied, active).AppendJSON(nil) }
	var held *store.Kill
	if !in.Undo {
		if k.Scope == store.KillKey && s.set.Store.Key(k.Target) == nil {
			return nil, sdk.FieldErrf(sdk.CodeUnknownKey, "target", "there is no key %q", k.Target)
		}
		if err := s.killedBefore(ctx, key, k, idem); err != nil {
			return nil, err
		}
		held = s.set.Store.Hold(k) // from here on nobody is permitted, whatever the disk does
		cmd.Held = held
	}
	err = s.set.Store.Commit(ctx, cmd)
	switch {
	case err != nil && held == nil:
		return nil, err
	case codeOf(err) == sdk.CodeNotDurable:
		s.sweepScans()
		s.inFlight.waitForAnswers(ctx)
		return nil, err
	case err != nil:
		s.set.Store.Release(held)
		return nil, err
	}
	if cmd.Idem != nil && cmd.Idem.Replay != nil {
		if held != nil {
			s.set.Store.Release(held)
		}
		return nil, &Replay{cmd.Idem.Replay}
	}
	if !in.Undo {
		s.sweepScans()
		s.inFlight.waitForAnswers(ctx) // no PERMIT of an earlier call goes out after this answer
	}
	return s.killed(cmd.Out, cmd.Denied, active), nil
}

// killedBefore is how a request with the same Idempotency-Key ends, if there was one: a repeat must not hold anything,
// not for a moment. If the store cannot say, the kill goes on.
func (s *Service) killedBefore(ctx context.Context, key *store.Key, k store.Kill, idem *store.Idempotency) error {
	if idem == nil {
		return nil
	}
	look := *idem
	switch err := s.set.Store.Commit(ctx, &store.AnswerOnce{Key: key, Idem: &look}); {
	case err != nil || look.Replay == nil:
		return nil
	case !s.set.Store.Kept(k):
		return store.Overtaken(false)
	}
	return &Replay{look.Replay}
}

func (s *Service) killed(k store.Kill, denied int, active bool) *wire.KillResponse {
	out := &wire.KillResponse{OK: true, Killed: s.wireKill(k, active), PendingDenied: denied}
	if active && k.Scope != store.KillKey {
		out.Warning = warnOfPattern("target", k.Target)
	}
	return out
}

func (s *Service) wireKill(k store.Kill, active bool) wire.Killed {
	return wire.Killed{Scope: k.Scope, Target: k.Target, Reason: k.Reason, By: k.By, ByName: s.keyName(k.By),
		At: rfc3339(k.At), Active: active}
}

// killOf reads what is to be killed, and refuses a key that reaches beyond the agents it sees.
func killOf(key *store.Key, in *wire.KillRequest) (store.Kill, error) {
	k := store.Kill{Scope: in.Scope, Target: in.Target, Reason: in.Reason}
	if in.AgentID != "" {
		if in.Scope != "" && in.Scope != store.KillAgent || in.Target != "" && in.Target != in.AgentID {
			return k, sdk.FieldErrf(sdk.CodeInvalidField, "agent_id", "give agent_id, or scope and target, not both")
		}
		k.Scope, k.Target = store.KillAgent, in.AgentID
	}
	switch k.Scope {
	case "":
		return k, sdk.FieldErrf(sdk.CodeMissingField, "scope", "agent_id, or scope and target, is required")
	case store.KillGlobal:
		if k.Target != "" {
			return k, sdk.FieldErrf(sdk.CodeInvalidField, "target", "a global kill has no target")
		}
	case store.KillAgent, store.KillKey, store.KillSession, store.KillTool:
		if k.Target == "" {
			return k, sdk.FieldErrf(sdk.CodeMissingField, "target", "a kill of scope %s needs a target", k.Scope)
		}
	default:
		return k, sdk.FieldErrf(sdk.CodeInvalidField, "scope",
			"unknown scope %q; scopes are global, agent, session, key, tool", k.Scope)
	}
	if len(k.Reason) > reasonBytes {
		return k, sdk.FieldErrf(sdk.CodeInvalidField, "reason", "reason is %d bytes long, more than the limit of %d",
			len(k.Reason), reasonBytes)
	}
	if err := noKeys(k.Target, k.Reason); err != nil {
		return k, err
	}
	if key != nil && len(key.Agents) > 0 && (k.Scope != store.KillAgent && !sdk.CoversAgent(key.Agents, "*") ||
		k.Scope == store.KillAgent && !sdk.CoversAgent(key.Agents, k.Target)) {
		return k, sdk.FieldErrf(sdk.CodeAgentNotAllowed, "target",
			"the key %q answers for some agents only, and this kill reaches beyond them", key.Name)
	}
	return k, nil
}

// seesKill says whether a list may name a kill to that key. A key that answers for some agents sees what stops
// everybody, these agents or itself. Sessions, tools and keys are other people's words: it learns of such a kill by the
// denial of its own calls.
func seesKill(key *store.Key, k *store.Kill) bool {
	switch {
	case len(key.Agents) == 0 || sdk.CoversAgent(key.Agents, "*"):
		return true
	case k.Scope == store.KillAgent:
		return sdk.OverlapsAgent(key.Agents, k.Target)
	case k.Scope == store.KillKey:
		return k.Target == key.Line()
	}
	return k.Scope == store.KillGlobal
}

// mostKills is how many kills a page has.
const mostKills = 1000

// KillList lists the kills in effect that the key may see.
func (s *Service) KillList(r *Request, in *wire.KillListRequest) (*wire.KillListResponse, error) {
	after, err := s.pages.place("kills", in.Cursor)
	if err != nil {
		return nil, err
	}
	leave, err := s.pages.enter(r)
	if err != nil {
		return nil, err
	}
	defer leave()
	out, size := &wire.KillListResponse{OK: true}, 0
	for _, k := range s.set.Store.Kills() {
		at := k.Scope + "\x00" + k.Target
		if at <= after || !seesKill(r.Key, &k) {
			continue
		}
		if size += len(at) + len(k.Reason) + memberBytes/8; len(out.Kills) == mostKills ||
			len(out.Kills) > 0 && size > pageBytes {
			last := out.Kills[len(out.Kills)-1]
			out.Next = s.pages.cursor("kills", last.Scope+"\x00"+last.Target)
			break
		}
		out.Kills = append(out.Kills, s.wireKill(k, true))
	}
	if err := s.commit(r, store.Barrier{Key: r.Key}); err != nil {
		return nil, err
	}
	return out, nil
}
