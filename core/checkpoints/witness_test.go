package checkpoints

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/yett-dev/yett/core/cosign"
	"github.com/yett-dev/yett/core/log"
	double "github.com/yett-dev/yett/core/testkit/witness"
)

const origin = "yett.dev/audit/sto_1"

// newWitness is a witness of the test's log, with what stands in front of it; and the settings that reach it.
func newWitness(t *testing.T, name string, front func(w http.ResponseWriter, r *http.Request) bool) (*double.Witness,
	Witness) {
	t.Helper()
	w := double.New(name)
	key, err := cosign.ParseKey(w.Key())
	if err == nil {
		err = w.Trust(signer(t, 1, "sto_1").PublicKey())
	}
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if front == nil || !front(rw, r) {
			w.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(srv.Close)
	return w, Witness{URL: srv.URL + "/", Key: key}
}

func withWitnesses(t *testing.T, b *book, said *strings.Builder, path string, all ...Witness) Settings {
	set := settings(t, b, said, path)
	set.Witnesses = all
	return set
}

// cosigners are who has signed the last checkpoint of a file beside the log.
func cosigners(t *testing.T, path string, all ...Witness) (size uint64, names []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := log.SplitCheckpoints(data)
	if err != nil {
		t.Fatal(err)
	}
	text := texts[len(texts)-1]
	keys, err := log.ParseKeys(signer(t, 1, "sto_1").PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	c, err := log.OpenCheckpoint(text, keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		if _, err := note.Open([]byte(text), note.VerifierList(w.Key)); err == nil {
			names = append(names, w.Key.Name())
		}
	}
	return c.Size, names
}

// TestWitnesses: each cosigns each checkpoint once, and files and webhooks get it with the lines of all.
func TestWitnesses(t *testing.T) {
	asked := 0
	first, one := newWitness(t, "w.example/1", func(http.ResponseWriter, *http.Request) bool { asked++; return false })
	_, two := newWitness(t, "w.example/2", nil)
	a, hook := newArchive(t)
	path, said, b := filepath.Join(t.TempDir(), "checkpoints"), &strings.Builder{}, newBook("a", 20)
	b.kept = 9
	set := withWitnesses(t, b, said, path, one, two)
	set.Webhooks = []Webhook{hook}
	k := start(t, set)
	defer k.Close()
	if size, names := cosigners(t, path, one, two); size != 9 || len(names) != 2 {
		t.Errorf("%d records, cosigned by %q", size, names)
	}
	if !strings.Contains(said.String(), "witness w.example/1 did not know this log") || strings.Count(a.has, "\n— ") != 3 {
		t.Errorf("said %q, the webhook has %q", said, a.has)
	}
	k.write(false)
	if asked != 1 {
		t.Errorf("asked %d times for one checkpoint", asked)
	}
	b.kept = 20
	k.write(false)
	if size, names := cosigners(t, path, one, two); size != 20 || len(names) != 2 || asked != 2 {
		t.Errorf("%d records, cosigned by %q, asked %d times", size, names, asked)
	}
	if seen := first.Latest(origin); seen.Size != 20 || seen.Root != b.roots[20] {
		t.Errorf("the witness has seen %+v", seen)
	}
	if s := k.of("w.example/1"); s.Kind != KindWitness || s.Size != 20 || s.Err != nil {
		t.Errorf("%+v", s)
	}
	said.Reset()
	again := start(t, withWitnesses(t, newBook("a", 30), said, path, one)) // knows not what the witness knows
	defer again.Close()
	if size, names := cosigners(t, path, one); size != 30 || len(names) != 1 || said.Len() != 0 {
		t.Errorf("%d records, cosigned by %q, said %q", size, names, said)
	}
}

// TestWitnessHoldsTheLog: what a start makes of a witness that has cosigned nine records, and what a gateway does that
// could not ask it at its start.
func TestWitnessHoldsTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		log *book
		err string
	}{
		"as it was":     {newBook("a", 9), ""},
		"longer":        {newBook("a", 90), ""},
		"shorter":       {newBook("a", 8), "its end is missing"},
		"empty":         {newBook("a", 0), "its end is missing"},
		"another one":   {newBook("b", 9), "are not those that it has cosigned"},
		"another, long": {newBook("b", 90), "are not those that it has cosigned"},
	} {
		t.Run(name, func(t *testing.T) {
			down := false
			w, set := newWitness(t, "w.example/1", func(rw http.ResponseWriter, _ *http.Request) bool {
				if down {
					rw.WriteHeader(http.StatusServiceUnavailable)
				}
				return down
			})
			nowhere := filepath.Join(t.TempDir(), "checkpoints")
			start(t, withWitnesses(t, newBook("a", 9), &strings.Builder{}, nowhere, set)).Close()
			had := w.Latest(origin)
			down = true
			said := &strings.Builder{}
			k := start(t, withWitnesses(t, c.log, said, nowhere+"2", set))
			defer k.Close()
			if !strings.Contains(said.String(), "503 Service Unavailable: the log is not held against it") {
				t.Errorf("said %q", said)
			}
			down = false
			if c.log.kept > 0 {
				k.write(false)
				k.write(false)
				s := k.of("w.example/1")
				if Differs(s.Err) != (c.err != "") || (s.Err == nil) != (c.err == "") || !strings.Contains(s.Detail, c.err) {
					t.Errorf("%+v, want %q", s, c.err)
				}
				if n := strings.Count(said.String(), "ALARM"); (n == 1) != (c.err != "") {
					t.Errorf("said %q", said)
				}
			}
			err := check(t, withWitnesses(t, c.log, &strings.Builder{}, nowhere+"3", set))
			if (err == nil) != (c.err == "") || err != nil && (!Differs(err) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("a start: %v, want %q", err, c.err)
			}
			if now := w.Latest(origin); c.err != "" && now != had {
				t.Errorf("it has cosigned %+v", now)
			}
		})
	}
}

// TestWitnessFailures: none keeps a start, and none puts a line into a file.
func TestWitnessFailures(t *testing.T) {
	b := newBook("a", 9)
	body := fmt.Sprintf("%s\n9\n%s\n", origin, b.roots[9])
	say := func(status int, kind, text string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
			return true
		}
	}
	text, err := signer(t, 1, "sto_1").Checkpoint(9, b.roots[9])
	if err != nil {
		t.Fatal(err)
	}
	other := double.New("w.example/other")
	same := double.New("w.example/1")
	n := 0
	for name, c := range map[string]struct {
		front func(w http.ResponseWriter, r *http.Request) bool
		want  string
	}{
		"not known":         {say(404, "", ""), "it does not know the log " + origin},
		"another key":       {say(403, "", ""), "it knows the log by another key"},
		"bad":               {say(400, "", ""), "it answered 400 Bad Request"},
		"no proof":          {say(422, "", ""), "it answered 422 Unprocessable Entity"},
		"no line":           {say(200, "", ""), "has no cosignature of this checkpoint by its key"},
		"no note":           {say(200, "", "ok"), "has no cosignature"},
		"of another":        {say(200, "", other.Cosign(body, time.Unix(1, 0))), "has no cosignature"},
		"of something else": {say(200, "", same.Cosign("x"+body, time.Unix(1, 0))), "has no cosignature"},
		"another text":      {say(200, "", "\n"+same.Cosign(body, time.Unix(1, 0))), "has no cosignature"},
		"a longer text":     {say(200, "", "x\n\n"+same.Cosign(text+"x\n", time.Unix(1, 0))), "has no cosignature"},
		"no size":           {say(409, "text/plain", "5\n"), "without the size that it knows"},
		"a bad size":        {say(409, "text/x.tlog.size", "05\n"), "without the size that it knows"},
		"a redirect":        {say(307, "", ""), "redirects are not followed"},
		"many sizes": {func(w http.ResponseWriter, r *http.Request) bool {
			n++
			return say(409, "text/x.tlog.size", fmt.Sprintf("%d\n", n%5+1))(w, r)
		}, "another size of the log each time"},
		"large": {say(200, "", strings.Repeat(same.Cosign(body, time.Unix(1, 0)), 1000)), "is larger than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, set := newWitness(t, "w.example/1", c.front)
			path := filepath.Join(t.TempDir(), "checkpoints")
			k := start(t, withWitnesses(t, b, &strings.Builder{}, path, set))
			defer k.Close()
			if s := k.of("w.example/1"); s.Err == nil || !strings.Contains(s.Detail, c.want) || Differs(s.Err) {
				t.Errorf("%+v, want %q", s, c.want)
			}
			if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), "— w.example") {
				t.Errorf("the file has %q: %v", data, err)
			}
		})
	}
}

// TestAWitnessThatLearns: what it says of another log is an alarm, and over when it says so no more.
func TestAWitnessThatLearns(t *testing.T) {
	for name, c := range map[string]struct{ size, want string }{
		"more":     {"30", "now it has 20"},
		"the same": {"20", "the first 20 records are not those that it has cosigned"},
	} {
		t.Run(name, func(t *testing.T) {
			says := ""
			_, set := newWitness(t, "w.example/1", func(rw http.ResponseWriter, _ *http.Request) bool {
				if says != "" {
					rw.Header().Set("Content-Type", "text/x.tlog.size")
					rw.WriteHeader(http.StatusConflict)
					_, _ = fmt.Fprintln(rw, says)
				}
				return says != ""
			})
			b, said := newBook("a", 20), &strings.Builder{}
			b.kept = 9
			k := start(t, withWitnesses(t, b, said, filepath.Join(t.TempDir(), "checkpoints"), set))
			defer k.Close()
			b.kept, says = 20, c.size
			k.write(false)
			k.write(false)
			if s := k.of("w.example/1"); !Differs(s.Err) || s.Size != 9 || !strings.Contains(s.Detail, c.want) ||
				strings.Count(said.String(), "ALARM") != 1 {
				t.Errorf("%+v, said %q", s, said)
			}
			says = ""
			k.write(false)
			if s := k.of("w.example/1"); s.Err != nil || s.Size != 20 || !strings.Contains(said.String(), "works again") {
				t.Errorf("%+v, said %q", s, said)
			}
		})
	}
}

// TestALateWitness: the file gets the checkpoint without its line, and again with it.
func TestALateWitness(t *testing.T) {
	down := true
	_, late := newWitness(t, "w.example/1", func(rw http.ResponseWriter, _ *http.Request) bool {
		if down {
			rw.WriteHeader(http.StatusTooManyRequests)
		}
		return down
	})
	_, good := newWitness(t, "w.example/2", nil)
	path := filepath.Join(t.TempDir(), "checkpoints")
	k := start(t, withWitnesses(t, newBook("a", 9), &strings.Builder{}, path, late, good))
	defer k.Close()
	if _, names := cosigners(t, path, late, good); strings.Join(names, " ") != "w.example/2" {
		t.Errorf("cosigned by %q", names)
	}
	down = false
	k.write(false)
	if _, names := cosigners(t, path, late, good); strings.Join(names, " ") != "w.example/1 w.example/2" {
		t.Errorf("cosigned by %q", names)
	}
	if err := check(t, settings(t, newBook("a", 8), &strings.Builder{}, path)); !Differs(err) {
		t.Errorf("the lines of witnesses hide the checkpoint: %v", err)
	}
}

// TestAWitnessBehindRetention: what cannot be proved any more is told of, and no alarm.
func TestAWitnessBehindRetention(t *testing.T) {
	_, set := newWitness(t, "w.example/1", nil)
	path := filepath.Join(t.TempDir(), "checkpoints")
	start(t, withWitnesses(t, newBook("a", 9), &strings.Builder{}, path, set)).Close()
	b := newBook("a", 90)
	b.first = 50
	k := start(t, withWitnesses(t, b, &strings.Builder{}, path, set))
	defer k.Close()
	if s := k.of("w.example/1"); s.Err == nil || Differs(s.Err) ||
		!strings.Contains(s.Detail, "prove that its 9 records") {
		t.Errorf("%+v", s)
	}
}
