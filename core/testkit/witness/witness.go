// Package witness owns a witness of logs for tests, written by C2SP tlog-witness and tlog-cosignature alone: it shares
// no code with the gateway's side. Only tests import it.
package witness

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Witness is a witness that trusts every log of which it is given a key. It is an http.Handler.
type Witness struct {
	name    string
	private ed25519.PrivateKey

	mu     sync.Mutex
	logs   map[string]note.Verifier
	latest map[string]Seen
}

// Seen is the newest tree of a log that a witness has cosigned.
type Seen struct {
	Size int64
	Root tlog.Hash
}

// New makes a witness whose key depends on its name only.
func New(name string) *Witness {
	seed := sha256.Sum256([]byte(name))
	return &Witness{name: name, private: ed25519.NewKeyFromSeed(seed[:]), logs: map[string]note.Verifier{},
		latest: map[string]Seen{}}
}

func (w *Witness) public() []byte {
	return append([]byte{4}, w.private.Public().(ed25519.PublicKey)...)
}

func (w *Witness) id() []byte {
	sum := sha256.Sum256(append([]byte(w.name+"\n"), w.public()...))
	return sum[:4]
}

// Key is its verifier key.
func (w *Witness) Key() string {
	return fmt.Sprintf("%s+%x+%s", w.name, w.id(), base64.StdEncoding.EncodeToString(w.public()))
}

// Trust makes it know a log by its verifier key.
func (w *Witness) Trust(key string) error {
	v, err := note.NewVerifier(strings.TrimSpace(key))
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs[v.Name()] = v
	return nil
}

// Latest is the newest tree of a log that it has cosigned.
func (w *Witness) Latest(origin string) Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest[origin]
}

// Cosign signs the body of a checkpoint: a line of a note.
func (w *Witness) Cosign(body string, at time.Time) string {
	stamp := binary.BigEndian.AppendUint64(nil, uint64(at.Unix()))
	sig := ed25519.Sign(w.private, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at.Unix(), body))
	return "— " + w.name + " " + base64.StdEncoding.EncodeToString(append(append(w.id(), stamp...), sig...)) + "\n"
}

// ServeHTTP is POST /add-checkpoint.
func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/add-checkpoint" {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, 16<<10))
	if err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	status, kind, body := w.add(string(data))
	if kind != "" {
		rw.Header().Set("Content-Type", kind)
	}
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, body) // a client that is gone needs no answer
}

func (w *Witness) add(text string) (status int, kind, body string) {
	head, checkpoint, ok := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	size, isSize := strings.CutPrefix(lines[0], "old ")
	from, err := strconv.ParseInt(size, 10, 64)
	if !ok || !isSize || err != nil || strconv.FormatInt(from, 10) != size || len(lines) > 64 {
		return http.StatusBadRequest, "", ""
	}
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return http.StatusBadRequest, "", ""
		}
		proof = append(proof, h)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	origin, _, _ := strings.Cut(checkpoint, "\n")
	v := w.logs[origin]
	if v == nil {
		return http.StatusNotFound, "", ""
	}
	n, err := note.Open([]byte(checkpoint), note.VerifierList(v))
	if err != nil {
		return http.StatusForbidden, "", ""
	}
	tree := strings.Split(n.Text, "\n")
	if len(tree) < 4 {
		return http.StatusBadRequest, "", ""
	}
	to, err := strconv.ParseInt(tree[1], 10, 64)
	root, rootErr := tlog.ParseHash(tree[2])
	if err != nil || rootErr != nil || from > to {
		return http.StatusBadRequest, "", ""
	}
	had := w.latest[origin]
	switch {
	case from != had.Size:
		return http.StatusConflict, "text/x.tlog.size", fmt.Sprintf("%d\n", had.Size)
	case from == to && from > 0 && root != had.Root:
		return http.StatusConflict, "", ""
	case from == 0 || from == to:
		if len(proof) > 0 {
			return http.StatusUnprocessableEntity, "", ""
		}
	case tlog.CheckTree(proof, to, root, from, had.Root) != nil:
		return http.StatusUnprocessableEntity, "", ""
	}
	w.latest[origin] = Seen{to, root}
	return http.StatusOK, "", w.Cosign(n.Text, time.Now())
}
