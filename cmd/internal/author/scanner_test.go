package author

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
)

func found(spans ...int) (out []sdk.Finding) {
	for i := 0; i < len(spans); i += 2 {
		out = append(out, sdk.Finding{Kind: "K", Start: spans[i], End: spans[i+1]})
	}
	return out
}

func values(vs ...string) (out []labelSpan) {
	for _, v := range vs {
		out = append(out, labelSpan{value: v, start: -1})
	}
	return out
}

func TestSpansAgainstFindings(t *testing.T) {
	const text = "ab key ab key"
	for _, c := range []struct {
		name           string
		spans          []labelSpan
		found          []sdk.Finding
		touched, whole bool
	}{
		{"nothing found", values("key"), nil, false, false},
		{"exact", values("key"), found(3, 6), true, true},
		{"wider", values("key"), found(0, 13), true, true},
		{"part", values("key"), found(3, 5), true, false},
		{"two parts do not make a whole", values("key"), found(3, 5, 5, 6), true, false},
		{"beside", values("key"), found(0, 3), false, false},
		{"any place of the value will do", values("key"), found(10, 13), true, true},
		{"one of two spans", values("key", "ab"), found(3, 6), true, false},
		{"a span that is not in the text", values("key", "nowhere"), found(3, 6), true, true},
		{"no span is in the text", values("nowhere"), found(0, 1), true, true},
		{"no span at all", nil, found(0, 1), true, true},
		{"no span and nothing found", nil, nil, false, false},
		{"a place, not a value", []labelSpan{{value: "key", start: 3, end: 6}}, found(10, 13), false, false},
		{"an empty finding touches nothing", values("key"), found(4, 4), true, false},
	} {
		if got := len(touching(text, c.spans, c.found)) > 0; got != c.touched {
			t.Errorf("%s: touched is %v", c.name, got)
		}
		if got := covered(text, c.spans, c.found); got != c.whole {
			t.Errorf("%s: covered is %v", c.name, got)
		}
	}
}

func TestReadRow(t *testing.T) {
	for _, c := range []struct {
		line, fails string
		left        bool
		want        labelled
	}{
		{line: `{"id":"1","text":"t","secret":true,"rule":"r","group_half":"dev","spans":["t"]}`, want: labelled{id: "1", text: "t", positive: true, rule: "r", half: "dev", label: "T", spans: values("t")}},
		{line: `{"text":"t","secret":true,"label":"F"}`, want: labelled{text: "t", label: "F"}},
		{line: `{"text":"t","secret":false,"label":"T"}`, want: labelled{text: "t", positive: true, label: "T"}},
		{line: `{"text":"t","group":"g"}`, want: labelled{text: "t", group: "g"}},
		{line: `{"text":"t","group":[1]}`, want: labelled{text: "t", group: "[1]"}},
		{line: `{"text":"t","label":"X"}`, left: true},
		{line: `{"text":"é1","pii":true,"entity":"E","spans":[{"start":1,"end":2,"value":"1"}]}`, want: labelled{text: "é1", positive: true, rule: "E", entity: "E", label: "T", spans: []labelSpan{{value: "1", start: 2, end: 3}}}},
		{line: `{"text":"ab","pii":true,"source":"s","spans":[{"entity":"E","start":0,"end":1}]}`, want: labelled{text: "ab", positive: true, source: "s", label: "T", spans: []labelSpan{{entity: "E", start: 0, end: 1}}}},
		{line: `{"text":"t","injection":true,"source":"s"}`, want: labelled{text: "t", positive: true, rule: "s", source: "s", label: "T"}},
		{line: `{"text":"t","pii":false,"spans":null}`, want: labelled{text: "t", label: "F"}},
		{line: `{"text":""}`, want: labelled{}},
		{line: `{"id":"1"}`, fails: "no text"},
		{line: `{"text":1}`, fails: "cannot unmarshal"},
		{line: `{`, fails: "unexpected end"},
		{line: `{"text":"t","label":"Y"}`, fails: `label "Y"`},
		{line: `{"text":"t","spans":[1]}`, fails: "neither a string nor an object"},
		{line: `{"text":"t","spans":[{}]}`, fails: "neither start and end nor value"},
		{line: `{"text":"t","spans":[{"start":0,"end":2}]}`, fails: "does not fit"},
		{line: `{"text":"t","spans":[{"start":-1,"end":1}]}`, fails: "does not fit"},
		{line: `{"text":"ab","spans":[{"start":0,"end":1,"value":"b"}]}`, fails: "does not fit"},
	} {
		got, keep, err := readRow([]byte(c.line))
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want an error with %q", c.line, err, c.fails)
			}
		case err != nil || keep == c.left:
			t.Errorf("%s: keep %v, %v", c.line, keep, err)
		case keep && !reflect.DeepEqual(got, c.want):
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.line, got, c.want)
		}
	}
}

func FuzzReadRow(f *testing.F) {
	f.Add([]byte(`{"text":"é1","pii":true,"spans":[{"start":1,"end":2},"x"]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		row, _, err := readRow(line)
		if err != nil {
			return
		}
		for _, s := range row.spans {
			for _, at := range s.places(row.text) {
				if at[0] < 0 || at[0] > at[1] || at[1] > len(row.text) {
					t.Fatalf("a span at %v of %d bytes", at, len(row.text))
				}
			}
		}
	})
}

func TestKindsAndEntities(t *testing.T) {
	for _, c := range []struct {
		kind, entity string
		want         bool
	}{{"PII_US_SSN", "US_SSN", true}, {"PII_SSN", "US_SSN", true}, {"PII_EMAIL", "EMAIL_ADDRESS", true},
		{"PII_IBAN", "IBAN_CODE", true}, {"PII_EMAIL", "US_SSN", false}, {"PII_UK_NHS", "UK_NINO", false}} {
		if names(c.kind, c.entity) != c.want {
			t.Errorf("%s, %s: not %v", c.kind, c.entity, c.want)
		}
	}
}

func TestLeaveOutAndClasses(t *testing.T) {
	rows := []labelled{{rule: "API:UUID"}, {rule: "API"}, {rule: "UUIDs"}, {spans: []labelSpan{{entity: "PERSON"}}},
		{spans: []labelSpan{{entity: "PERSON"}, {entity: "IBAN"}}}, {}}
	left := leaveOut(rows, []string{"UUID", "PERSON"})
	if len(left) != 4 || left[0].rule != "API" || len(left[2].spans) != 1 || left[2].spans[0].entity != "IBAN" {
		t.Errorf("left: %+v", left)
	}
	if len(rows[4].spans) != 2 {
		t.Error("the rows that were handed in have changed")
	}
	got := ruleClasses(&labelled{spans: []labelSpan{{entity: "A"}, {entity: "B"}, {entity: "A"}}})
	if len(got) != 2 || got[0].name != "A" || len(got[0].spans) != 2 || len(got[1].spans) != 1 {
		t.Errorf("classes: %+v", got)
	}
}

// sampleSet writes a set of four rows: one secret that is found, one that is not, and two texts without any.
func sampleSet(t *testing.T, name string) string {
	token := sampleSecret()
	var lines bytes.Buffer
	for _, row := range []map[string]any{
		{"id": "1", "text": "token=" + token, "secret": true, "rule": "github", "spans": []string{token}, "group_half": "dev"},
		{"id": "2", "text": "the secret word is swordfish", "secret": true, "rule": "words", "spans": []string{"swordfish"}, "group_half": "held"},
		{"id": "3", "text": "nothing here", "secret": false, "rule": "words", "group_half": "held"},
		{"id": "4", "text": "who knows", "label": "X"},
		{"id": "5", "text": "nor here"},
	} {
		line, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	b := lines.Bytes()
	if strings.HasSuffix(name, ".gz") {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(b); err != nil || w.Close() != nil {
			t.Fatal("gzip")
		}
		b = z.Bytes()
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func runYett(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", cacheDir)
	var out, msgs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &out, &msgs)
	return code, out.String(), msgs.String()
}

func TestScannerEval(t *testing.T) {
	plain, zipped := sampleSet(t, "a.jsonl"), sampleSet(t, "b.jsonl.gz")
	eval := append([]string{"scanner", "eval", "--set", plain, "--set", zipped, "-o", "json", "--by", "rule"}, "--scanner",
		"secrets")
	code, out, msgs := runYett(t, eval...)
	var rep evalReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s %s", code, err, out, msgs)
	}
	if len(rep.Rows) != 16 {
		t.Fatalf("%d lines: %s", len(rep.Rows), out)
	}
	all := rep.Rows[0]
	if all.Set != "a.jsonl" || all.Count != 4 || all.Positive != 2 || all.Negative != 2 || *all.Recall != 0.5 ||
		*all.Whole != 0.5 || *all.FPR != 0 || all.Errors != 0 {
		t.Errorf("the whole set: %s", out)
	}
	if testkit.Quick() { // each run compiles the scanner
		return
	}
	if _, again, _ := runYett(t, eval...); again != out {
		t.Error("a second run prints something else")
	}
	if table := strings.Fields(must(runYett(t, "scanner", "eval", "--set", plain, "--scanner", "secrets"))); len(table) !=
		15+3*13 {
		t.Errorf("the table: %q", table)
	}
	file := filepath.Join(t.TempDir(), "s.wasm")
	module, _ := scanners.Builtin("secrets")
	if err := os.WriteFile(file, module, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, msgs := runYett(t, "scanner", "eval", "--set", plain, "--wasm", file); code != 0 ||
		!strings.Contains(out, "0.5000") {
		t.Errorf("--wasm: exit %d: %s %s", code, out, msgs)
	}
}

func must(_ int, out, _ string) string { return out }

func TestScannerEvalExitCodes(t *testing.T) {
	testkit.Slow(t, "runs whole sets")
	set := sampleSet(t, "a.jsonl")
	benign := filepath.Join(t.TempDir(), "benign.jsonl")
	broken := filepath.Join(t.TempDir(), "broken.jsonl")
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	for path, lines := range map[string]string{benign: "{\"text\":\"x\"}\n", broken: "{\"text\":\"x\"}\n{\"text\":\n",
		empty: "\n"} {
		if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--scanner secrets --set " + set + " --min-recall 0.5 --min-whole 0.5 --max-fpr 0", 0, ""},
		{"--scanner secrets --set " + set + " --min-recall 0.51", 1, "a.jsonl: recall 0.5000 is below 0.51"},
		{"--scanner secrets --set " + set + " --min-whole 0.51", 1, "whole-span recall 0.5000 is below 0.51"},
		{"--scanner secrets --set " + benign + " --max-fpr 0", 0, ""},
		{"--scanner secrets --set " + benign + " --min-recall 0.1", 1, "no set has a positive row"},
		{"--scanner secrets --set " + set + " --without words --max-fpr 0", 0, ""},
		{"--scanner secrets --set " + broken, 1, "broken.jsonl:2:"},
		{"--scanner secrets --set " + empty, 1, "no rows"},
		{"--scanner secrets --set " + set + "x", 1, "no such file"},
		{"--scanner secrets --set " + set + " --config {\"nothing\":1}", 1, "nothing"},
		{"--scanner secrets --set " + set + " --config []", 2, "object"},
		{"--scanner nobody --set " + set, 2, "nobody"},
		{"--scanner secrets --wasm x --set " + set, 2, "--scanner NAME"},
		{"--set " + set, 2, "--scanner NAME"},
		{"--scanner secrets", 2, "--set FILE"},
		{"--scanner secrets --set " + set + " --by line", 2, "must be one of set, source, rule, group, label"},
		{"--scanner secrets --set " + set + " --worst -1", 2, "must be 0 or more"},
		{"--scanner secrets --set " + set + " --by source --worst 3", 0, "a.jsonl: 4 of 4 rows have no source"},
		{"--scanner secrets --set " + set + " --max-fpr 2", 2, "want 0 to 1"},
		{"--scanner secrets --set " + set + " --min-recall NaN", 2, "want 0 to 1"},
		{"--scanner secrets --set " + set + " -o xml", 2, "xml"},
	} {
		code, _, msgs := runYett(t, append([]string{"scanner", "eval"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(msgs, c.says) {
			t.Errorf("%s: exit %d, want %d, and %q in %q", c.args, code, c.code, c.says, msgs)
		}
	}
}

// TestEvalErrorsCount: a scan that fails makes no figure better, and the exit code says so.
func TestEvalErrorsCount(t *testing.T) {
	testkit.Long(t, "it compiles a scanner")
	code, _ := scanners.Builtin("secrets")
	pair, err := loadPair(context.Background(), "secrets", code, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	rows := []labelled{{line: 1, text: strings.Repeat("x", 65<<20), positive: true},
		{line: 2, text: strings.Repeat("x", 65<<20)}, {line: 3, text: "x"}}
	var rep evalReport
	f := &evalFlags{maxFPR: 1}
	if err := rep.measure(context.Background(), "set", rows, pair, f); err != nil {
		t.Fatal(err)
	}
	if err := pair.close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(rep.Rows) != 1 || rep.Rows[0].Errors != 2 || *rep.Rows[0].Recall != 0 || *rep.Rows[0].FPR != 0.5 ||
		len(rep.Failed) != 2 || rep.Failed[1].Line != 2 {
		t.Errorf("%+v", rep)
	}
	if err := f.judge(&rep); err == nil || cli.CodeFor(err) != cli.ExitFailure ||
		!strings.Contains(err.Error(), "2 rows could not be scanned") {
		t.Errorf("judged %v", err)
	}
}

// TestInstancesAreCompared gives the second instance another config, as a stand-in for one that remembers.
func TestInstancesAreCompared(t *testing.T) {
	testkit.Long(t, "it compiles a scanner")
	code, _ := scanners.Builtin("secrets")
	pair, err := loadPair(context.Background(), "secrets", code, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	other, err := loadPair(context.Background(), "secrets", code, json.RawMessage(`{"disable":["SECRET_GITHUB_PAT"]}`),
		false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(pair.close(context.Background()), other.close(context.Background())); err != nil {
			t.Error(err)
		}
	}()
	pair.second = other.first
	_, errs := pair.scan(context.Background(), []labelled{{text: "x"}, {text: "token=" + sampleSecret()}})
	if errs[0] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(),
		"two instances gave different findings, with the pass for triggers ") {
		t.Errorf("%v", errs)
	}
}
