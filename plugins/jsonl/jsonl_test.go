package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk/plugin"
)

func consume(t *testing.T, s *sink, batches ...*plugin.Batch) {
	t.Helper()
	for _, b := range batches {
		if err := s.consume(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// seqs shows each line as its seq, or as type:first-last.
func seqs(t *testing.T, path string) string {
	t.Helper()
	var out []string
	for _, l := range lines(t, path) {
		var m struct {
			marker
			Seq uint64 `json:"seq"`
		}
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		if m.Seq > 0 {
			out = append(out, fmt.Sprint(m.Seq))
		} else {
			out = append(out, fmt.Sprintf("%s:%d-%d", m.Type, m.First, m.Last))
		}
	}
	return strings.Join(out, " ")
}

func TestDuplicates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := open(t, osDisk{}, path, "")
	consume(t, s, batch(1, 3), batch(2, 5))
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, osDisk{}, path, "")
	consume(t, s, batch(4, 7))
	other := batch(1, 2)
	other.StoreID = "sto_OTHER"
	for i := range other.Records {
		other.Records[i].JSON = json.RawMessage(strings.ReplaceAll(string(other.Records[i].JSON), store, other.StoreID))
	}
	consume(t, s, other)
	if got, want := seqs(t, path), "1 2 3 4 5 6 7 1 2"; got != want {
		t.Errorf("lines %s, want %s", got, want)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

func TestGapAndReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := open(t, osDisk{}, path, `, "completeness": "leaves"`)
	b := batch(1, 9)
	b.Records = b.Records[5:]
	b.Gap = &plugin.Gap{First: 1, Last: 4, Reason: "retention"}
	consume(t, s, b, b)
	if got, want := seqs(t, path), "yett_gap:1-4 6 7 8 9"; got != want {
		t.Errorf("lines %s, want %s", got, want)
	}
	again, more := batch(7, 8), batch(9, 9)
	again.Replay, more.Replay = true, true
	consume(t, s, again, more, batch(10, 10))
	if got, want := seqs(t, path), "yett_gap:1-4 6 7 8 9 yett_replay:7-0 7 8 9 10"; got != want {
		t.Errorf("lines %s, want %s", got, want)
	}
	roots := lines(t, filepath.Join(filepath.Dir(path), "audit.roots.jsonl"))
	if len(roots) != 4 || !strings.Contains(roots[0], `"tree_root":"09000000`) ||
		!strings.Contains(roots[0], `{"seq":6,"hash":"0600`) {
		t.Errorf("roots: %q", roots)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// The end of a file is looked at before anything is added.
func TestTail(t *testing.T) {
	whole := string(record(1).JSON) + "\n"
	for _, tc := range []struct{ name, before, want, err string }{
		{"torn", whole + `{"seq":2,"store_`, "1 2 3", ""},
		{"torn in the first line", `{"v":1,"seq":1,"st`, "1 2 3", ""},
		{"whole but without its newline", strings.TrimSuffix(whole, "\n"), "1 2 3", ""},
		{"zeros after a power cut", whole + strings.Repeat("\x00", 5000), "1 2 3", ""},
		{"zeros only", strings.Repeat("\x00", 100), "1 2 3", ""},
		{"a line of somebody else", whole + "{}\n", "1 :0-0 2 3", ""},
		{"another program's file", "Nov 21 kernel: boot\n", "", "not one of this plugin"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			if err := os.WriteFile(path, []byte(tc.before), 0o644); err != nil {
				t.Fatal(err)
			}
			s := open(t, osDisk{}, path, `, "retry_for": "0s"`)
			err := s.consume(context.Background(), batch(1, 3))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				if now, _ := os.ReadFile(path); string(now) != tc.before {
					t.Fatal("the file was changed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := seqs(t, path); got != tc.want {
				t.Errorf("lines %s, want %s", got, tc.want)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
			}
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	for _, name := range []string{"audit.7.jsonl", "audit.000x.jsonl", "audit.jsonl.gz", "other.000001.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, osDisk{}, path, `, "max_bytes": 4096, "max_files": 2`)
	for seq := uint64(1); seq <= 60; seq++ {
		consume(t, s, batch(seq, seq))
	}
	files, err := s.records.rotated()
	if err != nil || len(files) != 2 || files[1].number != files[0].number+1 || files[0].number < 3 {
		t.Fatalf("rotated files %v, %v, want the newest two of more", files, err)
	}
	for _, name := range []string{"audit.7.jsonl", "audit.000x.jsonl", "audit.jsonl.gz", "other.000001.jsonl"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("a file of somebody else is gone: %v", err)
		}
	}
	for _, f := range files {
		if info, err := os.Stat(filepath.Join(dir, f.name)); err != nil || info.Size() > 4096 {
			t.Errorf("%s has %d bytes, at most 4096: %v", f.name, info.Size(), err)
		}
	}
	got := lines(t, path)
	var last struct{ Seq uint64 }
	if err := json.Unmarshal([]byte(got[len(got)-1]), &last); err != nil || last.Seq != 60 {
		t.Errorf("last line %s", got[len(got)-1])
	}
	s.records.maxAge = time.Minute
	s.now = nil
	s.records.now = func() time.Time { return time.Now().Add(time.Hour) }
	s.records.trim()
	if files, _ := s.records.rotated(); len(files) != 0 {
		t.Errorf("%d files are left that are too old", len(files))
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// What max_age ends goes also while so little is written that nothing is rotated.
func TestOldFilesGo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	s := open(t, osDisk{}, path, `, "max_age": "1h", "completeness": "roots"`)
	now := time.Now()
	s.now = func() time.Time { return now }
	s.records.now, s.roots.now = s.now, s.now
	for _, name := range []string{"audit.000001.jsonl", "audit.roots.000001.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func() int {
		one, err := s.records.rotated()
		if err != nil {
			t.Fatal(err)
		}
		two, err := s.roots.rotated()
		if err != nil {
			t.Fatal(err)
		}
		return len(one) + len(two)
	}
	consume(t, s, batch(1, 1))
	if left() != 2 {
		t.Errorf("%d files are left, want both: they are new", left())
	}
	now = now.Add(2 * time.Hour)
	consume(t, s, batch(2, 2))
	if left() != 0 {
		t.Errorf("%d files are left that are too old", left())
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// A log that was put back to an older copy gives numbers again to other records: none of them is dropped as a
// duplicate.
func TestOlderCopyOfTheLog(t *testing.T) {
	made := func(first, last uint64, minute int) *plugin.Batch {
		b := batch(first, last)
		for i := range b.Records {
			text := fmt.Sprintf(`{"seq":%d,"store_id":%q,"timestamp":"2026-01-01T12:%02d:%02d.5Z"}`, b.Records[i].Seq, store,
				minute, b.Records[i].Seq)
			b.Records[i].JSON = json.RawMessage(text)
		}
		return b
	}
	for _, restart := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		s := open(t, osDisk{}, path, `, "completeness": "roots"`)
		again := func() {
			if !restart {
				return
			}
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, osDisk{}, path, `, "completeness": "roots"`)
		}
		consume(t, s, made(1, 3, 0), made(4, 9, 0))
		again()
		consume(t, s, made(4, 9, 0)) // the same records: duplicates
		again()
		consume(t, s, made(4, 5, 30), made(6, 7, 30))
		again()
		consume(t, s, made(6, 10, 30))
		if got := seqs(t, path); got != "1 2 3 4 5 6 7 8 9 yett_replay:4-0 4 5 6 7 8 9 10" {
			t.Errorf("restarts %v: %s", restart, got)
		}
		if got := seqs(t, strings.Replace(path, ".jsonl", ".roots.jsonl", 1)); got !=
			"yett_root:1-3 yett_root:4-9 yett_root:4-5 yett_root:6-7 yett_root:6-10" {
			t.Errorf("restarts %v: roots %s", restart, got)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadRecords(t *testing.T) {
	for _, tc := range []struct{ name, text, err string }{
		{"a list", `[1]`, "no JSON object"},
		{"null", `null`, "no JSON object"},
		{"nothing", ``, "no JSON object"},
		{"another seq", `{"seq":9,"store_id":"sto_TEST"}`, "not that of its place"},
		{"another store", `{"seq":3,"store_id":"sto_X"}`, "not that of its place"},
		{"too long", `{"seq":3,"x":"` + strings.Repeat("x", maxRecord) + `"}`, "at most"},
	} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		s := open(t, osDisk{}, path, "")
		b := batch(1, 4)
		b.Records[2].JSON = json.RawMessage(tc.text)
		var bad *plugin.RecordError
		if err := s.consume(context.Background(), b); !errors.As(err, &bad) || bad.Seq != 3 ||
			!strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: error %v, want one about record 3: %s", tc.name, err, tc.err)
		}
		if got := seqs(t, path); got != "1 2" {
			t.Errorf("%s: lines %s, want those before it", tc.name, got)
		}
		consume(t, s, batch(4, 4)) // the host leaves it out
		if got := seqs(t, path); got != "1 2 4" {
			t.Errorf("%s: lines %s", tc.name, got)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	spread := record(1)
	spread.JSON = json.RawMessage("{\n \"seq\": 1,\r\n \"x\": 1.50}")
	if text, _, err := recordLine(store, &spread); err != nil || string(text) != `{"seq":1,"x":1.50}`+"\n" {
		t.Errorf("a record over several lines becomes %q, %v", text, err)
	}
	disordered := batch(1, 3)
	slices.Reverse(disordered.Records)
	s := open(t, osDisk{}, filepath.Join(t.TempDir(), "a.jsonl"), "")
	if err := s.consume(context.Background(), disordered); err == nil {
		t.Error("a batch out of order was taken, and two records dropped")
	}
}

// Two processes never write the same file: at a reload the new one waits for the old one's end.
func TestSecondProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	before, after := open(t, osDisk{}, path, ""), open(t, osDisk{}, path, `, "retry_for": "0s"`)
	consume(t, before, batch(1, 2))
	if err := after.consume(context.Background(), batch(3, 4)); err == nil ||
		!strings.Contains(err.Error(), "another process") {
		t.Fatalf("the second writer: %v", err)
	}
	consume(t, before, batch(3, 3))
	if err := before.close(); err != nil {
		t.Fatal(err)
	}
	consume(t, after, batch(3, 4))
	if got := seqs(t, path); got != "1 2 3 4" {
		t.Errorf("lines %s", got)
	}
	if err := before.consume(context.Background(), batch(5, 5)); err == nil {
		t.Error("a closed sink took a batch")
	}
	if err := after.close(); err != nil {
		t.Fatal(err)
	}
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct{ config, err string }{
		{`{"path": "a.jsonl"}`, ""},
		{`{}`, "/path: must name a file"},
		{`{"path": "/var/log/"}`, "/path: must name a file"},
		{`{"path": "a", "mode": "0644"}`, "/mode: must be 0600 or 0640"},
		{`{"path": "a", "max_bytes": 10}`, "/max_bytes"},
		{`{"path": "a", "max_files": -1}`, "/max_files"},
		{`{"path": "a", "max_age": "1d"}`, "/max_age"},
		{`{"path": "a", "completeness": "all"}`, "/completeness"},
		{`{"path": "a", "retry_for": "1m"}`, "/retry_for"},
		{`{"path": "a", "paths": "b"}`, "unknown"},
	} {
		_, err := read(plugin.Settings{Config: json.RawMessage(tc.config)})
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, want %q", tc.config, err, tc.err)
		}
	}
	if err := newSink().configure(plugin.Settings{Config: json.RawMessage(`{"path": "/nowhere-at-all/a.jsonl"}`)}); err ==
		nil {
		t.Error("a folder that is not there was taken")
	}
}

// What is read back at a start may have been written by anybody.
func FuzzTail(f *testing.F) {
	f.Add([]byte("{\"seq\":1,\"store_id\":\"s\"}\n{\"se"))
	f.Add([]byte("{}\n\n\n\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := readTail(strings.NewReader(string(text)), int64(len(text)))
		if err != nil {
			return
		}
		if got.whole > int64(len(text)) || got.whole > 0 && text[got.whole-1] != '\n' ||
			strings.Contains(string(text[got.whole:]), "\n") {
			t.Errorf("%q: %d bytes are whole lines", text, got.whole)
		}
	})
}
