package log_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/testkit"
)

const store = "sto_TEST"

// book is a log in the making.
type book struct {
	tb     testing.TB
	signer *log.Signer
	tree   log.Tree
	recs   [][]byte
	marks  map[uint64]string // checkpoints that were kept, by size
	front  []tlog.Hash
	from   uint64
	at     time.Time
}

func newBook(tb testing.TB, seed byte) *book {
	tb.Helper()
	s, err := log.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)), store)
	if err != nil {
		tb.Fatal(err)
	}
	return &book{tb: tb, signer: s, marks: map[uint64]string{}, from: 1, at: time.Unix(1_700_000_000, 0)}
}

// add writes a record of a type with members, names and values in turn. A value is text, a number or a bool.
func (b *book) add(typ string, members ...any) *book {
	b.at = b.at.Add(time.Millisecond)
	o := log.Begin(nil, store, b.tree.Size()+1, b.at, typ)
	for i := 0; i < len(members); i += 2 {
		switch name := members[i].(string); v := members[i+1].(type) {
		case string:
			o.Str(name, v)
		case int:
			o.Int(name, int64(v))
		case bool:
			o.Bool(name, v)
		case time.Duration:
			o.Str(name, b.at.Add(v).UTC().Format(time.RFC3339Nano))
		}
	}
	rec := o.Close()
	b.recs = append(b.recs, rec)
	b.tree.Append(rec, nil)
	return b
}

// fill adds n decisions that look like a gateway's.
func (b *book) fill(n int) *book {
	for i := range n {
		b.add("decision", "principal_id", "key_1", "principal_method", "api_key", "surface", "http", "peer", "192.0.2.1:1",
			"decision_id", fmt.Sprintf("dec_%08d", i), "call_id", fmt.Sprintf("call_%08d", i), "agent_id", "billing-1",
			"session_id", "s", "tool_id", "payments/refund", "effect", "PERMIT", "reason_code", "RULE_PERMIT", "reason",
			"refunds up to 100 EUR", "rule_id", "small-refunds", "policy_version", strings.Repeat("0f", 16), "latency_us", i%900,
			"digest", strings.Repeat("5b", 32))
	}
	return b
}

// mark keeps a checkpoint of now outside.
func (b *book) mark() *book {
	text, err := b.signer.Checkpoint(b.tree.Size(), b.tree.Root())
	if err != nil {
		b.tb.Fatal(err)
	}
	b.marks[b.tree.Size()] = text
	return b
}

// trim drops the records before seq, as retention does.
func (b *book) trim(seq uint64) *book {
	var front log.Tree
	for _, rec := range b.recs[:seq-1] {
		front.Append(rec, nil)
	}
	b.front, b.from, b.recs = front.Peaks(), seq, b.recs[seq-1:]
	return b
}

// export is the log as yett audit export writes it, its lines with their newlines.
func (b *book) export() [][]byte {
	names := log.NewNames(uint64(len(b.recs)))
	for _, rec := range b.recs {
		names.Add(tlog.RecordHash(rec))
	}
	head, err := b.signer.Header(b.from, b.tree.Size(), b.tree.Root(), names, b.front...)
	if err != nil {
		b.tb.Fatal(err)
	}
	lines := [][]byte{append(head, '\n')}
	for _, rec := range b.recs {
		lines = append(lines, append(slices.Clone(rec), '\n'))
	}
	return lines
}

func (b *book) keys() log.Keys {
	keys, err := log.ParseKeys(b.signer.PublicKey())
	if err != nil {
		b.tb.Fatal(err)
	}
	return keys
}

func (b *book) earlier() []log.Earlier {
	var out []log.Earlier
	for size, text := range b.marks {
		out = append(out, log.Earlier{From: fmt.Sprint(size), Text: text})
	}
	return out
}

func check(lines [][]byte, o log.VerifyOptions) (*log.Verified, error) {
	return log.Verify(bytes.NewReader(bytes.Join(lines, nil)), o)
}

func TestCleanExports(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 7, 64, 1000} {
		for _, from := range []uint64{1, 2, 3, 6, 64, 999} {
			if n > 0 && from > uint64(n) || n == 0 && from > 1 {
				continue
			}
			b := newBook(t, 7).fill(n / 2).mark().fill(n - n/2).mark()
			if from > 1 {
				b.trim(from)
				for size := range b.marks {
					if size > 0 && size+1 < from {
						delete(b.marks, size)
					}
				}
			}
			r, err := check(b.export(), log.VerifyOptions{Keys: b.keys(), Earlier: b.earlier(), Invariants: true})
			if err != nil {
				t.Fatalf("%d records from %d: %v", n, from, err)
			}
			if r.FromSeq != from || r.ToSeq != uint64(n) || !r.KeyPinned || len(r.Checkpoints) != len(b.marks) ||
				r.Invariants.Permits != uint64(n)+1-from {
				t.Errorf("%d records from %d: %+v %+v", n, from, r, r.Invariants)
			}
		}
	}
}

// mutation changes an export. It gives the first bad record, 0 for the header.
type mutation func(r *rand.Rand, b *book, lines [][]byte) (out [][]byte, first uint64)

// pick is the index of a line of a record.
func pick(r *rand.Rand, lines [][]byte) int { return 1 + r.IntN(len(lines)-1) }

var mutations = map[string]mutation{
	"flip a bit": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i := pick(r, lines)
		lines[i] = slices.Clone(lines[i])
		at := r.IntN(len(lines[i]))
		lines[i][at] ^= 1 << r.IntN(8)
		return lines, b.from + uint64(i) - 1
	},
	"flip a bit of the header": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		lines[0] = slices.Clone(lines[0])
		lines[0][r.IntN(len(lines[0]))] ^= 1 << r.IntN(8)
		return lines, 0
	},
	"drop": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i := pick(r, lines)
		return slices.Delete(lines, i, i+1), b.from + uint64(i) - 1
	},
	"swap": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i, j := pick(r, lines), pick(r, lines)
		for i == j {
			j = pick(r, lines)
		}
		lines[i], lines[j] = lines[j], lines[i]
		return lines, b.from + uint64(min(i, j)) - 1
	},
	"insert": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i, j := pick(r, lines), pick(r, lines)
		return slices.Insert(lines, i, lines[j]), b.from + uint64(i) - 1 // where i is j, only the next one is out of place
	},
	"cut the tail": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i := pick(r, lines)
		return lines[:i], b.from + uint64(i) - 1
	},
	"cut the tail within a record": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i := pick(r, lines)
		lines[i] = lines[i][:r.IntN(len(lines[i])-1)+1]
		return lines[:i+1], b.from + uint64(i) - 1
	},
	"cut the head": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i := pick(r, lines)
		return lines[i:], 0
	},
	"cut the first records": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i := pick(r, lines)
		return slices.Delete(lines, 1, i+1), b.from
	},
	"a line that does not end": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i := pick(r, lines)
		return slices.Insert(lines, i, bytes.Repeat([]byte("x"), 6<<20)), b.from + uint64(i) - 1
	},
	"empty": func(*rand.Rand, *book, [][]byte) ([][]byte, uint64) { return nil, 0 },
	"no records": func(_ *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		return lines[:1], b.from
	},
	"an empty line": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i := pick(r, lines)
		return slices.Insert(lines, i, []byte("\n")), b.from + uint64(i) - 1
	},
	"more records": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		return append(lines, lines[pick(r, lines)]), b.tree.Size() + 1
	},
	"another value": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i := pick(r, lines)
		lines[i] = bytes.Replace(lines[i], []byte(`"PERMIT"`), []byte(`"DENY"`), 1)
		return lines, b.from + uint64(i) - 1
	},
	"a member with white space": func(r *rand.Rand, b *book, lines [][]byte) ([][]byte, uint64) {
		i := pick(r, lines)
		lines[i] = bytes.Replace(lines[i], []byte(`,"agent_id"`), []byte(`, "agent_id"`), 1)
		return lines, b.from + uint64(i) - 1
	},
}

// TestMutations: every mutation is seen, and the first bad record is named.
func TestMutations(t *testing.T) {
	rounds := testkit.Rounds(1_000, 300)
	if testkit.Every(1, 2) {
		rounds = 10_000
	}
	for _, from := range []uint64{1, 38} {
		b := newBook(t, 7).fill(60).mark().fill(140)
		if from > 1 {
			b.trim(from)
		}
		clean := b.export()
		names := slices.Sorted(func(yield func(string) bool) {
			for name := range mutations {
				if !yield(name) {
					return
				}
			}
		})
		for i := range rounds / 2 {
			name := names[i%len(names)]
			r := rand.New(rand.NewPCG(uint64(i), from))
			lines, first := mutations[name](r, b, slices.Clone(clean))
			for pinned, keys := range map[bool]log.Keys{true: b.keys(), false: nil} {
				_, err := check(lines, log.VerifyOptions{Keys: keys})
				var f *log.Fault
				if !errors.As(err, &f) {
					t.Fatalf("%s, round %d, key pinned %v: %v", name, i, pinned, err)
				}
				if f.Seq != first && !(name == "insert" && f.Seq == first+1) {
					t.Fatalf("%s, round %d: the fault is %v, want record %d", name, i, f, first)
				}
			}
		}
	}
}

// TestLargeExportIsNamedExactly: also among many records a changed one is found.
func TestLargeExportIsNamedExactly(t *testing.T) {
	n := testkit.Rounds(5_000, 1_000)
	if testkit.Every(1, 2) {
		n = 100_000
	}
	b := newBook(t, 7).fill(n)
	clean := b.export()
	for i := range 20 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		for _, name := range []string{"flip a bit", "another value", "swap", "drop"} {
			lines, first := mutations[name](r, b, slices.Clone(clean))
			_, err := check(lines, log.VerifyOptions{Keys: b.keys()})
			var f *log.Fault
			if !errors.As(err, &f) || f.Seq != first {
				t.Fatalf("%s: %v, want record %d", name, err, first)
			}
		}
	}
}

// TestRewrittenLogs: who has no key can make no other log of it, and who has it cannot hide that from an earlier
// checkpoint.
func TestRewrittenLogs(t *testing.T) {
	b := newBook(t, 7).fill(40).mark().fill(60).mark()
	rewritten := func(seed byte, change int) *book {
		o := newBook(t, seed)
		for i := range b.recs {
			rec := b.recs[i]
			if i == change {
				rec = bytes.Replace(rec, []byte(`"PERMIT"`), []byte(`"DENY"`), 1)
			}
			o.recs = append(o.recs, rec)
			o.tree.Append(rec, nil)
		}
		return o
	}
	named := func(seq, last uint64) func(*testing.T, error) {
		return func(t *testing.T, err error) {
			var f *log.Fault
			if !errors.As(err, &f) || f.Seq != seq || f.Last != last {
				t.Errorf("got %v, want a fault of %d to %d", err, seq, last)
			}
		}
	}
	old := newBook(t, 7).fill(70)
	for name, c := range map[string]struct {
		lines [][]byte
		o     log.VerifyOptions
		want  func(*testing.T, error)
	}{
		"by another key": {rewritten(8, 20).export(), log.VerifyOptions{Keys: b.keys()}, named(0, 0)},
		"without the key, header kept": {append(b.export()[:1:1], rewritten(8, 20).export()[1:]...),
			log.VerifyOptions{Keys: b.keys()}, named(21, 0)},
		"by its own key, before a checkpoint": {rewritten(7, 20).export(),
			log.VerifyOptions{Keys: b.keys(), Earlier: b.earlier()}, named(1, 40)},
		"by its own key, between checkpoints": {rewritten(7, 55).export(),
			log.VerifyOptions{Keys: b.keys(), Earlier: b.earlier()}, named(41, 100)},
		"an old copy": {old.export(), log.VerifyOptions{Keys: b.keys(), Earlier: b.earlier()}, named(71, 0)},
		"an old copy that went on by itself": {old.fill(50).export(),
			log.VerifyOptions{Keys: b.keys(), Earlier: b.earlier()}, named(41, 100)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := check(c.lines, c.o)
			c.want(t, err)
		})
	}
}

// TestCannotLook: what could not be checked is no fault of the log and not in order either.
func TestCannotLook(t *testing.T) {
	b := newBook(t, 7).fill(40).mark().fill(60)
	other := newBook(t, 8).fill(10).mark()
	lines := b.export()
	trimmed := newBook(t, 7).fill(40).mark().fill(60).trim(50)
	for name, c := range map[string]struct {
		lines [][]byte
		o     log.VerifyOptions
		want  string
	}{
		"a checkpoint of another key":       {lines, log.VerifyOptions{Earlier: other.earlier()}, "no trusted key has signed it"},
		"a checkpoint before the first one": {trimmed.export(), log.VerifyOptions{Earlier: trimmed.earlier()}, "cannot be compared"},
		"no checkpoint at all":              {lines, log.VerifyOptions{Earlier: []log.Earlier{{From: "x", Text: "hello"}}}, "checkpoint x"},
	} {
		_, err := check(c.lines, c.o)
		var f *log.Fault
		if err == nil || errors.As(err, &f) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := check(lines, log.VerifyOptions{}); err != nil || r.KeyPinned {
		t.Errorf("without a key: %+v, %v", r, err)
	}
}

func TestSplitCheckpoints(t *testing.T) {
	b := newBook(t, 7).fill(3).mark().fill(4).mark()
	one, two := b.marks[3], b.marks[7]
	for name, c := range map[string]struct {
		data string
		want []string
	}{
		"one":                  {one, []string{one}},
		"two":                  {one + two, []string{one, two}},
		"two, lines between":   {"\n" + one + "\n\n" + two + "\n", []string{one, two}},
		"of an export":         {string(bytes.Join(b.export(), nil)), []string{two}},
		"an export's header":   {string(b.export()[0]), []string{two}},
		"one with a witness's": {one + "— w abcd\n" + two, []string{one + "— w abcd\n", two}},
	} {
		got, err := log.SplitCheckpoints([]byte(c.data))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "\n\n", `{"a":1}`} {
		if got, err := log.SplitCheckpoints([]byte(bad)); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

func FuzzVerify(f *testing.F) {
	b := newBook(f, 7).fill(3)
	f.Add(bytes.Join(b.export(), nil))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := log.Verify(bytes.NewReader(data), log.VerifyOptions{Keys: b.keys(), Invariants: true}); err == nil &&
			!bytes.Equal(data, bytes.Join(b.export(), nil)) {
			t.Errorf("another text is in order: %q", data)
		}
		_, _ = log.SplitCheckpoints(data)
	})
}

func BenchmarkVerify(b *testing.B) {
	book := newBook(b, 7).fill(100_000)
	data := bytes.Join(book.export(), nil)
	for _, inv := range []bool{false, true} {
		b.Run(fmt.Sprintf("invariants=%v", inv), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := log.Verify(bytes.NewReader(data), log.VerifyOptions{Keys: book.keys(), Invariants: inv}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*100_000/b.Elapsed().Seconds(), "records/s")
		})
	}
}
