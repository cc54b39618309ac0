package ops

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Scan gives one text, or one piece of a stream, to the scan chain and says what of it may be released.
func (s *Service) Scan(r *Request, in *wire.ScanRequest) (*wire.ScanResponse, error) {
	if in.StreamID == "" && in.Offset != 0 {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "offset",
			"offset is of a piece of a stream: send it with stream_id, or leave it out")
	}
	if err := actsAs(r.Key, in.AgentID); err != nil {
		return nil, err
	}
	tool, err := s.toolOf(in.ToolID, in.Operation)
	if err != nil {
		return nil, err
	}
	if err := noKeys(tool, in.Operation, in.AgentID, in.SessionID, in.StreamID); err != nil {
		return nil, err
	}
	in.ToolID = tool
	if in.StreamID != "" {
		r.End()
		return s.scanPiece(r, in)
	}
	gen := s.pin()
	defer gen.unpin()
	began := s.set.Store.Began()
	var res chain.ScanResult
	if s.set.Store.Killed(r.Key, in.AgentID, in.SessionID, in.ToolID) != nil { // the commit says so, and of one to come
		res = chain.ScanResult{Outcome: chain.Denied, Code: sdk.ReasonKillSwitch}
	} else {
		res = gen.Scan.Run(r.Ctx, &chain.Input{Text: in.Output, ToolID: in.ToolID, AgentID: in.AgentID, KeyID: r.Key.ID,
			ContentType: in.ContentType, Turn: r.turn})
	}
	r.End()
	out := &wire.ScanResponse{Outcome: res.Outcome, ReasonCode: res.Code, Reason: res.Reason, ScanID: s.ids.id("scn_"),
		PolicyVersion: gen.Policy, Findings: findings(res.Findings), ScannedBy: s.receipts(r, res.Receipts)}
	cmd := &store.Scanned{Key: r.Key, By: r.Who, ScanID: out.ScanID, AgentID: in.AgentID, SessionID: in.SessionID,
		ToolID: in.ToolID, Began: began, Bytes: len(in.Output),
		Outcome: out.Outcome, Code: out.ReasonCode, Reason: out.Reason, Policy: gen.Policy,
		Findings: append(s.recorded(in.Output, 0, res.Findings, false), s.recorded(in.Output, 0, res.Shadow, true)...),
		Receipts: keptReceipts(out.ScannedBy, res.Receipts), LatencyUS: s.set.Now().Sub(r.Start).Microseconds()}
	if err := s.commit(r, cmd); err != nil {
		return nil, err
	}
	if cmd.Killed {
		out.Findings = findings(nil)
		out.Outcome, out.ReasonCode, out.Reason = cmd.Outcome, cmd.Code, cmd.Reason
	}
	scanRetryIn(out, res.Receipts)
	if out.Outcome != chain.Denied {
		out.SanitizedOutput = &res.Text
	}
	out.LatencyMS = s.set.Now().Sub(r.Start).Milliseconds()
	return out, nil
}

func findings(found []sdk.Finding) []wire.ScanFinding {
	out := make([]wire.ScanFinding, len(found))
	for i, f := range found {
		out[i] = wire.ScanFinding{Kind: f.Kind, Scanner: f.Scanner, Start: f.Start, End: f.End, Confidence: f.Confidence,
			Severity: f.Severity.String(), Action: f.Action.String()}
	}
	return out
}

// receipts are what the scanners did, as the answer shows it. It counts them.
func (s *Service) receipts(req *Request, rs []chain.Receipt) []wire.Receipt {
	out := make([]wire.Receipt, len(rs))
	for i := range rs {
		r := &rs[i]
		called := r.Step.Plugin
		if r.Prefiltered || r.Outcome == "skipped" {
			called = ""
		}
		s.set.Observer.Asked("scan", r.Step.Name, called, r.Err != nil, r.Took)
		if req.Trace != nil && called != "" {
			req.Trace.Stepped("scan", r.Step.Name, called, r.Outcome, r.Err != nil, r.Began, r.Took)
		}
		out[i] = wire.Receipt{Scanner: r.Step.Name, Version: r.About.Version, Digest: r.About.Digest, Bytes: r.Bytes,
			Outcome: r.Outcome, Micros: r.Took.Microseconds(), Prefiltered: r.Prefiltered, Shadow: r.Step.Shadow}
		if r.Err != nil {
			out[i].Error = r.Err.Error()
		}
	}
	return out
}

// keptReceipts are receipts as the log has them: with what plugins say of their failures.
func keptReceipts(shown []wire.Receipt, rs []chain.Receipt) []wire.Receipt {
	out := shown
	for i := range rs {
		words := chain.Words(rs[i].Err)
		if words == "" {
			continue
		}
		if &out[0] == &shown[0] {
			out = slices.Clone(shown)
		}
		out[i].Error = chain.WithWords(out[i].Error, words)
	}
	return out
}

// recorded is what the log keeps of findings: a hash keyed with the pepper, so that the same secret can be recognised
// again, in whatever spelling, and nobody can guess it from the log. text lies at the offset at of what the findings'
// offsets are of.
func (s *Service) recorded(text string, at int, found []sdk.Finding, shadow bool) []store.ScannedFinding {
	if len(found) == 0 {
		return nil
	}
	h := hmac.New(sha256.New, s.set.Pepper)
	out := make([]store.ScannedFinding, len(found))
	for i, f := range found {
		h.Reset()
		h.Write([]byte("finding\x00"))
		h.Write([]byte(chain.Decoded(text[f.Start-at : f.End-at])))
		out[i] = store.ScannedFinding{Kind: f.Kind, Scanner: f.Scanner, Severity: f.Severity.String(),
			Action: f.Action.String(), Start: f.Start, End: f.End, Hash: hex.EncodeToString(h.Sum(nil)[:16]), Shadow: shadow}
	}
	return out
}
