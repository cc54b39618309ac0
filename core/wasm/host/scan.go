package host

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

var (
	_ chain.PieceScanner = (*Module)(nil)
	_ chain.Checker      = (*Module)(nil)
)

// Hit is a place in a text where one of a module's triggers occurs.
type Hit = prefilter.Hit

// Window is one piece of text to scan.
type Window struct {
	State    []byte // what the scan before gave, at most abi.MaxState bytes; nil at first
	Text     string
	Hits     []Hit  // where the module's triggers occur: indexes into Triggers(), offsets into Text
	Complete bool   // Hits are all there are: the guest need not look elsewhere
	Key      string // whose text it is
	Masking  bool   // for masking, which has places of its own
	Flags    uint32 // of abi.FlagFirst, FlagFinal, FlagStream, FlagTruncated and FlagDryRun; the others are set here
}

// Result is what a scan of one window gave.
type Result struct {
	Findings    []sdk.Finding // sorted by start, end, kind
	State       []byte        // for the next window of a stream; nil if the module put none
	Annotations []byte        // as the module put them, at most abi.MaxPut bytes, hostile; nil if it put none
	Fuel        uint64        // units used; also beside an error
	HostCalls   int           // calls of host functions, those of the meter not counted; also beside an error
}

// Scan scans one text as a whole. Errors are *CallError: see Err… for what can be wrong.
func (m *Module) Scan(ctx context.Context, in *chain.Input) ([]sdk.Finding, error) {
	r, err := m.ScanWindow(ctx, wholeOf(in))
	return r.Findings, err
}

// wholeOf is a chain's text as a module gets it.
func wholeOf(in *chain.Input) Window {
	return Window{Text: in.Text, Hits: in.Hits, Complete: in.HitsComplete, Flags: abi.FlagFirst | abi.FlagFinal,
		Key: in.KeyID, Masking: in.Masking}
}

// ScanHits scans one text as a whole and tells the module where its triggers occur. Without complete it reads
// everything.
func (m *Module) ScanHits(ctx context.Context, text string, hits []Hit, complete bool) ([]sdk.Finding, error) {
	r, err := m.ScanWindow(ctx, Window{Text: text, Hits: hits, Complete: complete, Flags: abi.FlagFirst | abi.FlagFinal})
	return r.Findings, err
}

// ScanPiece scans one piece of a stream that the chain keeps. Errors are *CallError.
func (m *Module) ScanPiece(ctx context.Context, w *chain.Window) ([]sdk.Finding, []byte, error) {
	r, err := m.ScanWindow(ctx, pieceOf(w))
	return r.Findings, r.State, err
}

// pieceOf is a chain's window as a module gets it.
func pieceOf(w *chain.Window) Window {
	out := Window{State: w.State, Text: w.Text, Hits: w.Hits, Complete: w.HitsComplete, Flags: abi.FlagStream,
		Key: w.KeyID, Masking: w.Masking}
	if w.First {
		out.Flags |= abi.FlagFirst
	}
	if w.Last {
		out.Flags |= abi.FlagFinal
	}
	return out
}

// callerFlags are those that a Window may set.
const callerFlags = abi.FlagFirst | abi.FlagFinal | abi.FlagStream | abi.FlagTruncated | abi.FlagDryRun

// ScanWindow scans one window of a stream, or a text as a whole.
func (m *Module) ScanWindow(ctx context.Context, w Window) (Result, error) {
	if err := m.checkWindow(&w); err != nil {
		m.calls.Add(1)
		m.errs.Add(1)
		return Result{}, err
	}
	var r Result
	err := m.use(ctx, scanning, whose{w.Key, w.Masking}, func(c *call) (uint32, int, error) {
		ptr, n, err := c.in.scanWindow(c, &w)
		if err == nil {
			slices.SortStableFunc(c.findings, byPlace)
			r = Result{Findings: c.findings, State: c.puts[abi.SlotState], Annotations: c.puts[abi.SlotAnnotations]}
		}
		r.Fuel, r.HostCalls = c.used, c.hostCalls
		return ptr, n, err
	})
	return m.spec.result(r, err)
}

// result is what came of a scan, without what the module was handed in secret.
func (s *Spec) result(r Result, err error) (Result, error) {
	if s.Hide != nil {
		r.Findings = s.Hide.Findings(r.Findings, abi.MaxReplacement)
		if len(r.Annotations) > 0 {
			r.Annotations = []byte(s.Hide.Hide(string(r.Annotations)))
		}
	}
	return r, s.Hide.Error(err)
}

func (m *Module) checkWindow(w *Window) error {
	switch {
	case !m.checked.Scan:
		return m.fault("", ErrNoExport, abi.ExportScan, nil)
	case len(w.State) > abi.MaxState:
		return m.fault("", ErrInput, fmt.Sprintf("state of %d bytes: at most %d are allowed", len(w.State), abi.MaxState),
			nil)
	case uint64(len(w.Text)) > min(m.spec.Memory, math.MaxInt32):
		return m.fault("", ErrInput, fmt.Sprintf("%d bytes are more than the memory limit of %d", len(w.Text), m.spec.Memory),
			nil)
	case len(w.Hits) > abi.MaxHits:
		return m.fault("", ErrInput, fmt.Sprintf("%d hits: at most %d are allowed", len(w.Hits), abi.MaxHits), nil)
	case w.Flags&^callerFlags != 0:
		return m.fault("", ErrInput, fmt.Sprintf("flags %#x", w.Flags), nil)
	}
	for i, h := range w.Hits {
		if uint64(h.Offset) > uint64(len(w.Text)) || uint64(h.Trigger) >= uint64(len(m.triggers)) {
			return m.fault("", ErrInput, fmt.Sprintf("hits[%d]: trigger %d at %d", i, h.Trigger, h.Offset), nil)
		}
	}
	return nil
}

// scanWindow lays out state, text and hits in the guest's buffer, the only copy of the text, and runs the scan.
func (in *instance) scanWindow(c *call, w *Window) (ptr uint32, total int, err error) {
	flags := w.Flags | uint32(len(w.Hits))<<abi.HitShift
	if utf8.ValidString(w.Text) {
		flags |= abi.FlagUTF8
	}
	if w.Complete {
		flags |= abi.FlagHitsComplete
	}
	total = len(w.State) + len(w.Text)
	hitsAt := (total + 3) &^ 3
	if len(w.Hits) > 0 {
		total = hitsAt + len(w.Hits)*abi.HitSize
	}
	if ptr, err = in.room(c, total); err != nil {
		return 0, 0, err
	}
	in.mem.Write(ptr, w.State)
	in.mem.WriteString(ptr+uint32(len(w.State)), w.Text)
	if len(w.Hits) > 0 {
		b, _ := in.mem.Read(ptr+uint32(hitsAt), uint32(total-hitsAt))
		for i, h := range w.Hits {
			binary.LittleEndian.PutUint32(b[abi.HitSize*i:], h.Trigger)
			binary.LittleEndian.PutUint32(b[abi.HitSize*i+4:], h.Offset)
		}
	}
	c.window, c.stream = len(w.Text), w.Flags&abi.FlagStream != 0
	err = in.status(c, abi.ExportScan, in.scan, uint32(len(w.State)), uint32(len(w.Text)), flags)
	return ptr, total, err
}

func byPlace(a, b sdk.Finding) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Kind, b.Kind))
}
