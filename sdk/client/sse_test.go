package client

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func sseAll(r io.Reader) (out []string, err error) {
	s := newSSEReader(r, "", func() {})
	for {
		e, err := s.next()
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprintf("%s|%s", e.id, e.data))
	}
}

func TestSSE(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"one", "id: 1\ndata: a\n\n", []string{"1|a"}},
		{"CRLF", "id: 1\r\ndata: a\r\n\r\n", []string{"1|a"}},
		{"CRLF in an event", "data: a\r\ndata: b\r\n\r\n", []string{"|a\nb"}},
		{"CR", "id: 1\rdata: a\r\r", []string{"1|a"}},
		{"mixed ends", "data: a\r\n\ndata: b\r\rdata: c\n\r", []string{"|a", "|b", "|c"}},
		{"lines are joined", "data: a\ndata:b\ndata:  c\ndata\n\n", []string{"|a\nb\n c\n"}},
		{"the id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []string{"1|a", "1|b", "|c"}},
		{"an id without an event", "id: 4\n\ndata: b\n\n", []string{"4|b"}},
		{"NUL in an id", "id: 1\x002\ndata: a\n\n", []string{"|a"}},
		{"comments, unknown fields, retry", ": ping\nretry: 9\nevent: x\nfoo: bar\ndata: a\n\n:\n\n", []string{"|a"}},
		{"a mark at the beginning", "\uFEFFdata: a\n\n\uFEFFdata: b\n\n", []string{"|a"}},
		{"not ended", "data: a\n\ndata: b\n", []string{"|a"}},
		{"cut in a line", "data: a\n\ndata: b", []string{"|a"}},
		{"nothing", "", nil},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(c.in),
			"byte for byte": iotest.OneByteReader(strings.NewReader(c.in))} {
			got, err := sseAll(r)
			if !slices.Equal(got, c.want) || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %s: %q, want %q (%v)", c.name, name, got, c.want, err)
			}
		}
	}
}

func TestSSEIsBounded(t *testing.T) {
	for name, in := range map[string]string{
		"a line":   "data: " + strings.Repeat("x", 1001),
		"an event": strings.Repeat("data: "+strings.Repeat("x", 200)+"\n", 6) + "\n",
	} {
		s := newSSEReader(strings.NewReader("data: "+strings.Repeat("x", 900)+"\n\n"+in), "", func() {})
		s.max = 1000
		if e, err := s.next(); err != nil || len(e.data) != 900 {
			t.Errorf("%s: below the limit: %v", name, err)
		}
		if e, err := s.next(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %d bytes, %v", name, len(e.data), err)
		}
	}
}
