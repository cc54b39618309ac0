package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// TestEveryFaultCrosses is about the faults that have a code; that all have one is another test's.
func TestEveryFaultCrosses(t *testing.T) {
	all := []error{ErrWorker}
	for _, f := range faultCodes {
		all = append(all, f.err)
	}
	for _, fault := range all {
		for _, cause := range []error{nil, context.DeadlineExceeded, context.Canceled, errors.New("something else"),
			&StatusError{Status: 77, Text: "author's text"}} {
			sent := &CallError{Module: "mod", Export: abi.ExportScan, Fault: fault, Detail: "details", Err: cause}
			got := &fields{b: appendFault(nil, sent)}
			e := got.fault("mod")
			if err := got.end(); err != nil || !reflect.DeepEqual(e, sent) || !errors.Is(e, fault) {
				t.Errorf("%v became %v, %v", sent, e, err)
			}
		}
	}
	odd := &fields{b: appendFault(nil, errors.New("no call\x1b[1m"))}
	if e := odd.fault("mod"); odd.end() != nil || !errors.Is(e, ErrWorker) || strings.Contains(e.Error(), "\x1b") {
		t.Errorf("an error of another kind became %q", e)
	}
}

func TestResultsCross(t *testing.T) {
	as := asked{scanner: "mod", kinds: map[string]string{"A": "A", "B": "B"}, window: 5000, stream: true}
	for _, r := range []Result{
		{},
		{Findings: []sdk.Finding{{Kind: "A", Scanner: "mod", Start: 0, End: 5000, Confidence: 1, Severity: sdk.Critical, Suggested: sdk.Drop}}},
		{Findings: []sdk.Finding{{Kind: "A", Scanner: "mod", End: 1, Suggested: sdk.Flag}, {Kind: "B", Scanner: "mod", Start: 300, End: 301,
			Confidence: math.SmallestNonzeroFloat32, Suggested: sdk.Replace,
			Replacement: strings.Repeat("é", abi.MaxReplacement/2)}}},
		{State: []byte{}, Annotations: []byte("0")},
		{State: make([]byte, abi.MaxState), Annotations: bytes.Repeat([]byte("1"), 64)},
	} {
		f := fields{b: appendResult(nil, &r)}
		if got := f.result(as); f.end() != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v became %+v, %v", r, got, f.end())
		}
		if len(f.b) > 0 {
			t.Error("something is left")
		}
	}
}

func TestFrames(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 3*keepBuffer+17)
	limits := map[byte]uint32{1: uint32(len(big)), 2: 0}
	stream := cat(simpleFrame(1, 7, []byte("abc")), simpleFrame(2, math.MaxUint64, nil), simpleFrame(1, 8, big))
	f := readFrames(bytes.NewReader(stream), limits)
	var buf []byte
	for _, want := range []struct {
		kind byte
		id   uint64
		body []byte
	}{{1, 7, []byte("abc")}, {2, math.MaxUint64, nil}, {1, 8, big}} {
		kind, id, body, err := f.next(buf)
		if err != nil || kind != want.kind || id != want.id || !bytes.Equal(body, want.body) {
			t.Fatalf("got %d, %d, %d bytes, %v", kind, id, len(body), err)
		}
		buf = kept(body)
	}
	if _, _, _, err := f.next(buf); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	for name, bad := range map[string][]byte{"head": {1, 0, 0}, "body": {3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 'a'},
		"type":   simpleFrame(3, 0, nil),
		"length": simpleFrame(2, 0, []byte("x"))} {
		if _, _, _, err := readFrames(bytes.NewReader(bad), limits).next(nil); !errors.Is(err, errFrame) ||
			errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzFromChild is everything that the gateway reads from a child. What comes through fits the rules.
func FuzzFromChild(f *testing.F) {
	for _, answer := range fakeAnswers {
		if frame := answer(1); len(frame) < 64<<10 {
			f.Add(frame)
		}
	}
	for _, v := range fakeVerdicts {
		f.Add(fakeFrame(frameVerdict, 1, v))
	}
	f.Add(fakeFrame(frameFault, 1, appendFault(nil, &CallError{Fault: ErrTrap, Err: &StatusError{Status: 1}})))
	f.Add(simpleFrame(frameFailed, 0, appendFailure(nil, refusef("no"))))
	f.Add(simpleFrame(frameReady, 0, []byte(`{"Metadata":`+testMeta+`,"Digest":"x","Scans":true,"Checks":false}`)))
	f.Add(simpleFrame(frameAdmitted, 0, []byte(`{"OK":true,"Scans":true,"Metadata":`+testMeta+`}`)))
	as := asked{scanner: "mod", kinds: map[string]string{"TEST_KIND": "TEST_KIND"}, window: 3}
	f.Fuzz(func(t *testing.T, stream []byte) {
		in := readFrames(bytes.NewReader(stream), fromChild)
		for {
			kind, _, body, err := in.next(nil)
			if err != nil {
				return
			}
			readAnything(t, kind, body, as)
		}
	})
}

func readAnything(t *testing.T, kind byte, body []byte, as asked) {
	f := fields{b: body}
	switch kind {
	case frameReady:
		if r, err := readReady(body); err == nil && checkMetadata(&r.Metadata, r.Scans) != nil {
			t.Errorf("metadata %+v", r)
		}
	case frameAdmitted:
		if r, err := readAdmitted(body); err == nil && r.OK && (r.Reason != "" || !r.Scans && !r.Checks) {
			t.Errorf("verdict %+v", r)
		}
	case frameFailed:
		if err := f.failure("mod"); f.end() == nil && err == nil {
			t.Error("a failure that is none")
		}
	case frameFault:
		f.stats()
		f.cost()
		if e := f.fault("mod"); f.end() == nil && (e.Fault == nil || len(e.Error()) > 8*maxText) {
			t.Errorf("fault %v", e)
		}
	case frameVerdict:
		f.stats()
		f.cost()
		if v := f.verdict(); f.end() == nil && (v.Effect > sdk.Deny || v.TTL < 0 ||
			(v.Effect == sdk.Abstain) != (v.Code == "")) {
			t.Errorf("verdict %+v", v)
		}
	case frameFindings:
		f.stats()
		f.cost()
		r := f.result(as)
		for _, x := range r.Findings {
			sound := x.Kind == "TEST_KIND" && 0 <= x.Start && x.Start <= x.End && x.End <= as.window && x.Confidence >= 0 &&
				x.Confidence <= 1 &&
				x.Severity <= sdk.Critical && x.Suggested >= sdk.Flag && x.Suggested <= sdk.Drop &&
				len(x.Replacement) <= abi.MaxReplacement
			if f.end() == nil && !sound {
				t.Errorf("finding %+v", x)
			}
		}
	}
}

// FuzzToChild is everything that a child reads from the gateway.
func FuzzToChild(f *testing.F) {
	w := Window{State: []byte("s"), Text: "text", Hits: []Hit{{Trigger: 1, Offset: 2}}, Complete: true,
		Flags: abi.FlagFirst}
	f.Add(endFrame(appendWindow(beginFrame(nil, frameScan, 1), time.Second, &w)))
	f.Add(endFrame(appendCall(beginFrame(nil, frameCheck, 1), time.Second, &chain.Call{AgentID: "a"})))
	f.Add(simpleFrame(frameCancel, 3, nil))
	if frame, err := loadFrame(Spec{Name: "mod", Code: []byte("code"), Config: []byte("{}")}); err == nil {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		in := readFrames(bytes.NewReader(stream), toChild(1<<20))
		for {
			kind, id, body, err := in.next(nil)
			if err != nil {
				return
			}
			switch kind {
			case frameLoad:
				if s, err := readLoad(body); err == nil && len(s.Code) > abi.MaxModule {
					t.Error("too much code")
				}
			case frameScan:
				left, w, err := readWindow(body)
				if err != nil {
					continue
				}
				frame := appendWindow(beginFrame(nil, kind, id), left, &w)
				if left2, again, err := readWindow(frame[frameHead:]); err != nil || !reflect.DeepEqual(again, w) ||
					left2 != max(left, 1) {
					t.Errorf("%+v became %+v, %v", w, again, err)
				}
			case frameCheck:
				_, _, _ = readCall(body)
			}
		}
	})
}

// FuzzVerdictFile is a file of the verdict cache.
func FuzzVerdictFile(f *testing.F) {
	key := admissionKey{Digest: "sha256:x", Engine: "e"}
	f.Add([]byte(`{"Key":{"Digest":"sha256:x","Engine":"e"},"Verdict":{"Digest":"sha256:x","Engine":"e","OK":true,"Scans":true,"Metadata":` + testMeta + `}}`))
	f.Add([]byte(`{"Key":{"Digest":"sha256:x","Engine":"e"},"Verdict":{"Digest":"sha256:x","Engine":"e","Reason":"no"}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := readVerdict(doc, key)
		if err == nil && (v.Digest != key.Digest || v.OK == (v.Reason != "")) {
			t.Errorf("%+v", v)
		}
	})
}
