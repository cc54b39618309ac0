package ops

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// maxListed bounds the findings of one answer and one record: once the outputs in front have as many, an output is not
// scanned but denied. One output alone may have more.
const maxListed = 4096

// scanText is one output of a request, and what the chain says of it.
type scanText struct {
	tool, text, content string
	json                bool // it was sent as a JSON value
	res                 chain.ScanResult
}

// scanForm refuses members that do not go together.
func scanForm(in *wire.ScanRequest) error {
	if in.StreamID == "" && in.Offset != 0 {
		return sdk.FieldErrf(sdk.CodeInvalidField, "offset",
			"offset is of a piece of a stream: send it with stream_id, or leave it out")
	}
	field := ""
	switch {
	case in.OutputJSON == nil && in.Outputs == nil:
		return nil
	case in.StreamID != "":
		field = "stream_id"
	case in.Final:
		field = "final"
	default:
		return nil
	}
	return sdk.FieldErrf(sdk.CodeInvalidField, field, "%s is of a scan stream, and its pieces are sent as output: leave "+
		"it out", field)
}

// textsOf are the outputs of a request, each with its tool's full name.
func (s *Service) textsOf(in *wire.ScanRequest) ([]scanText, error) {
	outputs := in.Outputs
	if outputs == nil {
		outputs = []wire.ScanOutput{{Output: in.Output, OutputJSON: in.OutputJSON}}
	}
	names := append(make([]string, 0, 4+len(outputs)), in.Operation, in.AgentID, in.SessionID, in.StreamID)
	texts := make([]scanText, len(outputs))
	for i := range outputs {
		o, at := &outputs[i], ""
		if in.Outputs != nil {
			at = fmt.Sprintf("outputs[%d].", i)
		}
		t := scanText{text: o.Output, content: cmp.Or(o.ContentType, in.ContentType)}
		if o.OutputJSON != nil {
			t.text, t.json = string(o.OutputJSON), true
			if in.Outputs != nil {
				t.content = o.ContentType
			}
			if t.content = cmp.Or(t.content, "application/json"); !chain.JSONType(t.content) {
				return nil, sdk.FieldErrf(sdk.CodeInvalidField, at+"content_type",
					"%scontent_type must be a JSON type with output_json, such as application/json, got %q", at, t.content)
			}
		}
		id := cmp.Or(o.ToolID, in.ToolID)
		if id == "" {
			return nil, sdk.FieldErrf(sdk.CodeMissingField, at+"tool_id", "%stool_id is required", at)
		}
		var err error
		if t.tool, err = s.toolOf(id, in.Operation); err != nil {
			return nil, err
		}
		texts[i], names = t, append(names, t.tool)
	}
	return texts, noKeys(names...)
}

// scanTexts scans the outputs one after the other. They have the chain's budget together, and each is read in a turn.
func (s *Service) scanTexts(r *Request, in *wire.ScanRequest, c *chain.ScanChain, texts []scanText) error {
	left, listed := c.Begin(), 0
	for i := range texts {
		t := &texts[i]
		if err := s.nextTurn(r, i, left); err != nil {
			return err
		}
		switch {
		case s.set.Store.Killed(r.Key, in.AgentID, in.SessionID, t.tool) != nil: // the commit says so, and of one to come
			t.res = chain.ScanResult{Outcome: chain.Denied, Code: sdk.ReasonKillSwitch}
		case listed >= maxListed:
			t.res = chain.ScanResult{Outcome: chain.Denied, Code: sdk.ReasonOutputSize, Reason: fmt.Sprintf(
				"the outputs before it have %d findings, and the limit is %d: send this one in another request", listed,
				maxListed)}
		default:
			t.res = c.RunIn(r.Ctx, &chain.Input{Text: t.text, ToolID: t.tool, AgentID: in.AgentID, KeyID: r.Key.ID,
				ContentType: t.content, Whole: t.json, Turn: r.turn, MaskKey: s.maskKey(r.Key.ID, in.AgentID, in.SessionID),
				TokenKey: s.tokenKey(in.AgentID, in.SessionID)}, left)
			listed += len(t.res.Findings) + len(t.res.Shadow)
		}
	}
	return nil
}

// nextTurn waits for a turn for output i. The first one has that of the request, where requests have turns.
func (s *Service) nextTurn(r *Request, i int, left *chain.Time) error {
	if i == 0 || r.turn == nil {
		return nil
	}
	from := s.set.Now()
	if r.turn.Take(r.Ctx, s.turns, r.Key.ID) != nil {
		return noTurn()
	}
	left.Without(s.set.Now().Sub(from))
	return nil
}

// released is what may be passed on of an output.
func (t *scanText) released(outcome string) (*string, json.RawMessage) {
	switch {
	case outcome == chain.Denied:
		return nil, nil
	case t.json:
		return nil, json.RawMessage(t.res.Text)
	}
	return &t.res.Text, nil
}

// answerMany is answerOne for several outputs. They are one record, and the strictest of their outcomes is that of all.
func (s *Service) answerMany(r *Request, texts []scanText, out *wire.ScanResponse, cmd *store.Scanned) error {
	sum := summed(texts)
	out.ScannedBy = s.receipts(r, sum)
	cmd.Receipts, cmd.ToolID = keptReceipts(out.ScannedBy, sum), texts[0].tool
	cmd.Outputs = make([]store.ScannedOutput, len(texts))
	for i := range texts {
		t := &texts[i]
		cmd.Outputs[i] = store.ScannedOutput{ToolID: t.tool, Bytes: len(t.text), JSON: t.json, Hash: s.outputHash(t.text),
			Outcome: t.res.Outcome, Code: t.res.Code, Reason: t.res.Reason}
		from := len(cmd.Findings)
		cmd.Findings = append(cmd.Findings, s.recorded(t.text, 0, t.res.Findings, false)...)
		cmd.Findings = append(cmd.Findings, s.recorded(t.text, 0, t.res.Shadow, true)...)
		for k := range cmd.Findings[from:] {
			cmd.Findings[from+k].Output = i
		}
		cmd.Bytes += len(t.text)
		if t.tool != cmd.ToolID {
			cmd.ToolID = ""
		}
		if i == 0 || strictness(t.res.Outcome) > strictness(cmd.Outcome) {
			cmd.Outcome, cmd.Code, cmd.Reason = t.res.Outcome, t.res.Code, t.res.Reason
		}
	}
	cmd.LatencyUS = s.set.Now().Sub(r.Start).Microseconds()
	if err := s.commit(r, cmd); err != nil {
		return err
	}
	out.Outcome, out.ReasonCode, out.Reason = cmd.Outcome, cmd.Code, cmd.Reason
	out.Findings = []wire.ScanFinding{}
	out.Outputs = make([]wire.ScanVerdict, len(texts))
	for i := range texts {
		t, kept, v := &texts[i], &cmd.Outputs[i], &out.Outputs[i]
		v.Outcome, v.ReasonCode, v.Reason = kept.Outcome, kept.Code, kept.Reason
		v.Retry = scanRetry(v.ReasonCode, t.res.Receipts)
		v.SanitizedOutput, v.SanitizedJSON = t.released(v.Outcome)
		if kept.Killed {
			continue
		}
		for _, f := range findings(t.res.Findings) {
			f.Index = &i
			out.Findings = append(out.Findings, f)
		}
	}
	if out.ReasonCode == sdk.ReasonScanUnavailable {
		out.Retry = longest(out.Outputs)
	}
	return nil
}

// strictness orders outcomes.
func strictness(outcome string) int {
	return slices.Index([]string{chain.Pass, chain.Warned, chain.Redacted, chain.Denied}, outcome)
}

// longest is when to send outputs again, so that none of them fails another time.
func longest(all []wire.ScanVerdict) (out *wire.Retry) {
	for i := range all {
		switch v := all[i].Retry; {
		case v == nil:
		case v.Class == "never":
			return v
		case out == nil || v.AfterSeconds > out.AfterSeconds:
			out = v
		}
	}
	return out
}

// summed are the receipts of all outputs, one for each step.
func summed(texts []scanText) (sum []chain.Receipt) {
	for i := range texts {
		rs := texts[i].res.Receipts
		if len(sum) == 0 {
			sum = slices.Clone(rs)
			continue
		}
		for k := range rs { // the same steps, or none for an output that was not scanned
			sum[k].Add(&rs[k])
		}
	}
	return sum
}

// outputHash recognises an output again, and tells nobody what it is: see recorded.
func (s *Service) outputHash(text string) string {
	h := hmac.New(sha256.New, s.set.Pepper)
	h.Write([]byte("output\x00"))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil)[:16])
}
