package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/wire"
)

func TestNewChecksItsOptions(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  Options
		env   map[string]string
		field string // "" for a client
		base  string
		sock  string
		key   string
	}{
		{name: "nothing", field: "URL"},
		{name: "from the environment", env: map[string]string{"YETT_URL": "http://127.0.0.1:1", "YETT_SOCKET": "/s", "YETT_API_KEY": "k"}, base: "http://127.0.0.1:1", sock: "/s", key: "k"},
		{name: "a given server is not mixed with another one", opts: Options{Socket: "/t"}, env: map[string]string{"YETT_URL": "http://127.0.0.1:1"}, sock: "/t"},
		{name: "a given key counts first", opts: Options{URL: "http://localhost:1", Key: "a"}, env: map[string]string{"YETT_API_KEY": "k"}, base: "http://localhost:1", key: "a"},
		{name: "a slash at the end", opts: Options{URL: "https://gate.example/"}, base: "https://gate.example"},
		{name: "IPv6", opts: Options{URL: "http://[::1]:8420"}, base: "http://[::1]:8420"},
		{name: "in clear, said to be safe", opts: Options{URL: "http://gate:8420", AllowCleartext: true}, base: "http://gate:8420"},
		{name: "in clear over a network", opts: Options{URL: "http://gate:8420"}, field: "URL"},
		{name: "a name that only looks local", opts: Options{URL: "http://127.0.0.1.example:1"}, field: "URL"},
		{name: "a path", opts: Options{URL: "https://gate/v1"}, field: "URL"},
		{name: "a query", opts: Options{URL: "https://gate?x"}, field: "URL"},
		{name: "a password", opts: Options{URL: "https://a:b@gate"}, field: "URL"},
		{name: "no scheme", opts: Options{URL: "gate:8420"}, field: "URL"},
		{name: "another scheme", opts: Options{URL: "ftp://gate"}, field: "URL"},
		{name: "a line end in the key", opts: Options{URL: "https://gate", Key: "a\nX: b"}, field: "Key"},
		{name: "a negative timeout", opts: Options{URL: "https://gate", Timeout: -1}, field: "Timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"YETT_URL", "YETT_SOCKET", "YETT_API_KEY"} {
				t.Setenv(name, c.env[name])
			}
			cl, err := New(c.opts)
			var e *Error
			if c.field != "" {
				if !errors.As(err, &e) || e.Field != c.field || !errors.Is(err, ErrInvalid) {
					t.Fatalf("%v, want an error about %s", err, c.field)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			base, sock := "", ""
			if cl.http != nil {
				base = cl.http.base
			}
			if cl.socket != nil {
				sock = cl.socket.path
			}
			if base != c.base || sock != c.sock || cl.opts.Key != c.key {
				t.Errorf("%q %q %q", base, sock, cl.opts.Key)
			}
		})
	}
}

// TestMissingTransport: what one transport alone serves says which one to configure.
func TestMissingTransport(t *testing.T) {
	h, _ := newClient(t, Options{URL: "http://127.0.0.1:1"})
	s, _ := newClient(t, Options{Socket: "no-such-socket"})
	ctx := waitCtx(t)
	second := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"audit":      second(h.Audit(ctx, wire.AuditSubscribeRequest{})),
		"callbacks":  second(h.Callbacks(ctx, wire.CallbackSubscribeRequest{})),
		"approvals":  second(s.Approvals(ctx, "", 0)),
		"kill list":  second(s.KillList(ctx)),
		"get action": second(s.GetAction(ctx, "act_1")),
		"gate":       second(s.GateDecide(ctx, Submission{})),
		"events":     second(s.Events(ctx)),
	} {
		if !errors.Is(err, ErrNoTransport) || !strings.Contains(err.Error(), "YETT_") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGetHasNoBody: the server refuses one.
func TestGetHasNoBody(t *testing.T) {
	f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, r seen) {
		if r.Method != "GET" || r.Body != "" {
			t.Errorf("%s %s with body %q", r.Method, r.Path, r.Body)
		}
		ok(w, `{"ok":true,"key_id":"k","name":"agent","grants":[],"approvals":[],"kills":[],"total":0}`)
	})
	c, _ := newClient(t, Options{URL: f.URL})
	ctx := waitCtx(t)
	if _, err := c.GrantList(ctx, wire.GrantListRequest{AgentID: "a b", Limit: 5, IncludeExpired: true,
		Cursor: "x"}); err != nil {
		t.Error(err)
	}
	if _, err := c.Approvals(ctx, "a", 7); err != nil {
		t.Error(err)
	}
	if _, err := c.KillList(ctx); err != nil {
		t.Error(err)
	}
	if who, err := c.Whoami(ctx); err != nil || who.Name != "agent" {
		t.Errorf("%+v, %v", who, err)
	}
	want := []string{"/v1/grants?agent_id=a+b&cursor=x&include_expired=true&limit=5", "/v1/approvals?agent_id=a&limit=7",
		"/v1/kill?", "/v1/whoami?"}
	for i, r := range f.requests() {
		if got := r.Path + "?" + r.Query; got != want[i] {
			t.Errorf("%s, want %s", got, want[i])
		}
	}
}

func TestNoKey(t *testing.T) {
	t.Setenv("YETT_API_KEY", "")
	f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, _ seen) { problem(w, 401, "unauthenticated") })
	c, err := New(Options{URL: f.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "t"})
	if !errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), "YETT_API_KEY") || len(f.requests()) != 0 {
		t.Errorf("%v after %d requests", err, len(f.requests()))
	}
}

func TestClosed(t *testing.T) {
	c, _ := newClient(t, Options{URL: "http://127.0.0.1:1", Socket: "s"})
	c.Close()
	if _, err := c.Authorize(waitCtx(t), Call{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := c.Audit(waitCtx(t), wire.AuditSubscribeRequest{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestScanOutput(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       error
	}{
		{"pass", `{"outcome":"PASS","sanitized_output":"x","findings":[],"scanned_by":[],"reason_code":"SCAN_OK","scan_id":"s","policy_version":"p","latency_ms":1}`, nil},
		{"redacted to nothing", `{"outcome":"REDACTED","sanitized_output":"","findings":[{"kind":"K","scanner":"s","start":0,"end":1,"confidence":0.9,"severity":"high","action":"redact"}],"scanned_by":[{"scanner":"s","bytes":1,"outcome":"ok","micros":1,"prefiltered":false}],"reason_code":"OUTPUT_SECRET_K","scan_id":"s","policy_version":"p","latency_ms":1}`, nil},
		{"denied", `{"outcome":"DENIED","reason_code":"SCAN_UNAVAILABLE","findings":[],"scanned_by":[],"scan_id":"s"}`, nil},
		{"denied with text", `{"outcome":"DENIED","sanitized_output":"x","reason_code":"R"}`, ErrMalformed},
		{"pass without text", `{"outcome":"PASS","reason_code":"R"}`, ErrMalformed},
		{"an outcome that is none", `{"outcome":"OK","sanitized_output":"x"}`, ErrMalformed},
		{"no outcome", `{"sanitized_output":"x"}`, ErrMalformed},
		{"text that is a number", `{"outcome":"PASS","sanitized_output":1}`, ErrMalformed},
		{"findings that are none", `{"outcome":"PASS","sanitized_output":"x","findings":{}}`, ErrMalformed},
	} {
		f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, _ seen) { ok(w, c.body) })
		cl, _ := newClient(t, Options{URL: f.URL})
		out, err := cl.ScanOutput(waitCtx(t), wire.ScanRequest{ToolID: "t"})
		if !errors.Is(err, c.want) || err != nil && out != nil ||
			err == nil && (out.Outcome == "DENIED") != (out.SanitizedOutput == nil) {
			t.Errorf("%s: %+v, %v", c.name, out, err)
		}
		if r := f.requests(); len(r) != 1 || r[0].Body != `{"tool_id":"t","output":""}` ||
			r[0].Header.Get("Idempotency-Key") != "" {
			t.Errorf("%s: sent %+v", c.name, r)
		}
	}
	cl, _ := newClient(t, Options{URL: "http://127.0.0.1:1"})
	if _, err := cl.ScanOutput(waitCtx(t), wire.ScanRequest{ToolID: "t", Output: "a\xff"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("bytes that are not UTF-8: %v", err)
	}
}

// What is sent is what was given, without the space between the parts of JSON, and what comes back has to fit it.
func TestScanOutputOfOtherForms(t *testing.T) {
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	passed := func(released string) string {
		return `{"outcome":"PASS",` + released + `"reason_code":"SCAN_OK"}`
	}
	one := wire.ScanRequest{ToolID: "t", OutputJSON: raw("{ \"a\" : 1.50,\n\"<\":\"\\ufffd\"}")}
	null := wire.ScanRequest{ToolID: "t", OutputJSON: raw("null")}
	two := wire.ScanRequest{AgentID: "a", Outputs: []wire.ScanOutput{{ToolID: "t", OutputJSON: raw("[1]")},
		{ToolID: "u", ContentType: "text/plain"}}}
	const oneSent, twoSent = `{"tool_id":"t","output_json":{"a":1.50,"<":"\ufffd"}}`,
		`{"outputs":[{"tool_id":"t","output_json":[1]},{"tool_id":"u","output":"","content_type":"text/plain"}],"agent_id":"a"}`
	list := func(outcome string, verdicts ...string) string {
		return `{"outcome":"` + outcome + `","outputs":[` + strings.Join(verdicts, ",") + `],"reason_code":"R"}`
	}
	for _, c := range []struct {
		name, sent, body string
		in               wire.ScanRequest
		want             error
	}{
		{"JSON", oneSent, passed(`"sanitized_json":{"a":1.50},`), one, nil},
		{"null", `{"tool_id":"t","output_json":null}`, passed(`"sanitized_json":null,`), null, nil},
		{"JSON that was denied", oneSent, `{"outcome":"DENIED"}`, one, nil},
		{"text for JSON", oneSent, passed(`"sanitized_output":"{}",`), one, ErrMalformed},
		{"both for JSON", oneSent, passed(`"sanitized_output":"{}","sanitized_json":{},`), one, ErrMalformed},
		{"nothing for JSON", oneSent, passed(``), one, ErrMalformed},
		{"JSON beside a denial", oneSent, `{"outcome":"DENIED","sanitized_json":null}`, one, ErrMalformed},
		{"two", twoSent, list("PASS", passed(`"sanitized_json":[1],`), passed(`"sanitized_output":"",`)), two, nil},
		{"one of two denied", twoSent, list("DENIED", `{"outcome":"DENIED"}`, passed(`"sanitized_output":"",`)), two, nil},
		{"less strict than one of them", twoSent, list("REDACTED", `{"outcome":"DENIED"}`, passed(`"sanitized_output":"",`)), two, ErrMalformed},
		{"a verdict too few", twoSent, list("PASS", passed(`"sanitized_json":[1],`)), two, ErrMalformed},
		{"a verdict too many", twoSent, list("PASS", passed(`"sanitized_json":[1],`), passed(`"sanitized_output":"",`), passed(`"sanitized_output":"",`)), two, ErrMalformed},
		{"no verdicts", twoSent, passed(`"sanitized_output":"",`), two, ErrMalformed},
		{"verdicts in another order", twoSent, list("PASS", passed(`"sanitized_output":"",`), passed(`"sanitized_json":[1],`)), two, ErrMalformed},
		{"a verdict without an outcome", twoSent, list("PASS", `{"sanitized_json":[1]}`, passed(`"sanitized_output":"",`)), two, ErrMalformed},
		{"a denial with text", twoSent, list("DENIED", `{"outcome":"DENIED","sanitized_json":[1]}`, passed(`"sanitized_output":"",`)), two, ErrMalformed},
	} {
		f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, _ seen) { ok(w, c.body) })
		cl, _ := newClient(t, Options{URL: f.URL})
		out, err := cl.ScanOutput(waitCtx(t), c.in)
		if !errors.Is(err, c.want) || (err != nil) != (c.want != nil) || err != nil && out != nil {
			t.Errorf("%s: %+v, %v", c.name, out, err)
		}
		if r := f.requests(); len(r) != 1 || r[0].Body != c.sent {
			t.Errorf("%s: sent %+v", c.name, r)
		}
		if c.name == "null" && string(out.SanitizedJSON) != "null" ||
			c.name == "two" && string(out.Outputs[0].SanitizedJSON) != "[1]" {
			t.Errorf("%s: %+v", c.name, out)
		}
	}
	cl, _ := newClient(t, Options{URL: "http://127.0.0.1:1"})
	for _, in := range []wire.ScanRequest{{Output: "x", OutputJSON: raw("1")}, {Output: "x", Outputs: two.Outputs},
		{OutputJSON: raw("1"), Outputs: two.Outputs}, {OutputJSON: raw(`{"a":1,"a":2}`)}, {OutputJSON: raw("")},
		{Outputs: []wire.ScanOutput{{Output: "x", OutputJSON: raw("1")}}}, {Outputs: []wire.ScanOutput{{Output: "\xff"}}},
		{Outputs: []wire.ScanOutput{{OutputJSON: raw("{")}}}} {
		if _, err := cl.ScanOutput(waitCtx(t), in); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", in, err)
		}
	}
}

const actionText = `{"id":"act_1","agent_id":"a","tool":"t","operation":"o","params":{"n":1.50},"context":{},"status":"STATUS","decision":"allow","reason":null,"risk_level":"low","approval_token":null,"policy_version":"p",` +
	`"created_at":"c","updated_at":"u","outcome":"EXECUTE","reason_code":"R","reason_details":null,"request_hash":"h","policy_hash":"p","runtime_version":"1","profile_id":null,"profile_version":null,"profile_hash":null,"provenance_id":"v","js_example":null,"python_example":null}`

func TestActions(t *testing.T) {
	act := func(status string) string { return strings.Replace(actionText, "STATUS", status, 1) }
	f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, r seen) {
		switch r.Method + " " + r.Path {
		case "POST /v1/actions", "GET /v1/actions/act_1":
			ok(w, act("allowed"))
		case "GET /v1/actions":
			answer(w, 200, "application/json", "["+act("denied")+","+act("failed")+"]", "X-Next-Cursor", "n1")
		case "POST /v1/actions/act_1/start":
			ok(w, act("executing"))
		case "POST /v1/actions/act_1/result":
			ok(w, act("succeeded"))
		case "POST /v1/actions/act_1/approval":
			ok(w, act("approved"))
		case "GET /v1/actions/act_1/events":
			ok(w, `[{"id":"evt_1","action_id":"act_1","event_type":"created","meta":{"a":1},"created_at":"c","prev_hash":"","record_hash":"h"}]`)
		case "POST /v1/gate/decide":
			ok(w, `{"outcome":"EXECUTE","reason_code":"R","reason":null,"request_hash":"h","policy_version":"p","profile_id":null}`)
		default:
			problem(w, 404, "not_found")
		}
	})
	c, _ := newClient(t, Options{URL: f.URL})
	ctx := waitCtx(t)
	check := func(name string, a *Action, err error, status string, run bool) {
		t.Helper()
		if err != nil || a.ID != "act_1" || a.Status != status || string(a.Params) != `{"n":1.50}` || a.Reason != "" ||
			a.MayRun() != run {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	in := Submission{AgentID: "a", Tool: "t", Operation: "o", Params: map[string]any{"n": 1.5}}
	a, err := c.SubmitAction(ctx, in)
	check("submit", a, err, "allowed", false)
	a, err = c.GetAction(ctx, "act_1")
	check("get", a, err, "allowed", false)
	a.Digest = "d"
	a, err = c.StartAction(ctx, a)
	check("start", a, err, "executing", true)
	a, err = c.ResultAction(ctx, "act_1", Result{Success: true, Result: []int{1}})
	check("result", a, err, "succeeded", false)
	a, err = c.ActionApproval(ctx, "act_1", "tok", true, "")
	check("approval", a, err, "approved", false)
	a, err = c.WithdrawAction(ctx, "act_1", "tok", "no longer")
	check("withdrawal", a, err, "approved", false)
	page, next, err := c.ListActions(ctx, ActionFilter{AgentID: "a b", Limit: 2, Status: "denied"})
	if err != nil || len(page) != 2 || next != "n1" {
		t.Errorf("list: %v %q %v", page, next, err)
	}
	events, err := c.ActionEvents(ctx, "act_1")
	if err != nil || len(events) != 1 || events[0].EventType != "created" {
		t.Errorf("events: %v %v", events, err)
	}
	g, err := c.GateDecide(ctx, in)
	if err != nil || !g.Execute() {
		t.Errorf("gate: %+v %v", g, err)
	}
	want := []string{
		`POST /v1/actions? {"agent_id":"a","tool":"t","operation":"o","params":{"n":1.5},"context":{}}`,
		`GET /v1/actions/act_1? `, `POST /v1/actions/act_1/start? {"digest":"d"}`,
		`POST /v1/actions/act_1/result? {"success":true,"result":[1]}`,
		`POST /v1/actions/act_1/approval? {"token":"tok","approve":true}`,
		`POST /v1/actions/act_1/approval? {"token":"tok","reason":"no longer","withdraw":true}`,
		`GET /v1/actions?agent_id=a+b&limit=2&status=denied `, `GET /v1/actions/act_1/events? `,
		`POST /v1/gate/decide? {"agent_id":"a","tool":"t","operation":"o","params":{"n":1.5},"context":{}}`,
	}
	for i, r := range f.requests() {
		if got := r.Method + " " + r.Path + "?" + r.Query + " " + r.Body; got != want[i] {
			t.Errorf("sent %s, want %s", got, want[i])
		}
		if (r.Header.Get("Idempotency-Key") != "") != (r.Method == "POST") {
			t.Errorf("%s %s: Idempotency-Key %q", r.Method, r.Path, r.Header.Get("Idempotency-Key"))
		}
	}
}

// TestActionIsReadWhole: what a server writes of an action reaches the client, member by member.
func TestActionIsReadWhole(t *testing.T) {
	want := wire.Action{Status: "succeeded", Params: json.RawMessage(`{"n":1.50}`), Context: json.RawMessage(`{}`),
		Modified: true, Repeat: true,
		ReasonDetails: wire.ActionDetails{DecisionID: "dec_1", RuleID: "r", Message: "m", Retry: &wire.Retry{}},
		Result: &wire.ActionResult{Success: true, Value: json.RawMessage(`[1.0]`), Outcome: "PASS",
			ReasonCode: "OK", Error: "e", Withheld: "w"},
		ParamsWithheld:  &wire.Withheld{Cause: "timeout", Scanner: "s"},
		ContextWithheld: &wire.Withheld{Cause: "error"}}
	v := reflect.ValueOf(&want).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.IsZero() && f.Kind() == reflect.String {
			f.SetString("the " + v.Type().Field(i).Name)
		}
		if v.Field(i).IsZero() {
			t.Fatalf("%s is not set", v.Type().Field(i).Name)
		}
	}
	f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, _ seen) { ok(w, string(want.AppendJSON(nil))) })
	c, _ := newClient(t, Options{URL: f.URL})
	got, err := c.GetAction(waitCtx(t), want.ID)
	if err != nil || !reflect.DeepEqual(got.Action, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
}

func TestActionsAreReadStrictly(t *testing.T) {
	body := ""
	f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, _ seen) { ok(w, body) })
	c, _ := newClient(t, Options{URL: f.URL})
	ctx := waitCtx(t)
	for _, body = range []string{strings.Replace(actionText, "STATUS", "running", 1),
		strings.Replace(strings.Replace(actionText, "STATUS", "executing", 1), "act_1", "act_2", 1), `{}`, `[]`,
		actionText[:40]} {
		a, err := c.StartAction(ctx, &Action{Action: wire.Action{ID: "act_1", Digest: "d"}})
		if !errors.Is(err, ErrMalformed) || a.MayRun() {
			t.Errorf("%.60s: %+v, %v", body, a, err)
		}
	}
	for _, body = range []string{`{"outcome":"execute","reason_code":"R"}`, `{"outcome":"EXECUTE"}`, `{"reason_code":"R"}`,
		`{"outcome":"EXECUTE","outcome":"HALT","reason_code":"R"}`} {
		if g, err := c.GateDecide(ctx, Submission{}); !errors.Is(err, ErrMalformed) || g.Execute() {
			t.Errorf("%s: %+v, %v", body, g, err)
		}
	}
	before := len(f.requests())
	for _, shown := range []*Action{nil, {Action: wire.Action{ID: "act_1"}},
		{Action: wire.Action{ID: "act_1", Status: "allowed"}}, {Action: wire.Action{ID: "act_1", Status: "approved"}}} {
		if a, err := c.StartAction(ctx, shown); !errors.Is(err, ErrInvalid) || a.MayRun() {
			t.Errorf("%+v is started: %v", shown, err)
		}
	}
	for _, id := range []string{"", ".", "..", "a/start", "a?b", "a%2fb", "a#"} {
		if _, err := c.GetAction(ctx, id); !errors.Is(err, ErrInvalid) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if len(f.requests()) != before {
		t.Error("an id that is another path was sent")
	}
}

func TestReplacedText(t *testing.T) {
	for _, c := range []struct {
		in  any
		bad bool
	}{{"a\xff", true}, {map[string]string{"\xc3(": ""}, true}, {"\ufffd", false}, {`\ufffd`, false}, {`\\ufffd`, false},
		{"<>&\u2028", false}, {json.RawMessage(`"\\ufffd"`), false}} {
		if _, err := encode(c.in); (err != nil) != c.bad {
			t.Errorf("%q: %v", c.in, err)
		}
	}
}
