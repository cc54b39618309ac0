package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/testkit"
)

// outside is what the clients of a server know to have been answered.
type outside struct {
	mu      sync.Mutex
	ids     map[string]string // decision or scan id → its effect or outcome
	keys    map[string]string // value of a key that must work → its id
	revoked map[string]string // value of a key that must be refused → its id
	defers  map[string]asked
	answers int
	enough  int // answers after which reached is closed
	reached chan struct{}
	wrong   []error
}

// asked is a defer and the last state that was answered.
type asked struct {
	key, status string
	round       int
}

func newOutside() *outside {
	return &outside{ids: map[string]string{}, keys: map[string]string{}, revoked: map[string]string{},
		defers: map[string]asked{}}
}

// answered takes down an answer.
func (o *outside) answered(fn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fn()
	if o.answers++; o.answers == o.enough {
		close(o.reached)
	}
}

func (o *outside) until(more int) chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.enough, o.reached = o.answers+more, make(chan struct{})
	if more == 0 {
		close(o.reached)
	}
	return o.reached
}

// worker is one client at work on one server. Every method is false when the server is gone.
type worker struct {
	*outside
	s     *server
	name  string
	round int
	n     int
}

func (l *worker) call(key, path, body string) (answer, bool) {
	a, err := l.s.send("POST", path, key, body)
	if err != nil {
		return a, false // killed in between: nothing was answered
	}
	if a.status != 200 {
		l.answered(func() { l.wrong = append(l.wrong, fmt.Errorf("%s %s: %d %s", path, body, a.status, a.body)) })
		return a, false
	}
	return a, true
}

func (l *worker) decide(tool, args, token, want string) (answer, bool) {
	body := fmt.Sprintf(`{"agent_id":"a","tool_id":%q,"args":{%s},"defer_token":%q}`, tool, args, token)
	a, ok := l.call(l.s.Keys.Agent, "/v1/authorize", body)
	if !ok {
		return a, false
	}
	l.answered(func() {
		l.ids[a.str("decision_id")] = a.str("effect")
		if a.str("effect") != want {
			l.wrong = append(l.wrong, fmt.Errorf("%s: want %s, got %s", body, want, a.body))
		}
	})
	return a, true
}

func (l *worker) state(token, status string) {
	l.answered(func() { l.defers[token] = asked{l.s.Keys.Agent, status, l.round} })
}

// turn is one round of everything an agent and its approver do.
func (l *worker) turn() bool {
	l.n++
	args := fmt.Sprintf(`"order":"%s-%d-%d"`, l.name, l.round, l.n)
	if _, ok := l.decide("files/read", args, "", "PERMIT"); !ok {
		return false
	}
	if _, ok := l.decide("shell/run", `"command":"rm -rf /"`, "", "DENY"); !ok {
		return false
	}
	scan, ok := l.call(l.s.Keys.Agent, "/v1/scan_output", `{"tool_id":"t","output":"nothing to see"}`)
	if !ok {
		return false
	}
	l.answered(func() { l.ids[scan.str("scan_id")] = scan.str("outcome") })
	a, ok := l.decide("payments/refund", args, "", "DEFER")
	if !ok {
		return false
	}
	token := a.str("defer_token")
	l.state(token, "pending")
	if l.n%4 == 3 {
		return true
	}
	yes, err := l.call(l.s.Keys.Approver, "/v1/approve",
		fmt.Sprintf(`{"defer_token":%q,"approved":%v}`, token, l.n%4 != 2))
	if !err {
		return false
	}
	l.state(token, yes.str("status"))
	if l.n%4 != 0 {
		return true
	}
	if _, ok := l.decide("payments/refund", args, token, "PERMIT"); !ok {
		return false
	}
	l.state(token, "consumed")
	return true
}

// manage makes keys with the real command and revokes every second one, until the server is gone.
func (l *worker) manage() {
	for n := 0; ; n++ {
		out, err := exec.Command(e2e.Binary(l.s.t), "keys", "create", fmt.Sprintf("k-%d-%d", l.round, n), "--data", l.s.Data,
			"-o", "json").Output()
		var k admin.NewKey
		if err != nil || json.Unmarshal(out, &k) != nil {
			return
		}
		l.answered(func() { l.keys[k.Key] = k.ID })
		if n%2 == 1 {
			continue
		}
		l.answered(func() { delete(l.keys, k.Key) }) // from here on it may work or not
		if exec.Command(e2e.Binary(l.s.t), "keys", "revoke", k.ID, "--data", l.s.Data).Run() != nil {
			return
		}
		l.answered(func() { l.revoked[k.Key] = k.ID })
	}
}

// rounds is how many rounds a test of this file takes.
func rounds(t *testing.T, usual, full int) int {
	if n, err := strconv.Atoi(os.Getenv("YETT_ROUNDS")); err == nil && n > 0 {
		return n
	}
	if os.Getenv("YETT_FULL") != "" {
		return full
	}
	return usual
}

// TestKillUnderLoad kills the server with -9 in the middle of work, again and again. Whatever it had answered must hold
// after the restart: records, keys, revocations, defers, and a log that its own checkpoint fits. Each check reads all
// of the log, so very many rounds have several stores, one after the other.
func TestKillUnderLoad(t *testing.T) {
	testkit.Slow(t, "kills gateways")
	const ofOneStore = 50
	for left, n := rounds(t, ofOneStore, ofOneStore), uint64(0); left > 0; left -= ofOneStore {
		killUnderLoad(t, n, min(left, ofOneStore))
		n++
	}
}

func killUnderLoad(t *testing.T, seed uint64, total int) {
	data, known := t.TempDir(), newOutside()
	rng := rand.New(rand.NewPCG(7, 7+seed))
	var ready []time.Duration
	served := time.Duration(0) // from when the clients begin to the kill
	for round := range total + 1 {
		start := time.Now()
		s := startDev(t, nil, "--data", data)
		ready = append(ready, time.Since(start))
		for _, k := range []string{s.Keys.Agent, s.Keys.Approver, s.Keys.Operator} {
			known.keys[k] = "dev"
		}
		if err := known.holds(s, round); err != nil {
			t.Fatalf("after %d kills: %v", round, err)
		}
		if round == total {
			break
		}
		reached := known.until(rng.IntN(12) * 250) // now and then at once
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 18 {
			l := &worker{outside: known, s: s, name: strconv.Itoa(i), round: round}
			wg.Go(func() {
				for l.turn() {
				}
			})
		}
		wg.Go((&worker{outside: known, s: s, round: round}).manage)
		ended := make(chan struct{})
		go func() {
			wg.Wait()
			close(ended)
		}()
		select {
		case <-reached:
		case <-ended: // all workers gave up: known.wrong says why
		}
		served += time.Since(began)
		s.kill()
		<-ended
		if err := errors.Join(known.wrong...); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(ready[1:])
	t.Logf("%d kills, %d answers (%.0f/s), %d keys, %d revoked, %d defers; first start %v, restarts: median %v, "+
		"slowest %v", total, known.answers, float64(known.answers)/served.Seconds(), len(known.keys), len(known.revoked),
		len(known.defers), ready[0], ready[1+total/2], ready[total])
}

// holds checks a server just started against what is known.
func (o *outside) holds(s *server, round int) error {
	key, err := exec.Command(e2e.Binary(s.t), "audit", "key", "--data", s.Data).Output()
	if err != nil {
		return fmt.Errorf("audit key: %w", err)
	}
	if err := o.inLog(s.exported(), strings.TrimSpace(string(key))); err != nil {
		return err
	}
	var mu sync.Mutex
	var errs []error
	check := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	live, dead, tokens := slices.Sorted(maps.Keys(o.keys)), slices.Sorted(maps.Keys(o.revoked)),
		slices.Sorted(maps.Keys(o.defers))
	atOnce(16, len(live), func(i int) {
		if a, err := s.send("POST", "/v1/approve", live[i], `{`); err != nil || a.status == 401 {
			check(fmt.Errorf("key %s was answered and does not work: %v %s", o.keys[live[i]], err, a.body))
		}
	})
	atOnce(16, len(dead), func(i int) {
		if a, err := s.send("POST", "/v1/authorize", dead[i], `{"agent_id":"a","tool_id":"files/read"}`); err != nil ||
			a.status != 401 || a.str("code") != "key_revoked" {
			check(fmt.Errorf("key %s was revoked: %v %s", o.revoked[dead[i]], err, a.body))
		}
	})
	atOnce(16, len(tokens), func(i int) {
		d := o.defers[tokens[i]]
		if d.round < round-2 {
			return // looked at before, and in the log
		}
		a, err := s.send("POST", "/v1/defer/status?token="+tokens[i], d.key, "")
		if now := a.str("status"); err != nil || now != d.status && !(order[now] > order[d.status]) {
			check(fmt.Errorf("defer %s was answered %s: %v %s", tokens[i], d.status, err, a.body))
		}
	})
	return errors.Join(errs...)
}

// order is in which order a defer's states follow each other. The last three are for ever.
var order = map[string]int{"pending": 1, "approved": 2, "consumed": 3, "denied": 3, "expired": 3}

// logLine is what of a record these tests look at.
type logLine struct {
	Seq     uint64 `json:"seq"`
	Type    string `json:"type"`
	ID      string `json:"decision_id"`
	Scan    string `json:"scan_id"`
	Effect  string `json:"effect"`
	Outcome string `json:"outcome"`
	KeyID   string `json:"key_id"`
}

// inLog checks an export: the header's checkpoint is signed by key and is of exactly these records, seq has no gaps, no
// record says what must never be, and everything answered is there.
func (o *outside) inLog(export, key string) error {
	sc := bufio.NewScanner(strings.NewReader(export))
	sc.Buffer(nil, 1<<24)
	if !sc.Scan() {
		return errors.New("the export is empty")
	}
	var head struct {
		Checkpoint string
		From       uint64 `json:"from_seq"`
		To         uint64 `json:"to_seq"`
	}
	if err := json.Unmarshal(sc.Bytes(), &head); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	size, root, err := openCheckpoint(head.Checkpoint, key)
	if err != nil {
		return err
	}
	var hashes []tlog.Hash
	ids, created, revoked := map[string]string{}, map[string]bool{}, map[string]bool{}
	n := int64(0)
	for sc.Scan() {
		var line logLine
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			return fmt.Errorf("record %d: %w", n+1, err)
		}
		if line.Seq != uint64(n+1) {
			return fmt.Errorf("record %d says it is %d", n+1, line.Seq)
		}
		more, err := tlog.StoredHashes(n, bytes.Clone(sc.Bytes()), reader(hashes))
		if err != nil {
			return err
		}
		hashes = append(hashes, more...)
		n++
		switch {
		case line.ID != "" && line.Type == "decision":
			ids[line.ID] = line.Effect
		case line.Scan != "":
			ids[line.Scan] = line.Outcome
		case line.Type == "key_created":
			created[line.KeyID] = true
		case line.Type == "key_revoked":
			revoked[line.KeyID] = true
		}
	}
	if got, err := tlog.TreeHash(n, reader(hashes)); err != nil || n != size || got != root || head.From != 1 ||
		head.To != uint64(n) {
		return fmt.Errorf("the checkpoint is of %d records with root %v, the header of %d to %d; there are %d with "+
			"root %v %v", size, root, head.From, head.To, n, got, err)
	}
	for id, effect := range o.ids {
		if ids[id] != effect {
			return fmt.Errorf("%s was answered %s; in the log it is %q", id, effect, ids[id])
		}
	}
	for _, id := range o.keys {
		if id != "dev" && !created[id] || revoked[id] {
			return fmt.Errorf("key %s is not created or is revoked in the log", id)
		}
	}
	for _, id := range o.revoked {
		if !revoked[id] {
			return fmt.Errorf("the revocation of key %s is not in the log", id)
		}
	}
	_, err = log.Verify(strings.NewReader(export), log.VerifyOptions{Invariants: true})
	return err
}

func reader(hashes []tlog.Hash) tlog.HashReaderFunc {
	return func(index []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(index))
		for i, x := range index {
			out[i] = hashes[x]
		}
		return out, nil
	}
}

// openCheckpoint reads a C2SP checkpoint with the public key alone.
func openCheckpoint(text, key string) (size int64, root tlog.Hash, err error) {
	v, err := note.NewVerifier(key)
	if err != nil {
		return 0, root, fmt.Errorf("public key %q: %w", key, err)
	}
	n, err := note.Open([]byte(text), note.VerifierList(v))
	if err != nil {
		return 0, root, fmt.Errorf("checkpoint: %w", err)
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 4 || lines[0] != v.Name() {
		return 0, root, fmt.Errorf("checkpoint of %q is %q", v.Name(), n.Text)
	}
	size, err = strconv.ParseInt(lines[1], 10, 64)
	raw, rawErr := base64.StdEncoding.DecodeString(lines[2])
	if copy(root[:], raw) != tlog.HashSize {
		rawErr = errors.New("a root of the wrong length")
	}
	return size, root, errors.Join(err, rawErr)
}

// The check above sees what it is there to see.
func TestKillCheckCatches(t *testing.T) {
	s := startDev(t, nil, "--data", t.TempDir())
	o := newOutside()
	l := &worker{outside: o, s: s, name: "x"}
	for range 4 {
		if !l.turn() {
			t.Fatal(o.wrong)
		}
	}
	out, err := exec.Command(e2e.Binary(t), "audit", "key", "--data", s.Data).Output()
	if err != nil {
		t.Fatal(err)
	}
	key, export := strings.TrimSpace(string(out)), s.exported()
	if err := o.inLog(export, key); err != nil {
		t.Fatalf("an honest log: %v", err)
	}
	lines := strings.SplitAfter(export, "\n")
	lines = lines[:len(lines)-1]
	swapped := slices.Clone(lines)
	swapped[3], swapped[4] = swapped[4], swapped[3]
	ghost := newOutside()
	ghost.ids["dec_never"] = "PERMIT"
	flipped := newOutside()
	for id, effect := range o.ids {
		if effect == "DENY" {
			flipped.ids[id] = "PERMIT" // answered as a permit, recorded as a denial
		}
	}
	for name, c := range map[string]struct {
		o      *outside
		export string
	}{
		"a cut tail": {o, strings.Join(lines[:len(lines)-1], "")}, "swapped records": {o, strings.Join(swapped, "")}, "a missing record": {o, strings.Join(slices.Delete(slices.Clone(lines), 5, 6), "")},
		"a changed record": {o, strings.Replace(export, `"effect":"DENY"`, `"effect":"DENi"`, 1)}, "an answer without a record": {ghost, export}, "another effect": {flipped, export},
	} {
		if err := c.o.inLog(c.export, key); err == nil {
			t.Errorf("%s was not noticed", name)
		}
	}
	if err := o.inLog(export, strings.Replace(key, "yett.dev", "yett.com", 1)); err == nil {
		t.Error("another public key was not noticed")
	}
}
