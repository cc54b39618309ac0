package chain

import (
	"context"
	"errors"
	"fmt"
)

// What a step or a scanner says is its author's text and may quote the call or the output that it was asked about. So it is masked as
// arguments are, before anybody keeps or shows it.

// said is what a step says in in.Text, masked for keeping and showing. What cannot be masked is withheld.
func (c *ScanChain) said(ctx context.Context, in *Input) string {
	if c == nil || in.Text == "" {
		return in.Text
	}
	out, err := c.sayable(ctx, in)
	if err != nil {
		return withheldFor(err)
	}
	return out
}

// Said is a text of somebody else's code, such as the last words of a process, as it may be kept and shown.
func (c *ScanChain) Said(ctx context.Context, text string) string {
	return c.said(ctx, &Input{Text: text})
}

// sayable masks a text; without any scanner, our own keys alone. An error means that it must not be kept.
func (c *ScanChain) sayable(ctx context.Context, in *Input) (string, error) {
	m, err := c.Look(ctx, in)
	if errors.Is(err, ErrNoScanner) {
		return c.keyless(in.Text)
	}
	if err != nil {
		return "", err
	}
	out, err := m.Kept()
	if err == nil && len(c.keysIn(out)) > 0 {
		err = errKept
	}
	return out, err
}

// Keyless is a text without our own keys; no scanner is asked.
func (c *ScanChain) Keyless(text string) string { return orWithheld(c.keyless(text)) }

// keyless masks our own keys.
func (c *ScanChain) keyless(text string) (string, error) {
	m := Masked{text: text, found: merged(ordered(c.keysIn(text)))}
	out, err := m.Kept()
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

// hush masks the text of a step's error and what a plugin said in it. Our own words are kept also while they cannot be masked: an
// operator needs them most while scanners are down.
func (c *ScanChain) hush(ctx context.Context, in *Input, err error) error {
	if _, done := errors.AsType[*hushed](err); err == nil || done || c == nil {
		return err
	}
	own := *in
	own.Text = err.Error()
	out := &hushed{err: err}
	if ours(err) {
		out.text = orWithheld(c.keyless(own.Text))
	} else {
		out.text = c.said(ctx, &own)
	}
	if own.Text = Words(err); own.Text != "" {
		out.words = c.said(ctx, &own)
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

// ours reports whether the text of an error quotes nobody: what a plugin said is apart from it, or nothing ran that could say anything.
func ours(err error) bool {
	_, spoken := errors.AsType[*Spoken](err)
	return spoken || errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
