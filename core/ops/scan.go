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

// Scan gives what was sent to the scan chain, one output, several, or one piece of a stream, and says what of it may be
// released.
func (s *Service) Scan(r *Request, in *wire.ScanRequest) (*wire.ScanResponse, error) {
	if err := scanForm(in); err != nil {
		return nil, err
	}
	if err := actsAs(r.Key, in.AgentID); err != nil {
		return nil, err
	}
	texts, err := s.textsOf(in)
	if err != nil {
		return nil, err
	}
	if in.StreamID != "" {
		in.ToolID = texts[0].tool
		r.End()
		return s.scanPiece(r, in)
	}
	gen := s.pin()
	defer gen.unpin()
	began := s.set.Store.Began()
	if err := s.scanTexts(r, in, gen.Scan, texts); err != nil {
		return nil, err
	}
	r.End()
	out := &wire.ScanResponse{ScanID: s.ids.id("scn_"), PolicyVersion: gen.Policy}
	cmd := &store.Scanned{Key: r.Key, By: r.Who, ScanID: out.ScanID, AgentID: in.AgentID, SessionID: in.SessionID,
		Began: began, Policy: gen.Policy}
	if in.Outputs == nil {
		err = s.answerOne(r, &texts[0], out, cmd)
	} else {
		err = s.answerMany(r, texts, out, cmd)
	}
	if err != nil {
		return nil, err
	}
	out.LatencyMS = s.set.Now().Sub(r.Start).Milliseconds()
	return out, nil
}

// answerOne records the scan of one output and fills in the answer.
func (s *Service) answerOne(r *Request, t *scanText, out *wire.ScanResponse, cmd *store.Scanned) error {
	out.Findings, out.ScannedBy = findings(t.res.Findings), s.receipts(r, t.res.Receipts)
	cmd.ToolID, cmd.Bytes, cmd.JSON = t.tool, len(t.text), t.json
	cmd.Outcome, cmd.Code, cmd.Reason = t.res.Outcome, t.res.Code, t.res.Reason
	cmd.Findings = append(s.recorded(t.text, 0, t.res.Findings, false), s.recorded(t.text, 0, t.res.Shadow, true)...)
	cmd.Receipts = keptReceipts(out.ScannedBy, t.res.Receipts)
	cmd.LatencyUS = s.set.Now().Sub(r.Start).Microseconds()
	if err := s.commit(r, cmd); err != nil {
		return err
	}
	if cmd.Killed {
		out.Findings = findings(nil)
	}
	out.Outcome, out.ReasonCode, out.Reason = cmd.Outcome, cmd.Code, cmd.Reason
	out.Retry = scanRetry(out.ReasonCode, t.res.Receipts)
	out.SanitizedOutput, out.SanitizedJSON = t.released(out.Outcome)
	return nil
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

// maskKey gives the key of the masks in a session, or nil without a session. Each session has its own key, so masks of
// two sessions cannot be compared.
func (s *Service) maskKey(key, agent, session string) func() []byte {
	if session == "" {
		return nil
	}
	return func() []byte { return keyed(s.set.Pepper, "masks\x00"+key+"\x00"+agent+"\x00"+session) }
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
