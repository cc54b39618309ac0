package execrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk/client"
	"github.com/yett-dev/yett/sdk/wire"
)

// scanner is what decides about an output. *client.Client is one.
type scanner interface {
	ScanOutput(ctx context.Context, in wire.ScanRequest) (*wire.ScanResponse, error)
}

// scan lets one output of a program through the gateway. It writes nothing but what the gateway has released, and its
// own notice.
type scan struct {
	gate     scanner
	ask      wire.ScanRequest // who asks, about which tool, in which stream
	patience time.Duration    // how long one piece may take
	to       io.Writer
	onShut   func() // told once, when the output is withheld

	sent     int  // bytes of text that the gateway has
	released int  // bytes that it has released
	last     byte // the last byte written
	shut     bool // nothing more is written
	warned   string
}

// errGone is a reader that has gone: nobody is there to be told.
var errGone = errors.New("nobody reads the output any more")

// run reads a source to its end. errGone is the only error.
func (s *scan) run(ctx context.Context, src *source) error {
	buf, out, in := make([]byte, pieceMost), make([]byte, 0, 2*pieceMost), plain{}
	for {
		n, st := src.fill(buf)
		if !s.shut {
			out = in.add(out[:0], buf[:n])
			if st == done {
				out = in.end(out)
			}
			if err := s.piece(ctx, string(out), st == done || in.binary, st == idle); err != nil {
				return err
			}
			if in.binary && !s.shut {
				if err := s.withhold("it holds a NUL byte, so it is binary data and no text"); err != nil {
					return err
				}
			}
		}
		if st == done {
			return nil
		}
	}
}

// piece sends one piece, and writes what may be written now. A stream that has not begun is not kept alive or ended.
func (s *scan) piece(ctx context.Context, text string, final, alive bool) error {
	if text == "" && (s.sent == 0 || !final && !alive) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	ask := s.ask
	ask.Output, ask.Offset, ask.Final = text, s.sent, final
	res, err := guarded(ctx, s.gate, ask)
	if err != nil {
		return s.withhold(told(err))
	}
	if why := s.wrong(res, len(text), final); why != "" {
		return s.withhold("the gateway gave a wrong answer: " + why)
	}
	switch res.Outcome {
	case "DENIED":
		return s.withhold("it is denied (" + code(res.ReasonCode) + ")")
	case "WARNED":
		s.warned = code(res.ReasonCode)
	case "PASS", "REDACTED":
	default:
		return s.withhold("the gateway gave an unknown answer")
	}
	s.sent += len(text)
	return s.write(*res.SanitizedOutput)
}

// guarded makes an error of a panic: a program that fails must not end with its output half scanned.
func guarded(ctx context.Context, gate scanner, ask wire.ScanRequest) (res *wire.ScanResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, errors.New("yett exec has failed")
		}
	}()
	return gate.ScanOutput(ctx, ask)
}

// wrong says why an answer is not about this piece.
func (s *scan) wrong(res *wire.ScanResponse, n int, final bool) string {
	st := res.Stream
	switch {
	case st == nil:
		return "it is not about a stream"
	case res.Outcome == "DENIED":
		return ""
	case res.SanitizedOutput == nil:
		return "it has no text"
	case st.NextOffset != s.sent+n || st.Settled > st.NextOffset:
		return "it is about another piece"
	case st.Released != s.released+len(*res.SanitizedOutput):
		return "an answer before it is missing"
	case st.Ended != final:
		return "it does not know where the stream ends"
	}
	return ""
}

func (s *scan) write(text string) error {
	if text == "" {
		return nil
	}
	if n, err := io.WriteString(s.to, text); err != nil || n != len(text) {
		s.shut = true
		return errGone
	}
	s.released += len(text)
	s.last = text[len(text)-1]
	return nil
}

// withhold ends the output with a notice.
func (s *scan) withhold(why string) error {
	s.shut = true
	line := "[output withheld by Yett: " + why + "]\n"
	if s.last != 0 && s.last != '\n' {
		line = "\n" + line
	}
	if s.onShut != nil {
		s.onShut()
	}
	if _, err := io.WriteString(s.to, line); err != nil {
		return errGone
	}
	return nil
}

// code is a reason code as it may be shown.
func code(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '?'
	}, s)
	return s[:min(len(s), 80)]
}

// told is what a model may know of a failure.
func told(err error) string {
	switch {
	case errors.Is(err, client.ErrUnauthenticated):
		return "the gateway does not accept this key"
	case errors.Is(err, client.ErrForbidden):
		return "the gateway does not let this key scan outputs"
	case errors.Is(err, client.ErrTooMany):
		return "the gateway gets too many requests from this key"
	case errors.Is(err, context.DeadlineExceeded):
		return "the gateway did not answer in time"
	case errors.Is(err, client.ErrUnavailable):
		return "the gateway cannot be reached"
	}
	var e *client.Error
	if errors.As(err, &e) && e.Code != "" {
		return fmt.Sprintf("the gateway could not scan it (%s)", code(string(e.Code)))
	}
	return "the gateway gave no answer that can be used"
}
