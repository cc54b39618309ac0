package host

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// MaxStream is how much text a stream may hold back, bytes: all of it for a scanner that takes no pieces.
const MaxStream = 16 << 20

// Stream scans a text that comes in pieces. It holds no instance: each piece may run in another one, and what must be
// remembered is kept here. How depends on what the module says of itself:
//
//   - window: text is released once Lookbehind bytes follow it, and each scan sees the last Lookbehind bytes of what
//     was
//     released before. So findings are those of one scan over the whole text if a finding depends on no more than the
//     Lookbehind bytes before and behind its start.
//   - stateful: each piece is released at once, and the module's state is handed to the next.
//   - none: everything is held back until the end.
//
// A stream is one goroutine's. After an error it is at its end: every later Write gives the same error.
type Stream struct {
	m     *Module
	bound [32]byte // digest and config that state belongs to
	err   error
	ended bool
	first bool // no scan has run yet

	base  int    // offset of buf in the stream
	buf   []byte // what is kept: known bytes that are released already, then those that are not
	known int
	state []byte
}

// Piece is what one Write settled.
type Piece struct {
	Text     string        // released now; all pieces joined are the text of the stream
	Start    int           // its offset in the stream
	Findings []sdk.Finding // those in Text, with offsets in the stream, sorted by start, end, kind
	Fuel     uint64        // units used
}

// NewStream begins a stream.
func (m *Module) NewStream() *Stream { return &Stream{m: m, bound: m.binding(), first: true} }

// binding stands for the code and the config that a state was made by.
func (m *Module) binding() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %d\n%s", m.digest, len(m.initDoc), m.initDoc))
}

// Move continues the stream on another module, say after a change of the config. It fails, and the stream stays where
// it is, when that module is of other code or has another config: state is for nobody else.
func (s *Stream) Move(to *Module) error {
	if to.binding() != s.bound {
		return to.fault("", ErrInput, "the stream was begun by other code or with another config", nil)
	}
	s.m = to
	return nil
}

// Write takes the next bytes of the text, cut anywhere, and gives what is settled by them. final says that there are no
// more: everything that is left is released.
func (s *Stream) Write(ctx context.Context, chunk string, final bool) (Piece, error) {
	if s.err == nil && s.ended {
		s.err = s.m.fault("", ErrInput, "the stream has ended", nil)
	}
	if s.err == nil && len(s.buf)-s.known+len(chunk) > MaxStream {
		s.err = s.m.fault("", ErrInput, fmt.Sprintf("more than %d bytes of a stream would be held back", MaxStream), nil)
	}
	if s.err != nil {
		return Piece{}, s.err
	}
	s.ended = final
	s.buf = append(s.buf, chunk...)
	var p Piece
	switch s.m.meta.Stream.Mode {
	case abi.StreamWindow:
		p, s.err = s.window(ctx, final)
	case abi.StreamStateful:
		p, s.err = s.stateful(ctx, final)
	default:
		p, s.err = s.whole(ctx, final)
	}
	if s.err != nil {
		return Piece{Fuel: p.Fuel}, s.err
	}
	return p, nil
}

// usable is how much of buf can be scanned now: not the beginning of a character whose rest is still to come, since
// that would look like text that is not UTF-8.
func (s *Stream) usable(final bool) int {
	n := len(s.buf)
	if final {
		return n
	}
	for back := 1; back < utf8.UTFMax && back <= n-s.known; back++ {
		if b := s.buf[n-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(s.buf[n-back:]) {
				return n - back
			}
			return n
		}
	}
	return n
}

// window scans what was kept and what is new, and settles all that the bytes to come cannot change.
func (s *Stream) window(ctx context.Context, final bool) (Piece, error) {
	look := s.m.meta.Stream.Lookbehind
	n := s.usable(final)
	to := n
	if !final {
		// Half of lookbehind at a time, so that a text in tiny pieces is not scanned once for each byte.
		if to = s.runeStart(n - look); to-s.known < max(look/2, 1) {
			return s.release(s.known, nil, false), nil
		}
	}
	r, err := s.scan(ctx, n, final, s.base == 0)
	if err != nil {
		return Piece{Fuel: r.Fuel}, err
	}
	if !final {
		to = s.uncut(r.Findings, to)
	}
	p := s.release(to, r.Findings, final)
	p.Fuel = r.Fuel
	if drop := s.runeStart(s.known - look); drop > 0 {
		s.base += drop
		s.known -= drop
		s.buf = slices.Delete(s.buf, 0, drop)
	}
	return p, nil
}

// runeStart moves an offset in buf back to where a character begins, by at most three bytes.
func (s *Stream) runeStart(at int) int {
	if at <= 0 {
		return 0
	}
	for back := 0; back < utf8.UTFMax && back <= at; back++ {
		if at == len(s.buf) || utf8.RuneStart(s.buf[at-back]) {
			return at - back
		}
	}
	return at // not UTF-8
}

// uncut moves the end of what is released back so that it cuts no finding in two.
func (s *Stream) uncut(findings []sdk.Finding, to int) int {
	for moved := true; moved; {
		moved = false
		for _, f := range findings {
			if f.Start < to && to < f.End && f.Start >= s.known {
				to, moved = f.Start, true
			}
		}
	}
	return to
}

// release gives the text from known to the offset to, and the findings in it. Findings in what was released before were
// given then; those behind will be found again, unless all says that there is no scan to come that sees them.
func (s *Stream) release(to int, findings []sdk.Finding, all bool) Piece {
	p := Piece{Text: string(s.buf[s.known:to]), Start: s.base + s.known}
	for _, f := range findings {
		if f.Start < s.known || f.End > to || f.Start == to && !all {
			continue
		}
		f.Start += s.base
		f.End += s.base
		p.Findings = append(p.Findings, f)
	}
	s.known = to
	return p
}

// stateful scans only what is new. Its findings are about nothing else.
func (s *Stream) stateful(ctx context.Context, final bool) (Piece, error) {
	n := s.usable(final)
	if n == 0 && !final {
		return s.release(0, nil, false), nil
	}
	r, err := s.scan(ctx, n, final, s.first)
	if err != nil {
		return Piece{Fuel: r.Fuel}, err
	}
	s.state = r.State
	p := s.release(n, r.Findings, true)
	p.Fuel = r.Fuel
	s.base += n
	s.known = 0
	s.buf = slices.Delete(s.buf, 0, n)
	return p, nil
}

// whole waits for the end and scans then.
func (s *Stream) whole(ctx context.Context, final bool) (Piece, error) {
	if !final {
		return s.release(0, nil, false), nil
	}
	r, err := s.m.ScanWindow(ctx, Window{Text: string(s.buf), Flags: abi.FlagFirst | abi.FlagFinal})
	if err != nil {
		return Piece{Fuel: r.Fuel}, err
	}
	p := s.release(len(s.buf), r.Findings, true)
	p.Fuel = r.Fuel
	return p, nil
}

// scan runs the module over the first n bytes of buf.
func (s *Stream) scan(ctx context.Context, n int, final, first bool) (Result, error) {
	w := Window{State: s.state, Text: string(s.buf[:n]), Flags: abi.FlagStream}
	if first {
		w.Flags |= abi.FlagFirst
	}
	if final {
		w.Flags |= abi.FlagFinal
	}
	s.first = false
	return s.m.ScanWindow(ctx, w)
}
