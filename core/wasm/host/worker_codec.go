package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// strictJSON decodes one document into v: nothing unknown, nothing behind it.
func strictJSON(doc []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the document")
	}
	return nil
}

// loadFrame is what a child has to load.
func loadFrame(spec Spec) ([]byte, error) {
	code := spec.Code
	spec.Code = nil
	doc, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	b := beginFrame(make([]byte, 0, frameHead+len(doc)+len(code)+16), frameLoad, 0)
	return endFrame(appendText(appendText(b, doc), code)), nil
}

// readLoad decodes a loadFrame's body, which stays in use.
func readLoad(body []byte) (Spec, error) {
	f := fields{b: body}
	doc, code := f.text("spec", maxSpec), f.text("code", abi.MaxModule)
	if err := f.end(); err != nil {
		return Spec{}, err
	}
	var spec Spec
	if err := strictJSON(doc, &spec); err != nil {
		return Spec{}, fmt.Errorf("%w: spec: %w", errFrame, err)
	}
	spec.Code = code
	return spec, nil
}

// appendWindow adds the body of a frameScan. left is the time that the call may still take.
func appendWindow(b []byte, left time.Duration, w *Window) []byte {
	b = binary.AppendUvarint(b, uint64(max(left, 1)))
	b = binary.LittleEndian.AppendUint32(b, w.Flags)
	complete := uint64(0)
	if w.Complete {
		complete = 1
	}
	b = binary.AppendUvarint(b, complete)
	b = appendText(appendText(b, w.State), w.Text)
	b = binary.AppendUvarint(b, uint64(len(w.Hits)))
	for _, h := range w.Hits {
		b = binary.LittleEndian.AppendUint32(b, h.Trigger)
		b = binary.LittleEndian.AppendUint32(b, h.Offset)
	}
	return b
}

// readWindow decodes the body of a frameScan. Nothing of it stays in use.
func readWindow(body []byte) (left time.Duration, w Window, err error) {
	f := fields{b: body}
	left = time.Duration(f.number("time", math.MaxInt64))
	w.Flags = f.u32("flags")
	w.Complete = f.number("complete", 1) == 1
	if state := f.text("state", abi.MaxState); len(state) > 0 {
		w.State = bytes.Clone(state)
	}
	w.Text = string(f.text("text", math.MaxInt32))
	n := f.number("hits", abi.MaxHits)
	if n*abi.HitSize != uint64(len(f.b)) {
		f.fail("hits")
	} else if n > 0 {
		w.Hits = make([]Hit, n)
		for i := range w.Hits {
			w.Hits[i].Trigger, w.Hits[i].Offset = f.u32("hits"), f.u32("hits")
		}
	}
	return left, w, f.end()
}

// appendStats begins every answer.
func appendStats(b []byte, s Stats) []byte {
	for _, v := range [...]uint64{uint64(max(s.Live, 0)), s.Memory, s.Fuel, s.Discarded, s.Grown, s.LogLines, s.LogBytes} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// stats reads what appendStats wrote. They are the worker's claims.
func (f *fields) stats() (s Stats) {
	s.Live = int(f.number("stats", 2*MaxInstances))
	s.Memory = f.number("stats", MaxMemory)
	for _, p := range [...]*uint64{&s.Fuel, &s.Discarded, &s.Grown, &s.LogLines, &s.LogBytes} {
		*p = f.number("stats", math.MaxInt64)
	}
	return s
}

// appendCost adds what a call used.
func appendCost(b []byte, r *Result) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, r.Fuel), uint64(max(r.HostCalls, 0)))
}

func (f *fields) cost() (fuel uint64, hostCalls int) {
	return f.number("fuel", math.MaxInt64), int(f.number("host calls", 2*abi.MaxHostCalls))
}

func appendResult(b []byte, r *Result) []byte {
	b = binary.AppendUvarint(b, uint64(len(r.Findings)))
	for i := range r.Findings {
		x := &r.Findings[i]
		b = appendText(b, x.Kind)
		b = binary.AppendUvarint(b, uint64(x.Start))
		b = binary.AppendUvarint(b, uint64(x.End))
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x.Confidence))
		b = append(b, byte(x.Severity), byte(x.Suggested))
		b = appendText(b, x.Replacement)
	}
	return appendOptional(appendOptional(b, r.State), r.Annotations)
}

// appendOptional tells nil from empty.
func appendOptional(b, s []byte) []byte {
	if s == nil {
		return append(b, 0)
	}
	return appendText(append(b, 1), s)
}

func (f *fields) optional(name string, most int) []byte {
	if f.number(name, 1) == 0 {
		return nil
	}
	return append(make([]byte, 0, 1), f.text(name, most)...)
}

// asked is what an answer has to fit to.
type asked struct {
	scanner string            // the module's configured name
	kinds   map[string]string // the declared ones
	window  int               // bytes of text
	stream  bool
}

// result reads findings and holds them against the rules that emit and put hold a guest to: the worker did the same,
// but whoever took over the worker need not have.
func (f *fields) result(a asked) (r Result) {
	n := int(f.number("number of findings", abi.MaxFindings))
	replaced := 0
	for range n {
		x := f.finding(a)
		if replaced += len(x.Replacement); replaced > max(2*a.window, abi.MaxReplacement) {
			f.fail("replacements")
		}
		if f.bad != "" {
			return Result{}
		}
		r.Findings = append(r.Findings, x)
	}
	if !slices.IsSortedFunc(r.Findings, byPlace) {
		f.fail("order of findings")
	}
	r.State, r.Annotations = f.optional("state", abi.MaxState), f.optional("annotations", abi.MaxPut)
	if r.State != nil && !a.stream {
		f.fail("state")
	}
	if r.Annotations != nil && checkAnnotations(r.Annotations) != nil {
		f.fail("annotations")
	}
	return r
}

var suggestions = [...]bool{sdk.Flag: true, sdk.Redact: true, sdk.Replace: true, sdk.Drop: true}

func (f *fields) finding(a asked) sdk.Finding {
	kind, declared := a.kinds[string(f.text("kind", maxText))]
	if !declared {
		f.fail("kind")
	}
	start, end := f.number("start", uint64(a.window)), f.number("end", uint64(a.window))
	if start >= end {
		f.fail("span")
	}
	confidence := math.Float32frombits(f.u32("confidence"))
	if !(confidence >= 0 && confidence <= 1) { // also for NaN
		f.fail("confidence")
	}
	severity := f.number("severity", uint64(sdk.Critical))
	action := f.number("action", uint64(len(suggestions)-1))
	if !suggestions[action] {
		f.fail("action")
	}
	replacement := f.text("replacement", abi.MaxReplacement)
	if len(replacement) > 0 && sdk.Action(action) != sdk.Replace || !utf8.Valid(replacement) {
		f.fail("replacement")
	}
	return sdk.Finding{Kind: kind, Scanner: a.scanner, Start: int(start), End: int(end), Confidence: confidence,
		Severity: sdk.Severity(severity), Suggested: sdk.Action(action), Replacement: string(replacement)}
}

func appendVerdict(b []byte, v *sdk.Verdict) []byte {
	b = binary.AppendUvarint(b, uint64(v.Effect))
	b = appendText(appendText(b, v.Code), v.Reason)
	return binary.AppendUvarint(b, uint64(v.TTL))
}

// verdict reads what decide lets a guest say.
func (f *fields) verdict() (v sdk.Verdict) {
	v.Effect = sdk.Effect(f.number("effect", uint64(sdk.Deny)))
	v.Code = string(f.text("code", 80))
	if (v.Effect == sdk.Abstain) != (v.Code == "") || v.Code != "" && !kindName.MatchString(v.Code) {
		f.fail("code")
	}
	v.Reason = string(f.text("reason", maxReason))
	if !utf8.ValidString(v.Reason) {
		f.fail("reason")
	}
	v.TTL = time.Duration(f.number("ttl", math.MaxInt32*uint64(time.Millisecond)))
	return v
}

// What stands behind a CallError's Err.
const (
	causeNone = iota
	causeStatus
	causeDeadline
	causeCanceled
	causeText
)

// appendFault adds an error of a call or a load.
func appendFault(b []byte, err error) []byte {
	var call *CallError
	if !errors.As(err, &call) {
		call = &CallError{Fault: ErrWorker, Detail: quote.Short(err.Error(), maxText/2)}
	}
	b = appendText(b, faultName(call.Fault))
	b = appendText(appendText(b, call.Export), call.Detail)
	b = append(b, byte(call.Wanted))
	var status *StatusError
	switch {
	case call.Err == nil:
		return append(b, causeNone)
	case errors.As(call.Err, &status):
		return appendText(binary.AppendUvarint(append(b, causeStatus), uint64(status.Status)), status.Text)
	case errors.Is(call.Err, context.DeadlineExceeded):
		return append(b, causeDeadline)
	case errors.Is(call.Err, context.Canceled):
		return append(b, causeCanceled)
	}
	return appendText(append(b, causeText), quote.Short(call.Err.Error(), maxText/2))
}

var exports = []string{"", abi.ExportInitialize, abi.ExportBuffer, abi.ExportInit, abi.ExportScan, abi.ExportCheck,
	abi.ExportDescribe}

// fault reads an error. Its texts are cut and made printable once more.
func (f *fields) fault(module string) *CallError {
	e := &CallError{Module: module}
	if e.Fault = faultNamed(string(f.text("fault", 64))); e.Fault == nil {
		f.fail("fault")
	}
	if e.Export = string(f.text("export", 64)); !slices.Contains(exports, e.Export) {
		f.fail("export")
	}
	e.Detail = quote.Short(string(f.text("detail", 2*maxText)), maxText)
	if e.Wanted = sdk.Effect(f.number("wanted", uint64(sdk.Deny))); e.Wanted == sdk.Permit {
		f.fail("wanted")
	}
	switch f.number("cause", causeText) {
	case causeStatus:
		e.Err = &StatusError{Status: uint32(f.number("status", math.MaxUint32)),
			Text: chain.Heard(string(f.text("status text", chain.HeardMost)))}
	case causeDeadline:
		e.Err = context.DeadlineExceeded
	case causeCanceled:
		e.Err = context.Canceled
	case causeText:
		e.Err = errors.New(quote.Short(string(f.text("cause", 2*maxText)), maxText))
	}
	return e
}

// ready is what a worker says of the module that it loaded.
type ready struct {
	Metadata      abi.Metadata
	Digest        string
	Scans, Checks bool
	Isolation     Isolation
	Why           string // Isolation is not the one asked for
}

// readReady decodes the body of a frameReady and checks the metadata by the rules for a module's own.
func readReady(body []byte) (*ready, error) {
	r := new(ready)
	if err := strictJSON(body, r); err != nil {
		return nil, fmt.Errorf("%w: %s", errFrame, quote.Short(err.Error(), 200))
	}
	if !r.Scans && !r.Checks {
		return nil, fmt.Errorf("%w: the module can do nothing", errFrame)
	}
	if r.Isolation > Pooled || len(r.Why) > maxText {
		return nil, fmt.Errorf("%w: isolation %d, because of %d bytes", errFrame, r.Isolation, len(r.Why))
	}
	r.Why = quote.Short(r.Why, maxText)
	if err := checkMetadata(&r.Metadata, r.Scans); err != nil {
		return nil, fmt.Errorf("%w: metadata: %w", errFrame, err)
	}
	return r, nil
}
