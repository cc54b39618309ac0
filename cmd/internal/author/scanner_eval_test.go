package author

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// evalRows are two sets and what a scanner has found in them. No module is needed to count.
func evalRows(t *testing.T) (sets [][]labelled, found [][][]sdk.Finding, errs [][]error) {
	t.Helper()
	at := func(kind string, start, end int) sdk.Finding { return sdk.Finding{Kind: kind, Start: start, End: end} }
	for _, set := range [][]struct {
		line  string
		found []sdk.Finding
		err   error
	}{
		{
			{line: `{"text":"pass hunter2","secret":true,"rule":"password","source":"a","group":"g1","spans":["hunter2"]}`},
			{line: `{"text":"pass hunter3","secret":true,"rule":"password","source":"a","group":"g2","spans":["hunter3"]}`,
				found: []sdk.Finding{at("SECRET_GENERIC", 0, 4)}},
			{line: `{"text":"pass hunter4","secret":true,"rule":"password","source":"b","group":"g2","spans":["hunter4"]}`,
				found: []sdk.Finding{at("SECRET_GENERIC", 5, 12)}},
			{line: `{"text":"sample","secret":false,"rule":"password","source":"b","group":"g1","group_half":"held"}`,
				found: []sdk.Finding{at("SECRET_GENERIC", 0, 6), at("SECRET_GENERIC", 2, 4)}},
			{line: `{"text":"token abc","secret":true,"rule":"token","source":"b","group":7,"spans":["abc"]}`,
				err: errors.New("out of fuel")},
			{line: `{"text":"nothing","secret":false,"rule":"quiet","source":"b","group":"g1"}`},
			{line: `{"text":"who said that"}`, found: []sdk.Finding{at("SECRET_URL", 0, 3)}},
		}, {
			{line: `{"text":"call 030 123","pii":true,"entity":"PHONE","spans":[{"start":5,"end":12}]}`,
				found: []sdk.Finding{at("PII_US_SSN", 5, 12)}},
			{line: `{"text":"dial 030 124","pii":true,"entity":"PHONE","spans":[{"start":5,"end":12}]}`,
				found: []sdk.Finding{at("PII_PHONE", 5, 12)}},
			{line: `{"text":"order 55","pii":false,"entity":"PHONE"}`, found: []sdk.Finding{at("PII_AGE", 6, 8)}},
			{line: `{"text":"order 030 125","pii":false,"entity":"PHONE"}`, found: []sdk.Finding{at("PII_PHONE", 6, 13)}},
			{line: `{"text":"a@b.example 44","label":"T","spans":[{"entity":"EMAIL","start":0,"end":11},` +
				`{"entity":"AGE","start":12,"end":14}]}`, found: []sdk.Finding{at("PII_EMAIL", 0, 11)}},
		},
	} {
		var rows []labelled
		var f [][]sdk.Finding
		var e []error
		for i, c := range set {
			row, keep, err := readRow([]byte(c.line))
			if err != nil || !keep {
				t.Fatalf("%s: %v", c.line, err)
			}
			row.line = i + 1
			rows, f, e = append(rows, row), append(f, c.found), append(e, c.err)
		}
		sets, found, errs = append(sets, rows), append(found, f), append(errs, e)
	}
	return sets, found, errs
}

// evalOutput is what `scanner eval` prints of evalRows: its report, and what it says beside it.
func evalOutput(t *testing.T, by, format string, worst int) string {
	t.Helper()
	f := &evalFlags{by: by, worst: worst}
	f.out.Format = format
	rep := &evalReport{Scanner: "sample", Version: "1.0.0", Digest: "sha256:00", By: by}
	sets, found, errs := evalRows(t)
	for i, name := range []string{"secrets.jsonl", "pii.jsonl"} {
		rep.count(name, sets[i], found[i], errs[i], f)
	}
	rep.rank(worst)
	var out, msgs bytes.Buffer
	if err := f.print(&out, &msgs, rep); err != nil {
		t.Fatal(err)
	}
	return out.String() + "stderr:\n" + msgs.String()
}

// The tables and the data by each field, with rows that lack it, and the listing of the worst rules, are as in
// testdata/eval.
func TestEvalOutput(t *testing.T) {
	for _, c := range []struct {
		by, format string
		worst      int
	}{
		{"", "table", 0}, {"set", "table", 9}, {"source", "table", 0}, {"rule", "table", 2}, {"group", "table", 0},
		{"label", "table", 0}, {"label", "json", 0}, {"rule", "json", 3},
	} {
		name := strings.Trim(c.by+"-"+c.format, "-")
		t.Run(name, func(t *testing.T) {
			got := evalOutput(t, c.by, c.format, c.worst)
			compareGolden(t, name, got)
			if again := evalOutput(t, c.by, c.format, c.worst); again != got {
				t.Errorf("a second run prints something else:\n%s", again)
			}
		})
	}
}

func TestEvalHelp(t *testing.T) {
	code, out, msgs := runYett(t, "scanner", "eval", "--help")
	if code != 0 || msgs != "" {
		t.Fatalf("exit %d: %s", code, msgs)
	}
	compareGolden(t, "help", out)
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "eval", name+".txt")
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s has changed: run GOLDEN=write go test and read the difference (%v)\ngot:\n%s", path, err, got)
	}
}

// A report without errors says so, instead of an empty table.
func TestEvalWithoutErrors(t *testing.T) {
	f := &evalFlags{worst: 5}
	f.out.Format = "table"
	rep := &evalReport{}
	rep.count("set", []labelled{{text: "x", rule: "r"}}, make([][]sdk.Finding, 1), make([]error, 1), f)
	rep.rank(f.worst)
	var out, msgs bytes.Buffer
	if err := f.print(&out, &msgs, rep); err != nil || msgs.Len() > 0 ||
		!strings.HasSuffix(out.String(), "\nNo rule has a miss or a false alarm.\n") {
		t.Errorf("%v: %s%s", err, out.String(), msgs.String())
	}
}
