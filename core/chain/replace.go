package chain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/yett-dev/yett/sdk"
)

// plainly is what stands in for a finding whose action says nothing else.
const plainly = "[{kind}]"

// What stands in for a value that a template shows in part.
const (
	shownEnd  = 4  // letters and digits at a value's end
	shownFrom = 12 // that many letters and digits a value has to have before its end is shown
)

// fill writes what stands in for each finding, from the template of its action: {kind}; {mask}, a keyed hash, the same
// for the same value in a session, in whatever spelling; {format}, the value with asterisks for all but its separators
// and its last four letters and digits; {token}, which Reveal reads. text lies at the offset at of what the findings'
// offsets are of. The findings are in order.
func (in *Input) fill(text string, at int, found []sdk.Finding) {
	for i := range found {
		f := &found[i]
		switch f.Replacement {
		case "":
			continue
		case plainly:
			f.Replacement = "[" + f.Kind + "]"
			continue
		}
		spelled, end := "", f.End // of what goes: of a character that is found in part, all
		if f.Start >= at && f.End <= at+len(text) && f.Start < f.End {
			start, behind := wholeRunes(text, f.Start-at, f.End-at)
			spelled, end = text[start:behind], behind+at
		}
		own := *f // with its template
		touched := func() bool { return followed(text, at, &own, end, found[i+1:]) }
		form, held := "", ""
		if strings.Contains(f.Replacement, "{format}") {
			hides := false
			if form, hides = formatted(Decoded(spelled)); !hides || touched() {
				// what touches is one span, where the first's template must not show what the others hide
				f.Replacement = plainly
			}
		}
		if strings.Contains(f.Replacement, "{token}") {
			if in.TokenKey == nil || spelled == "" || len(spelled) > tokenLimit || touched() {
				f.Replacement = plainly // the token of a part would not bring the whole back
			} else if held = token(in.TokenKey(), f.Kind, spelled); held == "" {
				f.Replacement = plainly
			}
		}
		mask := ""
		switch {
		case !strings.Contains(f.Replacement, "{mask}"):
		case in.MaskKey == nil:
			f.Replacement = plainly
		default:
			mask = in.mask(Decoded(spelled))
		}
		f.Replacement = strings.NewReplacer("{kind}", f.Kind, "{mask}", mask, "{format}", form,
			"{token}", held).Replace(f.Replacement)
	}
}

// dependent reports whether what a template gives depends on the findings that touch its own.
func dependent(template string) bool {
	return strings.Contains(template, "{format}") || strings.Contains(template, "{token}")
}

// followed reports whether another finding that changes the text begins before or at the end of f, with the whole of
// the character that it begins in. What is f once more, but surer or graver, is no other: the readings of a text each
// give their own. found are those behind f.
func followed(text string, at int, f *sdk.Finding, end int, found []sdk.Finding) bool {
	for i := range found {
		next := &found[i]
		start := next.Start
		if start >= at && start <= at+len(text) {
			start, _ = wholeRunes(text, start-at, start-at)
			start += at
		}
		again := next.Start == f.Start && next.End == f.End && next.Kind == f.Kind && next.Replacement == f.Replacement
		switch {
		case start > end:
			return false
		case changes(next) && !again:
			return true
		}
	}
	return false
}

// mask is the keyed hash of a value.
func (in *Input) mask(value string) string {
	h := hmac.New(sha256.New, in.MaskKey())
	h.Write([]byte(value))
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// formatted hides a value, and keeps its form. ok is false when nothing would be hidden.
func formatted(value string) (out string, ok bool) {
	count := 0
	for _, r := range value {
		if alphanumeric(r) {
			count++
		}
	}
	left := count
	var b strings.Builder
	for _, r := range value {
		switch {
		case alphanumeric(r):
			if left--; left < shownEnd && count >= shownFrom {
				b.WriteRune(r)
				continue
			}
			ok = true
			b.WriteByte('*')
		case strings.ContainsRune(" -./@", r):
			b.WriteRune(r)
		default:
			ok = true
			b.WriteByte('*')
		}
	}
	return b.String(), ok
}

func alphanumeric(r rune) bool { return r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z' }
