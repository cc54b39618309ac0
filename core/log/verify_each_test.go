package log_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/yett-dev/yett/core/log"
)

// Who reads along is told the header first, then each record in its place, and can end it.
func TestVerifyTells(t *testing.T) {
	b := newBook(t, 7).fill(9).trim(4)
	lines := b.export()
	var head *log.Header
	var got [][]byte
	o := log.VerifyOptions{Keys: b.keys(),
		Begin: func(h *log.Header) error {
			head = h
			return nil
		},
		Each: func(seq uint64, rec []byte) error {
			if head == nil || seq != head.FromSeq+uint64(len(got)) {
				t.Errorf("record %d is told behind %d others; the header: %v", seq, len(got), head)
			}
			got = append(got, append(bytes.Clone(rec), '\n'))
			return nil
		}}
	if _, err := check(lines, o); err != nil || !bytes.Equal(bytes.Join(got, nil), bytes.Join(lines[1:], nil)) {
		t.Errorf("%v: got %q", err, got)
	}
	enough := errors.New("enough")
	for _, o := range []log.VerifyOptions{{Begin: func(*log.Header) error { return enough }},
		{Each: func(uint64, []byte) error { return enough }}} {
		if _, err := check(lines, o); !errors.Is(err, enough) {
			t.Errorf("got %v", err)
		}
	}
	o = log.VerifyOptions{Begin: func(*log.Header) error {
		t.Error("a header that is not signed is told")
		return nil
	}}
	other := newBook(t, 8).keys()
	o.Keys = other
	if _, err := check(lines, o); !log.IsFault(err) {
		t.Errorf("another key: %v", err)
	}
}

// A fault names its line: that of the record, of the one that is missing, or of the header.
func TestFaultNamesItsLine(t *testing.T) {
	b := newBook(t, 7).fill(9).trim(4)
	for name, c := range map[string]struct {
		change func(lines [][]byte) [][]byte
		line   uint64
	}{
		"header":  {func(l [][]byte) [][]byte { l[0] = []byte("{}\n"); return l }, 1},
		"first":   {func(l [][]byte) [][]byte { l[1] = bytes.Replace(l[1], []byte("PERMIT"), []byte("DENIED"), 1); return l }, 2},
		"fourth":  {func(l [][]byte) [][]byte { l[4] = []byte("x\n"); return l }, 5},
		"missing": {func(l [][]byte) [][]byte { return l[:6] }, 7},
		"more":    {func(l [][]byte) [][]byte { return append(l, l[1]) }, 8},
	} {
		_, err := check(c.change(b.export()), log.VerifyOptions{Keys: b.keys()})
		if fault, ok := errors.AsType[*log.Fault](err); !ok || fault.Line != c.line {
			t.Errorf("%s: %#v, want line %d", name, err, c.line)
		}
	}
}
