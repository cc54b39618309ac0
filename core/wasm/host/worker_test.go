package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/exact"
)

// The test binary is the worker and the admission process too. This is an init because it has to come before the tests'
// main.
func init() {
	is, err := Child(os.Args[1:], os.Stdin, os.Stdout)
	if !is && len(os.Args) == 2 {
		if mode, ok := strings.CutPrefix(os.Args[1], fakeWorkerArg); ok {
			is, err = true, fakeWorker(mode)
		}
		if mode, ok := strings.CutPrefix(os.Args[1], fakeAdmitArg); ok {
			is, err = true, fakeAdmission(mode)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if is {
		os.Exit(0)
	}
}

// tuning starts real workers, again at once when they ended, and tells of each process.
func tuning(started func(*supervise.Process)) workerTuning {
	tune := workerTuning{args: []string{WorkerArg}, started: started, change: func(s *supervise.Settings) {
		s.Backoff = supervise.Backoff{First: time.Millisecond, Most: time.Millisecond, Crashes: 1000}
	}}
	if raceDetector {
		tune.limits = supervise.Limits{Files: workerFiles}
	}
	return tune
}

func spawn(t testing.TB, g guest, change func(*Spec), tune workerTuning) *Worker {
	t.Helper()
	return spawnOn(t, newHost(t, Options{}), g, change, tune)
}

func spawnOn(t testing.TB, h *Host, g guest, change func(*Spec), tune workerTuning) *Worker {
	t.Helper()
	spec := Spec{Name: "mod", Code: g.wasm()}
	if change != nil {
		change(&spec)
	}
	w, err := h.spawn(context.Background(), spec, tune)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(context.Background()); err != nil {
			t.Errorf("close worker: %v", err)
		}
	})
	return w
}

func scanWith(w *Worker, text string) ([]sdk.Finding, error) {
	return w.Scan(context.Background(), &chain.Input{Text: text})
}

// eventually scans until it goes well, as after a restart.
func eventually(t *testing.T, w *Worker) {
	t.Helper()
	waitFor(func() bool {
		got, err := scanWith(w, "a!")
		if err != nil && !errors.Is(err, ErrWorker) {
			t.Fatalf("while it starts again: %v", err)
		}
		return err == nil && len(got) == 1
	})
}

// echo is a scanner and authorizer that gives back what it reads: state + 1, the text as annotations, the call as
// reason.
func echo() guest {
	return guest{
		scan: cat(
			host("put", i32(abi.SlotAnnotations), cat(i32(bufferAt), get(0), add), get(1)), drop,
			host("put", i32(abi.SlotState), i32(bufferAt), cat(get(0), i32(1), add)), drop,
			i32(0)),
		check: cat(host("decide", i32(abi.EffectDefer), i32(kindAt), i32(kindLen), i32(bufferAt), get(0), i32(1500)), drop,
			i32(0)),
	}
}

func TestWorkerAnswersAsModule(t *testing.T) {
	change := func(s *Spec) { s.Timeout = 5 * time.Second }
	m, w := load(t, finder(), change), spawn(t, finder(), change, tuning(nil))
	if !reflect.DeepEqual(m.Metadata(), w.Metadata()) || m.About() != w.About() || m.Scans() != w.Scans() ||
		m.Checks() != w.Checks() {
		t.Errorf("the worker says %+v, %+v; the module %+v, %+v", w.Metadata(), w.About(), m.Metadata(), m.About())
	}
	texts := []string{"", "!", "a!", "~", "!~", strings.Repeat("x!", 100), strings.Repeat("!", abi.MaxFindings),
		strings.Repeat("!", abi.MaxFindings+1), "\xff!\xfe", strings.Repeat("x", 100_000) + "!", strings.Repeat("x", 200_000),
		strings.ReplaceAll(mixedText(4<<10), "@", "!")}
	for i := range 200 {
		texts = append(texts, strings.Repeat("ab", i)+"!"+strings.Repeat("!é", i%7))
	}
	ctx := context.Background()
	for _, text := range texts {
		want, wantErr := m.Scan(ctx, &chain.Input{Text: text})
		got, err := w.Scan(ctx, &chain.Input{Text: text})
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%.20q: got %v, %v; want %v, %v", text, got, err, want, wantErr)
		}
	}
	_, err := w.Check(ctx, &chain.Call{})
	wantErr(t, err, ErrNoExport)
	mine, his := w.Stats(), m.Stats()
	if mine.Calls != uint64(len(texts)+1) || mine.Errors != his.Errors+1 || mine.Discarded != his.Discarded ||
		mine.Fuel != his.Fuel || mine.Memory != his.Memory {
		t.Errorf("stats %+v; the module's %+v", mine, his)
	}
}

func TestWorkerHandsEverythingOver(t *testing.T) {
	m, w := load(t, echo(), nil), spawn(t, echo(), nil, tuning(nil))
	ctx := context.Background()
	for _, win := range []Window{
		{Text: `"abc"`, State: []byte("state"), Flags: abi.FlagStream},
		{Text: "0", State: nil, Flags: abi.FlagStream | abi.FlagFinal},
		{Text: `"hits!"`, Hits: []Hit{{Trigger: 0, Offset: 4}, {Trigger: 1, Offset: 5}}, Complete: true, Flags: abi.FlagStream},
		{Text: "hits!", Hits: []Hit{{Trigger: 7, Offset: 4}}, Flags: abi.FlagStream},
		{Text: "flags", Flags: 1 << 20},
		{Text: "long state", State: make([]byte, abi.MaxState+1), Flags: abi.FlagStream},
		{Text: strings.Repeat("x", 65<<20)},
		{Text: "no stream: put fails"},
		{Text: "no JSON", Flags: abi.FlagStream},
		{Text: `{"a":1,"a":2}`, Flags: abi.FlagStream},
	} {
		want, wantErr := m.ScanWindow(ctx, win)
		got, err := w.ScanWindow(ctx, win)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%.20q: got %+v, %v; want %+v, %v", win.Text, got, err, want, wantErr)
		}
	}
	doc := new(exact.Doc)
	if err := doc.Parse(`{"args":{"b":[1.50,"é",null,{"x":1e400}],"a":"\u0001"},"context":{}}`,
		exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*chain.Call{{}, {AgentID: "a\xff\n", SessionID: "s", ToolID: "t/o", Operation: "o", CallID: "c"},
		{AgentID: "a", Args: doc.Root().Get("args"), Context: doc.Root().Get("context")}} {
		want, wantErr := m.Check(ctx, c)
		got, err := w.Check(ctx, c)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) || len(want.Reason) < 20 {
			t.Errorf("%+v: got %+v, %v; want %+v, %v", c, got, err, want, wantErr)
		}
	}
}

func TestWorkerConcurrency(t *testing.T) {
	w := spawn(t, finder(), func(s *Spec) { s.Instances = 3; s.Timeout = time.Minute }, tuning(nil))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				text := strings.Repeat("x", i*j) + "!"
				if got, err := scanWith(w, text); err != nil || len(got) != 1 || got[0].Start != i*j {
					t.Errorf("%d bytes: %v, %v", len(text), got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := w.places.InUse(); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

func TestWorkerIsKilledDuringACall(t *testing.T) {
	processes := make(chan *supervise.Process, 10)
	w := spawn(t, finder(), func(s *Spec) {
		s.Timeout = time.Minute
		s.Instances = 2
	}, tuning(func(p *supervise.Process) { processes <- p }))
	first := <-processes
	errs := make(chan error, 2)
	for range 2 {
		go func() { _, err := scanWith(w, "@"); errs <- err }()
	}
	waitFor(func() bool { return w.places.InUse() == 2 })
	if err := syscall.Kill(first.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := <-errs
		wantErr(t, err, ErrWorker)
		var call *CallError
		if !errors.As(err, &call) || call.Module != "mod" {
			t.Errorf("%#v", err)
		}
	}
	eventually(t, w)
	if second := <-processes; second.Pid() == first.Pid() {
		t.Error("the same process answers")
	}
}

func TestWorkerThatStopsIsKilled(t *testing.T) {
	t.Parallel()
	processes := make(chan *supervise.Process, 10)
	tune := tuning(func(p *supervise.Process) { processes <- p })
	tune.change = func(s *supervise.Settings) { s.Backoff = supervise.Backoff{Crashes: 1} }
	w := spawn(t, finder(), func(s *Spec) { s.Timeout = 50 * time.Millisecond; s.Instances = 2 }, tune)
	first := <-processes
	if err := syscall.Kill(first.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(func() bool { return stopped(t, first.Pid()) })
	// Larger than a pipe, so that writing it blocks too.
	other := make(chan error, 1)
	go func() { _, err := scanWith(w, strings.Repeat("x", 100_000)); other <- err }()
	_, err := scanWith(w, "!")
	for _, err := range []error{err, <-other} {
		if !errors.Is(err, ErrWorker) && !(errors.Is(err, ErrInterrupted) && errors.Is(err, context.DeadlineExceeded)) {
			t.Errorf("got %v", err)
		}
	}
	<-first.Done()
	waitFor(func() bool { return w.State().State == supervise.StateQuarantined })
	if s := w.State(); s.Err == nil || !strings.Contains(s.Err.Error(), "a call was late") {
		t.Errorf("state %+v", s)
	}
	w.Resume()
	eventually(t, w)
}

// stopped says whether every thread of a process has stopped: the signal is sent before they have.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads of %d: %v", pid, err)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

func TestWorkerLateForTheCallersDeadline(t *testing.T) {
	processes := make(chan *supervise.Process, 10)
	w := spawn(t, finder(), func(s *Spec) {
		s.Timeout = time.Minute
	}, tuning(func(p *supervise.Process) { processes <- p }))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := w.ScanHits(ctx, "@", nil, false) // the worker itself interrupts the guest
	wantErr(t, err, ErrInterrupted)
	wantErr(t, err, context.DeadlineExceeded)
	if got, err := scanWith(w, "!"); err != nil && !errors.Is(err, ErrWorker) {
		t.Errorf("the call after it: %v, %v", got, err)
	}
	_, err = w.ScanHits(ctx, "", nil, false)
	wantErr(t, err, ErrBusy)
}

func TestWorkerCancel(t *testing.T) {
	var starts int
	w := spawn(t, finder(), func(s *Spec) {
		s.Timeout = time.Minute
		s.Instances = 1
	}, tuning(func(*supervise.Process) { starts++ }))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { _, err := w.ScanHits(ctx, "@", nil, false); done <- err }()
	waitFor(func() bool { return w.places.InUse() == 1 })
	waiting, stop := context.WithCancel(context.Background())
	stop()
	_, err := w.ScanHits(waiting, "x", nil, false)
	wantErr(t, err, ErrBusy)
	cancel()
	err = <-done
	wantErr(t, err, ErrInterrupted)
	wantErr(t, err, context.Canceled)
	// The only place comes back although the guest would run for a minute: the worker was told.
	if got, err := scanWith(w, "!"); err != nil || len(got) != 1 {
		t.Errorf("after the cancelled call: %v, %v", got, err)
	}
	if starts != 1 {
		t.Errorf("%d processes were needed", starts)
	}
}

func TestWorkerDownAnswersAtOnce(t *testing.T) {
	processes := make(chan *supervise.Process, 10)
	tune := tuning(func(p *supervise.Process) { processes <- p })
	tune.change = func(s *supervise.Settings) { s.Backoff = supervise.Backoff{Crashes: 1} }
	w := spawn(t, finder(), func(s *Spec) { s.Timeout = time.Hour / 12 }, tune)
	(<-processes).Kill()
	waitFor(func() bool { return w.State().State == supervise.StateQuarantined && w.link.Load() == nil })
	for range 3 {
		_, err := scanWith(w, "!")
		wantErr(t, err, ErrWorker)
	}
	w.Resume()
	eventually(t, w)
}

func TestWorkerClose(t *testing.T) {
	w := spawn(t, finder(), func(s *Spec) { s.Timeout = time.Minute }, tuning(nil))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { _, err := w.ScanHits(ctx, "@", nil, false); done <- err }()
	waitFor(func() bool { return w.places.InUse() == 1 })
	past, stop := context.WithCancel(context.Background())
	stop()
	wantErr(t, w.Close(past), context.Canceled)
	_, err := scanWith(w, "!")
	wantErr(t, err, ErrClosed)
	cancel()
	<-done
	for range 2 {
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestWorkerCloseDoesNotWaitForAStoppedProcess(t *testing.T) {
	t.Parallel()
	processes := make(chan *supervise.Process, 10)
	w := spawn(t, finder(), nil, tuning(func(p *supervise.Process) { processes <- p }))
	p := <-processes
	if err := syscall.Kill(p.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(context.Background()); err != nil {
		t.Error(err)
	}
	<-p.Done()
}

func TestWorkerLog(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	h := newHost(t, Options{Log: func(module string, level int, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, fmt.Sprintf("%s %d %s", module, level, line))
	}})
	g := guest{locals: 1, scan: cat(times(3, 40, host("log", i32(2), i32(textAt), i32(11))),
		host("log", i32(-1), i32(badUTF8At), i32(2)), i32(0))}
	w := spawnOn(t, h, g, nil, tuning(nil))
	for range 3 {
		if _, err := scanWith(w, ""); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(lines) != 3*(abi.MaxLogLines+1) || lines[0] != "mod 2 replacement" ||
		!strings.Contains(lines[32], "9 lines dropped") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	if s := w.Stats(); s.LogLines != 27 {
		t.Errorf("stats %+v", s)
	}
}

func TestSpawnFails(t *testing.T) {
	schema := strings.Replace(testMeta, `"needs"`, `"config_schema":{"type":"object"},"needs"`, 1)
	refuse := func(schema map[string]any, config []byte) error {
		return fmt.Errorf("%v does not like %s", schema["type"], config)
	}
	for name, c := range map[string]struct {
		g      guest
		change func(*Spec)
		want   error
		text   string
	}{
		"refused":   {g: guest{scan: i32(0), meta: "-"}, text: "module refused: "},
		"config":    {g: guest{scan: i32(0), meta: schema}, change: func(s *Spec) { s.Config = []byte(`{"a":1}`) }, text: `object does not like {"a":1}`},
		"status":    {g: guest{scan: i32(0), init: i32(1)}, want: ErrStatus, text: "status 1 (bad config)"},
		"trap":      {g: guest{scan: i32(0), initialize: unreachable}, want: ErrTrap, text: "_initialize: guest trapped"},
		"spec":      {g: noop(), change: func(s *Spec) { s.Memory = 1 }, text: "memory 1 bytes"},
		"code":      {g: noop(), change: func(s *Spec) { s.Code = make([]byte, abi.MaxModule+1) }, text: "at most"},
		"not wasm":  {g: noop(), change: func(s *Spec) { s.Code = []byte("#!/bin/sh") }, text: "module refused: "},
		"the limit": {g: guest{scan: i32(0), initialize: forever()}, change: func(s *Spec) { s.Start = 100 * time.Millisecond }, text: "_initialize"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Spec{Name: "mod", Code: c.g.wasm()}
			if c.change != nil {
				c.change(&spec)
			}
			h := newHost(t, Options{CheckConfig: func(s map[string]any, config jsonText) error { return refuse(s, config) }})
			w, err := h.spawn(context.Background(), spec, tuning(nil))
			if err == nil || w != nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v; want %v, %q", err, c.want, c.text)
			}
			inside, ierr := h.Load(context.Background(), spec)
			// which of clock and budget ends it is the load's
			byClock := errors.Is(ierr, ErrInterrupted) || errors.Is(err, ErrInterrupted)
			if ierr == nil || !byClock && ierr.Error() != fmt.Sprint(err) {
				t.Errorf("Load says %v, %v; Spawn %v", inside, ierr, err)
			}
		})
	}
}

func TestSpawnGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	tune := tuning(nil)
	tune.args = []string{fakeWorkerArg + "mute"}
	_, err := newHost(t, Options{}).spawn(ctx, Spec{Name: "mod", Code: finder().wasm()}, tune)
	wantErr(t, err, context.DeadlineExceeded)
	wantErr(t, err, ErrWorker)
}

// TestLateWorkerLives: a worker that a busy machine kept from the processor has been too slow for a call, and serves
// the next one.
func TestLateWorkerLives(t *testing.T) {
	tune := tuning(nil)
	tune.late = time.Minute
	w := spawn(t, finder(), nil, tune)
	process, err := os.FindProcess(w.State().Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(func() bool { // a processor may be on its way through the guest still
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, err = w.Scan(ctx, &chain.Input{Text: "a!"})
		return err != nil
	})
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, ErrInterrupted) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it stood still: %v", err)
	}
	waitFor(func() bool { return w.places.InUse() == 0 })
	if found, err := w.Scan(context.Background(), &chain.Input{Text: "a!"}); err != nil || len(found) != 1 ||
		w.State().Starts != 1 {
		t.Errorf("afterwards: %v, %v, %d starts", found, err, w.State().Starts)
	}
}

// TestWorkerOfOneKeysText: a text that ends the worker costs its own key only. The next worker comes without a backoff,
// a call of another key that was there is made again, and the key itself waits.
func TestWorkerOfOneKeysText(t *testing.T) {
	t.Parallel()
	tune := tuning(nil)
	tune.change = func(s *supervise.Settings) {
		s.Backoff = supervise.Backoff{First: time.Hour, Most: time.Hour, Crashes: 1}
	}
	w := spawn(t, finder(), func(s *Spec) { s.Timeout, s.Instances = 5*time.Minute, 2 }, tune)
	process, err := os.FindProcess(w.State().Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Signal(syscall.SIGSTOP); err != nil { // it does not answer, as with a text that nothing interrupts
		t.Fatal(err)
	}
	waitFor(func() bool { return stopped(t, process.Pid) })
	other := make(chan error, 1)
	go func() {
		found, err := w.Scan(context.Background(), &chain.Input{Text: "a!", KeyID: "other"})
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("found %v", found)
		}
		other <- err
	}()
	waitFor(func() bool { return w.places.InUse() == 1 })
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.Scan(short, &chain.Input{Text: "a!", KeyID: "dear"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its own call: %v", err)
	}
	if err := <-other; err != nil {
		t.Errorf("another key's call: %v", err)
	}
	waitFor(func() bool { return w.State().State == supervise.StateReady }) // it has answered, and that is noted behind it
	if s := w.State(); s.Starts != 2 || s.Crashes != 0 {
		t.Errorf("%+v", s)
	}
	for range 3 { // each later end is dearer
		w.blame.add("dear", time.Now())
	}
	short, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = w.Scan(short, &chain.Input{Text: "a!", KeyID: "dear"})
	wantErr(t, err, ErrBusy)
	if found, err := w.Scan(context.Background(), &chain.Input{Text: "a!", KeyID: "other"}); err != nil ||
		len(found) != 1 {
		t.Errorf("another key meanwhile: %v, %v", found, err)
	}
	if found, err := w.Scan(context.Background(), &chain.Input{Text: "a!", KeyID: "dear"}); err != nil || len(found) != 1 {
		t.Errorf("the key when it has waited: %v, %v", found, err)
	}
}

// TestBlame: each end makes a key wait twice as long, to a bound; it is forgotten, and so are keys when there are too
// many.
func TestBlame(t *testing.T) {
	var b blame
	now := time.Unix(1000, 0)
	for i, want := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second} {
		if b.add("a", now); b.left("a", now) != want {
			t.Errorf("end %d: waits %v, want %v", i, b.left("a", now), want)
		}
	}
	for range 40 {
		b.add("a", now)
	}
	if got := b.left("a", now); got != blameMost {
		t.Errorf("at most: %v", got)
	}
	if b.left("b", now) > 0 {
		t.Error("another key waits")
	}
	if b.add("a", now.Add(blameKept+time.Second)); b.left("a", now.Add(blameKept+time.Second)) != blameFirst {
		t.Error("an old end counts")
	}
	for i := range 2 * blameKeys {
		b.add(fmt.Sprint(i), now.Add(time.Hour))
	}
	if len(b.keys) != blameKeys {
		t.Errorf("%d keys are remembered", len(b.keys))
	}
}
