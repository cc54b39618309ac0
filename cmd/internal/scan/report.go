package scan

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk"
)

// maxReported bounds the findings of a run: beyond it nothing more is scanned.
const maxReported = 100_000

// Unscanned is a file that could not be scanned, and why.
type Unscanned struct {
	File  string `json:"file"`
	Error string `json:"error"`
}

// Skipped is a file that was not scanned, by a rule that the report names.
type Skipped struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// Report is what a run has come to. No part of it holds a value, but with --show.
type Report struct {
	Version      string         `json:"version"`
	Complete     bool           `json:"complete"` // everything was scanned
	Files        int            `json:"files"`    // scanned
	Bytes        int64          `json:"bytes"`
	Findings     []Finding      `json:"findings"`
	Known        []Finding      `json:"known"`   // in the baseline
	Allowed      []Finding      `json:"allowed"` // by a comment
	Unreasoned   []Unreasoned   `json:"allowed_without_reason"`
	BelowLeast   int            `json:"below_min_severity"`
	Skipped      map[string]int `json:"skipped"` // counts by reason
	SkippedFiles []Skipped      `json:"skipped_files,omitempty"`
	Unscanned    []Unscanned    `json:"unscanned"`
	Interrupted  bool           `json:"interrupted,omitempty"`
	Gone         int            `json:"baseline_not_found"`
}

// maxListed bounds the skipped files that --verbose lists.
const maxListed = 100_000

// fold takes what became of one file into the report.
func (r *Report) fold(res *result, b *baseline, o *options) error {
	r.BelowLeast += res.low
	r.Unreasoned = append(r.Unreasoned, res.unreasoned...)
	if res.skip != "" {
		r.Skipped[res.skip]++
		if o.verbose && len(r.SkippedFiles) < maxListed {
			r.SkippedFiles = append(r.SkippedFiles, Skipped{res.name, res.skip})
		}
		return nil
	}
	if res.err != nil {
		r.Unscanned = append(r.Unscanned, Unscanned{res.name, kit.Printable(res.err.Error(), 1000)})
	} else {
		r.Files++
	}
	r.Bytes += res.bytes
	for _, f := range res.found {
		if o.show {
			f.Value = kit.Printable(f.value, 1000)
		}
		switch {
		case o.writeBaseline:
			b.add(&f)
			r.Known = append(r.Known, f)
		case b != nil && b.has(&f):
			r.Known = append(r.Known, f)
		default:
			r.Findings = append(r.Findings, f)
		}
	}
	r.Allowed = append(r.Allowed, res.allowed...)
	if len(r.Findings)+len(r.Known)+len(r.Allowed) > maxReported {
		r.Unscanned = append(r.Unscanned, Unscanned{res.name, fmt.Sprintf("nothing after it was scanned: there are more "+
			"than %d findings", maxReported)})
		return errEnough
	}
	return nil
}

// line is a finding as a person reads it.
func line(f *Finding) string {
	value := f.Masked
	if f.Value != "" {
		value = f.Value
	}
	return fmt.Sprintf("%s:%d:%d: %s %s %s (%s, confidence %s)", cli.Visible(f.File), f.Line, f.Column, f.Severity, f.Kind,
		value, f.Scanner, strconv.FormatFloat(float64(f.Confidence), 'g', 3, 32))
}

// summary says what was done and what was not, on stderr.
func (r *Report) summary(w io.Writer, o *options) {
	if o.verbose {
		for i := range r.Allowed {
			fmt.Fprintf(w, "allowed %s: %s\n", line(&r.Allowed[i]), r.Allowed[i].Reason)
		}
		for i := range r.Known {
			fmt.Fprintf(w, "known   %s\n", line(&r.Known[i]))
		}
		for _, s := range r.SkippedFiles {
			fmt.Fprintf(w, "skipped %s: %s\n", cli.Visible(s.File), meaning(s.Reason))
		}
	}
	for _, u := range r.Unreasoned {
		fmt.Fprintf(w, "%s:%d: a %s comment has no reason and allows nothing: write %s KIND reason\n", cli.Visible(u.File),
			u.Line, marker, marker)
	}
	for _, u := range r.Unscanned {
		fmt.Fprintf(w, "NOT SCANNED %s: %s\n", cli.Visible(u.File), u.Error)
	}
	if r.Interrupted {
		fmt.Fprintln(w, "INTERRUPTED: the results are partial: not every file was scanned")
	}
	parts := []string{cli.Count(len(r.Findings), "finding")}
	for _, p := range []struct {
		n    int
		what string
	}{{len(r.Known), "in the baseline"}, {len(r.Allowed), "allowed by comments"},
		{r.BelowLeast, "below " + o.least.String()}, {r.Gone, "in the baseline and not in the files"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	fmt.Fprintf(w, "scanned %s, %d bytes: %s\n", cli.Count(r.Files, "file"), r.Bytes, strings.Join(parts, ", "))
	total := 0
	for _, n := range r.Skipped {
		total += n
	}
	if total == 0 {
		return
	}
	fmt.Fprintf(w, "skipped %d:\n", total)
	for _, m := range skipMeans {
		if n := r.Skipped[m.reason]; n > 0 {
			fmt.Fprintf(w, "  %6d %s\n", n, m.means)
		}
	}
}

// code is the exit code of a run.
func (r *Report) code() int {
	switch {
	case !r.Complete:
		return ExitUnscanned
	case len(r.Findings) > 0:
		return ExitFound
	}
	return 0
}

// level is what a severity is in SARIF.
func level(severity string) string {
	switch s, _ := sdk.ParseSeverity(severity); s {
	case sdk.Critical, sdk.High:
		return "error"
	case sdk.Medium:
		return "warning"
	}
	return "note"
}
