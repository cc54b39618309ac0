package store

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
)

// signer is that of the log, always the same.
func (r *rig) signer() *log.Signer {
	r.t.Helper()
	s, err := log.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)), r.s.ID())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// Every range of a log, trimmed or not, is an export of its own: it verifies, and has exactly these records.
func TestExportOfARange(t *testing.T) {
	r := sealing(t, 2<<10)
	signer := r.signer()
	r.notes(40)
	var all []string
	if err := r.s.Records(1, func(_ uint64, rec []byte) error {
		all = append(all, string(rec))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	keys, err := log.ParseKeys(signer.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	check := func(asked log.Range, from, to uint64) {
		t.Helper()
		var out bytes.Buffer
		if err := r.s.Export(&out, signer, asked); err != nil {
			t.Fatalf("%+v: %v", asked, err)
		}
		v, err := log.Verify(bytes.NewReader(out.Bytes()), log.VerifyOptions{Keys: keys})
		if err != nil || v.FromSeq != from || v.ToSeq != to {
			t.Fatalf("%+v: %v, %+v", asked, err, v)
		}
		_, records, _ := strings.Cut(out.String(), "\n")
		if want := strings.Join(all[from-1:to], "\n"); strings.TrimSuffix(records, "\n") != want {
			t.Fatalf("%+v: got %s, want %s", asked, records, want)
		}
	}
	each := func(first uint64) {
		t.Helper()
		for from := first; from <= 40; from++ {
			for to := from; to <= 40; to++ {
				check(log.Range{From: from, To: to}, from, to)
			}
		}
	}
	each(1)
	check(log.Range{To: 7}, 1, 7)
	check(log.Range{From: 7}, 7, 40)
	check(log.Range{From: 41}, 41, 40) // what follows an export that has everything
	r.must(&Trim{Through: 17})
	each(18)
	for _, c := range []struct {
		asked log.Range
		field string
		want  string
	}{
		{log.Range{From: 17}, "from", "retention has removed record 17; the first record that is there is 18"},
		{log.Range{From: 1, To: 3}, "from", "the first record that is there is 18"},
		{log.Range{From: 43}, "from", "there is no record 43; the log ends with record 41, and the next one will be 42"},
		{log.Range{To: 42}, "to", "there is no record 42; the log ends with record 41"},
		{log.Range{From: 20, To: 18}, "to", "to must be at least from: got from 20 and to 18"},
		{log.Range{To: 3}, "to", "to must be at least from: got from 18 and to 3"},
	} {
		var out bytes.Buffer
		err := r.s.Export(&out, signer, c.asked)
		var refused *sdk.Error
		if !errors.As(err, &refused) || refused.Field != c.field || !strings.Contains(refused.Msg, c.want) ||
			out.Len() > 0 {
			t.Errorf("%+v: got %v with %d bytes, want %s: %s", c.asked, err, out.Len(), c.field, c.want)
		}
	}
}

// trimmer removes records as soon as some were written.
type trimmer struct {
	bytes.Buffer
	once func()
}

func (w *trimmer) Write(b []byte) (int, error) {
	if w.once != nil {
		w.once()
		w.once = nil
	}
	return w.Buffer.Write(b)
}

// Retention that overtakes an export ends it: nothing that looks whole is written, and no second header.
func TestExportThatRetentionOvertakes(t *testing.T) {
	r := sealing(t, 8<<10)
	for range 20 {
		n := r.sealed(0)
		r.notes(100) // more than enough for one more
		r.sealed(n + 1)
	}
	w := &trimmer{}
	w.once = func() {
		before := r.sealed(2)
		r.must(&Trim{Through: r.s.Seq() - 1})
		until(t, func() bool { return r.sealed(0) <= before/2 })
	}
	err := r.s.Export(w, r.signer(), log.Range{})
	if n := strings.Count(w.String(), log.ExportFormat); n > 1 {
		t.Fatalf("%d headers", n)
	}
	if err == nil || !strings.Contains(err.Error(), "export again, from record") {
		_, bad := log.Verify(bytes.NewReader(w.Bytes()), log.VerifyOptions{})
		t.Fatalf("got %v; the export: %v", err, bad)
	}
	if err := r.s.Export(io.Discard, r.signer(), log.Range{}); err != nil {
		t.Fatal(fmt.Errorf("the next one: %w", err))
	}
}
