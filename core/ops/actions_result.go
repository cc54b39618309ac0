package ops

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// errorBytes bounds what a client may report as an error.
const errorBytes = 4096

// FinishAction records how an executing action ended. Its result goes through the scan chain; it ends as it was
// reported, whatever becomes of the result.
func (s *Service) FinishAction(r *Request, in *wire.ActionResultRequest) (*wire.Action, error) {
	if len(in.Error) > errorBytes {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "error", "error is %d bytes long, more than the limit of %d",
			len(in.Error), errorBytes)
	}
	if err := noKeys(r.Idempotency); err != nil {
		return nil, err
	}
	read := &store.ReadAction{Key: r.Key, ID: in.ID, Mine: true}
	if err := s.commit(r, read); err != nil {
		return nil, err
	}
	a := &read.Out
	cmd := &store.FinishAction{Key: r.Key, By: r.Who, ID: a.ID, Idem: idempotency(r, "action_result/"+a.ID),
		Answer: func(a *store.ActionRow) []byte { return s.shown(a, true).AppendJSON(nil) },
		Result: store.ActionResult{Success: *in.Success}}
	if a.Status == store.ActionExecuting { // else the command says no, or has an answer from before
		cmd.Result.Error = s.keptError(r, a, in.Error)
		if in.Result.Exists() {
			s.scanResult(r, a, in.Result, cmd)
		}
	}
	if err := s.commit(r, cmd); err != nil {
		return nil, err
	}
	s.raws.forget(a.ID)
	if cmd.Idem != nil && cmd.Idem.Replay != nil {
		return nil, &Replay{cmd.Idem.Replay}
	}
	return s.shown(&cmd.Out, true), nil
}

// keptError is the client's text without what the scanners find in it.
func (s *Service) keptError(r *Request, a *store.ActionRow, text string) string {
	if text == "" {
		return ""
	}
	gen := s.pin()
	defer gen.unpin()
	out, err := gen.Scan.Mask(r.Ctx, &chain.Input{Text: text, ToolID: a.ToolID, AgentID: a.AgentID, KeyID: r.Key.ID})
	if errors.Is(err, chain.ErrNoScanner) {
		out, err = text, nil
	}
	if err != nil {
		return "withheld: it could not be scanned (" + s.withheld(keptInResult, whyOf(err)).String() + ")"
	}
	if HoldsKey(out) {
		return "withheld: it held the value of an API key"
	}
	return out
}

// scanResult runs the scan chain over a result and fills in what is kept of it, and the record of the scan.
func (s *Service) scanResult(r *Request, a *store.ActionRow, v exact.Value, cmd *store.FinishAction) {
	gen := s.pin()
	defer gen.unpin()
	in := &chain.Input{Text: v.Raw(), ToolID: a.ToolID, AgentID: a.AgentID, KeyID: r.Key.ID,
		ContentType: "application/json", MaskKey: s.maskKey(r.Key.ID, a.AgentID, a.SessionID),
		TokenKey: s.tokenKey(a.AgentID, a.SessionID)}
	res := gen.Scan.Run(r.Ctx, in)
	out := &cmd.Result
	out.Outcome, out.Code = res.Outcome, res.Code
	cmd.Scan = &store.Scanned{Key: r.Key, By: r.Who, ScanID: s.ids.id("scn_"), AgentID: a.AgentID, SessionID: a.SessionID,
		ToolID: a.ToolID, Bytes: len(in.Text), Outcome: res.Outcome, Code: res.Code,
		Reason: res.Reason, Policy: gen.Policy, Findings: append(s.recorded(in.Text, 0, res.Findings, false),
			s.recorded(in.Text, 0, res.Shadow, true)...), Receipts: keptReceipts(s.receipts(r, res.Receipts), res.Receipts),
		LatencyUS: s.set.Now().Sub(r.Start).Microseconds()}
	if res.Outcome == chain.Denied {
		out.Withheld = res.Reason
		if out.Withheld == "" {
			out.Withheld = res.Code
		}
		return
	}
	kept, err := gen.Scan.Mask(r.Ctx, in) // also what the operator's actions only flag: it is for what we keep ourselves
	var doc exact.Doc
	if err == nil {
		err = doc.Parse(kept, storedLimits)
	}
	switch {
	case err != nil:
		out.Withheld = "the result could not be masked for keeping (" + s.withheld(keptInResult, whyOf(err)).String() + ")"
	case HoldsKey(string(doc.Root().AppendCanonical(nil))):
		out.Withheld = "the result held the value of an API key"
	default:
		out.Value = tight(kept)
	}
}

// tight is JSON without the space between its parts.
func tight(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return text // it was parsed before, so this cannot be
	}
	return b.String()
}
