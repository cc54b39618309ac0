package guardrails_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/guardrails"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// judge answers in the place of the operations, at once, and keeps whether it refused anything. What holds "no" is
// denied, and what holds "x" is redacted.
type judge struct {
	asked, refused, changed atomic.Bool
}

// Scan implements guardrails.Asker.
func (j *judge) Scan(_ context.Context, _ ask.Caller, q *wire.ScanRequest) (*wire.ScanResponse, error) {
	j.asked.Store(true)
	out := &wire.ScanResponse{Outcome: "PASS"}
	for _, o := range q.Outputs {
		v := wire.ScanVerdict{Outcome: "PASS", ReasonCode: "SCAN_OK"}
		text, field := o.Output, &v.SanitizedOutput
		if o.OutputJSON != nil {
			text, field = string(o.OutputJSON), nil
		}
		safe := strings.ReplaceAll(text, "x", "_")
		if safe != text {
			j.changed.Store(true)
			v.Outcome = "REDACTED"
		}
		switch {
		case strings.Contains(text, "no"):
			j.refused.Store(true)
			v.Outcome, out.Outcome = "DENIED", "DENIED"
		case field == nil:
			v.SanitizedJSON = json.RawMessage(safe)
		default:
			*field = &safe
		}
		out.Outputs = append(out.Outputs, v)
	}
	return out, nil
}

// Authorize implements guardrails.Asker.
func (j *judge) Authorize(_ context.Context, _ ask.Caller, q *wire.AuthorizeRequest) (*ask.Decision, error) {
	d := &wire.AuthorizeResponse{Effect: sdk.Permit.String(), ReasonCode: "R", DecisionID: "dec_1"}
	switch {
	case strings.HasPrefix(q.ToolID, "e"):
		j.refused.Store(true)
		return nil, sdk.Errf(sdk.CodeAuditUnavailable, "a test")
	case strings.HasPrefix(q.ToolID, "d"):
		d.Effect = sdk.Deny.String()
	case strings.HasPrefix(q.ToolID, "w"):
		d.Effect = sdk.Defer.String()
	case strings.HasPrefix(q.ToolID, "r"):
		d.Repeat = true
	}
	if d.Effect != sdk.Permit.String() || d.Repeat {
		j.refused.Store(true)
	}
	return &ask.Decision{AuthorizeResponse: d}, nil
}

// Whatever comes, the answer is one of the contract's closed set; it passes only if the operations were asked and
// refused nothing, and no fewer texts come back than were sent.
func FuzzDoors(f *testing.F) {
	paths := []string{liteLLM, portkey, agRequest, agAnswer, moderate}
	for i, path := range paths {
		for _, text := range []string{"hello", "no", "x", "nox", ""} {
			f.Add(i, bodies[path](text))
		}
		f.Add(i, `{}`)
	}
	for _, name := range []string{"read", "deny", "wait", "error", "repeat"} {
		f.Add(0, lite("response", `"texts":["a","x"],"tool_calls":`+toolCall(name, `{"a":1}`)))
		f.Add(1, hook("afterRequestHook", "response", `{"choices":[{"message":{"tool_calls":`+toolCall(name, `{}`)+`}}]}`))
		f.Add(1, hook("afterRequestHook", "response", `{"output":[{"type":"function_call","name":"`+name+`","arguments":""}]}`))
	}
	f.Add(0, lite("request", `"texts":["a"],"images":["data:,"],"tools":[{"x":1}],"structured_messages":[{"content":"b"}]`))
	f.Add(4, `{"input":[{"type":"text","text":"no"}]}`)
	f.Add(4, `{"input":["a","x","no"]}`)
	j := &judge{}
	r := open(f, func(guardrails.Asker) guardrails.Asker { return j })
	f.Fuzz(func(t *testing.T, door int, body string) {
		if door < 0 || door >= len(paths) {
			return
		}
		j.asked.Store(false)
		j.refused.Store(false)
		j.changed.Store(false)
		here := &rig{r.Bench, t, r.url, r.key}
		checkAnswer(t, j, paths[door], body, here.post(paths[door], body))
	})
}

func checkAnswer(t *testing.T, j *judge, path, body, answer string) {
	t.Helper()
	refused, passes := closed(path, answer)
	switch {
	case refused == passes:
		t.Fatalf("%q: neither yes nor no: %s", body, answer)
	case passes && (j.refused.Load() || !j.asked.Load()):
		t.Fatalf("%q passes: %s", body, answer)
	case passes && j.changed.Load() && path == moderate:
		t.Fatalf("%q is not flagged: %s", body, answer)
	}
	if path != liteLLM || !passes {
		return
	}
	var sent, got struct{ Texts []string }
	if json.Unmarshal([]byte(body), &sent) == nil && json.Unmarshal([]byte(answer[4:]), &got) == nil && got.Texts != nil &&
		len(got.Texts) != len(sent.Texts) {
		t.Fatalf("%q has %d texts, the answer has %d: %s", body, len(sent.Texts), len(got.Texts), answer)
	}
}
