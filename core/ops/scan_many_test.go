package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/wire"
)

// many is an answer about several outputs.
type many struct {
	wire.ScanResponse
	text string
}

// verdict is an outcome in short, with its code and what is released.
func verdict(outcome, code string, text *string, value json.RawMessage) string {
	out := outcome + " " + code
	if text != nil {
		out += " text " + *text
	}
	if value != nil {
		out += " json " + string(value)
	}
	return out
}

func (m *many) verdicts() (all []string) {
	for _, v := range m.Outputs {
		all = append(all, verdict(v.Outcome, v.ReasonCode, v.SanitizedOutput, v.SanitizedJSON))
	}
	return all
}

func (b *bench) scanMany(key *ops.NewKey, body string) (m many) {
	b.t.Helper()
	m.text = b.must(key.Value, "scan_output", body)
	if err := json.Unmarshal([]byte(m.text), &m.ScanResponse); err != nil {
		b.t.Fatalf("%v: %s", err, m.text)
	}
	return m
}

// scanRecords are the records of scans.
func (b *bench) scanRecords() (all []string) {
	b.t.Helper()
	if err := b.store.Records(1, func(_ uint64, record []byte) error {
		if strings.Contains(string(record), `"type":"scan"`) {
			all = append(all, string(record))
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	return all
}

// Each output has its verdict, in order, and the strictest is that of all. What one is denied for keeps no other back.
func TestScanMany(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	key := b.newKey("k", "agent")
	for _, c := range []struct {
		outputs, whole string
		want           []string
	}{
		{`{"output":"a"}`, "PASS SCAN_OK", []string{"PASS SCAN_OK text a"}},
		{`{"output":""},{"output":"b"}`, "PASS SCAN_OK", []string{"PASS SCAN_OK text ", "PASS SCAN_OK text b"}},
		{`{"output":"a"},{"output":"b!"},{"output_json":{"k":"!","n":1.50}},{"output":"!c"}`, "REDACTED OUTPUT_BANG", []string{
			"PASS SCAN_OK text a", "REDACTED OUTPUT_BANG text b[BANG]", `REDACTED OUTPUT_BANG json {"k":"[BANG]","n":1.50}`,
			"REDACTED OUTPUT_BANG text [BANG]c"}},
		{`{"output":"!"},{"output":"$"},{"output":"b"},{"output_json":["$"]}`, "DENIED OUTPUT_DROP", []string{
			"REDACTED OUTPUT_BANG text [BANG]", "DENIED OUTPUT_DROP", "PASS SCAN_OK text b", "DENIED OUTPUT_DROP"}},
		{`{"output_json":null},{"output_json":[1,{"!":2}]},{"output":"{\"!\":2}","content_type":"application/json"}`,
			"REDACTED OUTPUT_BANG", []string{"PASS SCAN_OK json null", `REDACTED OUTPUT_BANG json [1,{"[BANG]@5":2}]`,
				`REDACTED OUTPUT_BANG text {"[BANG]@2":2}`}},
		{`{"output_json":{"!":1,"[BANG]@2":2}},{"output":"x"}`, "DENIED SCAN_UNAVAILABLE",
			[]string{"DENIED SCAN_UNAVAILABLE", "PASS SCAN_OK text x"}},
		{`{"output":"x"},{"output":"$"},{"output_json":{"!":1,"[BANG]@2":2}}`, "DENIED OUTPUT_DROP",
			[]string{"PASS SCAN_OK text x", "DENIED OUTPUT_DROP", "DENIED SCAN_UNAVAILABLE"}},
	} {
		got := b.scanMany(key, `{"tool_id":"t/x","outputs":[`+c.outputs+`]}`)
		if whole := verdict(got.Outcome, got.ReasonCode, got.SanitizedOutput, got.SanitizedJSON); whole != c.whole ||
			fmt.Sprint(got.verdicts()) != fmt.Sprint(c.want) {
			t.Errorf("%s: %s\n%q, want %s\n%q", c.outputs, whole, got.verdicts(), c.whole, c.want)
		}
	}
}

// A value is answered as a value: what is not found keeps its bytes.
func TestScanOfJSON(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	key := b.newKey("k", "agent")
	for value, want := range map[string]string{
		`{"z":1e400,"a":[-0,12345678901234567890.10,"é\/\u00e9"],"x":{}}`: "PASS SCAN_OK json same",
		` "plain" `:             `PASS SCAN_OK json "plain"`,
		`"\u0021"`:              `REDACTED OUTPUT_BANG json "[BANG]"`,
		`{"b":"x!","a":1.0}`:    `REDACTED OUTPUT_BANG json {"b":"x[BANG]","a":1.0}`,
		`{"!":"!","a!":{}}`:     `REDACTED OUTPUT_BANG json {"[BANG]@2":"[BANG]","a[BANG]@11":{}}`,
		`["$"]`:                 `DENIED OUTPUT_DROP`,
		`null`:                  `PASS SCAN_OK json null`,
		`"{\"k\":\"\\u0021\"}"`: `REDACTED OUTPUT_BANG json "{\"k\":\"[BANG]\"}"`,
	} {
		got := b.scanMany(key, `{"tool_id":"t/x","output_json":`+value+`}`)
		if strings.HasSuffix(want, "same") {
			want = strings.TrimSuffix(want, "same") + value
		}
		is := verdict(got.Outcome, got.ReasonCode, got.SanitizedOutput, got.SanitizedJSON)
		if is != want || got.Outputs != nil {
			t.Errorf("%s: %s, want %s", value, is, want)
		}
	}
}

func TestScanFormsAreApart(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	key := b.newKey("k", "agent")
	entries := func(n int) string {
		return `"outputs":[` + strings.TrimSuffix(strings.Repeat(`{"output":""},`, n), ",") + `]`
	}
	b.must(key.Value, "scan_output", `{"tool_id":"t",`+entries(256)+`}`)
	for _, c := range []struct{ body, code, field, says string }{
		{`"tool_id":"t"`, "missing_field", "output", "one of output, output_json, outputs is required"},
		{`"tool_id":"t","output":null`, "missing_field", "output", "is required"},
		{`"tool_id":"t","output":"","output_json":1`, "invalid_field", "output_json", "output and output_json are both there"},
		{`"tool_id":"t","output":"",` + entries(1), "invalid_field", "outputs", "output and outputs are both there"},
		{`"tool_id":"t","output_json":null,` + entries(1), "invalid_field", "outputs", "output_json and outputs are both"},
		{`"tool_id":"t",` + entries(0), "invalid_field", "outputs", "outputs is empty"},
		{`"tool_id":"t",` + entries(257), "invalid_field", "outputs", "257 entries, more than the limit of 256"},
		{`"tool_id":"t","outputs":{}`, "invalid_field", "outputs", "a list of objects, not an object"},
		{`"tool_id":"t","outputs":[{"output":""},7]`, "invalid_field", "outputs[1]", "must be an object, not a number"},
		{`"tool_id":"t","outputs":[{"output":""},{}]`, "missing_field", "outputs[1].output", "one of output, output_json is"},
		{`"tool_id":"t","outputs":[{"output":"","output_json":{}}]`, "invalid_field", "outputs[0].output_json", "both there"},
		{`"tool_id":"t","outputs":[{"output":1}]`, "invalid_field", "outputs[0].output", "must be a string"},
		{`"tool_id":"t","outputs":[{"output":"","tool_id":"a\u200b"}]`, "invalid_field", "outputs[0].tool_id", "U+200B"},
		{`"outputs":[{"output":"","tool_id":"t"},{"output":""}]`, "missing_field", "outputs[1].tool_id", "is required"},
		{`"output":"x"`, "missing_field", "tool_id", "tool_id is required"},
		{`"output_json":1`, "missing_field", "tool_id", "tool_id is required"},
		{`"tool_id":"t","stream_id":"s","output_json":1`, "invalid_field", "stream_id", "sent as output"},
		{`"tool_id":"t","stream_id":"s",` + entries(1), "invalid_field", "stream_id", "sent as output"},
		{`"tool_id":"t","final":true,` + entries(1), "invalid_field", "final", "sent as output"},
		{`"tool_id":"t","offset":1,` + entries(1), "invalid_field", "offset", "piece of a stream"},
		{`"tool_id":"t","content_type":"text/plain","output_json":1`, "invalid_field", "content_type", "a JSON type"},
		{`"tool_id":"t","outputs":[{"output_json":1,"content_type":"text/plain"}]`, "invalid_field", "outputs[0].content_type", "a JSON type"},
	} {
		var e *sdk.Error
		answer, err := b.run(key.Value, "scan_output", `{`+c.body+`}`)
		if !errors.As(err, &e) || string(e.Code) != c.code || e.Field != c.field || !strings.Contains(e.Msg, c.says) {
			t.Errorf("%.100s: %s %v", c.body, answer, err)
		}
	}
	for _, body := range []string{`"tool_id":"t","content_type":"text/plain","outputs":[{"output_json":1},{"output":"x"}]`,
		`"tool_id":"t","content_type":"application/ld+json","output_json":1`, `"outputs":[{"tool_id":"t","output_json":1}]`} {
		if got := b.scanMany(key, `{`+body+`}`); got.Outcome != chain.Pass {
			t.Errorf("%s: %s", body, got.text)
		}
	}
}

// A key's value in the name of a tool is not written, also when it is split between two outputs.
func TestScanManyKeepsNoKeys(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	key, other := b.newKey("k", "agent"), b.newKey("other", "agent")
	id, rest := other.Value[:17], other.Value[18:]
	b.fails(key.Value, "scan_output", fmt.Sprintf(`{"outputs":[{"tool_id":%q,"output":""}]}`, other.Value), "invalid_field")
	b.fails(key.Value, "scan_output", fmt.Sprintf(`{"outputs":[{"tool_id":%q,"output":""},{"tool_id":%q,"output":""}]}`, id,
		rest), "invalid_field")
}

// There is one record with a row for each output: its tool, size, verdict and keyed hash, and none of its text.
func TestScanManyRecord(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	key := b.newKey("k", "agent")
	got := b.scanMany(key, `{"tool_id":"t/x","agent_id":"a","session_id":"s","outputs":[{"output":"plain"},`+
		`{"tool_id":"u","output":"ab!c"},{"output_json":{"plain":"!"}},{"output":"plain"},{"output":"$"}]}`)
	records := b.scanRecords()
	if len(records) != 1 || strings.Contains(records[0], "plain") {
		t.Fatalf("records %q", records)
	}
	var rec struct {
		ToolID  string `json:"tool_id"`
		ScanID  string `json:"scan_id"`
		Outcome string
		Code    string `json:"reason_code"`
		Bytes   int
		Outputs []struct {
			ToolID              string `json:"tool_id"`
			Bytes               int
			JSON                bool
			Hash, Outcome, Code string
		}
		Findings []struct {
			Index, Start, End int
			Hash              string
			Shadow            bool
		}
		Receipts []wire.Receipt `json:"scanned_by"`
	}
	if err := json.Unmarshal([]byte(records[0]), &rec); err != nil {
		t.Fatal(err)
	}
	rows := ""
	for _, o := range rec.Outputs {
		rows += fmt.Sprintf("%s %d %v %s %d; ", o.ToolID, o.Bytes, o.JSON, o.Outcome, len(o.Hash))
	}
	if want := "t/x 5 false PASS 32; u 4 false REDACTED 32; t/x 13 true REDACTED 32; t/x 5 false PASS 32; " +
		"t/x 1 false DENIED 32; "; rows != want {
		t.Errorf("rows %s, want %s", rows, want)
	}
	if rec.ToolID != "" || rec.ScanID != got.ScanID || rec.Outcome != "DENIED" || rec.Code != "OUTPUT_DROP" ||
		rec.Bytes != 28 {
		t.Errorf("%+v", rec)
	}
	if rec.Outputs[0].Hash != rec.Outputs[3].Hash || rec.Outputs[0].Hash == rec.Outputs[1].Hash {
		t.Errorf("hashes do not tell outputs apart: %s", records[0])
	}
	spans := ""
	for _, f := range rec.Findings {
		spans += fmt.Sprintf("%d:%d-%d %v; ", f.Index, f.Start, f.End, f.Shadow)
	}
	if want := "1:2-3 false; 1:2-3 true; 2:10-11 false; 2:10-11 true; 4:0-1 false; 4:0-1 true; "; spans != want ||
		rec.Findings[0].Hash != rec.Findings[2].Hash {
		t.Errorf("findings %s of %s", spans, records[0])
	}
	shown := ""
	for _, f := range got.Findings {
		shown += fmt.Sprintf("%d:%d-%d; ", *f.Index, f.Start, f.End)
	}
	if want := "1:2-3; 2:10-11; 4:0-1; "; shown != want {
		t.Errorf("shown are %s, want %s", shown, want)
	}
	if len(rec.Receipts) != 2 || rec.Receipts[0].Bytes != 28 || rec.Receipts[0].Outcome != "ok" ||
		!rec.Receipts[1].Shadow {
		t.Errorf("scanned by %+v", rec.Receipts)
	}
	b.scanMany(key, `{"tool_id":"t","operation":"o","outputs":[{"output":"a"},{"tool_id":"t/o","output":"b"}]}`)
	if rec := b.scanRecords()[1]; member(rec, "tool_id") != "t/o" {
		t.Errorf("of one tool: %s", rec)
	}
}

// stumbles fails on outputs that hold what it stumbles on.
type stumbles map[string]error

func (stumbles) About() chain.About { return chain.About{} }
func (s stumbles) Scan(_ context.Context, in *chain.Input) ([]sdk.Finding, error) {
	return nil, s[in.Text]
}

// An output that no scanner got through is denied, and so is the whole. When to ask again is by the one that takes
// longest.
func TestScanManyFailsClosed(t *testing.T) {
	b := newBench(t, nil)
	key := b.newKey("k", "agent")
	b.gen.Scan.Steps = []chain.ScanStep{{Name: "s", OnError: sdk.Deny, Scanner: stumbles{
		"soon": chain.Later(chain.ErrUnavailable, 0), "late": chain.Later(chain.ErrUnavailable, 40*time.Second),
		"never": chain.Later(chain.ErrUnavailable, chain.Never)}}}
	for _, c := range []struct {
		outputs []string
		want    string
	}{
		{[]string{"a", "soon", "b"}, "after 5"}, {[]string{"soon", "late", "soon"}, "after 40"},
		{[]string{"soon", "never", "late"}, "never 0"},
	} {
		var list []string
		for _, o := range c.outputs {
			list = append(list, `{"output":`+strconv.Quote(o)+`}`)
		}
		got := b.scanMany(key, `{"tool_id":"t","outputs":[`+strings.Join(list, ",")+`]}`)
		if got.Outcome != chain.Denied || got.ReasonCode != sdk.ReasonScanUnavailable || got.Retry == nil ||
			fmt.Sprint(got.Retry.Class, " ", got.Retry.AfterSeconds) != c.want || got.ScannedBy[0].Outcome != "error" ||
			got.ScannedBy[0].Error == "" {
			t.Errorf("%s: %s", c.outputs, got.text)
		}
		for i, v := range got.Outputs {
			want := "DENIED SCAN_UNAVAILABLE"
			if len(c.outputs[i]) == 1 {
				want = "PASS SCAN_OK text " + c.outputs[i]
			}
			if is := got.verdicts()[i]; is != want || (v.Retry != nil) != (v.Outcome == chain.Denied) {
				t.Errorf("%s: output %d is %s, want %s", c.outputs, i, is, want)
			}
		}
	}
	b.gen.Scan.Steps[0].Match.Tools = []string{"known"}
	got := b.scanMany(key, `{"tool_id":"known","outputs":[{"output":"a"},{"tool_id":"other","output":"b"},{"output":"c"}]}`)
	if fmt.Sprint(got.verdicts()) != "[PASS SCAN_OK text a DENIED SCAN_UNAVAILABLE PASS SCAN_OK text c]" ||
		got.Outcome != chain.Denied || got.Retry.Class != "never" || got.ScannedBy[0].Bytes != 2 {
		t.Errorf("nobody looks at one: %s", got.text)
	}
}

// A kill of a tool denies its outputs and the whole, whether it was there before or comes while they are scanned. What
// was found in them is not shown.
func TestKillOfAToolDeniesItsOutputs(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "operator")
	ask := func() (m many) {
		t.Helper()
		text, err := s.do(req{key: agent, op: "scan_output", body: `{"tool_id":"t","outputs":[{"output":"` + secret + `"},` +
			`{"tool_id":"deny-result","output":"` + secret + `"},{"output":"x"}]}`})
		if err == nil {
			m.text, err = text, json.Unmarshal([]byte(text), &m.ScanResponse)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	pull := func(undo string) func() {
		return func() {
			if _, err := s.do(req{key: boss, op: "kill", body: `{"scope":"tool","target":"t"` + undo + `}`}); err != nil {
				t.Error(err)
			}
		}
	}
	const denied = "[DENIED KILL_SWITCH_ACTIVE DENIED OUTPUT_SECRET_TEST DENIED KILL_SWITCH_ACTIVE]"
	if got := ask(); fmt.Sprint(got.verdicts()) !=
		"[WARNED OUTPUT_SECRET_TEST text "+secret+" DENIED OUTPUT_SECRET_TEST PASS SCAN_OK text x]" ||
		got.ReasonCode != "OUTPUT_SECRET_TEST" || len(got.Findings) != 2 {
		t.Errorf("no kill: %s", got.text)
	}
	check := func(when string, got many) {
		t.Helper()
		if fmt.Sprint(got.verdicts()) != denied || got.Outcome != chain.Denied || got.ReasonCode != sdk.ReasonKillSwitch ||
			len(got.Findings) != 1 || *got.Findings[0].Index != 1 || got.Outputs[0].Reason == "" {
			t.Errorf("%s: %s", when, got.text)
		}
	}
	during := pull("")
	s.during.Store(&during)
	check("a kill that comes meanwhile", ask())
	check("a kill that was there", ask())
	pull(`,"undo":true`)()
	if got := ask(); got.Outputs[2].Outcome != chain.Pass {
		t.Errorf("undone: %s", got.text)
	}
}

// plenty finds every character.
type plenty struct{}

func (plenty) About() chain.About { return chain.About{} }
func (plenty) Scan(_ context.Context, in *chain.Input) (found []sdk.Finding, _ error) {
	for i := range in.Text {
		found = append(found, sdk.Finding{Kind: "K", Scanner: "plenty", Start: i, End: i + 1, Confidence: 1})
	}
	return found, nil
}

// An answer and a record list only so many findings: what comes behind is denied, and says so.
func TestScanManyListsSoMuch(t *testing.T) {
	b := newBench(t, nil)
	key := b.newKey("k", "agent")
	b.gen.Scan.Steps = []chain.ScanStep{{Name: "plenty", OnError: sdk.Deny, Scanner: plenty{}}}
	one := `{"output":"` + strings.Repeat("a", 200) + `"},`
	got := b.scanMany(key, `{"tool_id":"t","outputs":[`+strings.Repeat(one, 200)+`{"output":"b"}]}`)
	for i, v := range got.Outputs {
		want := chain.Warned // 21 outputs have 4200
		if i > 20 {
			want = chain.Denied
		}
		if v.Outcome != want || want == chain.Denied && (v.ReasonCode != sdk.ReasonOutputSize || v.SanitizedOutput != nil ||
			!strings.Contains(v.Reason, "4200 findings, and the limit is 4096")) {
			t.Fatalf("output %d: %+v", i, v)
		}
	}
	if len(got.Findings) != 4200 || got.Outcome != chain.Denied {
		t.Errorf("%s with %d findings", got.Outcome, len(got.Findings))
	}
}

// dawdler takes its time.
type dawdler func()

func (dawdler) About() chain.About { return chain.About{} }
func (d dawdler) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) {
	d()
	return nil, nil
}

// All outputs of a request have the time of one.
func TestScanManySharesTheTime(t *testing.T) {
	b := newBench(t, nil)
	key := b.newKey("k", "agent")
	b.gen.Scan.Steps = []chain.ScanStep{{Name: "s", OnError: sdk.Deny,
		Scanner: dawdler(func() { b.offset.Add(int64(40 * time.Second)) })}}
	got := b.scanMany(key, `{"tool_id":"t","outputs":[{"output":"a"},{"output":"b"},{"output":"c"}]}`)
	if fmt.Sprint(got.verdicts()) != "[PASS SCAN_OK text a PASS SCAN_OK text b DENIED SCAN_UNAVAILABLE]" ||
		got.ScannedBy[0].Outcome != "timeout" || got.ScannedBy[0].Micros < 80e6 {
		t.Errorf("a minute for three that take 40 s: %s", got.text)
	}
}

// What cannot be recorded is not released.
func TestScanManyIsRecordedFirst(t *testing.T) {
	b, st := scanBench(t, abi.StreamStateful, bang{})
	key := b.newKey("k", "agent")
	st.fail.Store(true)
	if answer, err := b.run(key.Value, "scan_output", `{"tool_id":"t","outputs":[{"output":"a"}]}`); err == nil {
		t.Errorf("answered %s", answer)
	}
}
