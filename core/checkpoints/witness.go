package checkpoints

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/yett-dev/yett/core/cosign"
	"github.com/yett-dev/yett/core/log"
)

// Witness cosigns checkpoints, as C2SP tlog-witness says.
type Witness struct {
	URL   string // add-checkpoint is below it
	Key   *cosign.Key
	Roots *x509.CertPool // who signs its certificate; nil: the machine's authorities
}

// cosigner is a witness that is given checkpoints.
type cosigner struct {
	k    *Keeper
	key  *cosign.Key
	http *client

	knows uint64 // records of the newest tree that it has cosigned, as far as is known here
	text  string // the checkpoint that it has cosigned last
}

func newCosigner(k *Keeper, w Witness) *cosigner {
	return &cosigner{k: k, key: w.Key, http: newClient(strings.TrimSuffix(w.URL, "/")+"/add-checkpoint", w.Roots)}
}

// tries is how often the witness is asked for one checkpoint: the first answer tells which proof it needs.
const tries = 3

// hold asks for a cosignature of the log as it is: the witness compares. It is part of destination.
func (w *cosigner) hold(ctx context.Context) (note string, err error) {
	c, err := w.k.sign(w.k.set.Log.InHead())
	if err != nil {
		return "", err
	}
	first, err := w.ask(ctx, c)
	if err == nil && first {
		note = fmt.Sprintf("did not know this log (%s): the log is not held against it, and it knows it from now on",
			w.k.set.Origin)
	}
	return note, err
}

// give is part of destination.
func (w *cosigner) give(ctx context.Context, c signed) error {
	if w.text == c.text {
		return nil
	}
	_, err := w.ask(ctx, c)
	return err
}

// ask gets a cosignature. It reports whether the witness had cosigned nothing of this log before.
func (w *cosigner) ask(ctx context.Context, c signed) (first bool, err error) {
	for range tries {
		if w.knows > c.size {
			return false, w.ahead(w.knows)
		}
		from := w.knows
		a, err := w.send(ctx, from, c)
		if err != nil {
			return false, err
		}
		switch {
		case a.status == http.StatusOK:
			line, err := w.cosignature(c, string(a.body))
			if err != nil {
				return false, err
			}
			w.knows, w.text = c.size, c.text
			w.k.cosigned(w, c, line)
			return from == 0, nil
		case a.status == http.StatusConflict && from < c.size, a.status == http.StatusConflict && isSize(a):
			n, err := sizeOf(a)
			if err != nil {
				return false, err
			}
			if n == from && n == c.size {
				return false, w.other(n)
			}
			w.knows = n
		case a.status == http.StatusConflict, a.status == http.StatusUnprocessableEntity && from > 0:
			return false, w.other(from)
		default:
			return false, w.refusal(a)
		}
	}
	return false, fmt.Errorf("it names another size of the log each time, the last one %d", w.knows)
}

// send posts a checkpoint with the proof that the tree of from records is a beginning of it.
func (w *cosigner) send(ctx context.Context, from uint64, c signed) (*answer, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "old %d\n", from)
	if from > 0 && from < c.size {
		proof, err := w.k.set.Log.Consistency(from, c.size)
		if err != nil {
			return nil, fmt.Errorf("prove that its %d records are the first of %d: %w", from, c.size, err)
		}
		for _, h := range proof {
			fmt.Fprintf(&b, "%s\n", h)
		}
	}
	b.WriteString("\n" + c.text)
	return w.http.post(ctx, http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, b.String())
}

const witnessOut = "take the witness out of audit.checkpoints.witnesses"

// ahead is what it means that the witness has cosigned so many records.
func (w *cosigner) ahead(n uint64) error {
	w.knows = 0 // it is asked anew each time
	if n <= w.k.set.Log.Seq() {
		return fmt.Errorf("it has cosigned %d records, more than log/head knows of yet", n)
	}
	return missing(n, w.k.set.Log.Seq(), witnessOut)
}

// other is what it means that the witness has cosigned another tree of so many records.
func (w *cosigner) other(n uint64) error {
	w.knows = 0
	return differs{fmt.Errorf("the first %d records are not those that it has cosigned: the log is another one; put the "+
		"right data directory back, or %s", n, witnessOut)}
}

func isSize(a *answer) bool {
	kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	return err == nil && kind == "text/x.tlog.size"
}

func sizeOf(a *answer) (uint64, error) {
	text := strings.TrimSuffix(string(a.body), "\n")
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || strconv.FormatUint(n, 10) != text || !isSize(a) {
		return 0, errors.New("it answered 409 Conflict without the size that it knows (text/x.tlog.size)")
	}
	return n, nil
}

func (w *cosigner) refusal(a *answer) error {
	err := w.http.refusal(a)
	switch a.status {
	case http.StatusNotFound:
		err = fmt.Errorf("%w: it does not know the log %s; give its operator the key that yett audit key prints", err,
			w.k.set.Origin)
	case http.StatusForbidden:
		err = fmt.Errorf("%w: it knows the log by another key; give its operator the key that yett audit key prints", err)
	}
	return err
}

// cosignature gives the line of an answer that the witness's key has signed. Lines of other keys are left out.
func (w *cosigner) cosignature(c signed, lines string) (string, error) {
	wrong := errors.New("its answer has no cosignature of this checkpoint by its key")
	n, err := note.Open([]byte(c.text+lines), note.VerifierList(w.key))
	if err != nil || !strings.HasPrefix(c.text, n.Text+"\n") {
		return "", wrong
	}
	line := "— " + n.Sigs[0].Name + " " + n.Sigs[0].Base64 + "\n"
	if _, err := log.OpenCheckpoint(c.text+line, w.k.keys); err != nil { // nobody could read it in a file
		return "", wrong
	}
	return line, nil
}

func (w *cosigner) close() { w.http.close() }

// cosigned keeps a line for those who get the checkpoint.
func (k *Keeper) cosigned(w *cosigner, c signed, line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lines == nil || k.linesOf != c.text {
		k.lines, k.linesOf = map[*cosigner]string{}, c.text
	}
	k.lines[w] = line
}

// withLines is a checkpoint with the lines of the witnesses that have cosigned it, in the order of the settings.
func (k *Keeper) withLines(c signed) signed {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.linesOf != c.text {
		return c
	}
	for _, p := range k.places {
		if w, ok := p.destination.(*cosigner); ok {
			c.text += k.lines[w]
		}
	}
	return c
}
