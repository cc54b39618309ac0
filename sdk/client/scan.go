package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// outcomes are those of scans, the strictest last.
var outcomes = []string{"PASS", "WARNED", "REDACTED", "DENIED"}

// ScanOutput gives outputs of tools or models to the scan chain: one text (Output), one JSON value (OutputJSON), or
// several of both (Outputs). Over both transports; needs scope scan. What may be released is SanitizedOutput or
// SanitizedJSON, of the answer or of the same entry of its Outputs, and it is nil when the outcome is DENIED. An error
// means that nothing may be released. JSON is sent without the space between its parts, and findings count without it.
func (c *Client) ScanOutput(ctx context.Context, in wire.ScanRequest) (*wire.ScanResponse, error) {
	body, err := scanBody(&in)
	if err != nil {
		return nil, fmt.Errorf("scan_output: %w", err)
	}
	out := new(wire.ScanResponse)
	root, err := c.ask(ctx, &request{op: opScan, body: body}, out)
	if err != nil {
		return nil, err
	}
	if err := checkScan(&in, root, out); err != nil {
		return nil, fmt.Errorf("scan_output: %w", err)
	}
	return out, nil
}

func scanBody(in *wire.ScanRequest) ([]byte, error) {
	if in.Outputs != nil && (in.Output != "" || in.OutputJSON != nil) {
		return nil, fieldErr(sdk.CodeInvalidField, "outputs", "must not be there beside output or output_json")
	}
	b := newBody()
	b.str("tool_id", in.ToolID)
	b.str("operation", in.Operation)
	if in.Outputs == nil {
		b.output(in.Output, in.OutputJSON)
	} else {
		b.w.List("outputs", len(in.Outputs), func(i int, w *wire.Writer) {
			o, one := &in.Outputs[i], body{w: *w, err: b.err}
			one.str("tool_id", o.ToolID)
			one.output(o.Output, o.OutputJSON)
			one.str("content_type", o.ContentType)
			*w, b.err = one.w, one.err
		})
	}
	b.str("agent_id", in.AgentID)
	b.str("session_id", in.SessionID)
	b.str("content_type", in.ContentType)
	b.str("stream_id", in.StreamID)
	b.number("offset", int64(in.Offset))
	b.yes("final", in.Final)
	return b.bytes()
}

// output adds an output: a text, unless there is JSON.
func (b *body) output(text string, value json.RawMessage) {
	switch {
	case value == nil:
		b.text("output", text)
	case text == "":
		b.raw("output_json", value)
	case b.err == nil:
		b.err = fieldErr(sdk.CodeInvalidField, "output_json", "must not be there beside output")
	}
}

// checkScan holds an answer against its request: there is a verdict for each output, what a verdict releases is of the
// form that was sent, and the answer is as strict as the strictest.
func checkScan(in *wire.ScanRequest, root exact.Value, out *wire.ScanResponse) error {
	if in.Outputs == nil {
		out.SanitizedJSON = rawOf(root)
		return checkVerdict(root, in.OutputJSON != nil)
	}
	if len(out.Outputs) != len(in.Outputs) {
		return malformed("%d verdicts about %d outputs", len(out.Outputs), len(in.Outputs))
	}
	worst, i := 0, 0
	for v := range root.Get("outputs").Elements() {
		if err := checkVerdict(v, in.Outputs[i].OutputJSON != nil); err != nil {
			return err
		}
		out.Outputs[i].SanitizedJSON = rawOf(v)
		worst = max(worst, slices.Index(outcomes, out.Outputs[i].Outcome))
		i++
	}
	if out.Outcome != outcomes[worst] {
		return malformed("outcome is not that of the strictest verdict, %s", outcomes[worst])
	}
	return nil
}

// checkVerdict checks that what is released goes with the outcome.
func checkVerdict(v exact.Value, isJSON bool) error {
	outcome, err := oneOf(v, "outcome", outcomes...)
	if err != nil {
		return err
	}
	text := v.Get("sanitized_output").Kind() == exact.String
	value := v.Get("sanitized_json").Exists()
	if denied := outcome == "DENIED"; text != (!denied && !isJSON) || value != (!denied && isJSON) {
		return malformed("outcome %s and what the answer releases contradict each other", outcome)
	}
	return nil
}

// rawOf is the JSON value that is released; null is one too.
func rawOf(v exact.Value) json.RawMessage {
	if m := v.Get("sanitized_json"); m.Exists() {
		return json.RawMessage(m.Raw())
	}
	return nil
}
