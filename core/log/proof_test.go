package log_test

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"

	"github.com/yett-dev/yett/core/log"
)

// proofs are those of all records of a log of n.
func proofs(t testing.TB, b *book, n int) [][]byte {
	t.Helper()
	b.fill(n)
	var tree log.Tree
	var kept stored
	for _, rec := range b.recs {
		kept = kept.with(tree.Append(rec, nil))
	}
	var out [][]byte
	for i, rec := range b.recs {
		p, err := b.signer.Prove(uint64(i)+1, uint64(n), b.tree.Root(), rec, kept)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestProofs(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8, 13, 64, 65} {
		b := newBook(t, 7)
		for i, text := range proofs(t, b, n) {
			p, err := log.OpenProof(text, b.keys())
			if err != nil || p.Seq != uint64(i)+1 || string(p.Record) != string(b.recs[i]) || p.Size != uint64(n) {
				t.Fatalf("record %d of %d: %+v, %v", i+1, n, p, err)
			}
		}
	}
}

// TestProofsAreOthersToo: somebody else's library, which knows nothing of ours, comes to the same root.
func TestProofsAreOthersToo(t *testing.T) {
	b := newBook(t, 7)
	verifier, err := note.NewVerifier(b.signer.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range proofs(t, b, 21) {
		head, cp, _ := strings.Cut(string(text), "\n\n")
		lines := strings.Split(head, "\n")
		record, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
		if err != nil {
			t.Fatal(err)
		}
		index, err := strconv.ParseUint(strings.TrimPrefix(lines[2], "index "), 10, 64)
		if err != nil || index != uint64(i) {
			t.Fatalf("index %d, want %d: %v", index, i, err)
		}
		var path [][]byte
		for _, line := range lines[3:] {
			h, err := base64.StdEncoding.DecodeString(line)
			if err != nil {
				t.Fatal(err)
			}
			path = append(path, h)
		}
		n, err := note.Open([]byte(cp), note.VerifierList(verifier))
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Split(n.Text, "\n")
		size, _ := strconv.ParseUint(said[1], 10, 64)
		root, _ := base64.StdEncoding.DecodeString(said[2])
		leaf := rfc6962.DefaultHasher.HashLeaf(record)
		if err := proof.VerifyInclusion(rfc6962.DefaultHasher, index, size, leaf, path, root); err != nil {
			t.Errorf("record %d: %v", i+1, err)
		}
		leaf[0] ^= 1
		if proof.VerifyInclusion(rfc6962.DefaultHasher, index, size, leaf, path, root) == nil {
			t.Errorf("record %d: another record is proved too", i+1)
		}
	}
}

// TestNoBitOfAProof: whatever bit is changed, the proof does not hold.
func TestNoBitOfAProof(t *testing.T) {
	b := newBook(t, 7)
	text := proofs(t, b, 5)[2]
	for i := range text {
		for bit := range 8 {
			bad := append([]byte(nil), text...)
			bad[i] ^= 1 << bit
			if _, err := log.OpenProof(bad, b.keys()); err == nil || !log.IsFault(err) {
				t.Fatalf("bit %d of byte %d (%q): %v", bit, i, text[i], err)
			}
		}
	}
	for i := range text {
		if _, err := log.OpenProof(text[:i], b.keys()); err == nil {
			t.Fatalf("the first %d bytes are a proof", i)
		}
	}
	other := newBook(t, 8)
	if _, err := log.OpenProof(text, other.keys()); err == nil || !strings.Contains(err.Error(), "no trusted key") {
		t.Errorf("with another key: %v", err)
	}
}

func FuzzOpenProof(f *testing.F) {
	b := newBook(f, 7)
	for _, p := range proofs(f, b, 3) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := log.OpenProof(text, b.keys()); err == nil && string(p.Record) != string(b.recs[p.Seq-1]) {
			t.Errorf("%q proves another record", text)
		}
	})
}
