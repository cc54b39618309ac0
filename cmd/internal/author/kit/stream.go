package kit

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// streams says whether a module works on a text that comes in pieces.
func streams(m *host.Module) bool {
	mode := m.Metadata().Stream.Mode
	return mode == abi.StreamWindow || mode == abi.StreamStateful
}

// stream scans a text in pieces, as the gateway does with a text that arrives in pieces. That all of the text is
// released again, in order, is part of the outcome.
func stream(ctx context.Context, m *host.Module, pieces ...string) (o outcome) {
	s := m.NewStream()
	total, released := 0, 0
	for i, piece := range pieces {
		p, err := s.Write(ctx, piece, i == len(pieces)-1)
		if err != nil {
			return outcome{err: advised(err)}
		}
		if p.Start != released {
			return outcome{err: fmt.Errorf("the stream released byte %d after byte %d", p.Start, released)}
		}
		total += len(piece)
		released += len(p.Text)
		o.findings = append(o.findings, p.Findings...)
		o.fuel += p.Fuel
	}
	if released != total {
		return outcome{err: fmt.Errorf("the stream released %d of %d bytes", released, total)}
	}
	return o
}

// prefilters says whether windows of a stream can come with hits that are all there are. With a module that keeps state
// they cannot: one of its triggers may lie across two windows.
func (s *subject) prefilters() bool {
	return s.triggers != nil && s.first.Metadata().Stream.Mode == abi.StreamWindow
}

// windows scans a text as two windows of a stream, cut at a byte, each with the hits of the host's search in it: the
// host's Stream has no search, so its windows come without. What is settled by which window is decided as a Stream does
// it. A cut within a character is made in front of it. It is for modules of which prefilters is true.
func (s *subject) windows(ctx context.Context, text string, at int) (o outcome) {
	look := s.first.Metadata().Stream.Lookbehind
	at = startOfRune(text, at)
	known := startOfRune(text, at-look)
	first := s.window(ctx, text[:at], abi.FlagFirst|abi.FlagStream)
	if first.err != nil {
		return first
	}
	known = uncut(first.findings, known)
	from := startOfRune(text, known-look)
	flags := uint32(abi.FlagStream | abi.FlagFinal)
	if from == 0 {
		flags |= abi.FlagFirst
	}
	second := s.window(ctx, text[from:], flags)
	if second.err != nil {
		return second
	}
	for _, f := range first.findings {
		if f.Start < known && f.End <= known {
			o.findings = append(o.findings, f)
		}
	}
	for _, f := range second.findings {
		f.Start += from
		f.End += from
		if f.Start >= known {
			o.findings = append(o.findings, f)
		}
	}
	return o
}

// window scans one window with the hits in it. A window without a hit is not scanned.
func (s *subject) window(ctx context.Context, text string, flags uint32) outcome {
	s.triggers.Find(text, &s.found)
	hits, complete := s.found.Hits(0)
	if complete && len(hits) == 0 {
		return outcome{skipped: true}
	}
	return scanWindow(ctx, s.first, text, hits, complete, flags)
}

// uncut moves the end of what is settled back so that it cuts no finding in two.
func uncut(findings []sdk.Finding, to int) int {
	for moved := true; moved; {
		moved = false
		for _, f := range findings {
			if f.Start < to && to < f.End {
				to, moved = f.Start, true
			}
		}
	}
	return to
}

// startOfRune moves an offset back to where a character begins, by at most three bytes; 0 if it is less.
func startOfRune(text string, at int) int {
	for back := 0; back < utf8.UTFMax && back <= at; back++ {
		if at == len(text) || utf8.RuneStart(text[at-back]) {
			return at - back
		}
	}
	return max(at, 0)
}

// scanWindow scans one window.
func scanWindow(ctx context.Context, m *host.Module, text string, hits []prefilter.Hit, complete bool,
	flags uint32) outcome {
	r, err := m.ScanWindow(ctx, host.Window{Text: text, Hits: hits, Complete: complete, Flags: flags})
	return outcome{findings: r.Findings, err: advised(err), hostCalls: r.HostCalls, fuel: r.Fuel}
}
