package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk/abi"
)

const fakeAdmitArg = "fake-admit-"

// fakeAdmission is an admission process that ends otherwise than with an honest verdict.
func fakeAdmission(mode string) error {
	s := &server{out: os.Stdout, in: readFrames(os.Stdin, toChild(MaxMemory))}
	if _, err := s.awaitLoad(); err != nil {
		return err
	}
	if err := s.stage("while it is %s", mode); err != nil {
		return err
	}
	report := admissionReport{OK: true, Scans: true}
	report.Metadata.ABI, report.Metadata.Name, report.Metadata.Version = 1, "x", "1"
	report.Metadata.Stream.Mode = abi.StreamNone
	switch mode {
	case "spin":
		for n := 0; n >= 0; { // for ever
			n ^= 1
		}
	case "hog":
		for kept := map[int][]byte{}; len(kept) >= 0; { // for ever
			kept[len(kept)] = make([]byte, 64<<20) // it need not be touched: what may be written to counts
		}
	case "mute":
		select {}
	case "panic":
		panic("no way out")
	case "segv":
		return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGABRT), hang())
	case "killed":
		return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), hang())
	case "garbage":
		return s.write(bytes.Repeat([]byte("garbage "), 100))
	case "flood":
		for {
			if err := s.write(fakeLog("x")); err != nil {
				return err
			}
		}
	case "silent end":
		return nil
	case "both":
		report.Reason = "a reason"
	case "neither":
		report.OK = false
	case "transient":
		report.Transient = true
	case "useless":
		report.Scans = false
	case "metadata":
		report.Metadata.Version = ""
	case "notes":
		report.Notes = make([]string, maxNotes+1)
	case "right":
	}
	doc, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return s.write(simpleFrame(frameAdmitted, 0, doc))
}

func hang() error { select {} }

// trial is a set of options whose processes are counted.
type trial struct {
	AdmitOptions
	starts atomic.Int64
	mu     sync.Mutex
	lines  []string
	last   *supervise.Process
}

func newTrial(args ...string) *trial {
	tr := &trial{}
	tr.engine = "wazero test"
	if raceDetector {
		tr.Limits.Memory = unlimited
	}
	tr.Log = func(module string, level int, line string) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.lines = append(tr.lines, line)
	}
	tr.start = func(c supervise.Command) (*supervise.Process, error) {
		tr.starts.Add(1)
		if len(args) > 0 {
			c.Args = args
		}
		p, err := supervise.Start(c)
		tr.mu.Lock()
		tr.last = p
		tr.mu.Unlock()
		return p, err
	}
	return tr
}

func (tr *trial) admit(spec Spec) (Verdict, error) {
	return Admit(context.Background(), tr.AdmitOptions, spec)
}

func (tr *trial) said(text string) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return strings.Contains(strings.Join(tr.lines, "\n"), text)
}

func specOf(g guest) Spec { return Spec{Name: "mod", Code: g.wasm()} }

func TestAdmit(t *testing.T) {
	tr := newTrial()
	g := finder()
	g.scan = cat(host("log", i32(1), i32(textAt), i32(11)), i32(0))
	v, err := tr.admit(specOf(g))
	if err != nil || !v.OK || v.Reason != "" || v.Metadata.Name != "test" || !v.Scans || v.Checks || len(v.Notes) > 0 ||
		v.Cached {
		t.Errorf("%+v, %v", v, err)
	}
	if v.Digest != pin.Digest(g.wasm()) || v.Took <= 0 || v.MaxRSS == 0 || v.Engine != "wazero test" ||
		v.Limits.CPU != DefaultAdmitCPU {
		t.Errorf("%+v", v)
	}
	if !tr.said("replacement") {
		t.Errorf("log: %q", tr.lines)
	}
}

// TestAdmitRefuses offers bad modules. Each is refused by the static check or in the process, never by the death of us.
func TestAdmitRefuses(t *testing.T) {
	magic := []byte("\x00asm\x01\x00\x00\x00")
	grow := func(rest []byte) []byte { return cat(loop, i32(16), memGrow, i32(-1), ne, brIf(0), end, rest) }
	n := 0
	for name, c := range map[string]struct {
		code   []byte
		change func(*Spec)
		want   string // of the reason
	}{
		"15 bytes, 2^28 imports": {code: cat(magic, []byte{2, 5}, []byte{0x80, 0x80, 0x80, 0x80, 1})},
		"41 bytes, 2^32 locals": {code: cat(magic, []byte{1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 10, 10, 1, 8, 1},
			[]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f, 0x0b})},
		"too large":       {code: make([]byte, abi.MaxModule+1), want: "at most"},
		"empty":           {code: []byte{}},
		"init status":     {code: guest{scan: i32(0), init: i32(3)}.wasm(), want: "status 3"},
		"init trap":       {code: guest{scan: i32(0), init: unreachable}.wasm(), want: "trapped"},
		"init endless":    {code: guest{scan: i32(0), initialize: forever()}.wasm(), change: func(s *Spec) { s.Start = 100 * time.Millisecond }, want: "_initialize"},
		"init hog":        {code: guest{scan: i32(0), initialize: grow(unreachable)}.wasm(), want: "trapped"},
		"trap on text":    {code: guest{scan: unreachable}.wasm(), want: "an empty text: "},
		"bad finding":     {code: guest{scan: cat(spoilt(func(e *emission) { e.end = 999 }))}.wasm(), want: "span is empty, too long or outside"},
		"decides nothing": {code: guest{check: i32(0)}.wasm(), want: "no decision"},
		"endless scan":    {code: guest{scan: cat(forever(), i32(0))}.wasm(), change: func(s *Spec) { s.Timeout = 100 * time.Millisecond }, want: "an empty text: "},
		"only at text": {code: guest{scan: cat(get(1), i32(4000), geU, ifThen, unreachable, end, i32(0))}.wasm(),
			want: "4 KiB of mixed text: "},
	} {
		if n++; testkit.Quick() && n > 5 {
			continue // each starts a process
		}
		t.Run(name, func(t *testing.T) {
			spec := Spec{Name: "mod", Code: c.code}
			if c.change != nil {
				c.change(&spec)
			}
			v, err := newTrial().admit(spec)
			if !errors.Is(err, ErrNotAdmitted) || v.OK || v.Reason == "" || !strings.Contains(v.Reason, c.want) {
				t.Errorf("got %+v, %v; want a refusal with %q", v, err, c.want)
			}
			if v.Digest != pin.Digest(c.code) {
				t.Errorf("digest %q", v.Digest)
			}
		})
	}
}

// slowToCompile is a module that static admission lets in: 350 000 loads whose addresses all differ, 2 s of compiling.
func slowToCompile() guest {
	load := []byte{0x28, 0, 0}
	body := cat(get(0), bytes.Repeat(load, 29_000))
	g := noop()
	g.edit = func(m *mod) {
		for range 12 {
			m.funcs = append(m.funcs, fn{exportSignatures[abi.ExportBuffer], 0, body})
		}
	}
	return g
}

// largeToCompile is one too: a table of 45 000 labels, read three times, which takes 300 MiB to compile.
func largeToCompile() guest {
	table := cat(get(0), []byte{0x0e}, leb(45_000), make([]byte, 45_001))
	body := cat(bytes.Repeat(cat(block, table, end), 3), i32(0))
	g := noop()
	g.edit = func(m *mod) { m.funcs = append(m.funcs, fn{exportSignatures[abi.ExportBuffer], 0, body}) }
	return g
}

func TestAdmitNotesAStatus(t *testing.T) {
	g := guest{scan: i32(3), check: cat(host("put", i32(abi.SlotError), i32(textAt), i32(11)), drop, i32(64))}
	v, err := newTrial().admit(specOf(g))
	if err != nil || !v.OK || len(v.Notes) != 5 || !strings.Contains(v.Notes[4], "status 64: replacement") {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAdmitConfig(t *testing.T) {
	tr := newTrial()
	tr.CheckConfig = func(schema map[string]any, config json.RawMessage) error {
		return fmt.Errorf("%v does not like %s", schema["type"], config)
	}
	g := guest{scan: i32(0), meta: strings.Replace(testMeta, `"needs"`, `"config_schema":{"type":"object"},"needs"`, 1)}
	spec := specOf(g)
	spec.Config = []byte(`{"a":1}`)
	if v, err := tr.admit(spec); !errors.Is(err, ErrNotAdmitted) || v.Reason != `config: object does not like {"a":1}` {
		t.Errorf("%+v, %v", v, err)
	}
	for _, spec := range []Spec{{Name: "mod", Memory: 1}, {Name: "-"}, {Name: "mod", Config: []byte("[]")}} {
		if _, err := tr.admit(spec); err == nil || errors.Is(err, ErrNotAdmitted) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	tr.Limits.Wall = -1
	if _, err := tr.admit(spec); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Error(err)
	}
}

// TestAdmissionProcessEnds has the process end in every way, and looks which of them are refusals, which are
// remembered.
func TestAdmissionProcessEnds(t *testing.T) {
	refused, failed := true, false
	for mode, c := range map[string]struct {
		refused bool
		kept    bool
		want    string
		limits  AdmitLimits
		memory  bool // needs a memory limit
	}{
		"spin":       {refused, true, "while it is spin, the process used up its processor time of 1", AdmitLimits{CPU: time.Second}, false},
		"hog":        {refused, false, "while it is hog, the process ran out of memory", AdmitLimits{}, true},
		"mute":       {refused, false, "while it is mute, it took longer than 2s", AdmitLimits{Wall: 2 * time.Second}, false},
		"panic":      {refused, true, "while it is panic, the process crashed: panic: no way out", AdmitLimits{}, false},
		"segv":       {refused, true, "while it is segv, the process", AdmitLimits{}, false},
		"killed":     {failed, false, "SIGKILL", AdmitLimits{}, false},
		"garbage":    {refused, true, "said what it never should", AdmitLimits{}, false},
		"flood":      {refused, true, "log lines", AdmitLimits{}, false},
		"silent end": {refused, true, "ended without a verdict", AdmitLimits{}, false},
		"both":       {refused, true, "a refusal, and nothing else, has a reason", AdmitLimits{}, false},
		"neither":    {refused, true, "a refusal, and nothing else, has a reason", AdmitLimits{}, false},
		"transient":  {refused, true, "not for one day", AdmitLimits{}, false},
		"useless":    {refused, true, "can do nothing", AdmitLimits{}, false},
		"metadata":   {refused, true, "metadata", AdmitLimits{}, false},
		"notes":      {refused, true, "notes", AdmitLimits{}, false},
	} {
		t.Run(mode, func(t *testing.T) {
			if testkit.Quick() && (mode == "mute" || mode == "spin") {
				return // they use up seconds
			}
			if c.memory && raceDetector {
				return // the race detector cannot live under a limit, and without one this mode takes all there is
			}
			tr := newTrial(fakeAdmitArg + mode)
			tr.CacheDir = t.TempDir() + "/verdicts"
			memory := tr.Limits.Memory
			tr.Limits = c.limits
			tr.Limits.Memory = memory
			for i := range 2 {
				v, err := tr.admit(specOf(finder()))
				if errors.Is(err, ErrNotAdmitted) != c.refused || v.OK || !strings.Contains(fmt.Sprint(err), c.want) {
					t.Errorf("got %+v, %v; want %q", v, err, c.want)
				}
				if want := i == 1 && c.kept; v.Cached != want {
					t.Errorf("try %d: cached %v", i, v.Cached)
				}
			}
		})
	}
	if v, err := newTrial(fakeAdmitArg + "right").admit(specOf(finder())); err != nil || !v.OK {
		t.Errorf("the control: %+v, %v", v, err)
	}
}

func TestVerdictCache(t *testing.T) {
	tr := newTrial()
	tr.CacheDir = filepath.Join(t.TempDir(), "a", "verdicts")
	first, err := tr.admit(specOf(noop()))
	if err != nil {
		t.Fatal(err)
	}
	other := specOf(noop())
	other.Name, other.Instances = "other-name", 9
	for range 2 {
		v, err := tr.admit(other)
		if err != nil || !v.Cached || tr.starts.Load() != 1 {
			t.Fatalf("%+v, %v, %d starts", v, err, tr.starts.Load())
		}
		v.Cached = false
		if fmt.Sprintf("%+v", v) != fmt.Sprintf("%+v", first) {
			t.Errorf("the cache says %+v; it was %+v", v, first)
		}
	}
	for name, change := range map[string]func(*AdmitOptions, *Spec){
		"code":    func(_ *AdmitOptions, s *Spec) { s.Code = guest{scan: cat(i32(1), drop, i32(0))}.wasm() },
		"config":  func(_ *AdmitOptions, s *Spec) { s.Config = []byte(`{"a":1}`) },
		"memory":  func(_ *AdmitOptions, s *Spec) { s.Memory = 32 << 20 },
		"timeout": func(_ *AdmitOptions, s *Spec) { s.Timeout = time.Minute },
		"limits":  func(o *AdmitOptions, _ *Spec) { o.Limits.CPU = time.Minute / 2 },
		"engine":  func(o *AdmitOptions, _ *Spec) { o.engine = "wazero other" },
		"schema": func(o *AdmitOptions, _ *Spec) {
			o.CheckConfig = func(map[string]any, json.RawMessage) error { return nil }
		},
	} {
		before, opts, spec := tr.starts.Load(), tr.AdmitOptions, specOf(noop())
		change(&opts, &spec)
		if v, err := Admit(context.Background(), opts, spec); err != nil || v.Cached || tr.starts.Load() != before+1 {
			t.Errorf("other %s: %+v, %v", name, v, err)
		}
	}
	bad := specOf(guest{scan: unreachable})
	for i := range 2 {
		if v, err := tr.admit(bad); !errors.Is(err, ErrNotAdmitted) || v.Cached != (i == 1) {
			t.Errorf("a refusal, try %d: %+v, %v", i, v, err)
		}
	}
	none := newTrial()
	none.CacheDir, none.engine = tr.CacheDir, ""
	if engineVersion() == "" { // as in a test binary
		for range 2 {
			if v, err := none.admit(specOf(noop())); err != nil || v.Cached {
				t.Errorf("without a known engine: %+v, %v", v, err)
			}
		}
	}
}

// TestVerdictCacheIsNotBelieved puts wrong files where a verdict should be: each is said, ignored and written anew.
func TestVerdictCacheIsNotBelieved(t *testing.T) {
	tr := newTrial()
	dir := filepath.Join(t.TempDir(), "verdicts")
	tr.CacheDir = dir
	if _, err := tr.admit(specOf(noop())); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	path := files[0]
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	write := func(doc []byte) func() error { return func() error { return os.WriteFile(path, doc, 0o600) } }
	replaced := func(old, text string) func() error {
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("no %s in %s", old, good)
		}
		return write(bytes.Replace(good, []byte(old), []byte(text), 1))
	}
	n := 0
	for name, spoil := range map[string]func() error{
		"empty":         write(nil),
		"garbage":       write([]byte("\x00\xff")),
		"cut":           write(good[:len(good)/2]),
		"more":          write(append(bytes.Clone(good), '{')),
		"unknown key":   replaced(`"OK"`, `"OKAY"`),
		"other module":  replaced(`"Digest": "sha256:`, `"Digest": "sha256:0`),
		"other engine":  replaced(`wazero test`, `wazero else`),
		"contradictory": replaced(`"OK": true`, `"OK": false`),
		"metadata":      replaced(`"version": "1.2.3"`, `"version": ""`),
		"huge":          write(bytes.Repeat([]byte(" "), maxVerdictFile+1)),
		"readable":      func() error { return os.Chmod(path, 0o644) },
		"link": func() error {
			return errors.Join(os.Rename(path, path+".x"), os.Symlink(path+".x", path))
		},
		"directory": func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		if n++; testkit.Quick() && n > 4 {
			continue // each starts a process
		}
		t.Run(name, func(t *testing.T) {
			tr := newTrial()
			tr.CacheDir = dir
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			if v, err := tr.admit(specOf(noop())); err != nil || v.Cached || !v.OK || tr.starts.Load() != 1 ||
				!tr.said("is ignored") {
				t.Errorf("%+v, %v, %d starts, %q", v, err, tr.starts.Load(), tr.lines)
			}
			if name == "directory" { // cannot be replaced by a file, which is said too
				if err := os.Remove(path); err != nil || !tr.said("verdict cache: rename") {
					t.Errorf("%v, %q", err, tr.lines)
				}
				return
			}
			if v, err := tr.admit(specOf(noop())); err != nil || !v.Cached {
				t.Errorf("it was not written anew: %+v, %v", v, err)
			}
		})
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.admit(specOf(noop())); err == nil || errors.Is(err, ErrNotAdmitted) ||
		!strings.Contains(err.Error(), "0755") {
		t.Errorf("a wide directory: %v", err)
	}
}

func TestVerdictCacheIsBounded(t *testing.T) {
	testkit.Long(t, "hundreds of files")
	dir := t.TempDir()
	for i := range maxVerdicts + 5 {
		path := filepath.Join(dir, fmt.Sprintf("%04d.json", i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	c := verdictCache{dir: dir, log: func(line string) { t.Error(line) }}
	key := admissionKey{Digest: "x"}
	c.store(key, Verdict{Digest: "x", Reason: "no"})
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != maxVerdicts || entries[0].Name() != "0006.json" {
		t.Errorf("%d files from %v, %v", len(entries), entries[0], err)
	}
	if v, ok := c.load(key); !ok || v.Reason != "no" {
		t.Errorf("the new one is gone: %+v", v)
	}
}

func TestAdmitOnceForMany(t *testing.T) {
	tr := newTrial()
	tr.CacheDir = t.TempDir() + "/verdicts"
	begin := make(chan struct{})
	start := tr.start
	tr.start = func(c supervise.Command) (*supervise.Process, error) { <-begin; return start(c) }
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for i := range 8 {
		wg.Go(func() {
			mine := context.Background()
			if i == 0 {
				mine = ctx
			}
			v, err := Admit(mine, tr.AdmitOptions, specOf(noop()))
			if i == 0 && !errors.Is(err, context.Canceled) && !v.OK || i > 0 && (err != nil || !v.OK) {
				t.Errorf("%d: %+v, %v", i, v, err)
			}
		})
	}
	cancel()
	close(begin)
	wg.Wait()
	// Who came first may have been the one that gave up.
	if n := tr.starts.Load(); n < 1 || n > 2 {
		t.Errorf("%d processes", n)
	}
}

// noticing tells when somebody is about to wait for the context.
type noticing struct {
	context.Context
	waiting chan<- struct{}
}

func (n noticing) Done() <-chan struct{} {
	n.waiting <- struct{}{}
	return n.Context.Done()
}

func TestFlightsShareOneRun(t *testing.T) {
	f := admissionRuns{going: map[string]*admissionRun{}, places: make(chan struct{}, 1)}
	inside, release := make(chan struct{}), make(chan struct{})
	results := make(chan string, 4)
	runs := 0
	run := func() (Verdict, error) {
		runs++
		close(inside)
		<-release
		return Verdict{Reason: "shared"}, nil
	}
	waiting := make(chan struct{}, 8)
	ask := func() {
		v, err := f.do(noticing{context.Background(), waiting}, "key", run)
		results <- v.Reason + fmt.Sprint(err)
	}
	go ask()
	<-inside
	for range 3 {
		go ask()
	}
	for range 4 {
		<-waiting
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, key := range []string{"key", "other"} { // one waits for the flight, one for a place
		if _, err := f.do(ended, key, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", key, err)
		}
	}
	close(release)
	for range 4 {
		if got := <-results; got != "shared<nil>" {
			t.Error(got)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestAdmitGivesUpWithItsContext(t *testing.T) {
	tr := newTrial(fakeAdmitArg + "mute")
	tr.CacheDir = t.TempDir() + "/verdicts"
	ctx, cancel := context.WithCancel(context.Background())
	start := tr.start
	tr.start = func(c supervise.Command) (*supervise.Process, error) { defer cancel(); return start(c) }
	_, err := Admit(ctx, tr.AdmitOptions, specOf(noop()))
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotAdmitted) {
		t.Errorf("got %v", err)
	}
	<-tr.last.Done()
	tr.start = func(supervise.Command) (*supervise.Process, error) { return nil, errors.New("no processes left") }
	if _, err := tr.admit(specOf(noop())); err == nil || errors.Is(err, ErrNotAdmitted) ||
		!strings.Contains(err.Error(), "no processes left") {
		t.Errorf("got %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(tr.CacheDir, "*")); len(files) > 0 {
		t.Errorf("kept: %q", files)
	}
}
