package mcpd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// event is one server-sent event with its bytes.
type event struct {
	raw  []byte // the lines that go on, with the empty one that ends it; not changed by anybody
	data string // the data lines, joined as the standard says
	has  bool   // there is a data line
	id   bool   // it has an id, from which the stream can be resumed
}

// events is a stream of them. next gives io.EOF at its end; one goroutine reads.
type events interface{ next() (event, error) }

// errTooLong is what a server is told of that sends more than the gateway takes at once.
var errTooLong = errors.New("the server sent an event that is longer than mcp.max_result")

// reader reads a stream of events as the HTML standard describes it, without reading ahead of an event's end. Readers
// of clients differ on where lines end and on what stands before the first one, so nothing goes on that is not
// understood: comments become empty ones, and fields and types that MCP does not use are left out.
type reader struct {
	in    *bufio.Reader
	most  int
	began bool
}

func newReader(in io.Reader, most int64) *reader {
	return &reader{in: bufio.NewReaderSize(in, 32<<10), most: int(most)}
}

// next reads one event. Text at the end of the stream without an empty line behind it is no event, as the standard
// says.
func (r *reader) next() (event, error) {
	if !r.began {
		r.began = true
		if mark, _ := r.in.Peek(len(byteOrderMark)); string(mark) == byteOrderMark { // an error comes with the line
			_, _ = r.in.Discard(len(mark)) // never fails after Peek
		}
	}
	var e event
	var data, retry []byte
	other, size := false, 0
	for {
		line, err := r.line(size)
		if err != nil {
			return event{}, err
		}
		size += len(line)
		text := bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(text, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(text) == 0 && other:
			return event{raw: append(append([]byte(":\n"), retry...), '\n')}, nil // retry is the whole stream's
		case len(text) == 0:
			e.raw, e.data = append(e.raw, line...), string(data)
			return e, nil
		case text[0] == ':':
			line = append([]byte(":"), line[len(text):]...)
		case string(name) == "event":
			other = other || len(value) > 0 && string(value) != "message"
		case string(name) == "id" && len(value) <= mostEventID && visible(string(value)):
			e.id = true
		case string(name) == "retry" && len(value) <= 9 && len(bytes.Trim(value, "0123456789")) == 0:
			retry = append(retry, line...)
		case string(name) == "data":
			if e.has {
				data = append(data, '\n')
			}
			data, e.has = append(data, value...), true
		default:
			continue
		}
		e.raw = append(e.raw, line...)
	}
}

// byteOrderMark is left out where a stream begins with it, as the standard says.
const byteOrderMark = "\ufeff"

// mostEventID bounds the id of an event, bytes: it can be no text, and goes on unscanned.
const mostEventID = 256

// line reads up to and with a line's end: LF, or CR and LF.
func (r *reader) line(so int) ([]byte, error) {
	var out []byte
	for {
		part, err := r.in.ReadSlice('\n')
		out = append(out, part...)
		if i := bytes.IndexByte(out, '\r'); i >= 0 && i < len(out)-1 && out[i+1] != '\n' {
			return nil, errors.New("the server ends lines with CR alone, which its readers understand differently")
		}
		switch {
		case so+len(out) > r.most:
			return nil, errTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && so+len(out) > 0:
			return nil, fmt.Errorf("the server's stream ended within an event: %w", io.ErrUnexpectedEOF)
		}
		return out, err
	}
}

// withData is the event with another text as its data: every other line stays as it is.
func (e *event) withData(text string) []byte {
	var out []byte
	done := false
	for line := range bytes.Lines(e.raw) {
		if name, _, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":")); string(name) != "data" {
			out = append(out, line...)
			continue
		}
		if done {
			continue
		}
		done = true
		out = appendData(out, text)
	}
	return out
}

// eventOf is a message as an event of ours.
func eventOf(message string) []byte {
	return append(appendData([]byte("event: message\n"), message), '\n')
}

// appendData appends the data lines of a message.
func appendData(out []byte, message string) []byte {
	for part := range strings.SplitSeq(strings.ReplaceAll(message, "\r", " "), "\n") {
		out = append(append(append(out, "data: "...), part...), '\n')
	}
	return out
}

// escaped is a message in which no sign stands that some readers take for the end of a line, though the standard does
// not. They can stand in strings only, so it is the same message.
func escaped(message string) string { return lineEnds.Replace(message) }

var lineEnds = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)
