package scan

import (
	"context"
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// crowd is a module that says more than a call may: where one call gives as many findings as are allowed, the last of
// them stands for all that follow it, which is right for redaction and useless in a list of places. So the text from
// there on is scanned again, until a call has room for all.
type crowd struct{ *host.Module }

var _ chain.PieceScanner = (*crowd)(nil)

// Scan is the module's, without its limit.
func (c *crowd) Scan(ctx context.Context, in *chain.Input) ([]sdk.Finding, error) {
	w := chain.Window{Input: *in}
	return c.scanOn(ctx, &w, func(w *chain.Window) ([]sdk.Finding, error) { return c.Module.Scan(ctx, &w.Input) })
}

// ScanPiece is the module's, without its limit. A module that keeps a state sees each byte once.
func (c *crowd) ScanPiece(ctx context.Context, w *chain.Window) (found []sdk.Finding, state []byte, err error) {
	if c.Metadata().Stream.Mode == abi.StreamStateful {
		return c.Module.ScanPiece(ctx, w)
	}
	found, err = c.scanOn(ctx, w, func(w *chain.Window) (found []sdk.Finding, err error) {
		found, state, err = c.Module.ScanPiece(ctx, w)
		return found, err
	})
	return found, state, err
}

// mostKept is how many findings of one text are kept, those too that are not serious enough to be listed.
const mostKept = 4 * maxFindings

// maxLine is how far a line is looked back for its beginning, bytes.
const maxLine = 512

// scanOn scans until a call has room. The next text begins with the line of the last finding, since what is in front of
// a value says what it is. Where the next call finds nothing at that place, what the last finding covers stays covered.
func (c *crowd) scanOn(ctx context.Context, w *chain.Window,
	scan func(*chain.Window) ([]sdk.Finding, error)) (all []sdk.Finding, err error) {
	var cover *sdk.Finding // the last finding of the call before
	for at, next := 0, *w; ; next = from(w, at) {
		found, err := scan(&next)
		if err != nil {
			return nil, err
		}
		full := len(found) >= abi.MaxFindings
		for i := range found {
			found[i].Start += at
			found[i].End += at
		}
		if cover != nil {
			found = slices.DeleteFunc(found, func(f sdk.Finding) bool { return f.Start < cover.Start })
			if len(found) == 0 || found[0].Start >= cover.End {
				all = append(all, *cover)
			}
		}
		if !full || len(found) == 0 {
			return append(all, found...), nil
		}
		if len(all) > mostKept {
			return nil, errCrowded
		}
		last := found[len(found)-1]
		if cover != nil && last.Start <= cover.Start {
			return append(all, found...), nil
		}
		all, cover = append(all, found[:len(found)-1]...), &last
		at = last.Start
		if back := max(0, at-maxLine); strings.IndexByte(w.Text[back:at], '\n') >= 0 {
			at = back + strings.LastIndexByte(w.Text[back:at], '\n') + 1
		}
	}
}

// from is a window without its first bytes.
func from(w *chain.Window, at int) chain.Window {
	next := *w
	next.Text = w.Text[at:]
	next.First = w.First && at == 0
	if w.HitsComplete {
		next.Hits = nil
		for _, h := range w.Hits {
			if int(h.Offset) >= at {
				h.Offset -= uint32(at)
				next.Hits = append(next.Hits, h)
			}
		}
	}
	return next
}
