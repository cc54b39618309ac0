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
	raw  []byte // all lines with the empty one that ends it; not changed by anybody
	data string // the data lines, joined as the standard says
	has  bool   // there is a data line
	id   bool   // it has an id, from which the stream can be resumed
}

// events is a stream of them. next gives io.EOF at its end; one goroutine reads.
type events interface{ next() (event, error) }

// errTooLong is what a server is told of that sends more than the gateway takes at once.
var errTooLong = errors.New("the server sent an event that is longer than mcp.max_result")

// reader reads a stream of events as the HTML standard describes it, without reading ahead of an event's end.
type reader struct {
	in   *bufio.Reader
	most int
}

func newReader(in io.Reader, most int64) *reader {
	return &reader{in: bufio.NewReaderSize(in, 32<<10), most: int(most)}
}

// next reads one event. What stands at the end without an empty line is none, as the standard says.
func (r *reader) next() (event, error) {
	var e event
	var data []byte
	for {
		line, err := r.line(len(e.raw))
		e.raw = append(e.raw, line...)
		if err != nil {
			return event{}, err
		}
		text := bytes.TrimRight(line, "\r\n")
		if len(text) == 0 {
			e.data = string(data)
			return e, nil
		}
		name, value, _ := bytes.Cut(text, []byte(":"))
		e.id = e.id || string(name) == "id"
		if string(name) != "data" {
			continue
		}
		if e.has {
			data = append(data, '\n')
		}
		data, e.has = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
	}
}

// line reads up to and with a line's end: LF, CR or both.
func (r *reader) line(so int) ([]byte, error) {
	var out []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if i := bytes.IndexByte(part, '\r'); i >= 0 && i < len(part)-1 && part[i+1] != '\n' { // a lone CR ends a line too
			return nil, errors.New("the server ends lines with CR alone, which its readers understand differently")
		}
		out = append(out, part...)
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
		for part := range strings.SplitSeq(text, "\n") {
			out = append(append(append(out, "data: "...), part...), '\n')
		}
	}
	return out
}

// eventOf is a message as an event of ours.
func eventOf(message string) []byte {
	return []byte("event: message\ndata: " + message + "\n\n")
}
