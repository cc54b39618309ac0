package store

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
)

func TestTrim(t *testing.T) {
	r := newRig(t)
	r.notes(100)
	all := walk(t, 1, r.s.Records)
	root, err := r.s.Root(100)
	if err != nil {
		t.Fatal(err)
	}
	trim := &Trim{Through: 40, Reason: "max_age", Passed: []string{"siem"}}
	r.must(trim)
	look := func(when string, first uint64) {
		t.Helper()
		if trim.First == 0 || trim.Last+1 != first || r.s.First() != first {
			t.Fatalf("%s: %d to %d have gone, the log begins with %d, want %d", when, trim.First, trim.Last, r.s.First(), first)
		}
		for _, from := range []uint64{0, 1, first - 1, first} {
			if got := walk(t, from, r.s.Records); !slices.Equal(got[:101-first], all[first-1:]) {
				t.Fatalf("%s: from %d: %d records, the first is %s", when, from, len(got), got[0])
			}
		}
		if now, err := r.s.Root(100); err != nil || now != root {
			t.Fatalf("%s: another root: %v", when, err)
		}
	}
	look("trimmed", 41)
	r.reopen()
	look("opened again", 41)
	r.refused(&Trim{Through: r.s.Seq()}, sdk.CodeInvalidField)
	none := &Trim{Through: 40}
	r.must(none)
	if none.Last != 0 || r.s.Seq() != 101 {
		t.Errorf("trimming nothing: %+v, %d records", none, r.s.Seq())
	}
	defer r.s.Follow(make(chan<- struct{}, 1))()
	r.notes(10)
	trim = &Trim{Through: 70}
	r.must(trim)
	r.must(&StopWatch{})
	look("trimmed again", 71)
	trim = &Trim{Through: r.s.Seq() - 1}
	r.must(trim)
	r.must(&StopWatch{})
	if got := walk(t, 1, r.s.Records); len(got) != 2 || r.s.First() != trim.Last+1 {
		t.Errorf("trimmed to the end: %v", got)
	}
	if got := walk(t, 105, r.s.Records); len(got) != 2 {
		t.Errorf("memory still has what was trimmed: %v", got)
	}
	r.reopen()
	r.notes(3)
	if got := walk(t, 1, r.s.Records); len(got) != 5 {
		t.Errorf("after all of it: %v", got)
	}
}

// TestTrimWithinACommit: retention may leave a part of what one commit has written.
func TestTrimWithinACommit(t *testing.T) {
	s, g := openGated(t)
	k := newKey(t, s, "k", "authorize") // record 1
	for i := range 3 {
		var cmds []Command
		for j := range 4 {
			cmds = append(cmds, ask(k, string(rune('a'+10*i+j)), sdk.Permit))
		}
		g.together(t, s, cmds...)
	}
	size := s.Seq()
	if _, young := s.records.now(); len(young) < 3 || uint64(len(young)) > size-5 {
		t.Fatalf("%d commits for %d records", len(young), size)
	}
	for through := range size {
		if err := s.Commit(context.Background(), &Trim{Through: through}); err != nil || s.First() != through+1 {
			t.Errorf("through %d: the log begins with %d: %v", through, s.First(), err)
		}
	}
	errs := g.together(t, s, ask(k, "x", sdk.Permit), &Trim{Through: size}, &Trim{Through: size + 1},
		ask(k, "y", sdk.Permit))
	if first := s.First(); fmt.Sprint(errs) != "[<nil> <nil> <nil> <nil>]" || first != size+2 {
		t.Errorf("two trims in one batch: %v, the log begins with %d, want %d", errs, first, size+2)
	}
	next := s.First()
	if err := s.Records(1, func(seq uint64, _ []byte) error {
		if seq != next {
			t.Errorf("got %d, want %d", seq, next)
		}
		next++
		return nil
	}); err != nil || next != s.Seq()+1 {
		t.Errorf("%v, up to %d of %d", err, next, s.Seq())
	}
}

// checked works out the root of an export from its lines alone, and compares it with the signed one.
func checked(export []byte) error {
	lines := bytes.Split(bytes.TrimSuffix(export, []byte("\n")), []byte("\n"))
	var h struct {
		From  uint64   `json:"from_seq"`
		To    uint64   `json:"to_seq"`
		Front []string `json:"front"`
		Check string   `json:"checkpoint"`
	}
	if err := json.Unmarshal(lines[0], &h); err != nil {
		return err
	}
	if n := uint64(len(lines) - 1); n != h.To+1-h.From {
		return fmt.Errorf("%d records, the header says %d to %d", n, h.From, h.To)
	}
	type subtree struct {
		size uint64
		hash tlog.Hash
	}
	var trees []subtree
	push := func(t subtree) {
		for trees = append(trees, t); len(trees) > 1 && trees[len(trees)-1].size == trees[len(trees)-2].size; {
			a, b := trees[len(trees)-2], trees[len(trees)-1]
			trees = append(trees[:len(trees)-2], subtree{2 * a.size, tlog.NodeHash(a.hash, b.hash)})
		}
	}
	for rest := h.From - 1; rest > 0; {
		size := uint64(1)
		for size*2 <= rest {
			size *= 2
		}
		if len(h.Front) == 0 {
			return fmt.Errorf("front is too short")
		}
		raw, err := base64.StdEncoding.DecodeString(h.Front[0])
		if err != nil {
			return err
		}
		push(subtree{size, tlog.Hash(raw)})
		rest, h.Front = rest-size, h.Front[1:]
	}
	for _, rec := range lines[1:] {
		push(subtree{1, tlog.RecordHash(rec)})
	}
	root := tlog.Hash{}
	for i := len(trees) - 1; i >= 0; i-- {
		if root = trees[i].hash; i < len(trees)-1 {
			root = tlog.NodeHash(trees[i].hash, trees[i+1].hash)
		}
		trees[i].hash = root
	}
	if want := strings.Split(h.Check, "\n")[2]; root.String() != want {
		return fmt.Errorf("root %s, signed is %s", root, want)
	}
	return nil
}

func TestExportOfATrimmedLog(t *testing.T) {
	r := newRig(t)
	signer, err := log.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)), r.s.ID())
	if err != nil {
		t.Fatal(err)
	}
	export := func() []byte {
		t.Helper()
		var out bytes.Buffer
		if err := r.s.Export(&out, signer, log.Range{}); err != nil {
			t.Fatal(err)
		}
		if err := checked(out.Bytes()); err != nil {
			t.Fatalf("from %d of %d: %v", r.s.First(), r.s.Seq(), err)
		}
		return out.Bytes()
	}
	var empty bytes.Buffer
	if err := r.s.Export(&empty, signer, log.Range{}); err != nil || bytes.Count(empty.Bytes(), []byte("\n")) != 1 {
		t.Fatalf("%v: %s", err, empty.Bytes())
	}
	r.notes(50)
	if bytes.Contains(export(), []byte(`"front"`)) {
		t.Error("an untrimmed log has hashes in front")
	}
	for through := uint64(1); through < 50; through++ {
		r.must(&Trim{Through: through})
		whole := export()
		if through%10 == 0 { // what is changed does not pass
			for _, bad := range [][]byte{bytes.Replace(whole, []byte(`"type":"note"`), []byte(`"type":"nota"`), 1),
				bytes.Replace(whole, []byte(`"front":["`), []byte(`"front":["A`), 1)} {
				bad = bytes.Replace(bad, []byte(`A=","`), []byte(`=","`), 1)
				if bytes.Equal(bad, whole) || checked(bad) == nil {
					t.Fatal("a changed export passes")
				}
			}
		}
	}
}

func TestRoot(t *testing.T) {
	r := newRig(t)
	r.notes(40)
	for size := range uint64(41) {
		want, err := tlog.TreeHash(int64(size), hashReader{r.s})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := r.s.Root(size); err != nil || got != want {
				t.Fatalf("size %d: %v", size, err)
			}
		}
	}
	if _, err := r.s.Root(41); err == nil {
		t.Error("a root of more records than there are")
	}
}

// Size is exact for what is in memory and grows with what is older.
func TestSize(t *testing.T) {
	r := newRig(t)
	for range 200 {
		r.must(&Note{Type: "note", By: system, Fields: [][2]string{{"x", strings.Repeat("x", 10_000)}}})
	}
	if err := r.s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	defer r.s.Follow(make(chan<- struct{}, 1))()
	r.notes(10)
	r.must(&StopWatch{})
	want := uint64(0)
	for seq := uint64(210); seq > 200; seq-- {
		if err := r.s.Records(seq, func(_ uint64, rec []byte) error {
			want += uint64(len(rec)) + 4
			return errTrimmed
		}); !errors.Is(err, errTrimmed) {
			t.Fatal(err)
		}
		if got, err := r.s.Size(seq); err != nil || got != want {
			t.Fatalf("from %d: %d bytes, want %d: %v", seq, got, want, err)
		}
	}
	last := want
	for _, seq := range []uint64{150, 50, 1} {
		got, err := r.s.Size(seq)
		if err != nil || got <= last {
			t.Fatalf("from %d: %d bytes, %d before: %v", seq, got, last, err)
		}
		last = got
	}
	r.must(&Trim{Through: 150})
	if got, err := r.s.Size(1); err != nil || got >= last {
		t.Errorf("after a trim: %d bytes, %d before: %v", got, last, err)
	}
}

// TestSizeOfWhatIsNew: a subscriber that is paused follows nothing, so that nothing is in memory for it; and what was
// just written is in no table yet, which is where Pebble's own estimate looks. The size is exact, also from within what
// one commit has written.
func TestSizeOfWhatIsNew(t *testing.T) {
	s, g := openGated(t)
	k := newKey(t, s, "k", "authorize")
	for i := range 5 {
		var cmds []Command
		for j := range 4 {
			cmds = append(cmds, ask(k, string(rune('a'+10*i+j)), sdk.Permit))
		}
		g.together(t, s, cmds...)
	}
	want := func(from uint64) (bytes uint64) {
		t.Helper()
		if err := s.Records(from, func(_ uint64, rec []byte) error { bytes += uint64(len(rec)) + 4; return nil }); err !=
			nil {
			t.Fatal(err)
		}
		return bytes
	}
	all := func() {
		t.Helper()
		for from := range s.Seq() + 3 {
			if got, err := s.Size(from); err != nil || got != want(from) {
				t.Fatalf("from %d: %d bytes, want %d: %v", from, got, want(from), err)
			}
		}
	}
	all()
	commit := func(c Command) {
		t.Helper()
		if err := s.Commit(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	commit(&Trim{Through: 12})
	all()
	g.together(t, s, ask(k, "x", sdk.Permit), ask(k, "y", sdk.Permit))
	for from := range uint64(20) {
		if got, err := s.Size(from); err != nil || got != want(from) {
			t.Fatalf("from %d: %d bytes, want %d: %v", from, got, want(from), err)
		}
	}
}
