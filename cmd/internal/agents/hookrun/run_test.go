package hookrun

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asked is one request that the fake gateway got.
type asked struct {
	path string
	body map[string]any
	key  string
}

func (a asked) str(name string) string { s, _ := a.body[name].(string); return s }

// fake is a gateway over TLS that answers the n-th request with fn.
type fake struct {
	*httptest.Server
	file *hookfile.File
	mu   sync.Mutex
	got  []asked
}

func (f *fake) requests() []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]asked(nil), f.got...)
}

func newFake(t *testing.T, fn func(n int, w http.ResponseWriter, a asked)) *fake {
	f := &fake{}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := asked{path: r.URL.Path, key: r.Header.Get("Authorization")}
		dec := json.NewDecoder(r.Body)
		dec.UseNumber()
		if err := dec.Decode(&a.body); err != nil {
			t.Errorf("the request: %v", err)
		}
		f.mu.Lock()
		n := len(f.got)
		f.got = append(f.got, a)
		f.mu.Unlock()
		fn(n, w, a)
	}))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(f.Close)
	sum := sha256.Sum256(f.Certificate().RawSubjectPublicKeyInfo)
	f.file = &hookfile.File{Agent: "claude-code", URL: f.URL, Key: "key",
		Pins: []string{"sha256/" + base64.StdEncoding.EncodeToString(sum[:])}}
	return f
}

func ok(w http.ResponseWriter, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, format, args...)
}

func decide(w http.ResponseWriter, a asked, effect, more string) {
	ok(w, `{"effect":%q,"reason_code":"R","decision_id":"dec_1","call_id":%q,"policy_version":"p","latency_ms":0%s}`, effect,
		a.str("call_id"), more)
}

func status(w http.ResponseWriter, status, more string) {
	ok(w, `{"status":%q,"defer_token":"tok","approvals":0,"approvals_required":1%s}`, status, more)
}

// deferred is a gateway that defers a call, says with status what became of it, and permits it when it is asked again.
func deferred(status func(w http.ResponseWriter)) func(n int, w http.ResponseWriter, a asked) {
	return func(n int, w http.ResponseWriter, a asked) {
		switch n {
		case 0:
			decide(w, a, "DEFER", `,"defer_token":"tok"`)
		case 1:
			status(w)
		default:
			decide(w, a, "PERMIT", "")
		}
	}
}

// run answers one event with the fake's file.
func run(t *testing.T, f *hookfile.File, stdin string) hook.Reply {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hook.json")
	text, err := f.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &Hook{Agent: hook.Agent(f.Agent), File: path, Times: func(hook.Agent, hook.Phase) hook.Timing {
		return hook.Timing{Watchdog: time.Minute}
	}}
	return h.Reply(context.Background(), strings.NewReader(stdin))
}

const before = `{"session_id":"s","cwd":"/repo","permission_mode":"default","hook_event_name":"PreToolUse",` +
	`"tool_name":"Bash","tool_input":{"command":"ls","description":"lists","n":12345678901234567890},"tool_use_id":"toolu_1"}`

const after = `{"session_id":"s","cwd":"/repo","hook_event_name":"PostToolUse","tool_name":"Bash",` +
	`"tool_input":{"command":"ls"},"tool_use_id":"toolu_1","tool_response":{"stdout":"a","stderr":"","interrupted":false,` +
	`"isImage":false,"noOutputExpected":false}}`

// refused fails the test unless the answer refuses the call in all three ways.
func refused(t *testing.T, name string, r hook.Reply, want string) {
	t.Helper()
	if r.Exit != 2 || !strings.Contains(string(r.Stdout), `"permissionDecision":"deny"`) ||
		!strings.Contains(string(r.Stderr), want) {
		t.Errorf("%s: exit %d, stdout %s, stderr %s, want %q", name, r.Exit, r.Stdout, r.Stderr, want)
	}
}

func TestCalls(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer func(n int, w http.ResponseWriter, a asked)
		stdout string // of exit 0
		stderr string // of a refusal
		asks   int
	}{
		{"permit", func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", "") }, "", "", 1},
		{"deny", func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "DENY", `,"message":"Not on Fridays."`) }, "",
			"Not on Fridays.", 1},
		{"deny without a message", func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "DENY", `,"reason":"secret"`) },
			"", "denied this call (R)", 1},
		{"a repeat", func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", `,"repeat":true`) }, "",
			"does not run again", 1},
		{"a dry run", func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", `,"dry_run":true`) }, "",
			"does not run again", 1},
		{"another word", func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "permit", "") }, "", "Yett has failed", 1},
		{"about another call", func(_ int, w http.ResponseWriter, a asked) {
			decide(w, asked{body: map[string]any{"call_id": "x"}}, "PERMIT", "")
		}, "", "Yett has failed", 1},
		{"garbage", func(_ int, w http.ResponseWriter, a asked) { ok(w, "PERMIT") }, "", "Yett has failed", 1},
		{"empty", func(_ int, w http.ResponseWriter, a asked) { w.WriteHeader(200) }, "", "Yett has failed", 1},
		{"a failure", func(_ int, w http.ResponseWriter, a asked) { problem(w, 500, "internal") }, "", "Yett has failed", 1},
		{"no such key", func(_ int, w http.ResponseWriter, a asked) { problem(w, 401, "unauthenticated") }, "",
			"does not accept this hook's key", 1},
		{"not for this key", func(_ int, w http.ResponseWriter, a asked) { problem(w, 403, "forbidden") }, "",
			"does not let this hook's key", 1},
		{"a field", func(_ int, w http.ResponseWriter, a asked) { problem(w, 400, "invalid_field") }, "", "f: why", 1},
		{"disk full", func(_ int, w http.ResponseWriter, a asked) { problem(w, 507, "insufficient_storage") }, "",
			"Yett has failed", 1},
		{"approved while it waits", deferred(func(w http.ResponseWriter) { status(w, "approved", "") }), "", "", 3},
		{"approved with other arguments", deferred(func(w http.ResponseWriter) {
			status(w, "approved", `,"modified_args":{"command":"ls -l","n":12345678901234567890}`)
		}), `{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"ls -l",` +
			`"n":12345678901234567890}}}`, "", 3},
		{"denied while it waits", deferred(func(w http.ResponseWriter) { status(w, "denied", "") }), "", "A person denied this call", 2},
		{"expired while it waits", deferred(func(w http.ResponseWriter) { status(w, "expired", "") }), "", "Nobody approved this call in time", 2},
		{"used by another", deferred(func(w http.ResponseWriter) { status(w, "consumed", "") }), "", "has been used", 2},
		{"an unknown status", deferred(func(w http.ResponseWriter) { status(w, "permitted", "") }), "", "Yett has failed", 2},
		{"revoked while it waits", deferred(func(w http.ResponseWriter) { problem(w, 401, "key_revoked") }), "", "does not accept this hook's key", 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, row.answer)
			r := run(t, f.file, before)
			if row.stderr != "" {
				refused(t, row.name, r, row.stderr)
			} else if r.Exit != 0 || string(r.Stdout) != row.stdout || len(r.Stderr) != 0 {
				t.Errorf("exit %d, stdout %s, stderr %s", r.Exit, r.Stdout, r.Stderr)
			}
			got := f.requests()
			if len(got) != row.asks {
				t.Fatalf("%d requests, want %d: %+v", len(got), row.asks, got)
			}
			first := got[0]
			args, _ := first.body["args"].(map[string]any)
			if first.path != "/v1/authorize" || first.str("agent_id") != "claude-code" || first.str("tool_id") != "Bash" ||
				first.str("session_id") != "s" || first.str("call_id") != "claude-code:s:toolu_1" ||
				first.str("redeem") != "auto" || first.key != "Bearer key" || len(args) != 2 ||
				args["n"] != json.Number("12345678901234567890") {
				t.Errorf("asked %+v", first)
			}
			if len(got) == 3 && (got[2].str("defer_token") != "tok" || got[2].str("redeem") != "") {
				t.Errorf("redeemed with %+v", got[2])
			}
		})
	}
}

func problem(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"x","title":"t","status":%d,"detail":"why","code":%q,"error":%q,"field":"f"}`, status, code, code)
}

// TestPending holds what becomes of a call that nobody has decided when the hook has to answer.
func TestPending(t *testing.T) {
	for pending, want := range map[hookfile.Pending]string{"": "deny", hookfile.Refuse: "deny", hookfile.Ask: "ask",
		hookfile.Suspend: "defer"} {
		f := newFake(t, func(n int, w http.ResponseWriter, a asked) {
			decide(w, a, "DEFER", `,"defer_token":"tok","defer_expires_at":"2030-01-02T03:04:05Z"`)
		})
		none := hookfile.Duration(0)
		f.file.Wait, f.file.Pending = &none, pending
		r := run(t, f.file, before)
		if !strings.Contains(string(r.Stdout), `"permissionDecision":"`+want+`"`) ||
			!strings.Contains(string(r.Stdout), "2030-01-02T03:04:05Z") || (r.Exit == 2) != (want == "deny") {
			t.Errorf("%s: exit %d, stdout %s", pending, r.Exit, r.Stdout)
		}
		if n := len(f.requests()); n != 1 {
			t.Errorf("%s: %d requests", pending, n)
		}
	}
}

// TestWaitsToTheEnd holds that a hook which waits as long as it may still says that the call waits.
func TestWaitsToTheEnd(t *testing.T) {
	stop := make(chan struct{})
	f := newFake(t, func(n int, w http.ResponseWriter, a asked) {
		if n == 0 {
			decide(w, a, "DEFER", `,"defer_token":"tok"`)
			return
		}
		<-stop
	})
	t.Cleanup(func() { close(stop) })
	path := filepath.Join(t.TempDir(), "hook.json")
	text, err := f.file.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &Hook{Agent: hook.ClaudeCode, File: path, Times: func(hook.Agent, hook.Phase) hook.Timing {
		return hook.Timing{Watchdog: margin + margin/2 + 500*time.Millisecond}
	}}
	refused(t, "waits", h.Reply(context.Background(), strings.NewReader(before)), "waits for a person's approval")
}

// TestApprovedBefore holds that an approval with other arguments is learnt although nobody is waited for.
func TestApprovedBefore(t *testing.T) {
	f := newFake(t, func(n int, w http.ResponseWriter, a asked) {
		switch n {
		case 0:
			decide(w, a, "DEFER", `,"defer_token":"tok","status":"approved"`)
		case 1:
			status(w, "approved", `,"modified_args":{"command":"pwd"}`)
		default:
			decide(w, a, "PERMIT", "")
		}
	})
	none := hookfile.Duration(0)
	f.file.Wait = &none
	r := run(t, f.file, before)
	if r.Exit != 0 || !strings.Contains(string(r.Stdout), `"updatedInput":{"command":"pwd"}`) {
		t.Errorf("exit %d, stdout %s, stderr %s", r.Exit, r.Stdout, r.Stderr)
	}
}

func TestOutputs(t *testing.T) {
	one := func(verdict string) string {
		outcome, _, _ := strings.Cut(strings.TrimPrefix(verdict, `{"outcome":"`), `"`)
		return `{"outcome":"` + outcome + `","outputs":[` + verdict + `],"reason_code":"R","scan_id":"s"}`
	}
	for _, row := range []struct{ name, answer, want string }{
		{"pass", one(`{"outcome":"PASS","sanitized_json":1,"reason_code":"R"}`), ""},
		{"redacted", one(`{"outcome":"REDACTED","sanitized_json":{"stdout":"[X]","stderr":"","interrupted":false,` +
			`"isImage":false,"noOutputExpected":false},"reason_code":"R"}`), `"stdout":"[X]"`},
		{"another shape", one(`{"outcome":"REDACTED","sanitized_json":{"stdout":"[X]"},"reason_code":"R"}`),
			`could not be removed`},
		{"denied", one(`{"outcome":"DENIED","reason_code":"R"}`), `"stdout":"[output withheld by Yett: R]"`},
		{"warned", one(`{"outcome":"WARNED","sanitized_json":1,"reason_code":"R"}`), `"additionalContext"`},
		{"another word", one(`{"outcome":"CLEAN","sanitized_json":1,"reason_code":"R"}`), "withheld"},
		{"too few", `{"outcome":"PASS","outputs":[],"reason_code":"R","scan_id":"s"}`, "withheld"},
		{"too many", one(`{"outcome":"PASS","sanitized_json":1,"reason_code":"R"},{"outcome":"PASS","sanitized_json":1,` +
			`"reason_code":"R"}`), "withheld"},
		{"of one text", `{"outcome":"PASS","sanitized_output":"x","reason_code":"R","scan_id":"s"}`, "withheld"},
		{"garbage", `PASS`, "Yett has failed"},
	} {
		f := newFake(t, func(_ int, w http.ResponseWriter, a asked) { ok(w, "%s", row.answer) })
		r := run(t, f.file, after)
		if r.Exit != 0 || row.want == "" && len(r.Stdout) != 0 || !strings.Contains(string(r.Stdout), row.want) {
			t.Errorf("%s: exit %d, stdout %s", row.name, r.Exit, r.Stdout)
		}
		got := f.requests()
		if len(got) != 1 {
			t.Fatalf("%s: %d requests", row.name, len(got))
		}
		list, _ := got[0].body["outputs"].([]any)
		if len(list) != 1 {
			t.Fatalf("%s: scanned %+v", row.name, got[0])
		}
		item, _ := list[0].(map[string]any)
		value, _ := item["output_json"].(map[string]any)
		if item["tool_id"] != "Bash" || value["stdout"] != "a" {
			t.Errorf("%s: scanned %+v", row.name, item)
		}
	}
}

// TestAnotherServer holds that a server without the pinned key gets neither the key nor a decision.
func TestAnotherServer(t *testing.T) {
	f := newFake(t, func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", "") })
	f.file.Pins = []string{"sha256/" + base64.StdEncoding.EncodeToString(make([]byte, 32))}
	refused(t, "another server", run(t, f.file, before), "cannot be reached")
	if got := f.requests(); len(got) != 0 {
		t.Errorf("it was asked: %+v", got)
	}
}

// TestEnvironment holds that no variable leads a hook to another gateway or gives it a key.
func TestEnvironment(t *testing.T) {
	other := newFake(t, func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", "") })
	t.Setenv("YETT_URL", other.URL)
	t.Setenv("YETT_API_KEY", "another")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	f := newFake(t, func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", "") })
	if r := run(t, f.file, before); r.Exit != 0 || len(f.requests()) != 1 || f.requests()[0].key != "Bearer key" {
		t.Errorf("exit %d, %s, asked %+v", r.Exit, r.Stderr, f.requests())
	}
	nobody := uint32(os.Getuid())
	silent := &hookfile.File{Agent: "claude-code", Socket: filepath.Join(t.TempDir(), "none"), SocketOwner: &nobody}
	refused(t, "no socket", run(t, silent, before), "cannot be reached")
	if n := len(other.requests()); n != 0 {
		t.Errorf("the gateway of the environment was asked %d times", n)
	}
}

// TestRefusals holds what is refused before a gateway is asked.
func TestRefusals(t *testing.T) {
	f := newFake(t, func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", "") })
	for name, stdin := range map[string]string{"no JSON": "x", "empty": "",
		"another agent's": `{"hookEventName":"PreToolUse"}`, "two values": before + before,
		"too much": before + strings.Repeat(" ", hook.MaxStdin)} {
		if r := run(t, f.file, stdin); r.Exit != 2 || len(r.Stderr) == 0 {
			t.Errorf("%s: exit %d, stdout %s", name, r.Exit, r.Stdout)
		}
	}
	path := filepath.Join(t.TempDir(), "hook.json")
	h := &Hook{Agent: hook.ClaudeCode, File: path}
	refused(t, "no file", h.Reply(context.Background(), strings.NewReader(before)), "no such file")
	f.file.Agent = "codex"
	text, err := f.file.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, "another agent's file", h.Reply(context.Background(), strings.NewReader(before)), "is for codex")
	if n := len(f.requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestHangs holds that a hook answers whatever hangs, and in the form of the event where that is known.
func TestHangs(t *testing.T) {
	release := make(chan struct{})
	f := newFake(t, func(_ int, w http.ResponseWriter, a asked) { <-release })
	t.Cleanup(func() { close(release) })
	path := filepath.Join(t.TempDir(), "hook.json")
	text, err := f.file.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	short := func(hook.Agent, hook.Phase) hook.Timing { return hook.Timing{Watchdog: 200 * time.Millisecond} }
	h := &Hook{Agent: hook.ClaudeCode, File: path, Times: short}
	in, out := io.Pipe()
	refusedUnknown := h.Reply(context.Background(), in)
	out.Close()
	if refusedUnknown.Exit != 2 || !strings.Contains(string(refusedUnknown.Stderr), "in time") {
		t.Errorf("stdin hangs: %+v", refusedUnknown)
	}
	refused(t, "the gateway hangs", h.Reply(context.Background(), strings.NewReader(before)), "in time")
	r := h.Reply(context.Background(), strings.NewReader(after))
	if !strings.Contains(string(r.Stdout), `"continue":false`) && !strings.Contains(string(r.Stdout), "withheld") {
		t.Errorf("an output: %+v", r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.Times = nil
	if r := h.Reply(ctx, in); r.Exit != 2 {
		t.Errorf("ended: %+v", r)
	}
	h.Dial = func(*hookfile.File) (Gateway, error) { panic("x") }
	refused(t, "a panic", h.Reply(context.Background(), strings.NewReader(before)), "has failed")
}

// TestPrint holds that an answer which is not written whole refuses.
func TestPrint(t *testing.T) {
	var said bytes.Buffer
	permit := hook.Reply{Stdout: []byte(`{"effect":"permit"}`)}
	if code := print(&broken{}, &said, permit); code != 2 || said.Len() == 0 {
		t.Errorf("%d, %s", code, said.String())
	}
	refusal := hook.Reply{Stdout: []byte("{}"), Stderr: []byte("no\n"), Exit: 2}
	var out bytes.Buffer
	if code := print(&out, &broken{}, refusal); code != 1 {
		t.Errorf("a refusal without its text ends with %d", code)
	}
	said.Reset()
	uncovered := hook.Reply{Uncovered: "the shell"}
	if code := print(&out, &said, uncovered); code != 0 || said.String() != "yett: the shell\n" {
		t.Errorf("%d, %s", code, said.String())
	}
}

// TestArguments holds how the arguments of the program are read: what is not understood refuses.
func TestArguments(t *testing.T) {
	f := newFake(t, func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", "") })
	path := filepath.Join(t.TempDir(), "hook.json")
	text, err := f.file.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args []string
		want int
	}{
		{[]string{"claude-code", "--config", path}, 0},
		{[]string{"hook", "claude-code", "--config", path}, 0},
		{[]string{"hook", "claude-code", "--config=" + path}, 0},
		{[]string{"--config", path, "claude-code"}, 0},
		{nil, 2},
		{[]string{"hook"}, 2},
		{[]string{"claude-code"}, 2},
		{[]string{"claude-code", "--config"}, 2},
		{[]string{"claude-code", "--config", path, "--help"}, 2},
		{[]string{"claude-code", "-h"}, 2},
		{[]string{"claude-code", "codex", "--config", path}, 2},
		{[]string{"claude", "--config", path}, 2},
		{[]string{"hook", "hook", "claude-code", "--config", path}, 2},
	} {
		var out, errs bytes.Buffer
		code := Main(context.Background(), row.args, strings.NewReader(before), &out, &errs)
		if code != row.want || (code != 0) != (errs.Len() > 0) {
			t.Errorf("%v: %d, stdout %s, stderr %s", row.args, code, out.String(), errs.String())
		}
	}
}

type broken struct{ n int }

func (b *broken) Write(p []byte) (int, error) { return b.n, errors.New("gone") }
