package formats_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/log/formats"
)

// FuzzRecord: whatever a line is, it is refused, or every format makes one line of it that its readers take.
func FuzzRecord(f *testing.F) {
	for _, line := range records(f) {
		f.Add(line)
	}
	schema := ocsfSchema(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		var outs [3]bytes.Buffer
		for i, format := range formats.Names {
			w, err := formats.New(format, &outs[i])
			if err != nil {
				t.Fatal(err)
			}
			outs[i].Reset()
			if err := w.Record(line); err != nil {
				return
			}
			if n := bytes.Count(outs[i].Bytes(), []byte("\n")); n != 1 {
				t.Fatalf("%s: %d lines", format, n)
			}
		}
		if len(bytes.TrimSpace(line)) != len(line) || bytes.ContainsAny(line, "\r\n\t") {
			t.Fatal("a line with white space was taken")
		}
		rows, err := csv.NewReader(&outs[0]).ReadAll()
		if err != nil || len(rows) != 1 || rows[0][len(rows[0])-1] != string(line) {
			t.Fatalf("csv: %v: %q", err, rows)
		}
		e, err := readCEF(strings.TrimSuffix(outs[1].String(), "\n"))
		if err != nil || e.ext["externalId"] == "" {
			t.Fatalf("cef: %v: %s", err, outs[1].String())
		}
		var event struct {
			Raw string `json:"raw_data"`
		}
		if err := json.Unmarshal(outs[2].Bytes(), &event); err != nil || event.Raw != string(line) {
			t.Fatalf("ocsf: %v: %s", err, outs[2].String())
		}
		if err := schema.check(bytes.TrimSuffix(outs[2].Bytes(), []byte("\n"))); err != nil {
			t.Fatalf("ocsf: %v: %s", err, outs[2].String())
		}
	})
}
