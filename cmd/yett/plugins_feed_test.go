//go:build linux

package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
)

// window is how many records may come twice after an end of any kind: four batches of 256.
const window = 4 * 256

// delivered is what a subscriber wrote down.
type delivered struct {
	batches []tookBatch
	starts  int // of batches: index → the stream began anew before it
	began   map[int]bool
	spoiled int // lines that a kill cut off
}

// tookBatch is a batch as core/testkit/fakeplugin writes it down.
type tookBatch struct {
	Store   string
	First   uint64
	Last    uint64
	Root    string
	Replay  bool
	Gap     *struct{ First, Last uint64 }
	Records []struct {
		Seq  uint64
		Leaf string
		JSON json.RawMessage
	}
}

func readDelivered(t testing.TB, path string) *delivered {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	d := &delivered{began: map[int]bool{}}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		var l struct {
			Start   json.RawMessage
			Consume bool
			Batch   *tookBatch
		}
		switch err := json.Unmarshal(line, &l); {
		case err != nil:
			d.spoiled++
		case l.Start != nil:
			d.starts++
		case l.Consume:
			d.began[len(d.batches)] = true
		case l.Batch != nil:
			d.batches = append(d.batches, *l.Batch)
		}
	}
	return d
}

// last is the highest record that was handed over or filtered out.
func (d *delivered) last() (last uint64) {
	for _, b := range d.batches {
		last = max(last, b.Last)
	}
	return last
}

// exact checks what a subscriber got against the log: every record up to the last batch, in order, unchanged, with the
// leaf and the root of the tree; and no more than a window twice after each new beginning.
func (d *delivered) exact(export string) (twice int, err error) {
	lines := strings.SplitAfter(export, "\n")[1:] // the first is the header
	var hashes []tlog.Hash
	roots := []string{""}
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			lines = lines[:i]
			break
		}
		lines[i] = line
		more, err := tlog.StoredHashes(int64(i), []byte(line), reader(hashes))
		if err != nil {
			return 0, err
		}
		hashes = append(hashes, more...)
		root, err := tlog.TreeHash(int64(i+1), reader(hashes))
		if err != nil {
			return 0, err
		}
		roots = append(roots, hex.EncodeToString(root[:]))
	}
	got, next := uint64(0), uint64(1) // got: the highest so far
	for i, b := range d.batches {
		if d.began[i] {
			if b.First > got+1 {
				return twice, fmt.Errorf("batch %d begins at %d, and %d was the last: records are missing", i, b.First, got)
			}
			if got >= window && b.First <= got-window {
				return twice, fmt.Errorf("batch %d begins at %d, and %d was the last: more than %d come twice", i, b.First, got,
					window)
			}
			next = b.First
		}
		if b.First != next || b.Last < b.First || b.Last > uint64(len(lines)) || b.Gap != nil {
			return twice, fmt.Errorf("batch %d is of %d to %d (gap %v); %d is next and the log has %d", i, b.First, b.Last,
				b.Gap, next, len(lines))
		}
		if b.Root != roots[b.Last] {
			return twice, fmt.Errorf("batch %d: the root of %d records is %s, not %s", i, b.Last, roots[b.Last], b.Root)
		}
		if uint64(len(b.Records)) != b.Last-b.First+1 || len(b.Records) > 256 {
			return twice, fmt.Errorf("batch %d of %d to %d has %d records", i, b.First, b.Last, len(b.Records))
		}
		for j, r := range b.Records {
			leaf := tlog.RecordHash([]byte(lines[r.Seq-1]))
			if r.Seq != b.First+uint64(j) || string(r.JSON) != lines[r.Seq-1] || r.Leaf != hex.EncodeToString(leaf[:]) {
				return twice, fmt.Errorf("batch %d, record %d: %s, in the log %s", i, r.Seq, r.JSON, lines[r.Seq-1])
			}
			if r.Seq <= got {
				twice++
			}
		}
		got, next = max(got, b.Last), b.Last+1
	}
	return twice, nil
}

// follow writes a configuration with a fake as a subscriber to everything.
func follow(t testing.TB, token, out, mode, arg string) string {
	t.Helper()
	path, digest := e2e.Fake(t)
	plugin := fmt.Sprintf("  sink: {kind: subscriber, exec: %s, digest: %q, env: {FAKE_MODE: %s, FAKE_ARG: %q, "+
		"FAKE_OUT: %s, FAKE_RUN: %s}, paths: {write: [%s]}, network: none, limits: {start: 20s, drain: 2s}}\n",
		path, digest, mode, arg, out, token, filepath.Dir(out))
	return writeConfig(t, t.TempDir(), plugin, "",
		"audit: {args: full, subscribers: [{use: sink, payload: full, start: earliest, on_poison: pause}]}\n")
}

func (s *server) resumes(name string) {
	s.t.Helper()
	if out, err := exec.Command(e2e.Binary(s.t), "plugin", "resume", name, "--data", s.Data).CombinedOutput(); err != nil {
		s.t.Errorf("plugin resume: %v %s", err, out)
	}
}

// sinks are the processes of the subscriber.
func sinks(token string) []int { return slices.Collect(maps.Keys(markedBy(token))) }

// TestSubscriberUnderKills has a subscriber follow the log while it is killed, stopped and started again, and while the
// gateway is killed: it gets every record in order, and few twice. What that costs decisions is logged.
func TestSubscriberUnderKills(t *testing.T) {
	testkit.Slow(t, "kills gateways")
	token := fmt.Sprintf("sink-%d-%d", os.Getpid(), time.Now().UnixNano())
	out, data := filepath.Join(t.TempDir(), "out"), t.TempDir()
	config := follow(t, token, out, "good", "")
	kills, stopFor, busy := rounds(t, 6, 10), 500*time.Millisecond, 400*time.Millisecond
	if os.Getenv("YETT_FULL") != "" {
		stopFor, busy = time.Minute, 2*time.Second
	}
	s := startDev(t, nil, "--config", config, "--data", data)
	load := s.steadily("files/read", 4*time.Millisecond)
	pause(busy)
	load.lap()
	pause(2 * busy)
	before := load.lap()
	var during []time.Duration
	for n := range kills {
		if n%3 == 2 { // the gateway itself, wherever it is between commit, delivery and cursor
			during = append(during, load.lap()...)
			if n%6 == 5 { // with records on their way that nobody took in
				for _, pid := range sinks(token) {
					_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
				}
				pause(busy)
			}
			s.kill()
			load.abandon()
			if !becomes(func() bool { return len(sinks(token)) == 0 }) {
				t.Errorf("the subscriber outlives the gateway: %v", markedBy(token))
			}
			s = startDev(t, nil, "--config", config, "--data", data)
			load = s.steadily("files/read", 4*time.Millisecond)
			continue
		}
		if !becomes(func() bool { return len(sinks(token)) > 0 }) {
			t.Fatalf("the subscriber is not there: %+v\n%s", s.plugins(), s.stderr)
		}
		for _, pid := range sinks(token) {
			if n%3 == 1 {
				_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
			} else {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if n%3 == 1 {
			pause(stopFor)
			for _, pid := range sinks(token) {
				_ = syscall.Kill(pid, syscall.SIGCONT) // the gateway may have killed it as wedged
			}
		}
		pause(busy)
		if s.plugins()["sink"].State == "quarantined" {
			s.resumes("sink")
		}
	}
	during = append(during, load.lap()...)
	load.end(t)
	end := s.lastSeq()
	if !becomes(func() bool { return readDelivered(t, out).last() >= end }) {
		t.Errorf("record %d did not arrive: %d did; %+v\n%.3000s", end, readDelivered(t, out).last(), s.plugins()["sink"],
			s.stderr)
	}
	s.stop()
	d := readDelivered(t, out)
	twice, err := d.exact(s.exported())
	if err != nil {
		t.Error(err)
	}
	if d.spoiled > kills {
		t.Errorf("%d lines are spoiled", d.spoiled)
	}
	b, w := quantile(before, 0.99), quantile(during, 0.99)
	t.Logf("%d kills and stops (%v): %d records in %d batches, %d starts, %d came twice (window %d); decisions' p99 %v "+
		"before, %v meanwhile: %.2f×", kills, stopFor, d.last(),
		len(d.batches), d.starts, twice, window, b, w, float64(w)/float64(max(b, 1)))
	if len(sinks(token)) > 0 && !becomes(func() bool { return len(sinks(token)) == 0 }) {
		t.Errorf("still there: %v", markedBy(token))
	}
}

// abandon stops a load whose server was killed: what it was not answered counts for nothing.
func (l *steady) abandon() {
	close(l.stop)
	l.wg.Wait()
}

// lastSeq is the number of the last record.
func (s *server) lastSeq() uint64 {
	s.t.Helper()
	lines := strings.Split(strings.TrimSpace(s.exported()), "\n")
	var l logLine
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &l); err != nil {
		s.t.Fatal(err)
	}
	return l.Seq
}

// TestDeliveryCheckCatches: the check above sees what it is there to see.
func TestDeliveryCheckCatches(t *testing.T) {
	testkit.Slow(t, "kills gateways")
	out := filepath.Join(t.TempDir(), "out")
	s := startDev(t, nil, "--config", follow(t, "none", out, "good", ""), "--data", t.TempDir())
	for range 3 {
		if _, err := s.asked("files/read"); err != nil {
			t.Fatal(err)
		}
		end := s.lastSeq()
		if !becomes(func() bool { return readDelivered(t, out).last() >= end }) {
			t.Fatal("nothing arrives")
		}
	}
	s.stop()
	export := s.exported()
	if _, err := readDelivered(t, out).exact(export); err != nil {
		t.Fatalf("an honest delivery: %v", err)
	}
	for name, spoil := range map[string]func(d *delivered){
		"a batch that is missing":     func(d *delivered) { d.batches = slices.Delete(d.batches, 1, 2) },
		"a missing one after a start": func(d *delivered) { d.batches, d.began = d.batches[1:], map[int]bool{0: true} },
		"batches in another order":    func(d *delivered) { d.batches[0], d.batches[1] = d.batches[1], d.batches[0] },
		"a record that is missing":    func(d *delivered) { d.batches[0].Records = d.batches[0].Records[1:] },
		"a changed record": func(d *delivered) {
			r := &d.batches[0].Records[0]
			r.JSON = json.RawMessage(strings.Replace(string(r.JSON), "1", "2", 1))
		},
		"another root":                 func(d *delivered) { d.batches[1].Root = d.batches[0].Root },
		"another leaf":                 func(d *delivered) { d.batches[0].Records[0].Leaf = d.batches[0].Root },
		"a repetition without a start": func(d *delivered) { d.batches = append(d.batches, d.batches[0]) },
	} {
		d := readDelivered(t, out)
		spoil(d)
		if _, err := d.exact(export); err == nil {
			t.Errorf("%s was not noticed", name)
		}
	}
}

// TestSubscribersThatMisbehave runs the fakes that acknowledge what they should not: the gateway decides on, and
// nothing is lost on the next one that is good.
func TestSubscribersThatMisbehave(t *testing.T) {
	testkit.Slow(t, "waits for subscribers that hang")
	cases := []struct{ mode, arg string }{{"acks-beyond", ""}, {"acks-never", ""}, {"crash-batch", "2"},
		{"refuses-record", "2"}, {"crash-record", "2"}}
	if os.Getenv("YETT_FULL") != "" {
		for _, mode := range []string{"acks-backwards", "acks-nothing-new", "acks-flood", "acks-slowly", "acks-each",
			"ends-consume", "unread"} {
			cases = append(cases, struct{ mode, arg string }{mode, ""})
		}
	}
	for _, c := range cases {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			token := fmt.Sprintf("sink-%s-%d-%d", c.mode, os.Getpid(), time.Now().UnixNano())
			data, dir := t.TempDir(), t.TempDir()
			s := startDev(t, nil, "--config", follow(t, token, filepath.Join(dir, "bad"), c.mode, c.arg), "--data", data)
			load := s.steadily("files/read", 5*time.Millisecond)
			pause(700 * time.Millisecond)
			load.end(t)
			if r := s.plugins()["sink"]; r.Subscriber == nil {
				t.Errorf("%+v", r)
			}
			s.stop()
			bad := readDelivered(t, filepath.Join(dir, "bad"))
			s = startDev(t, nil, "--config", follow(t, token, filepath.Join(dir, "good"), "good", ""), "--data", data)
			end := s.lastSeq()
			if s.plugins()["sink"].Subscriber.State == "paused" {
				s.resumes("sink")
			}
			if !becomes(func() bool { return readDelivered(t, filepath.Join(dir, "good")).last() >= end }) {
				t.Fatalf("record %d did not arrive at the next one: %+v\n%.3000s", end, s.plugins()["sink"], s.stderr)
			}
			s.stop()
			good := readDelivered(t, filepath.Join(dir, "good"))
			if c.mode == "crash-record" || c.mode == "refuses-record" || c.mode == "unread" {
				bad = &delivered{began: map[int]bool{}} // what it wrote down is cut
			}
			if first := good.batches[0].First; len(bad.batches) > 0 && first > bad.last()+1 ||
				len(bad.batches) == 0 && first > 2 {
				t.Errorf("the next one begins at %d, and the one before had got %d", first, bad.last())
			}
			// From its own beginning on it gets everything.
			shift := good.batches[0].First
			all := &delivered{batches: good.batches, began: good.began}
			if shift > 1 {
				all = &delivered{batches: append(upToSeq(t, s.exported(), shift-1), good.batches...), began: map[int]bool{}}
				for i := range good.began {
					all.began[i+len(all.batches)-len(good.batches)] = true
				}
			}
			if _, err := all.exact(s.exported()); err != nil {
				t.Error(err)
			}
		})
	}
}

// upToSeq makes the batches that bring a delivery to a record: what came before the one that is checked.
func upToSeq(t testing.TB, export string, last uint64) (out []tookBatch) {
	t.Helper()
	lines := strings.Split(export, "\n")[1:]
	var hashes []tlog.Hash
	for i := range last {
		more, err := tlog.StoredHashes(int64(i), []byte(lines[i]), reader(hashes))
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, more...)
		root, err := tlog.TreeHash(int64(i+1), reader(hashes))
		if err != nil {
			t.Fatal(err)
		}
		leaf := tlog.RecordHash([]byte(lines[i]))
		b := tookBatch{First: i + 1, Last: i + 1, Root: hex.EncodeToString(root[:])}
		b.Records = append(b.Records, struct {
			Seq  uint64
			Leaf string
			JSON json.RawMessage
		}{i + 1, hex.EncodeToString(leaf[:]), json.RawMessage(lines[i])})
		out = append(out, b)
	}
	return out
}
