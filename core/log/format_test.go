package log_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
)

// golden compares with testdata/name, or writes it with GOLDEN=write.
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
		t.Errorf("%s: these bytes are promised to everyone who keeps an export.\n got %s\nwant %s", path, got, want)
	}
}

func signer(t *testing.T) *log.Signer {
	t.Helper()
	s, err := log.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)), "sto_TEST")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func record() []byte {
	o := log.Begin(nil, "sto_TEST", 42, time.Date(2026, 3, 4, 5, 6, 7, 89, time.FixedZone("CET", 3600)), "decision")
	o.Str("reason", "quotes \" and \u2028 and é and <tags> and \x00")
	o.Int("latency_us", -1)
	return o.Close()
}

func TestRecordBytes(t *testing.T) {
	rec := record()
	if !json.Valid(rec) || bytes.ContainsRune(rec, '\n') {
		t.Fatalf("not one line of JSON: %q", rec)
	}
	leaf := tlog.RecordHash(rec)
	golden(t, "record.golden", append(append(rec, '\n'), leaf.String()+"\n"...))
}

func TestExportHeaderBytes(t *testing.T) {
	var tree log.Tree
	for i := range 3 {
		tree.Append(leaf(i), nil)
	}
	s := signer(t)
	names := log.NewNames(3)
	for i := range 3 {
		names.Add(tlog.RecordHash(leaf(i)))
	}
	head, err := s.Header(1, 3, tree.Root(), names)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "header.golden", append(append(head, '\n'), s.PublicKey()+"\n"...))
}

// What is signed can be opened with the public key alone, by anybody's note library, and by no other key.
func TestCheckpointOpens(t *testing.T) {
	var tree log.Tree
	tree.Append(leaf(0), nil)
	s := signer(t)
	text, err := s.Checkpoint(1, tree.Root())
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(s.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open([]byte(text), note.VerifierList(v))
	if err != nil {
		t.Fatal(err)
	}
	if want := "yett.dev/audit/sto_TEST\n1\n" + tree.Root().String() + "\n"; n.Text != want {
		t.Errorf("the note is %q, want %q", n.Text, want)
	}
	if _, err := note.Open([]byte(strings.Replace(text, "\n1\n", "\n2\n", 1)), note.VerifierList(v)); err == nil {
		t.Error("a changed checkpoint opens")
	}
	other, err := log.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize)), "sto_TEST")
	if err != nil {
		t.Fatal(err)
	}
	if v, err = note.NewVerifier(other.PublicKey()); err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open([]byte(text), note.VerifierList(v)); err == nil {
		t.Error("a checkpoint opens with another key")
	}
}

func TestLoadSigner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.key")
	first, err := log.LoadSigner(path, "sto_TEST")
	if err != nil {
		t.Fatal(err)
	}
	again, err := log.LoadSigner(path, "sto_TEST")
	if err != nil || again.PublicKey() != first.PublicKey() || again.KeyID() != first.KeyID() {
		t.Errorf("the second start has another key: %v", err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 || st.Size() != ed25519.SeedSize {
		t.Errorf("the key file: %v %v", st, err)
	}
	for name, c := range map[string]struct {
		mode os.FileMode
		data []byte
		want string
	}{
		"readable by others": {0o640, make([]byte, ed25519.SeedSize), "readable by others"},
		"too short":          {0o600, make([]byte, 31), "31 bytes"},
		"empty":              {0o600, nil, "0 bytes"},
	} {
		path := filepath.Join(t.TempDir(), "audit.key")
		if err := os.WriteFile(path, c.data, c.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := log.LoadSigner(path, "sto_TEST"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := log.LoadSigner(filepath.Join(t.TempDir(), "no", "dir"), "sto_TEST"); err == nil {
		t.Error("a key was made nowhere")
	}
}
