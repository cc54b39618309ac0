package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

func decode(text string, dst any) error {
	var d exact.Doc
	if err := d.Parse(text, exact.DefaultLimits); err != nil {
		return err
	}
	return wire.Decode(d.Root(), dst, 256)
}

func TestDecode(t *testing.T) {
	var in wire.AuthorizeRequest
	text := `{"agent_id":"a","tool_id":"t/é","args":{"n":1.0},"explain":true,"execution_timeout_ms":12e2,"Agent_ID":"other case is another name","future":[1],"session_id":null}`
	if err := decode(text, &in); err != nil {
		t.Fatal(err)
	}
	if in.AgentID != "a" || in.ToolID != "t/é" || !in.Explain || in.ExecutionTimeoutMS != 1200 || in.SessionID != "" ||
		string(in.Args.AppendCanonical(nil)) != `{"n":1}` || in.Context.Exists() {
		t.Errorf("%+v", in)
	}
}

func TestDecodeRefuses(t *testing.T) {
	long := strings.Repeat("x", 257)
	for _, c := range []struct {
		name, text string
		code       sdk.Code
		field      string
		says       string
	}{
		{"not an object", `[]`, sdk.CodeInvalidField, "", "must be a JSON object, not an array"},
		{"missing", `{"tool_id":"t"}`, sdk.CodeMissingField, "agent_id", "required"},
		{"null is missing", `{"agent_id":null,"tool_id":"t"}`, sdk.CodeMissingField, "agent_id", "required"},
		{"empty", `{"agent_id":"","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "empty"},
		{"wrong type", `{"agent_id":7,"tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "a string, not a number"},
		{"args not an object", `{"agent_id":"a","tool_id":"t","args":[1]}`, sdk.CodeInvalidField, "args", "an object, not an array"},
		{"explain as text", `{"agent_id":"a","tool_id":"t","explain":"true"}`, sdk.CodeInvalidField, "explain", "true or false"},
		{"fraction", `{"agent_id":"a","tool_id":"t","execution_timeout_ms":1.5}`, sdk.CodeInvalidField, "execution_timeout_ms", "whole number"},
		{"too big", `{"agent_id":"a","tool_id":"t","execution_timeout_ms":1e400}`, sdk.CodeInvalidField, "execution_timeout_ms", "whole number"},
		{"long name", `{"agent_id":"` + long + `","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "limit of 256 (limits.name)"},
		{"control", `{"agent_id":"a\u0007","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "U+0007"},
		{"newline", `{"agent_id":"a\nb","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "U+000A"},
		{"bidi", `{"agent_id":"a","tool_id":"t\u202e"}`, sdk.CodeInvalidField, "tool_id", "U+202E"},
		{"bidi isolate", `{"agent_id":"a","tool_id":"t\u2066"}`, sdk.CodeInvalidField, "tool_id", "U+2066"},
		{"zero width", `{"agent_id":"a\u200bb","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "U+200B"},
		{"joiner", `{"agent_id":"a\u200db","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "U+200D"},
		{"soft hyphen", `{"agent_id":"a\u00adb","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "U+00AD"},
		{"word joiner mark", `{"agent_id":"a\u034fb","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "U+034F"},
		{"hangul filler", `{"agent_id":"a","tool_id":"t","session_id":"\u3164"}`, sdk.CodeInvalidField, "session_id", "U+3164"},
		{"no-break space", `{"agent_id":"a\u00a0b","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "U+00A0"},
		{"delete", `{"agent_id":"a\u007f","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "U+007F"},
		{"variation selector", `{"agent_id":"a\ufe0f","tool_id":"t"}`, sdk.CodeInvalidField, "agent_id", "U+FE0F"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in wire.AuthorizeRequest
			var e *sdk.Error
			if err := decode(c.text, &in); !errors.As(err, &e) || e.Code != c.code || e.Field != c.field ||
				!strings.Contains(e.Msg, c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRequiredBooleanNeedsAValue(t *testing.T) {
	var in wire.ActionResultRequest
	var e *sdk.Error
	if err := decode(`{"id":"t"}`, &in); !errors.As(err, &e) || e.Field != "success" || e.Code != sdk.CodeMissingField {
		t.Errorf("a result without success: %v", err)
	}
	if err := decode(`{"id":"t","success":false}`, &in); err != nil || in.Success == nil || *in.Success {
		t.Errorf("%v %+v", err, in)
	}
}

func TestEveryCodeHasAStatus(t *testing.T) {
	for _, c := range []sdk.Code{sdk.CodeInvalidJSON, sdk.CodeBadRequest, sdk.CodeInvalidField, sdk.CodeMissingField,
		sdk.CodeUnauthenticated, sdk.CodeKeyRevoked, sdk.CodeKeyExpired,
		sdk.CodeMissingScope, sdk.CodeAgentNotAllowed, sdk.CodeSelfApproval, sdk.CodeNotFound, sdk.CodeUnknownDefer,
		sdk.CodeUnknownKey, sdk.CodeMethodNotAllowed, sdk.CodeConflict,
		sdk.CodeAlreadyResolved, sdk.CodeNameTaken, sdk.CodeDeferExpired, sdk.CodeTooLarge, sdk.CodeUnsupportedCoding,
		sdk.CodeIdempotencyReused, sdk.CodeTooManyRequests,
		sdk.CodeAuditUnavailable, sdk.CodeDraining, sdk.CodeTimeout, sdk.CodeInternal} {
		if _, ok := wire.Statuses[c]; !ok {
			t.Errorf("%s has no row in Statuses", c)
		}
	}
	if wire.StatusOf("nobody_knows") != wire.Statuses[sdk.CodeInternal] {
		t.Error("an unknown code is not internal")
	}
}

func TestProblem(t *testing.T) {
	e := &sdk.Error{Code: sdk.CodeUnknownDefer, Field: "defer_token", Msg: "no \"such\"\nthing",
		Err: errors.New("inner detail"), More: map[string]string{"status": "unknown", "zeta": "z", "alpha": "a"}}
	text := string(wire.AppendProblem(nil, e, "req_1"))
	want := `{"type":"https://yett.dev/problems/unknown_defer","title":"No such deferred call","status":"unknown","detail":"no \"such\"\nthing","code":"unknown_defer","error":"unknown_defer","request_id":"req_1","field":"defer_token","alpha":"a","zeta":"z"}`
	if text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if text := string(wire.AppendProblem(nil, &sdk.Error{Code: sdk.CodeInternal, Err: errors.New("a secret path")},
		"r")); strings.Contains(text, "secret") || !strings.Contains(text, `"status":500`) {
		t.Errorf("an internal error says %s", text)
	}
}

func TestToolOf(t *testing.T) {
	for _, c := range [][3]string{{"http", "get", "http/get"}, {"http/get", "post", "http/get"}, {"http", "", "http"}} {
		if got := wire.ToolOf(c[0], c[1]); got != c[2] {
			t.Errorf("ToolOf(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// FuzzDecode: whatever is accepted has names within the limits, and answers made from it are JSON.
func FuzzDecode(f *testing.F) {
	f.Add(`{"agent_id":"a","tool_id":"t","args":{"x":[1,"é"]},"call_id":"c"}`)
	f.Add(`{"agent_id":"a\u202e","tool_id":"t"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var in wire.AuthorizeRequest
		if decode(text, &in) != nil {
			return
		}
		for _, name := range []string{in.AgentID, in.ToolID, in.SessionID, in.Operation, in.CallID, in.DeferToken} {
			if len(name) > 256 || strings.ContainsFunc(name, func(r rune) bool {
				return r < ' ' || r == 0x7f || r == 0x202e || r == 0x200b
			}) {
				t.Fatalf("accepted the name %q", name)
			}
		}
		out := wire.AuthorizeResponse{Effect: "DENY", Reason: in.AgentID, RuleID: in.ToolID, Message: text}
		if !json.Valid(out.AppendJSON(nil)) {
			t.Fatalf("no JSON: %s", out.AppendJSON(nil))
		}
	})
}

// What a request says is kept when it is over: an agent's name with a call that waits, a pattern in a grant. It must
// not keep the request's text, most of which may be something else.
func TestDecodedNamesDoNotKeepTheText(t *testing.T) {
	const size, requests = 1 << 20, 64
	junk := strings.Repeat("x", size)
	for name, c := range map[string]struct {
		dst  func() any
		body string
	}{
		"authorize": {func() any { return new(wire.AuthorizeRequest) }, `"agent_id":"bot","tool_id":"ask","session_id":"s","call_id":"c","operation":"o"`},
		"grant":     {func() any { return new(wire.GrantAddRequest) }, `"agent_id":"bot","tool_pattern":"*","ttl_seconds":60,"note":"n","args_match":"true"`},
		"kill":      {func() any { return new(wire.KillRequest) }, `"scope":"agent","target":"bot","reason":"r"`},
		"approve":   {func() any { return new(wire.ApproveRequest) }, `"defer_token":"t","approved":true,"reason":"r"`},
		"subscribe": {func() any { return new(wire.AuditSubscribeRequest) }, `"types":["decision","scan"]`},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			kept := make([]any, requests)
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range kept {
				kept[i] = c.dst()
				if err := decode(`{`+c.body+`,"args_of_another":"`+junk+`"}`, kept[i]); err != nil {
					t.Fatal(err)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > requests*size/4 {
				t.Errorf("%d requests of %d bytes keep %d bytes", requests, size, grown)
			}
			runtime.KeepAlive(kept)
		})
	}
}

// A name that reads as another one is none: nothing in it is hidden, and no white space surrounds it.
func TestNamesReadAsTheyAre(t *testing.T) {
	for name, ok := range map[string]bool{"demo": true, "de mo": true, "d": true, "": true, "demo ": false, " demo": false,
		" ": false, "demo\u00a0": false, "\u00a0demo": false,
		"demo\t": false, "demo\n": false, "de\u00a0mo": false, "demo\u2003": false, "demo\u3000": false, "demo\u200b": false,
		"demo\u2800": false} {
		if err := wire.CheckName("agent_id", name, 256, false); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// JSON keeps its bytes, and null is a value. A list of objects has the members of each.
func TestDecodeScanRequest(t *testing.T) {
	for text, want := range map[string]string{
		`{"output":""}`: `"" "" 0`,
		`{"output":"x","output_json2":1,"outputs":null}`:                                     `"x" "" 0`,
		`{"output_json":null}`:                                                               `"" "null" 0`,
		`{"output":null,"output_json": [1.50, {} ] }`:                                        `"" "[1.50, {} ]" 0`,
		`{"outputs":[{"output":"a"}]}`:                                                       `"" "" 1 |a`,
		`{"outputs":[{"output_json":null,"tool_id":"u"},{"output":"b","content_type":"c"}]}`: `"" "" 2 u||null |b||c`,
	} {
		var in wire.ScanRequest
		if err := decode(text, &in); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		got := fmt.Sprintf("%q %q %d", in.Output, in.OutputJSON, len(in.Outputs))
		for _, o := range in.Outputs {
			members := []string{o.ToolID, o.Output, string(o.OutputJSON), o.ContentType}
			got += strings.TrimRight(" "+strings.Join(members, "|"), "|")
		}
		if got != want {
			t.Errorf("%s was read as %s, want %s", text, got, want)
		}
	}
}

// FuzzScanRequest: of whatever is accepted, exactly one of the three ways to send outputs is there, a JSON value has
// the bytes that were sent, and a strict reader can read an answer made from it.
func FuzzScanRequest(f *testing.F) {
	for _, s := range []string{`{"tool_id":"t","output":""}`, `{"tool_id":"t","output_json":null}`,
		`{"output_json":[1.50,{"a":"\u00e9"}],"output":null}`,
		`{"outputs":[{"output":"a","tool_id":"t","content_type":"text/plain"},{"output_json": { "b" : 1E+2 } }]}`,
		`{"outputs":[]}`, `{"outputs":[{}]}`, `{"outputs":[[]]}`, `{"outputs":null,"output":"x"}`,
		`{"output":"","output_json":1}`,
		`{"tool_id":"t","output":"x","stream_id":"s","offset":3,"final":true}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var doc exact.Doc
		var in wire.ScanRequest
		if doc.Parse(text, exact.DefaultLimits) != nil || wire.Decode(doc.Root(), &in, 256) != nil {
			return
		}
		sent := doc.Root()
		forms := func(v exact.Value, out string, value json.RawMessage, list bool) {
			n := 0
			for _, there := range []bool{v.Get("output").Kind() == exact.String, value != nil, list} {
				if there {
					n++
				}
			}
			if n != 1 || out != v.Get("output").Str() || string(value) != v.Get("output_json").Raw() {
				t.Fatalf("%s was read as %+v", text, in)
			}
		}
		forms(sent, in.Output, in.OutputJSON, in.Outputs != nil)
		out := wire.ScanResponse{Outcome: "PASS", SanitizedJSON: in.OutputJSON}
		if in.Outputs != nil && (len(in.Outputs) == 0 || len(in.Outputs) > wire.MaxObjects) {
			t.Fatalf("%d outputs", len(in.Outputs))
		}
		for i, o := range in.Outputs {
			forms(sent.Get("outputs").Index(i), o.Output, o.OutputJSON, false)
			out.Outputs = append(out.Outputs, wire.ScanVerdict{Reason: o.Output, SanitizedJSON: o.OutputJSON})
		}
		var answer exact.Doc
		if err := answer.Parse(string(out.AppendJSON(nil)), exact.Limits{Depth: 65, Tokens: 200_000}); err != nil {
			t.Fatalf("%s: %v", out.AppendJSON(nil), err)
		}
		if got := answer.Root().Get("sanitized_json").Raw(); got != string(in.OutputJSON) {
			t.Fatalf("%s became %s", in.OutputJSON, got)
		}
	})
}
