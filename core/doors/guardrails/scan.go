package guardrails

import (
	"bytes"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// The outcomes of a scan. Any other is refused.
const (
	pass     = "PASS"
	warned   = "WARNED"
	redacted = "REDACTED"
	refused  = "DENIED"
)

// maxOutputs bounds what one request may bring. A scan takes wire.MaxObjects outputs, and each scan is a record.
const maxOutputs = 16 * wire.MaxObjects

// outputs are what one request brings to the scan chain, in order.
type outputs []wire.ScanOutput

func (o *outputs) text(s string) { *o = append(*o, wire.ScanOutput{Output: s}) }

func (o *outputs) json(raw []byte) { *o = append(*o, wire.ScanOutput{OutputJSON: raw}) }

// scanned is the verdict on each of them.
type scanned struct {
	sent     outputs
	verdicts []wire.ScanVerdict
	findings []wire.ScanFinding // index counts over all of them
}

// scan gives outputs to the scan chain. what stands behind the door's name in the tool_id: "request" or "response". The
// verdicts are as many as the outputs. With none, an empty text is scanned, so that kills and a lost store count.
func (a *asked) scan(what string, sent outputs) (*scanned, error) {
	if len(sent) == 0 {
		sent.text("")
	}
	if len(sent) > maxOutputs {
		return nil, sdk.Errf(sdk.CodeTooLarge, "there are %d texts, more than the limit of %d", len(sent), maxOutputs)
	}
	out := &scanned{sent: sent}
	for at := 0; at < len(sent); at += wire.MaxObjects {
		chunk := sent[at:min(at+wire.MaxObjects, len(sent))]
		resp, err := a.door.set.Asker.Scan(a.ctx, a.Caller, &wire.ScanRequest{ToolID: a.door.name + "/" + what,
			AgentID: a.agent, Outputs: chunk})
		if err != nil {
			return nil, err
		}
		if err := out.add(at, chunk, resp); err != nil {
			return nil, err
		}
	}
	return out, a.late()
}

// add takes the answer about a chunk, if it is whole.
func (s *scanned) add(at int, chunk outputs, resp *wire.ScanResponse) error {
	if len(resp.Outputs) != len(chunk) {
		return sdk.Errf(sdk.CodeInternal, "%d of %d outputs have a verdict", len(resp.Outputs), len(chunk))
	}
	for i, v := range resp.Outputs {
		whole := v.SanitizedOutput != nil
		if chunk[i].OutputJSON != nil {
			whole = len(v.SanitizedJSON) > 0
		}
		switch v.Outcome {
		case refused:
		case pass, warned, redacted:
			if !whole {
				return sdk.Errf(sdk.CodeInternal, "a verdict releases nothing")
			}
		default:
			return sdk.Errf(sdk.CodeInternal, "the outcome %q is unknown", v.Outcome)
		}
		s.verdicts = append(s.verdicts, v)
	}
	for _, f := range resp.Findings {
		if f.Index == nil || *f.Index < 0 || *f.Index >= len(chunk) {
			return sdk.Errf(sdk.CodeInternal, "a finding is in no output")
		}
		index := at + *f.Index
		f.Index = &index
		s.findings = append(s.findings, f)
	}
	if resp.Outcome == refused && s.refusal() == nil {
		return sdk.Errf(sdk.CodeInternal, "a scan is denied, and none of its outputs is")
	}
	return nil
}

// refusal is that of the first output that is denied, nil if none is.
func (s *scanned) refusal() error {
	for i := range s.verdicts {
		if v := &s.verdicts[i]; v.Outcome == refused {
			return &denied{code: v.ReasonCode, why: or(v.Reason, "a scanner does not let this text pass")}
		}
	}
	return nil
}

// changed says whether less is released of an output than was sent.
func (s *scanned) changed(i int) bool {
	v := &s.verdicts[i]
	if s.sent[i].OutputJSON != nil {
		return !bytes.Equal(v.SanitizedJSON, s.sent[i].OutputJSON)
	}
	return v.SanitizedOutput == nil || *v.SanitizedOutput != s.sent[i].Output
}

// texts are what is released of n outputs from the one at from, and whether any differs from what was sent.
func (s *scanned) texts(from, n int) (released []string, changed bool) {
	for i := from; i < from+n; i++ {
		released = append(released, *s.verdicts[i].SanitizedOutput)
		changed = changed || s.changed(i)
	}
	return released, changed
}

// keeps refuses where something is found in an output that the contract lets nobody change.
func (s *scanned) keeps(i int, what string) error {
	if !s.changed(i) {
		return nil
	}
	return &denied{code: s.verdicts[i].ReasonCode,
		why: "something is to be redacted in " + what + ", and this gateway takes no change of it"}
}

func or(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

// strs are the strings of a list.
func strs(v exact.Value, field string) ([]string, error) {
	if _, err := list(v, field); err != nil {
		return nil, err
	}
	var out []string
	for e := range v.Elements() {
		if e.Kind() != exact.String {
			return nil, wrong(field, "a list of strings", e)
		}
		out = append(out, e.Str())
	}
	return out, nil
}
