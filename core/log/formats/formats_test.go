package formats_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/log/formats"
	"github.com/yett-dev/yett/core/store"
)

// records has at least one record of each type, one a line.
func records(t testing.TB) [][]byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

func convert(t testing.TB, format string, lines ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := formats.New(format, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if err := w.Record(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if u := w.Unknown(); len(u) > 0 {
		t.Errorf("unknown types: %q", u)
	}
	return out.Bytes()
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs: what reads it elsewhere was made for it.\n got %s\nwant %s", path, got, want)
	}
}

func TestFormatsAreGolden(t *testing.T) {
	for _, format := range formats.Names {
		golden(t, "records."+format+".golden", convert(t, format, records(t)...))
	}
}

// Every type of record that the store writes means something in every format, and is in the golden files.
func TestEveryTypeIsMapped(t *testing.T) {
	var have []string
	for _, line := range records(t) {
		var r struct{ Type string }
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		have = append(have, r.Type)
	}
	for _, typ := range store.RecordTypes {
		if !slices.Contains(have, typ) {
			t.Errorf("testdata/records.jsonl has no record of type %s: add one as core/store writes it, and a row in kinds", typ)
		}
		if !slices.Contains(formats.Types(), typ) {
			t.Errorf("kinds has no row for records of type %s: add one", typ)
		}
	}
	for _, typ := range formats.Types() {
		if !slices.Contains(store.RecordTypes, typ) {
			t.Errorf("kinds has a row for records of type %s, which core/store does not write: remove it", typ)
		}
	}
}

// A record of a newer version is written with what every record has, and named to whoever converts.
func TestUnknownType(t *testing.T) {
	line := []byte(`{"v":1,"seq":7,"store_id":"sto_TEST","timestamp":"2026-03-04T05:06:07.000000089Z","type":"to=co|me","x":1}`)
	for format, want := range map[string]string{
		"csv":  `7,2026-03-04T05:06:07.000000089Z,sto_TEST,to=co|me,,`,
		"cef":  `CEF:0|Yett|Yett|1|to=co\|me|Record of an unknown type|0|rt=1772600767000 externalId=7 deviceExternalId=sto_TEST`,
		"ocsf": `"class_uid":0,"class_name":"Base Event"`,
	} {
		var out bytes.Buffer
		w, err := formats.New(format, &out)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.Record(line); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(out.String(), want) || !slices.Equal(w.Unknown(), []string{"to=co|me"}) {
			t.Errorf("%s: %q, want %q; unknown: %q", format, out.String(), want, w.Unknown())
		}
	}
}

func TestWhatIsNoRecordIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"":     "cannot be parsed",
		"{}":   "seq must be a number from 1",
		"null": "cannot be parsed",
		`{"v":1,"seq":1,"store_id":"s","timestamp":"2026-03-04T05:06:07Z","type":"kill","x":y}`:        "cannot be parsed",
		`{"v":1,"seq":1,"store_id":"s","timestamp":"2026-03-04T05:06:07Z","type":"kill","x":` + "\n1}": "cannot be parsed",
		"{\"v\":1,\"seq\":1,\"store_id\":\"s\",\"type\":\"\xff\"}":                                     "cannot be parsed",
		`{"v":1,"seq":0,"store_id":"s","timestamp":"2026-03-04T05:06:07Z","type":"kill"}`:              "seq must be",
		`{"v":1,"seq":1,"store_id":"","timestamp":"2026-03-04T05:06:07Z","type":"kill"}`:               "store_id and type",
		`{"v":1,"seq":1,"store_id":"s","timestamp":"2026-03-04T05:06:07Z"}`:                            "store_id and type",
		`{"v":1,"seq":1,"store_id":"s","timestamp":"yesterday","type":"kill"}`:                         "timestamp must be",
		`{"v":1,"seq":1,"store_id":"s","timestamp":"2026-03-04T05:06:07Z","type":"scan","findings":1}`: "findings",
	} {
		for _, format := range formats.Names {
			var out bytes.Buffer
			w, err := formats.New(format, &out)
			if err != nil {
				t.Fatal(err)
			}
			before := out.Len()
			if err := w.Record([]byte(line)); err == nil || !strings.Contains(err.Error(), want) || out.Len() != before {
				t.Errorf("%s: %q: got %v, want %s", format, line, err, want)
			}
		}
	}
	if _, err := formats.New("xml", io.Discard); err == nil || !strings.Contains(err.Error(), "csv, cef, ocsf") {
		t.Errorf("an unknown format: %v", err)
	}
	full := errors.New("no room")
	if _, err := formats.New("csv", failing{full}); !errors.Is(err, full) {
		t.Errorf("a head that cannot be written: %v", err)
	}
	w, err := formats.New("cef", failing{full})
	if err == nil {
		err = w.Record(records(t)[0])
	}
	if !errors.Is(err, full) {
		t.Errorf("a record that cannot be written: %v", err)
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

// The CSV is read by somebody else's reader: a line is a record, no cell begins as a formula does, and the last one is
// the record byte for byte.
func TestCSV(t *testing.T) {
	lines := records(t)
	out := convert(t, "csv", lines...)
	if n := bytes.Count(out, []byte("\n")); n != len(lines)+1 || n != bytes.Count(out, []byte("\r\n")) {
		t.Errorf("%d line breaks for %d records and a head", n, len(lines))
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	guarded := 0
	for i, row := range rows[1:] {
		if row[len(row)-1] != string(lines[i]) {
			t.Errorf("the record is %s, want %s", row[len(row)-1], lines[i])
		}
		for j, cell := range row {
			if cell != "" && strings.ContainsRune("=+-@\t\r\n", rune(cell[0])) {
				t.Errorf("record %d, %s: %q begins as a formula does", i+1, rows[0][j], cell)
			}
			if strings.HasPrefix(cell, "'") {
				guarded++
			}
		}
	}
	if guarded < 4 {
		t.Errorf("the fixture has %d cells that a spreadsheet would run, want one for each character", guarded)
	}
}

func TestCSVCells(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "": "", "a,b": `"a,b"`, `say "x"`: `"say ""x"""`, "a;b": `"a;b"`, " a": `" a"`,
		"=1+1": `"'=1+1"`, "+1": `"'+1"`, "-1": `"'-1"`, "@x": `"'@x"`, "\tx": `"'\tx"`, "\rx": `"'\rx"`, "\nx": `"'\nx"`,
		" =1": `"' =1"`, "＝1": `"'＝1"`, "＋1": `"'＋1"`, "－1": `"'－1"`, "＠1": `"'＠1"`,
		"a\x00\x1fb": `a\u0000\u001fb`, "1-1": "1-1", "é": "é", "'": `"'"`,
	} {
		if got := string(formats.CSVCell(nil, in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}
