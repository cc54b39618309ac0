package admin

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/log"
)

// exported is an export of n records.
func exported(t *testing.T, n int) []byte {
	t.Helper()
	s, err := log.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)), "sto_TEST")
	if err != nil {
		t.Fatal(err)
	}
	var tree log.Tree
	var records []byte
	for i := range n {
		rec := []byte(`{"v":1,"seq":` + string(rune('1'+i)) +
			`,"store_id":"sto_TEST","timestamp":"2026-03-04T05:06:07.000000000Z","type":"news"}`)
		tree.Append(rec, nil)
		records = append(append(records, rec...), '\n')
	}
	head, err := s.Header(1, uint64(n), tree.Root(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return append(append(head, '\n'), records...)
}

// A server that does not know ranges gives everything: that is not passed on as the range.
func TestServerWithoutRanges(t *testing.T) {
	whole := exported(t, 3)
	for _, c := range []struct {
		asked log.Range
		ok    bool
	}{{log.Range{}, true}, {log.Range{From: 1, To: 3}, true}, {log.Range{From: 2}, false}, {log.Range{To: 2}, false}} {
		for _, step := range []int{1, 7, len(whole)} {
			e := export{asked: c.asked, format: jsonl}
			var out bytes.Buffer
			w := &headed{Writer: &out, begin: e.begin}
			var err error
			for at := 0; at < len(whole) && err == nil; at += step {
				_, err = w.Write(whole[at:min(at+step, len(whole))])
			}
			if c.ok && (err != nil || !bytes.Equal(out.Bytes(), whole) || e.written != (log.Range{From: 1, To: 3})) {
				t.Errorf("%+v in pieces of %d: %v, %+v", c.asked, step, err, e.written)
			}
			if !c.ok && (err == nil || !strings.Contains(err.Error(), "restart it with this version") || out.Len() > 0) {
				t.Errorf("%+v in pieces of %d: %v, and %q is written", c.asked, step, err, out.Bytes())
			}
		}
		e := export{asked: c.asked, format: "csv"}
		var out bytes.Buffer
		err := e.convert(bytes.NewReader(whole), &out, log.VerifyOptions{Begin: e.begin})
		if (err == nil) != c.ok || c.ok && strings.Count(out.String(), "\r\n") != 4 || !c.ok && out.Len() > 0 {
			t.Errorf("%+v as CSV: %v: %q", c.asked, err, out.String())
		}
	}
}

// What was converted in front of an error is written, so that it can be gone on from; its cause is told.
func TestConvertUntilItBreaks(t *testing.T) {
	whole := bytes.Replace(exported(t, 3), []byte(`"seq":3`), []byte(`"seq":4`), 1)
	e := export{format: "csv"}
	var out bytes.Buffer
	err := e.convert(bytes.NewReader(whole), &out, log.VerifyOptions{Begin: e.begin})
	if fault, ok := errors.AsType[*log.Fault](err); !ok || fault.Seq != 3 || fault.Line != 4 {
		t.Errorf("got %v", err)
	}
	if n := strings.Count(out.String(), "\r\n"); n != 3 {
		t.Errorf("%d lines, want a head and two records", n)
	}
	if len(e.unknown) != 1 || e.unknown[0] != "news" {
		t.Errorf("unknown types: %q", e.unknown)
	}
	full := errors.New("no room")
	err = e.convert(bytes.NewReader(exported(t, 3)), broken{full}, log.VerifyOptions{Begin: e.begin})
	if !errors.Is(err, full) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }
