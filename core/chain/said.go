package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What a step or a scanner says is its author's text and may quote the call or the output that it was asked about. So
// it is masked as arguments are, before anybody keeps or shows it.

// How much is kept and shown of an error, or of what a plugin said in it; and how much of it has to be heard, at most,
// so that a secret which begins in what is shown is masked whole. Plugins cut what they say at 1 KiB: that end is not
// shown either.
const (
	saidMost  = 512
	HeardMost = 8 << 10
)

// Heard is what somebody else's code says in an error, before it is masked: its first HeardMost bytes, printable. What
// does not print becomes an escape that masking reads, so that no secret is hidden behind it.
func Heard(text string) string {
	var b strings.Builder
	for _, r := range text {
		size := utf8.RuneLen(r)
		if !unicode.IsPrint(r) {
			size = len(escaped(r))
		}
		if b.Len()+size > HeardMost {
			break
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(escaped(r))
		}
	}
	return b.String()
}

// escaped is a character as JSON writes it.
func escaped(r rune) string {
	if r1, r2 := utf16.EncodeRune(r); r1 != utf8.RuneError {
		return fmt.Sprintf(`\u%04x\u%04x`, r1, r2)
	}
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// said is what a step says in in.Text, masked for keeping and showing. What cannot be masked is withheld.
func (c *ScanChain) said(ctx context.Context, in *Input) string {
	return c.brief(ctx, in, len(in.Text))
}

// brief is said for the first bytes of a text: all of it is masked, then what stands behind most is left out.
func (c *ScanChain) brief(ctx context.Context, in *Input, most int) string {
	if c == nil || in.Text == "" {
		return in.Text
	}
	out, err := c.sayable(ctx, in, most)
	if err != nil {
		return withheldFor(err)
	}
	return out
}

// Said is how a text of somebody else's code begins, such as the last words of a process, as it may be kept and shown.
func (c *ScanChain) Said(ctx context.Context, text string) string {
	return c.brief(ctx, &Input{Text: text}, saidMost)
}

// sayable masks a text; without any scanner, our own keys alone. An error means that it must not be kept.
func (c *ScanChain) sayable(ctx context.Context, in *Input, most int) (string, error) {
	m, err := c.Look(ctx, in)
	if errors.Is(err, ErrNoScanner) {
		return c.keyless(in.Text, most)
	}
	if err != nil {
		return "", err
	}
	out, err := m.begins(most)
	if err == nil && len(c.keysIn(out)) > 0 {
		err = errKept
	}
	return out, err
}

// Keyless is a text without our own keys; no scanner is asked.
func (c *ScanChain) Keyless(text string) string { return orWithheld(c.keyless(text, len(text))) }

// keyless masks our own keys.
func (c *ScanChain) keyless(text string, most int) (string, error) {
	m := Masked{text: text, found: merged(ordered(c.keysIn(text)))}
	out, err := m.begins(most)
	if err == nil && len(c.keysIn(out)) > 0 {
		err = errKept
	}
	return out, err
}

// errKept is a masked text in which a key is left.
var errKept = &UnmaskedError{Cause: CauseError, Err: errors.New("a key is left in it")}

// withheldFor stands for what could not be masked.
func withheldFor(err error) string {
	var u *UnmaskedError
	switch {
	case errors.As(err, &u) && u.Scanner != "":
		return fmt.Sprintf("withheld: it could not be masked (%s of scanner %s)", u.Cause, u.Scanner)
	case errors.As(err, &u):
		return fmt.Sprintf("withheld: it could not be masked (%s)", u.Cause)
	}
	return "withheld: it could not be masked"
}

// hushed is an error of a step without what must not be kept: of its text, and of what a plugin said.
type hushed struct {
	err         error
	text, words string
}

func (e *hushed) Error() string { return e.text }
func (e *hushed) Unwrap() error { return e.err }

// hush masks the text of a step's error and what a plugin said in it. Our own words are kept also while they cannot be
// masked: an operator needs them most while scanners are down.
func (c *ScanChain) hush(ctx context.Context, in *Input, err error) error {
	if _, done := errors.AsType[*hushed](err); err == nil || done || c == nil {
		return err
	}
	own := *in
	own.Text = err.Error()
	out := &hushed{err: err}
	if ours(err) {
		out.text = orWithheld(c.keyless(own.Text, len(own.Text)))
	} else {
		out.text = c.brief(ctx, &own, saidMost)
	}
	if own.Text = Words(err); own.Text != "" {
		out.words = c.brief(ctx, &own, saidMost)
	}
	return out
}

// kept is hush for the failure of a scanner; of one that masks, nobody keeps what it says.
func (c *ScanChain) kept(ctx context.Context, in *Input, err error) error {
	if in.Masking {
		return err
	}
	return c.hush(ctx, &Input{ToolID: in.ToolID, AgentID: in.AgentID, KeyID: in.KeyID}, err)
}

func orWithheld(text string, err error) string {
	if err != nil {
		return withheldFor(err)
	}
	return text
}

// ours reports whether the text of an error quotes nobody: what a plugin said is apart from it, or nothing ran that
// could say anything.
func ours(err error) bool {
	_, spoken := errors.AsType[*Spoken](err)
	return spoken || errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
}
