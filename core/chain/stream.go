package chain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// Window is a piece of a stream as a scanner sees it: Text, Hits into it, and what the scanner asked to be handed back.
type Window struct {
	Input
	State       []byte // what the piece before gave, for abi.StreamStateful
	First, Last bool   // the window is at the beginning, or at the end, of the stream
}

// PieceScanner is a Scanner that takes a text in pieces, as its ScanStep.Stream says.
type PieceScanner interface {
	Scanner
	// ScanPiece finds spans in w.Text and gives the state for the next piece. Errors are as Scan's.
	ScanPiece(ctx context.Context, w *Window) (found []sdk.Finding, state []byte, err error)
}

// Stream is a text that comes in pieces, at one moment: Next gives the one after it and leaves this one as it is, so
// that a piece whose record could not be written has not happened. What all pieces release, joined, is what Run gives
// for the joined text, and so are the findings, for scanners that keep to what they declare:
//
//   - window: findings, with all that they depend on, are within Lookbehind bytes on either side of their start. Each
//     window begins
//     that far before what is settled, and settles what ends that far before its end.
//   - stateful: the scanner sees each byte once, with its own state.
//   - none, and scanners that take no pieces: they see the whole text at its end, and all of it is held back until
//     then.
//
// A text is held back while anything to come could change it: while a step has not settled it, and from a redaction on
// that would look otherwise if the whole turned out to be JSON. A Stream holds no instance of a module and is
// immutable.
type Stream struct {
	c    *ScanChain
	in   Input // without the text
	held int   // bytes that may be held back

	layer          // the text itself
	deeper []layer // what it reads as, what that reads as, and so on, from where there are escapes to decode
	deep   bool    // there are escapes that nobody has decoded

	known int // offset up to which the text is released
	sent  int // bytes released
	skip  int // everything before this offset is redacted; 0 if nothing is

	pending []sdk.Finding // of enforcing steps, from known on
	json    jsonText      // at known
	output  jsonText      // behind what is released, while the text may still be JSON
}

const (
	maxPending = 1 << 14 // findings that may be held back
	deadSize   = 256     // what the failure of a step takes beside its words, bytes
)

// progress is how far one step has come.
type progress struct {
	skipped bool // match does not hold
	settled int  // offset up to which its findings are known
	state   []byte
	dead    error         // it failed and cannot go on
	blind   bool          // it has failed, so there is text that it has not seen; in the text's own layer, for all layers
	found   []sdk.Finding // of a shadow step, which a layer may give again; in the text's own layer
}

// StreamResult is what one piece settled. Offsets are those of the stream. Findings are those that begin in the text
// which is released now, or, when Denied, all that were not given yet.
type StreamResult struct {
	ScanResult
	Settled  int    // offset up to which the text is released or redacted
	Released int    // bytes released in all
	Around   string // text that holds every finding
	At       int    // its offset
}

// NewStream begins a stream about in, whose Text and Hits are ignored. held is how many bytes may be held back between
// two pieces.
func (c *ScanChain) NewStream(in *Input, held int) *Stream {
	s := &Stream{c: c, in: Input{ToolID: in.ToolID, AgentID: in.AgentID, ContentType: in.ContentType, KeyID: in.KeyID,
		MaskKey: in.MaskKey, TokenKey: in.TokenKey},
		held: held}
	s.json.typed = JSONType(in.ContentType)
	s.output.typed = s.json.typed
	s.steps = make([]progress, len(c.Steps))
	for i := range c.Steps {
		s.steps[i].skipped = !c.Steps[i].Match.holdsForText(in.ToolID, in.AgentID)
	}
	return s
}

// Kept is how many bytes the stream takes in memory. What readings share with each other counts for each of them.
func (s *Stream) Kept() int {
	n := int(unsafe.Sizeof(*s)) + keptFindings(s.pending) + cap(s.json.stack) + cap(s.output.stack) + s.layer.kept()
	for i := range s.deeper {
		n += int(unsafe.Sizeof(s.deeper[i])) + s.deeper[i].kept()
	}
	return n
}

// kept is how many bytes the layer takes beside itself.
func (l *layer) kept() int {
	n := len(l.buf)
	for i := range l.steps {
		p := &l.steps[i]
		n += int(unsafe.Sizeof(*p)) + cap(p.state) + keptFindings(p.found)
		if p.dead != nil {
			n += deadSize + 2*len(p.dead.Error())
		}
	}
	return n
}

func keptFindings(found []sdk.Finding) int {
	n := cap(found) * int(unsafe.Sizeof(sdk.Finding{}))
	for i := range found {
		n += len(found[i].Kind) + len(found[i].Replacement)
	}
	return n
}

// own gives the stream arrays of its own size, so that what the piece has used up does not stay in memory. Findings of
// shadow steps are those of the text's own layer; a layer that began as a copy of it has no need of them.
func (s *Stream) own() {
	s.pending = append([]sdk.Finding(nil), s.pending...) // not slices.Clone, which lets an empty slice hold its array
	for k := 0; k <= len(s.deeper); k++ {
		steps := s.at(k).steps
		for i := range steps {
			p := &steps[i]
			p.found = append([]sdk.Finding(nil), p.found...)
			if k > 0 {
				p.found = nil
			}
		}
	}
}

// Taken is how many bytes the stream has been given.
func (s *Stream) Taken() int { return s.base + len(s.buf) }

// mode is how a step takes streams.
func (s *ScanStep) mode() string {
	if _, ok := s.Scanner.(PieceScanner); ok &&
		(s.Stream.Mode == abi.StreamWindow && s.Stream.Lookbehind > 0 || s.Stream.Mode == abi.StreamStateful) {
		return s.Stream.Mode
	}
	return abi.StreamNone
}

// Next takes the next bytes of the text, cut anywhere; final says that there are no more. When the outcome is Denied,
// and after the final piece, the stream is at its end and next is nil.
func (s *Stream) Next(ctx context.Context, chunk string, final bool) (next *Stream, res StreamResult) {
	n := *s
	n.buf = s.buf + chunk
	n.steps = slices.Clone(s.steps)
	for i := range n.steps {
		n.steps[i].found = slices.Clone(n.steps[i].found)
	}
	n.deeper = slices.Clone(s.deeper)
	for i := range n.deeper {
		n.deeper[i].steps = slices.Clone(n.deeper[i].steps)
	}
	n.decode(final)
	n.pending = append([]sdk.Finding(nil), s.pending...)
	n.json, n.output = s.json.clone(), s.output.clone()
	res = StreamResult{ScanResult: ScanResult{Outcome: Pass, Code: sdk.ReasonScanOK}, Around: n.buf, At: n.base}
	failed := n.scanAll(ctx, final, &res)
	all := slices.Clone(n.pending) // those that this piece settles too: a denial must name what it is for
	switch {
	case !n.concerned():
		res.deny(sdk.ReasonScanUnavailable, "no scanner is configured for this tool and agent, so nothing can be "+
			"called clean")
	case n.deep:
		res.deny(sdk.ReasonScanUnavailable, tooDeep)
	case failed != nil:
		res.deny(sdk.ReasonScanUnavailable, fmt.Sprintf("scanner %s did not run to its end: %v", failed.Step.Name,
			failed.Err))
	default:
		n.redactAndRelease(final, &res)
	}
	if !final && res.Outcome != Denied {
		n.bound(&res)
	}
	if res.Outcome == Denied {
		res.Findings, res.Shadow = n.c.judge(&n.in, n.buf, n.base, all), n.c.judge(&n.in, n.buf, n.base, res.Shadow)
		res.Settled, res.Released = s.known, s.sent
		return nil, res
	}
	res.Shadow = n.c.judge(&n.in, res.Around, res.At, res.Shadow) // trimmed, our buffer need not hold them any more
	n.sent += len(res.Text)
	res.Settled, res.Released = n.known, n.sent
	if final {
		return nil, res
	}
	n.own()
	return &n, res
}

// concerned reports whether an enforcing step looks at the text.
func (s *Stream) concerned() bool {
	for i := range s.steps {
		if !s.steps[i].skipped && !s.c.Steps[i].Shadow {
			return true
		}
	}
	return false
}

// piece runs a step over one window and fills in its receipt.
func (c *ScanChain) piece(ctx context.Context, step *ScanStep, mode string, w *Window, end time.Time,
	rec *Receipt) (found []sdk.Finding, state []byte) {
	rec.Bytes = len(w.Text)
	start := c.Now()
	err := c.inTime(ctx, end)
	if err == nil {
		found, err = limited(ctx, step.Timeout, start, end, func(ctx context.Context) (found []sdk.Finding, err error) {
			if mode == abi.StreamNone {
				return step.Scanner.Scan(ctx, &w.Input)
			}
			found, state, err = step.Scanner.(PieceScanner).ScanPiece(ctx, w)
			return found, err
		})
	}
	if err == nil {
		err = valid(found, len(w.Text))
	}
	if err == nil && len(state) > abi.MaxState {
		err = fmt.Errorf("a state of %d bytes, more than %d", len(state), abi.MaxState)
	}
	rec.Began, rec.Took = start, c.Now().Sub(start)
	if err == nil {
		return c.covering(step, &w.Input, found), state
	}
	c.failed(ctx, &w.Input, rec, err)
	return nil, nil
}

// uncut moves the end of what is settled back so that it cuts no finding that begins from known on.
func uncut(found []sdk.Finding, known, to int) int {
	for moved := true; moved; {
		moved = false
		for _, f := range found {
			if f.Start >= known && f.Start < to && to < f.End {
				to, moved = f.Start, true
			}
		}
	}
	return to
}

// clipped are the findings of a window that has look bytes of what is settled, up to old, in front. A finding that
// begins there was given before, with all of what it covers, and is not wanted again. That cannot be said of one which
// is longer than anything the scanner may find, nor where there are as many as a call may report: the last of those may
// stand for all that follow it. What these cover behind old counts.
func clipped(found []sdk.Finding, old, look int) []sdk.Finding {
	for i := range found {
		if f := &found[i]; f.Start < old && f.End > old && (len(found) >= abi.MaxFindings || f.End-f.Start > look) {
			f.Start = old
		}
	}
	return found
}

// within are the findings that begin from known on and before to. Those before were given, those behind will be.
func within(found []sdk.Finding, known, to int, final bool) []sdk.Finding {
	kept := found[:0]
	for _, f := range found {
		if f.Start >= known && (f.Start < to || final) {
			kept = append(kept, f)
		}
	}
	return kept
}

// bound drops what is not needed any more, and denies when too much is.
func (s *Stream) bound(res *StreamResult) {
	end := s.Taken()
	if over := end - s.known; over > s.held {
		res.deny(sdk.ReasonOutputSize, fmt.Sprintf("%d bytes of the stream would be held back, more than the limit of %d: %s",
			over, s.held, s.holder()))
		return
	}
	if len(s.pending) > maxPending {
		res.deny(sdk.ReasonOutputSize, fmt.Sprintf("%d findings of the stream would be held back, more than the limit "+
			"of %d: %s", len(s.pending), maxPending, s.holder()))
		return
	}
	s.trim(res)
}

// holder says what holds the text back.
func (s *Stream) holder() string {
	for i := range s.steps {
		if step := &s.c.Steps[i]; !s.steps[i].skipped && s.steps[i].dead == nil && !step.Shadow &&
			step.mode() == abi.StreamNone {
			return fmt.Sprintf("scanner %s takes whole texts only", cmp.Or(step.Name, "?"))
		}
	}
	return "the scanners need to see more of it, or a redaction in what may be JSON waits for the end"
}
