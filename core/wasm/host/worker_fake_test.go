package host

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

type jsonText = json.RawMessage

const fakeWorkerArg = "fake-worker-"

// fakeAnswers are what a worker that somebody took over may answer to a scan of three bytes, each as one write.
var fakeAnswers = map[string]func(id uint64) []byte{
	"garbage": func(uint64) []byte { return []byte(strings.Repeat("garbage ", 100)) },
	"too long": func(uint64) []byte {
		return []byte{0xff, 0xff, 0xff, 0xff, frameFindings, 0, 0, 0, 0, 0, 0, 0, 0}
	},
	"unknown type":    func(id uint64) []byte { return simpleFrame(99, id, nil) },
	"type of parent":  func(id uint64) []byte { return simpleFrame(frameScan, id, nil) },
	"unknown call":    func(id uint64) []byte { return fakeFindings(id+1, 0) },
	"call 0":          func(uint64) []byte { return fakeFindings(0, 0) },
	"second answer":   func(id uint64) []byte { return append(fakeFindings(id+7, 0), fakeFindings(id, 0)...) },
	"verdict":         func(id uint64) []byte { return fakeFrame(frameVerdict, id, fakeVerdicts["right verdict"]) },
	"empty":           func(id uint64) []byte { return simpleFrame(frameFindings, id, nil) },
	"more":            func(id uint64) []byte { return fakeFrame(frameFindings, id, []byte{0, 0, 0, 0}) },
	"too many":        func(id uint64) []byte { return fakeFindings(id, abi.MaxFindings+1) },
	"fewer than said": func(id uint64) []byte { return fakeFrame(frameFindings, id, []byte{9}) },
	"ready again":     func(id uint64) []byte { return simpleFrame(frameReady, 0, []byte("{}")) },
	"schema":          func(id uint64) []byte { return simpleFrame(frameSchema, 0, []byte("{}")) },
	"unknown fault":   func(id uint64) []byte { return fakeFrame(frameFault, id, []byte{3, 'x', 'y', 'z', 0, 0, 0}) },
	"unknown export": func(id uint64) []byte {
		return fakeFrame(frameFault, id, []byte{4, 't', 'r', 'a', 'p', 1, 'x', 0, 0})
	},
	"unknown cause": func(id uint64) []byte {
		return fakeFrame(frameFault, id, []byte{4, 't', 'r', 'a', 'p', 0, 0, 9})
	},
	"log flood":          func(uint64) []byte { return []byte(strings.Repeat(string(fakeLog("x")), 10_000)) },
	"log of bad UTF-8":   func(uint64) []byte { return fakeLog("\xff") },
	"log without a line": func(uint64) []byte { return simpleFrame(frameLog, 0, []byte{1, 200}) },

	"end after text":  func(id uint64) []byte { return fakeFinding(id, func(f *sdk.Finding) { f.End = 4 }) },
	"empty span":      func(id uint64) []byte { return fakeFinding(id, func(f *sdk.Finding) { f.Start, f.End = 1, 1 }) },
	"start after end": func(id uint64) []byte { return fakeFinding(id, func(f *sdk.Finding) { f.Start, f.End = 2, 1 }) },
	"undeclared kind": func(id uint64) []byte { return fakeFinding(id, func(f *sdk.Finding) { f.Kind = "NOT_A_KIND" }) },
	"no kind":         func(id uint64) []byte { return fakeFinding(id, func(f *sdk.Finding) { f.Kind = "" }) },
	"confidence":      func(id uint64) []byte { return fakeFinding(id, func(f *sdk.Finding) { f.Confidence = 1.5 }) },
	"confidence NaN": func(id uint64) []byte {
		return fakeFinding(id, func(f *sdk.Finding) { f.Confidence = float32(math.NaN()) })
	},
	"severity":     func(id uint64) []byte { return fakeFinding(id, func(f *sdk.Finding) { f.Severity = 5 }) },
	"action":       func(id uint64) []byte { return fakeFinding(id, func(f *sdk.Finding) { f.Suggested = 5 }) },
	"action allow": func(id uint64) []byte { return fakeFinding(id, func(f *sdk.Finding) { f.Suggested = sdk.Allow }) },
	"replacement":  func(id uint64) []byte { return fakeFinding(id, func(f *sdk.Finding) { f.Replacement = "x" }) },
	"bad replacement": func(id uint64) []byte {
		return fakeFinding(id, func(f *sdk.Finding) { f.Suggested, f.Replacement = sdk.Replace, "\xff" })
	},
	"long replacement": func(id uint64) []byte {
		return fakeFinding(id, func(f *sdk.Finding) { f.Suggested, f.Replacement = sdk.Replace, strings.Repeat("x", 4097) })
	},
	"output too long": func(id uint64) []byte {
		return fakeResult(id, Result{Findings: []sdk.Finding{fakeReplace, fakeReplace}})
	},
	"order": func(id uint64) []byte {
		return fakeResult(id, Result{Findings: []sdk.Finding{{Kind: "TEST_KIND", Start: 1, End: 1, Suggested: sdk.Flag},
			{Kind: "TEST_KIND", Suggested: sdk.Flag}}})
	},
	"state without one": func(id uint64) []byte { return fakeResult(id, Result{State: []byte("x")}) },
	"long state": func(id uint64) []byte {
		return fakeResult(id, Result{State: make([]byte, abi.MaxState+1)})
	},
	"no JSON as annotations": func(id uint64) []byte { return fakeResult(id, Result{Annotations: []byte("{")}) },
	"twin annotations": func(id uint64) []byte {
		return fakeResult(id, Result{Annotations: []byte(`{"a":1,"a":1}`)})
	},
	"long annotations": func(id uint64) []byte { return fakeResult(id, Result{Annotations: make([]byte, abi.MaxPut+1)}) },
}

var fakeReplace = sdk.Finding{Kind: "TEST_KIND", Suggested: sdk.Replace, Replacement: strings.Repeat("x", 3000)}

func fakeFrame(kind byte, id uint64, body []byte) []byte {
	return endFrame(append(appendCost(appendStats(beginFrame(nil, kind, id), Stats{}), &Result{}), body...))
}

func fakeResult(id uint64, r Result) []byte {
	return fakeFrame(frameFindings, id, appendResult(nil, &r))
}

func fakeFindings(id uint64, n int) []byte {
	var r Result
	for range n {
		r.Findings = append(r.Findings, sdk.Finding{Kind: "TEST_KIND", Suggested: sdk.Flag})
	}
	return fakeResult(id, r)
}

func fakeFinding(id uint64, change func(*sdk.Finding)) []byte {
	f := sdk.Finding{Kind: "TEST_KIND", Start: 1, End: 2, Confidence: 0.5, Suggested: sdk.Redact}
	change(&f)
	return fakeResult(id, Result{Findings: []sdk.Finding{f}})
}

func fakeLog(line string) []byte {
	return simpleFrame(frameLog, 0, appendText(binary.AppendUvarint(nil, 1), line))
}

// last writes b and stays until it is killed, so that what is wrong with b is seen before the end of the process.
func (s *server) last(b []byte) error {
	if err := s.write(b); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// fakeWorker is a worker process that does not follow the rules.
func fakeWorker(mode string) error {
	if mode == "mute" {
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	s := &server{out: os.Stdout, in: readFrames(os.Stdin, toChild(MaxMemory))}
	spec, err := s.awaitLoad()
	if err != nil {
		return err
	}
	switch mode {
	case "load garbage":
		return s.last([]byte(strings.Repeat("garbage ", 100)))
	case "load crash":
		panic("crash")
	case "load answer":
		return s.last(fakeFindings(1, 0))
	case "load flood":
		return s.last([]byte(strings.Repeat(string(fakeLog("x")), 10_000)))
	}
	meta, err := readMetadata([]byte(testMeta), true)
	if err != nil {
		return err
	}
	r := ready{Metadata: *meta, Digest: pin.Digest(spec.Code), Scans: true, Checks: true}
	switch mode {
	case "load digest":
		r.Digest = pin.Digest(nil)
	case "load metadata":
		r.Metadata.Kinds[0].Name = "lower case"
	case "load nothing":
		r.Scans, r.Checks = false, false
	}
	doc, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := s.write(simpleFrame(frameReady, 0, doc)); err != nil {
		return err
	}
	for {
		kind, id, _, err := s.in.next(nil)
		if err != nil {
			return err
		}
		frame := simpleFrame(99, 0, nil)
		switch answer := fakeAnswers[mode]; {
		case kind == frameCheck:
			frame = fakeFrame(frameVerdict, id, fakeVerdicts[mode])
		case mode == "right":
			frame = fakeFinding(id, func(*sdk.Finding) {})
		case mode == "exit":
			os.Exit(3)
		case answer != nil:
			frame = answer(id)
		}
		if err := s.write(frame); err != nil {
			return err
		}
	}
}

var fakeVerdicts = map[string][]byte{
	"right verdict":  appendVerdict(nil, &sdk.Verdict{Effect: sdk.Permit, Code: "OK", Reason: "fine", TTL: time.Second}),
	"no code":        appendVerdict(nil, &sdk.Verdict{Effect: sdk.Permit}),
	"bad code":       appendVerdict(nil, &sdk.Verdict{Effect: sdk.Permit, Code: "lower"}),
	"abstain code":   appendVerdict(nil, &sdk.Verdict{Effect: sdk.Abstain, Code: "OK"}),
	"unknown effect": appendVerdict(nil, &sdk.Verdict{Effect: 4, Code: "OK"}),
	"long reason": appendVerdict(nil, &sdk.Verdict{Effect: sdk.Deny, Code: "OK",
		Reason: strings.Repeat("x", maxReason+1)}),
	"bad reason":      appendVerdict(nil, &sdk.Verdict{Effect: sdk.Deny, Code: "OK", Reason: "\xff"}),
	"endless ttl":     appendVerdict(nil, &sdk.Verdict{Effect: sdk.Permit, Code: "OK", TTL: math.MaxInt64}),
	"nothing decided": {},
}

// fake spawns a fake worker, which is never started again.
func fake(mode string) (*Host, workerTuning) {
	tune := tuning(nil)
	tune.args = []string{fakeWorkerArg + mode}
	tune.change = func(s *supervise.Settings) { s.Backoff = supervise.Backoff{Crashes: 1} }
	h, _ := New(context.Background(), Options{})
	return h, tune
}

// TestWorkerIsNotBelieved has a worker answer a scan of "abc" and a check in every wrong way: the call fails, the
// process is killed, nothing of the answer is used.
func TestWorkerIsNotBelieved(t *testing.T) {
	modes := []string{"exit"}
	for mode := range fakeAnswers {
		modes = append(modes, mode)
	}
	for mode := range fakeVerdicts {
		modes = append(modes, mode)
	}
	for i, mode := range modes {
		if testkit.Quick() && i%6 != 0 {
			continue // each starts a process
		}
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h, tune := fake(mode)
			w := spawnOn(t, h, finder(), func(s *Spec) { s.Timeout = 30 * time.Second }, tune)
			ctx := context.Background()
			var got any
			var err error
			if _, check := fakeVerdicts[mode]; check {
				var v sdk.Verdict
				v, err = w.Check(ctx, &chain.Call{})
				got = v
				if mode == "right verdict" {
					if err != nil || v.Effect != sdk.Permit || v.TTL != time.Second {
						t.Errorf("got %+v, %v", v, err)
					}
					return
				}
				if v.Effect != sdk.Abstain || v.Code != "" {
					t.Errorf("a verdict beside the error: %+v", v)
				}
			} else {
				var f []sdk.Finding
				f, err = scanWith(w, "abc")
				got = f
				if f != nil {
					t.Errorf("findings beside the error: %+v", f)
				}
			}
			if !errors.Is(err, ErrWorker) {
				t.Errorf("got %+v, %v; want %v", got, err, ErrWorker)
			}
			waitFor(func() bool { return w.State().State == supervise.StateQuarantined })
		})
	}
}

// TestFakeWorkerCanBeRight is the negative control of the test above: the same frame with nothing wrong in it.
func TestFakeWorkerCanBeRight(t *testing.T) {
	h, tune := fake("right")
	w := spawnOn(t, h, finder(), nil, tune)
	got, err := scanWith(w, "abc")
	if err != nil || len(got) != 1 || got[0].Start != 1 || got[0].Scanner != "mod" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSpawnIsNotFooled(t *testing.T) {
	for mode, text := range map[string]string{"load garbage": "bad frame", "load crash": "ended",
		"load answer": "before the module is loaded",
		"load flood":  "more log lines", "load digest": "it loaded", "load metadata": "metadata",
		"load nothing": "can do nothing"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h, tune := fake(mode)
			_, err := h.spawn(context.Background(), Spec{Name: "mod", Code: finder().wasm()}, tune)
			if !errors.Is(err, ErrWorker) || !strings.Contains(fmt.Sprint(err), text) {
				t.Errorf("got %v, want %q", err, text)
			}
		})
	}
}
