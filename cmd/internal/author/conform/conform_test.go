package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/testkit"
)

// schemaCheck is the gateway's.
func schemaCheck(schema string, settings []byte) error {
	var doc map[string]any
	if err := json.Unmarshal([]byte(schema), &doc); err != nil {
		return err
	}
	return config.CheckModule(doc, settings)
}

func find(t *testing.T, rep *Report, name string) *Result {
	t.Helper()
	for i := range rep.Checks {
		if rep.Checks[i].Name == name {
			return &rep.Checks[i]
		}
	}
	t.Fatalf("no check %s in the report", name)
	return nil
}

func lines(rep *Report) string {
	var b strings.Builder
	for _, c := range rep.Checks {
		fmt.Fprintf(&b, "%-8s %-18s %5d ms  %s\n", c.Outcome, c.Name, c.Millis, c.Why)
	}
	return b.String()
}

func TestGoodFake(t *testing.T) {
	rep, err := Run(context.Background(), Options{Open: opener(t, ""), CheckConfig: schemaCheck})
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Pass {
		t.Fatalf("%s\n%s", rep.Reason, lines(rep))
	}
	processOnly := []string{"handshake", "mtls", "stdout", "processes", "drain", "leftovers", "kill", "file"}
	for _, c := range rep.Checks {
		want := Pass
		if slices.Contains(processOnly, c.Name) {
			want = Skipped
		}
		if c.Outcome != want || want == Skipped && c.Why == "" || c.Expects == "" {
			t.Errorf("%+v", c)
		}
	}
	if len(rep.Checks) != len(Names()) {
		t.Errorf("%d results of %d checks", len(rep.Checks), len(Names()))
	}
}

// defects says for each defect of the fake which check must notice it, and a part of the sentence.
var defects = []struct{ defect, check, why string }{
	{"info differs", "info", `differs from the first`},
	{"no version", "info", `version ""`},
	{"shouting name", "info", `name "FAKE"`},
	{"odd finding kind", "info", `"mail"`},
	{"odd key field", "info", `"colour" is no field`},
	{"many key fields", "info", `40 cache_key_fields, at most 32`},
	{"wants many calls", "info", `max_in_flight 5000, at most 4096`},
	{"large example", "info", `example_config of \d+ bytes, at most \d+ and 65536`},
	{"secret in two lines", "info", `secrets: "token"`},
	{"twice the kind", "info", `twice`},
	{"speaks 2", "versions", `lists \[2\], and 1 is not`},
	{"knows versions", "versions", `api_versions \[97\]: FAILED_PRECONDITION`},
	{"unnamed kind", "kinds", `subscriber is there, but Info does not name it`},
	{"schema is text", "schema", `no JSON object`},
	{"schema refuses example", "schema", `does not fit config_schema`},
	{"no settings fit", "settings", `/deny: not today`},
	{"check before Configure", "before-configure", `Check answered ABSTAIN`},
	{"scan before Configure", "before-configure", `would pass for covered`},
	{"consume before Configure", "before-configure", `acknowledged record 3`},
	{"takes any settings", "settings-refused", `took a list`},
	{"takes unknown settings", "settings-refused", `a member that the schema does not know`},
	{"validate applies", "validate-only", `after nothing but validate_only, Check answered`},
	{"validate replaces", "validate-only", `before it they were`},
	{"secret not needed", "secrets", `without any secret succeeded`},
	{"health is silent", "health", `no first answer`},
	{"health once", "health", `gave 1 answers`},
	{"not serving", "health", `NOT_SERVING`},
	{"permits", "unknown-call", `the answer is PERMIT OK`},
	{"defers", "unknown-call", `the answer is DEFER`},
	{"only errors", "unknown-call", `no connection`},
	{"unknown effect", "answers", `effect 9 is unknown`},
	{"no code", "answers", `DENY with the code ""`},
	{"odd code", "answers", `"not allowed"`},
	{"long reason", "answers", `reason has 1200 bytes`},
	{"wrong id", "answers", `carries the id 2`},
	{"loses large ids", "answers", `carries the id`},
	{"odd approver", "answers", `approvers, .* go with DEFER`},
	{"odd approver for a deferral", "answers", `approver 0 must be key:NAME, role:approver or role:operator`},
	{"negative ttl", "answers", `negative`},
	{"approvals for a denial", "answers", `go with DEFER, not with DENY`},
	{"abstains with an odd code", "answers", `code has 11 bytes and is not a code`},
	{"endless ttl", "answers", `ttl_ms \d+ is not within`},
	{"escapes", "unknown-call", `error: \?\[2J all is well`},
	{"huge answer", "answers", `RESOURCE_EXHAUSTED`},
	{"takes no id", "malformed", `without an id was answered`},
	{"takes no call", "malformed", `without a call was answered`},
	{"takes bad args", "malformed", `args that are no JSON was answered`},
	{"takes bad context", "malformed", `context that is no JSON was answered`},
	{"takes no digest", "malformed", `digest .*was answered`},
	{"takes late calls", "malformed", `past its deadline was answered`},
	{"permits large", "large", `1 MiB of arguments is permitted`},
	{"moody", "same-answer", `asked twice|on CheckStream the calls`},
	{"mixes up ids", "concurrency", `carries the id 1099511627776`},
	{"one at a time", "concurrency", `RESOURCE_EXHAUSTED: busy`},
	{"slow", "timeout", `none of 20 calls was answered within 50ms`},
	{"answers late", "deadline", `5 of 5 calls`},
	{"stream differs", "same-answer", `on CheckStream the calls were answered`},
	{"loses one", "stream", `ended after 999 answers to 1000`},
	{"stream breaks off", "stream", `ended after`},
	{"answers twice", "stream", `answered the id 79191 twice`},
	{"answers unasked", "stream", `the id 5, which nobody asked`},
	{"stream never ends", "stream", `.`},
	{"malformed ends stream", "stream-malformed", `INVALID_ARGUMENT`},
	{"malformed answered on stream", "stream-malformed", `was answered with ABSTAIN`},
	{"undeclared kind", "texts", `"PHONE" is not among Info's`},
	{"outside", "texts", `does not lie in a text`},
	{"empty finding", "texts", `does not lie`},
	{"cuts characters", "texts", `cuts a character`},
	{"no severity", "texts", `severity 0`},
	{"sure beyond measure", "texts", `NaN`},
	{"replaces unasked", "texts", `without ACTION_REPLACE`},
	{"wrong scan id", "texts", `carries the id`},
	{"no large texts", "texts", `was not covered: too large`},
	{"scans without id", "scan-malformed", `without an id was answered`},
	{"scans late", "scan-malformed", `past its deadline was answered`},
	{"cuts broken text", "texts", `does not lie`},
	{"scan differs", "scan-concurrency", `the same text gave`},
	{"acks beyond", "batches", `and only those up to 1 were sent`},
	{"acks backwards", "batches", `after record 4, record 1|after record \d+, record 1`},
	{"never acks", "batches", `0 is what was acknowledged`},
	{"takes nothing", "batches", `could not be taken in: disk full`},
	{"no gaps", "gap", `a gap: `},
	{"no empty batches", "gap", `without records: `},
	{"second ends first", "second-stream", `ABORTED: there is another one`},
	{"remembers", "redelivery", `had it`},
	{"believes batches", "feed-malformed", `was acknowledged up to record`},
}

// TestDefects plants each defect and wants the check that it concerns to fail with its sentence.
func TestDefects(t *testing.T) {
	for _, d := range defects {
		slow := d.defect == "health is silent" || d.defect == "stream never ends" || d.defect == "answers late"
		if slow && testkit.Quick() {
			continue // for these it waits seconds
		}
		t.Run(d.defect, func(t *testing.T) {
			t.Parallel()
			o := Options{Open: opener(t, d.defect), CheckConfig: schemaCheck, Only: []string{d.check},
				ack: 200 * time.Millisecond}
			if d.defect == "stream never ends" {
				o.Total = 3 * time.Second
			}
			if d.defect == "remembers" {
				o.Only = []string{"batches", "redelivery"}
			}
			rep, err := Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			got := find(t, rep, d.check)
			if rep.Pass || got.Outcome != Fail || !regexp.MustCompile(d.why).MatchString(got.Why) || rep.Reason == "" {
				t.Errorf("pass %t, %s: %s, want a failure with %q\n%s", rep.Pass, got.Outcome, got.Why, d.why, lines(rep))
			}
		})
	}
}

func TestKindThatIsNotServed(t *testing.T) {
	rep, err := Run(context.Background(), Options{Open: opener(t, "", "no scanner"), CheckConfig: schemaCheck,
		Only: []string{"kinds"}})
	if err != nil || rep.Pass || !strings.Contains(rep.Reason, "names the kind scanner, but its service is not there") {
		t.Errorf("%v %+v", err, rep)
	}
}

func TestSampleCalls(t *testing.T) {
	calls := []Call{{ToolID: "conform-unknown/x", Effect: "DENY"},
		{ToolID: "mail/send", Args: json.RawMessage(`{"to":"a"}`), Effect: "ABSTAIN"}}
	rep, err := Run(context.Background(), Options{Open: opener(t, ""), CheckConfig: schemaCheck, Only: []string{"answers"},
		Calls: calls})
	if err != nil || !rep.Pass {
		t.Errorf("%v\n%s", err, lines(rep))
	}
	calls[1].Effect = "PERMIT"
	rep, err = Run(context.Background(), Options{Open: opener(t, ""), CheckConfig: schemaCheck, Only: []string{"answers"},
		Calls: calls})
	if err != nil || rep.Pass || !strings.Contains(rep.Reason, "mail/send: the answer is ABSTAIN") {
		t.Errorf("%v\n%s", err, lines(rep))
	}
}

func TestOptionsRefused(t *testing.T) {
	open := opener(t, "")
	for name, o := range map[string]Options{
		"neither":        {},
		"both":           {Path: "/bin/true", Connect: "unix:///x"},
		"no such file":   {Path: "/no/such/file"},
		"a folder":       {Path: t.TempDir()},
		"negative":       {Open: open, Total: -1},
		"no such check":  {Open: open, Only: []string{"beauty"}},
		"config":         {Open: open, Config: json.RawMessage(`[]`)},
		"call":           {Open: open, Calls: []Call{{}}},
		"effect":         {Open: open, Calls: []Call{{ToolID: "x", Effect: "MAYBE"}}},
		"args":           {Open: open, Calls: []Call{{ToolID: "x", Args: json.RawMessage(`7`)}}},
		"secret to sock": {Connect: "unix:///x", Secrets: map[string][]byte{"a": nil}},
	} {
		if rep, err := Run(context.Background(), o); err == nil {
			t.Errorf("%s: %+v", name, rep)
		}
	}
}

// A run that is cut short says so and is no pass.
func TestCutShort(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	n := 0
	open := opener(t, "")
	rep, err := Run(ctx, Options{CheckConfig: schemaCheck, Open: func(ctx context.Context) (Session, error) {
		if n++; n == 4 {
			cancel(errors.New("the user had enough"))
		}
		return open(ctx)
	}})
	if err != nil || rep.Pass || !strings.Contains(rep.Reason, "the user had enough") || len(rep.Checks) != len(Names()) {
		t.Errorf("%v %+v", err, rep)
	}
}

// A plugin that answers nothing costs three checks, not all of them.
func TestSilentPlugin(t *testing.T) {
	blocked := func(ctx context.Context) (Session, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	rep, err := Run(context.Background(), Options{Open: blocked, start: 10 * time.Millisecond, Total: time.Second})
	if err != nil || rep.Pass || find(t, rep, "start").Outcome != Fail || find(t, rep, "info").Outcome != Skipped {
		t.Errorf("%v %+v", err, rep)
	}
}

// TestSlowIsNotWrong: an answer that comes late once is asked for again, and one that stays away is called late, not
// taken for an effect of what is being checked.
func TestSlowIsNotWrong(t *testing.T) {
	checks := []string{"validate-only", "same-answer"}
	rep, err := Run(context.Background(), Options{Open: opener(t, "late now and then"), CheckConfig: schemaCheck,
		Only: checks})
	if err != nil || !rep.Pass || !strings.Contains(find(t, rep, "validate-only").Why, "answered at a later try only") {
		t.Errorf("late now and then: %v\n%s", err, lines(rep))
	}
	rep, err = Run(context.Background(), Options{Open: opener(t, "late after a look"), CheckConfig: schemaCheck,
		Only: checks})
	if err != nil || rep.Pass {
		t.Fatalf("late from then on: %v\n%s", err, lines(rep))
	}
	if c := find(t, rep, "validate-only"); c.Outcome != Fail || !strings.Contains(c.Why, "it is late, not wrong") ||
		!strings.Contains(c.Why, "what it asks is slow") || strings.Contains(c.Advice, "Validate") {
		t.Errorf("%+v", c)
	}
}
