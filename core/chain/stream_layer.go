package chain

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// layer is one reading of a stream, and how far each step has come in it. What a text reads as is a stream like the
// text itself: it begins where the first escape is, since all that lies before is scanned as the text, and its steps go
// on from there.
type layer struct {
	base    int        // offset of buf in the layer
	buf     string     // what is still needed
	from    int        // offset in the layer below of what reads as buf
	decoded int        // offset up to which the layer above has read this one
	steps   []progress // one for each of the chain
}

// end is how many bytes the layer has been given.
func (l *layer) end() int { return l.base + len(l.buf) }

// at is layer k; 0 is the text itself.
func (s *Stream) at(k int) *layer {
	if k == 0 {
		return &s.layer
	}
	return &s.deeper[k-1]
}

// decode has each layer read what the one below was given. n is a stream of our own.
func (s *Stream) decode(final bool) {
	for k := 0; k <= len(s.deeper); k++ {
		below := s.at(k)
		if k == maxDecoded {
			s.deep = below.escaped(final) || s.deep
			return
		}
		var above *layer
		if k < len(s.deeper) {
			above = &s.deeper[k]
		}
		if begun := below.decode(above, final); above == nil && begun != nil {
			s.deeper = append(s.deeper, *begun)
		}
	}
}

// decode reads on from where the layer above has come to. That one begins with the first escape; until then it is nil.
func (l *layer) decode(above *layer, final bool) *layer {
	u := units{text: l.buf[l.decoded-l.base:], final: final}
	var out []byte
	for n, as := u.next(); n > 0; n, as = u.next() {
		switch {
		case as != nil && above == nil:
			above = &layer{base: l.base, buf: strings.Clone(l.buf[:l.decoded-l.base]), from: l.base, decoded: l.decoded,
				steps: slices.Clone(l.steps)}
			out = append(out, as...)
		case as != nil:
			out = append(out, as...)
		case above != nil:
			out = append(out, u.text[u.at-n:u.at]...)
		}
		l.decoded += n
	}
	if len(out) > 0 {
		above.buf += string(out)
	}
	return above
}

// escaped reads the last layer to where it can be scanned, and reports whether there were escapes in what it read.
func (l *layer) escaped(final bool) (some bool) {
	u := units{text: l.buf[l.decoded-l.base:], final: final}
	for n, as := u.next(); n > 0; n, as = u.next() {
		some = some || as != nil
		l.decoded += n
	}
	return some
}

// usable is the offset up to which the layer can be scanned now: not the beginning of a character or an escape whose
// rest is to come.
func (l *layer) usable(final bool) int {
	end := l.decoded - l.base
	for back := 1; !final && back < utf8.UTFMax && back <= end; back++ {
		if utf8.RuneStart(l.buf[end-back]) {
			if !utf8.FullRuneInString(l.buf[end-back : end]) {
				end -= back
			}
			break
		}
	}
	return l.base + end
}

// runeStart moves an offset back to where a character begins, by at most three bytes; in what is not UTF-8 not at all.
func (l *layer) runeStart(at int) int {
	for back := 0; back < utf8.UTFMax && at-back >= l.base; back++ {
		if at-l.base == len(l.buf) || utf8.RuneStart(l.buf[at-back-l.base]) {
			return at - back
		}
	}
	return at
}

// below is the text that layer k > 0 was read from, with what follows it: that decides where some units end.
func (s *Stream) below(k int) string {
	lower := s.at(k - 1)
	return lower.buf[s.at(k).from-lower.base:]
}

// toText moves findings in layer k to the text itself.
func (s *Stream) toText(k int, found []sdk.Finding) {
	for ; k > 0; k-- {
		toSource(s.below(k), found, s.at(k).base, s.at(k).from)
	}
}

// down gives, for an offset in layer k > 0, that of the unit it is in, and where that unit lies in the layer below.
func (s *Stream) down(k, at int) (unit, from int) {
	l := s.at(k)
	if at >= l.end() {
		return l.end(), s.at(k - 1).decoded
	}
	unit, from = unitAt(s.below(k), at-l.base)
	return unit + l.base, from + l.from
}

// enforces reports whether what step i finds counts for the text.
func (s *Stream) enforces(i int) bool { return !s.steps[i].skipped && !s.c.Steps[i].Shadow }

// settledBy is the offset in the text up to which the steps that count have settled all layers.
func (s *Stream) settledBy(counts func(step int) bool) int {
	to := s.at(len(s.deeper)).end()
	for k := len(s.deeper); ; k-- {
		l := s.at(k)
		to = min(to, l.usable(false))
		for i := range l.steps {
			if counts(i) {
				to = min(to, l.steps[i].settled)
			}
		}
		if k == 0 {
			return to
		}
		_, to = s.down(k, to)
	}
}

// trim drops what no step and no layer needs any more.
func (s *Stream) trim(res *StreamResult) {
	for k := len(s.deeper); k >= 0; k-- {
		l := s.at(k)
		need := l.decoded
		if k < len(s.deeper) {
			need = s.deeper[k].from
		}
		if k == 0 {
			need = min(need, s.known)
		}
		for i := range l.steps {
			step, p := &s.c.Steps[i], &l.steps[i]
			if p.skipped || p.dead != nil {
				continue
			}
			if step.Shadow && l.end()-p.settled > s.held { // it changes nothing: it is done without, and its receipts say so
				p.dead, p.state = fmt.Errorf("it would have to see more than %d bytes at once", s.held), nil
				res.Shadow, s.steps[i].found = append(res.Shadow, s.steps[i].found...), nil
				continue
			}
			at := p.settled
			if step.mode() == abi.StreamWindow {
				at = l.runeStart(max(at-step.Stream.Lookbehind, 0))
			}
			need = min(need, at)
		}
		from := 0
		if k > 0 {
			need, from = s.down(k, need)
		}
		if need > l.base { // a copy: what is dropped must not stay in memory
			l.buf, l.base, l.from = strings.Clone(l.buf[need-l.base:]), need, from
		}
	}
}

// scanAll has every step look at what it can settle now, in each layer. It gives the receipt of a failure that
// denies.
func (s *Stream) scanAll(ctx context.Context, final bool, res *StreamResult) *Receipt {
	end := s.c.Now().Add(s.c.Budget)
	var hits *prefilter.Found
	if s.c.pass != nil {
		hits = s.c.found.Get().(*prefilter.Found)
		defer s.c.found.Put(hits)
	}
	res.Receipts = make([]Receipt, len(s.c.Steps))
	for k := 0; k <= len(s.deeper); k++ {
		read := pass{hits: hits, from: -1}
		to := s.at(k).usable(final)
		for i := range s.c.Steps {
			rec, found := s.scan(ctx, k, i, to, final, end, &read)
			end = end.Add(rec.told)
			s.toText(k, found)
			if k == 0 {
				res.Receipts[i] = rec
			} else {
				res.Receipts[i].add(&rec)
			}
			if p := &s.steps[i]; s.c.Steps[i].Shadow {
				p.found = append(p.found, found...)
			} else {
				s.pending = append(s.pending, found...)
			}
		}
	}
	s.giveShadow(final, res)
	for i := range res.Receipts {
		s.steps[i].blind = s.steps[i].blind || res.Receipts[i].Err != nil
	}
	return lacking(res.Receipts, func(i int) bool { return s.steps[i].blind })
}

// giveShadow gives the findings of shadow steps once no layer can give them again.
func (s *Stream) giveShadow(final bool, res *StreamResult) {
	for i := range s.steps {
		p := &s.steps[i]
		if len(p.found) == 0 {
			continue
		}
		to := p.settled
		if len(s.deeper) > 0 {
			to = s.settledBy(func(step int) bool { return step == i })
		}
		kept := p.found[:0]
		for _, f := range p.found {
			if f.Start < to || final || len(p.found) > maxPending {
				res.Shadow = append(res.Shadow, f)
			} else {
				kept = append(kept, f)
			}
		}
		p.found = kept
	}
}

// add puts what a step did in another layer to its receipt. Bytes stay those of the text.
func (r *Receipt) add(o *Receipt) {
	r.Took += o.Took
	if r.Began.IsZero() {
		r.Began = o.Began
	}
	switch {
	case o.Outcome == "skipped" || o.Outcome == "waiting":
	case r.Outcome == "waiting":
		r.Outcome, r.Prefiltered = o.Outcome, o.Prefiltered
	default:
		r.Prefiltered = r.Prefiltered && o.Prefiltered
	}
	if r.Err == nil && o.Err != nil {
		r.Outcome, r.Err, r.Prefiltered = o.Outcome, o.Err, false
	}
}

// pass is the last reading of a window for triggers: steps with the same window share it.
type pass struct {
	hits     *prefilter.Found
	from, to int
}

// scan has one step settle what it can in layer k, and gives the findings that it settled.
func (s *Stream) scan(ctx context.Context, k, i, to int, final bool, end time.Time, read *pass) (Receipt,
	[]sdk.Finding) {
	l, step := s.at(k), &s.c.Steps[i]
	p := &l.steps[i]
	rec := Receipt{Step: step, About: step.Scanner.About(), Outcome: "ok"}
	mode, look := step.mode(), step.Stream.Lookbehind
	from, settle := p.settled, to
	switch {
	case p.skipped:
		rec.Outcome = "skipped"
		return rec, nil
	case p.dead != nil:
		rec.Outcome, rec.Err = "error", p.dead
		p.settled = to
		return rec, nil
	case mode == abi.StreamNone && !final:
		rec.Outcome = "waiting"
		return rec, nil
	case mode == abi.StreamStateful && from == to && !final:
		rec.Outcome = "waiting"
		return rec, nil
	case mode == abi.StreamWindow:
		from = l.runeStart(max(p.settled-look, 0))
		// Half of lookbehind at a time, so that a text in tiny pieces is not scanned once for each byte.
		if settle = to - look; !final && settle-p.settled < max(look/2, 1) {
			rec.Outcome = "waiting"
			return rec, nil
		}
	}
	w := Window{Input: s.in, State: p.state, First: from == 0, Last: final}
	w.Text = l.buf[from-l.base : to-l.base]
	if k > 0 {
		w.ContentType = decodedType
	}
	if mode != abi.StreamStateful && s.triggers(step, &w.Input, from, to, read) {
		rec.Bytes, rec.Prefiltered = len(w.Text), true
		old := p.settled
		if p.settled = to; !final {
			p.settled = max(l.runeStart(settle), old)
		}
		return rec, nil
	}
	found, state := s.c.piece(ctx, step, mode, &w, end, &rec)
	if rec.Err != nil && (mode == abi.StreamStateful || final) {
		p.dead = fmt.Errorf("it failed earlier in this stream: %w", rec.Err)
	}
	for k := range found {
		found[k].Start += from
		found[k].End += from
	}
	if mode == abi.StreamWindow {
		old := p.settled
		if p.settled = to; !final {
			p.settled = l.runeStart(max(uncut(found, old, settle), to-2*look, old))
		}
		found = within(clipped(found, old, look), old, p.settled, final)
	} else {
		p.settled = to
	}
	p.state = bytes.Clone(state) // it may be part of a larger array
	return rec, found
}

// triggers fills in the window's hits, and reports whether the scanner can find nothing in it.
func (s *Stream) triggers(step *ScanStep, in *Input, from, to int, read *pass) bool {
	if s.c.pass == nil || step.set < 0 {
		return false
	}
	if read.from != from || read.to != to {
		s.c.pass.Find(in.Text, read.hits)
		read.from, read.to = from, to
	}
	in.Hits, in.HitsComplete = read.hits.Hits(step.set)
	return in.HitsComplete && len(in.Hits) == 0
}
