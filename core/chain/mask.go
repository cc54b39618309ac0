package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// ErrNoScanner says that a text cannot be masked because the chain has no scanner that could.
var ErrNoScanner = errors.New("no scanner is configured")

// The classes of causes why a text cannot be masked. They go into records and to approvers; what a scanner said does
// not.
const (
	CauseTimeout     = "timeout"     // a scanner did not end in time
	CauseUnavailable = "unavailable" // a scanner could not be asked: its process is down, or all its places are taken
	CauseError       = "error"       // a scanner failed
	CauseMalformed   = "malformed"   // the masked text would be no JSON any more
	CauseTooDeep     = "too_deep"    // it has escapes within escapes that nobody decodes
	// a scanner found as much as it may report: what is masked last may cover all that follows
	CauseTooMany = "too_many"
)

// UnmaskedError says why a text could not be masked: it must be kept and shown nowhere.
type UnmaskedError struct {
	Scanner string // the step whose scanner failed; "" if none did
	Cause   string // one of the Cause… above
	Err     error
}

func (e *UnmaskedError) Error() string {
	if e.Scanner == "" {
		return fmt.Sprintf("the text could not be masked: %v", e.Err)
	}
	return fmt.Sprintf("scanner %s did not run to its end: %v", e.Scanner, e.Err)
}

func (e *UnmaskedError) Unwrap() error { return e.Err }

// Lasts reports whether the text would not be masked another time either.
func (e *UnmaskedError) Lasts() bool {
	return e.Cause == CauseMalformed || e.Cause == CauseTooDeep || e.Cause == CauseTooMany
}

// maskTime bounds what masking one text may take, however much time the chain has: somebody waits for a decision.
const maskTime = 500 * time.Millisecond

// A scanner that let masking wait in vain is waited for only lateWait from then on, except by one text a lateProbe,
// until it ends in time: while it hangs, the decisions that wait for it are hardly later. It hangs when texts of two
// keys waited in vain; until then it may be one key's texts that are slow, and only that key's masking has less time.
const (
	lateWait  = 20 * time.Millisecond
	lateProbe = time.Second
	lateBytes = 64 << 10 // a longer text may be slow without that anything hangs
)

// lateness is what masking knows of one scanner. The zero lateness is of one that ends in time.
type lateness struct {
	some atomic.Bool // the rest is not zero

	mu    sync.Mutex
	probe time.Time // when the next text waits for the whole time
	key   string    // whose text waited in vain first
	all   bool      // another key's did too
}

// wait gives when masking a text of a key ends at the latest, which is end for a scanner that is in time.
func (l *lateness) wait(key string, now, end time.Time) time.Time {
	if !l.some.Load() {
		return end
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	short := now.Add(lateWait)
	switch {
	case l.probe.IsZero() || !l.all && key != l.key || end.Before(short):
		return end
	case !now.Before(l.probe):
		l.probe = now.Add(lateProbe)
		return end
	}
	return short
}

// ended takes down how the scan of a key's text ended that began at from. A failure that came at once made nobody wait.
func (l *lateness) ended(key string, err error, from, now time.Time) {
	if err == nil && !l.some.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && (l.all || key == l.key):
		l.probe, l.key, l.all = time.Time{}, "", false
		l.some.Store(false)
	case err == nil || now.Sub(from) < lateWait:
	case l.probe.IsZero():
		l.probe, l.key = now.Add(lateProbe), key
		l.some.Store(true)
	case key != l.key:
		l.all = true
	}
}

// Masked is a text in which scanners have looked for what must not be kept.
type Masked struct {
	text  string
	found []sdk.Finding // disjoint, in order, all to be redacted
	typed bool          // it came as JSON
}

// Mask is the text for logs: Look, and then Kept.
func (c *ScanChain) Mask(ctx context.Context, in *Input) (string, error) {
	m, err := c.Look(ctx, in)
	if err != nil {
		return "", err
	}
	return m.Kept()
}

// Look finds in a text everything that is to be masked, whatever the operator's actions and on_error say of outputs: it
// is for what we keep and show ourselves. It asks the built-in scanners and those whose match covers the call; where
// there are none of either, all enforcing ones, so that a text is never kept plain for want of a pattern. Scanners
// serve masking in places of their own. An error means the text must not be kept: ErrNoScanner or an *UnmaskedError.
func (c *ScanChain) Look(ctx context.Context, in *Input) (Masked, error) {
	most := min(c.Budget, maskTime)
	if in.Patient {
		most = c.Budget
	}
	end := c.Now().Add(most)
	own := *in
	own.Masking = true
	var found []sdk.Finding
	ran, crowded := false, ""
	hits := c.read(in.Text)
	defer c.done(hits)
	if in.Turn != nil {
		in.Turn.Give()
	}
	some := c.covers(in)
	for i := range c.Steps {
		s := c.Steps[i]
		if s.Shadow || some && !s.masks(in) {
			continue
		}
		s.Match = Match{}
		ran = true
		from, until := c.Now(), end
		if s.late != nil && !in.Patient {
			until = s.late.wait(in.KeyID, from, end)
		}
		rec, more := c.scan(ctx, &s, &own, hits, until)
		if s.late != nil && !rec.Prefiltered && ctx.Err() == nil && (rec.Err == nil || len(in.Text) <= lateBytes) {
			s.late.ended(in.KeyID, rec.Err, from, c.Now())
		}
		if rec.Err != nil {
			return Masked{}, &UnmaskedError{Scanner: s.Name, Cause: causeOf(rec.Err), Err: rec.Err}
		}
		if rec.crowded && (!s.Builtin || foldHides(more)) {
			crowded = s.Name
		}
		for _, f := range more {
			if !s.Builtin || hides(&f) {
				found = append(found, f)
			}
		}
	}
	switch {
	case !ran:
		return Masked{}, ErrNoScanner
	case crowded != "":
		return Masked{}, &UnmaskedError{Cause: CauseTooMany,
			Err: fmt.Errorf("scanner %s found as much as it may report, which is %d findings", crowded, abi.MaxFindings)}
	case hits.deep:
		return Masked{}, &UnmaskedError{Cause: CauseTooDeep, Err: errors.New(tooDeep)}
	}
	found = append(found, c.keys(hits)...)
	return Masked{in.Text, merged(ordered(found)), JSONType(in.ContentType)}, nil
}

// hides reports whether a finding of a built-in scanner is masked. Whoever answers for a call has to read to whom a
// mail goes, and what speaks to the model: only personal data of weight is masked, and no injection.
func hides(f *sdk.Finding) bool {
	switch {
	case strings.HasPrefix(f.Kind, "INJECTION_"):
		return false
	case strings.HasPrefix(f.Kind, "PII_"):
		return f.Severity >= sdk.High
	}
	return true
}

// foldHides reports whether something that is masked may be in what a built-in scanner has folded: in a finding that
// ends last.
func foldHides(found []sdk.Finding) bool {
	end := 0
	for i := range found {
		end = max(end, found[i].End)
	}
	return slices.ContainsFunc(found, func(f sdk.Finding) bool { return f.End == end && hides(&f) })
}

// keys are our own keys in all readings of a text.
func (c *ScanChain) keys(rs *readings) (found []sdk.Finding) {
	if c.Keys == nil {
		return nil
	}
	for k := range rs.all {
		keys := c.Keys(rs.all[k].text)
		rs.toText(k, keys)
		found = append(found, keys...)
	}
	return found
}

// keysIn is keys for a text that nothing else is looked for in.
func (c *ScanChain) keysIn(text string) []sdk.Finding {
	if c.Keys == nil {
		return nil
	}
	rs := &readings{}
	rs.all = append(rs.room[:0], reading{text: text})
	for at, ok := text, true; ok && len(rs.all) <= maxDecoded; {
		if at, ok = decoded(at); ok {
			rs.all = append(rs.all, reading{text: at})
		}
	}
	return c.keys(rs)
}

// masks reports whether the step's scanner is asked to mask what belongs to such a call.
func (s *ScanStep) masks(in *Input) bool {
	return s.Builtin || s.Match.holdsForText(in.ToolID, in.AgentID)
}

// covers reports whether any enforcing step masks.
func (c *ScanChain) covers(in *Input) bool {
	for i := range c.Steps {
		if s := &c.Steps[i]; !s.Shadow && s.masks(in) {
			return true
		}
	}
	return false
}

func causeOf(err error) string {
	switch {
	case errors.Is(err, ErrUnavailable):
		return CauseUnavailable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return CauseTimeout
	}
	return CauseError
}

// merged joins findings that overlap or touch: they are masked as one, under the first one's kind, or that of the first
// value that a person chose.
func merged(found []sdk.Finding) []sdk.Finding {
	var out []sdk.Finding
	for _, f := range found {
		if f.Start == f.End {
			continue
		}
		f.Action = sdk.Redact
		if n := len(out); n > 0 && f.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, f.End)
			if chosen(f.Kind) && !chosen(out[n-1].Kind) {
				out[n-1].Kind = f.Kind
			}
			continue
		}
		out = append(out, f)
	}
	return out
}

// Clean reports whether there is nothing to mask.
func (m *Masked) Clean() bool { return len(m.found) == 0 }

// Kept is the text for logs: in place of what was found stands its kind.
func (m *Masked) Kept() (string, error) {
	return m.with(func(f *sdk.Finding) string { return "[" + f.Kind + "]" })
}

// begins is Kept for the first bytes of the text. A place that is masked is never cut: it counts as a whole where it
// begins.
func (m *Masked) begins(most int) (string, error) {
	if len(m.text) <= most {
		return m.Kept()
	}
	for most > 0 && !utf8.RuneStart(m.text[most]) {
		most--
	}
	n := 0
	for ; n < len(m.found) && m.found[n].Start < most; n++ {
		most = max(most, m.found[n].End)
	}
	if most == len(m.text) {
		return m.Kept()
	}
	begin := Masked{text: m.text[:most], found: m.found[:n], typed: m.typed}
	out, err := begin.Kept()
	return out + "…", err
}

// Shown is the text for those who have to answer for it: in place of what was found stands what kind it is, how long,
// of what characters, and how it begins unless a person chose it, so that nobody can hide words from an approver behind
// the form of a secret.
func (m *Masked) Shown() (string, error) {
	return m.with(func(f *sdk.Finding) string { return described(f.Kind, m.text[f.Start:f.End]) })
}

func (m *Masked) with(replacement func(*sdk.Finding) string) (string, error) {
	for i := range m.found {
		m.found[i].Replacement = replacement(&m.found[i])
	}
	out, err := redact(m.text, m.found, m.typed)
	if err != nil {
		return "", &UnmaskedError{Cause: CauseMalformed, Err: err}
	}
	return out, nil
}
