package checkpoints

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/yett-dev/yett/core/cosign"
)

// TestPublishedWitness asks the witness of transparency-dev, unmodified, what the other tests ask the double.
func TestPublishedWitness(t *testing.T) {
	if os.Getenv("YETT_WITNESS") == "" {
		t.Skip("YETT_WITNESS is not set: the published witness takes minutes to build")
	}
	set := published(t)
	path := filepath.Join(t.TempDir(), "checkpoints")
	said := &strings.Builder{}
	b := newBook("a", 20)
	b.kept = 9
	k := start(t, withWitnesses(t, b, said, path, set))
	b.kept = 20
	k.write(false)
	if s := k.of(set.Key.Name()); s.Err != nil || s.Size != 20 ||
		!strings.Contains(said.String(), "did not know this log") {
		t.Errorf("%+v, said %q", s, said)
	}
	k.Close()
	if size, names := cosigners(t, path, set); size != 20 || len(names) != 1 {
		t.Errorf("%d records, cosigned by %q", size, names)
	}
	for _, c := range []struct {
		name string
		log  *book
		err  string
	}{
		{"longer", newBook("a", 21), ""},
		{"the same", newBook("a", 21), ""},
		{"shorter", newBook("a", 19), "its end is missing"},
		{"empty", newBook("a", 0), "its end is missing"},
		{"another one", newBook("b", 21), "are not those that it has cosigned"},
		{"another, long", newBook("b", 90), "are not those that it has cosigned"},
	} {
		err := check(t, withWitnesses(t, c.log, &strings.Builder{}, path+c.name, set))
		if Differs(err) != (c.err != "") || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
	stranger := withWitnesses(t, newBook("a", 9), said, path+"2", set)
	stranger.Signer = signer(t, 2, "sto_1")
	said.Reset()
	// the specification says 403, and it answers 500
	if err := check(t, stranger); err != nil || !strings.Contains(said.String(), "published: it answered ") {
		t.Errorf("%v, said %q", err, said)
	}
}

// published builds and runs the witness, which knows the test's log.
func published(t *testing.T) Witness {
	t.Helper()
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	program := filepath.Join(dir, "omniwitness")
	run("go", "build", "-modfile=cmd/witness.mod", "-o", program, "github.com/transparency-dev/witness/cmd/omniwitness")

	// its private key is one of notes, and its cosignatures' key has another type
	private, public, err := note.GenerateKey(fives{}, "w.example/published")
	if err != nil {
		t.Fatal(err)
	}
	data, err := base64.StdEncoding.DecodeString(strings.Split(public, "+")[2])
	if err != nil {
		t.Fatal(err)
	}
	data[0] = 4
	sum := sha256.Sum256(append([]byte("w.example/published\n"), data...))
	key, err := cosign.ParseKey(fmt.Sprintf("w.example/published+%08x+%s", binary.BigEndian.Uint32(sum[:4]),
		base64.StdEncoding.EncodeToString(data)))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	logs := put("logs.yaml", fmt.Sprintf("Logs:\n- Origin: %s\n  PublicKey: %s\n", origin,
		signer(t, 1, "sto_1").PublicKey()))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--listen="+addr, "--metrics_listen=", "--private_key_path="+put("key", private),
		"--additional_logs="+logs)
	log := &strings.Builder{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log)
		}
	})
	url := "http://" + addr
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			http.DefaultClient.CloseIdleConnections()
			return Witness{URL: url, Key: key}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it does not answer: %v\n%s", err, log)
		}
	}
}

// fives makes the same key each time.
type fives struct{}

func (fives) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 5
	}
	return len(b), nil
}
