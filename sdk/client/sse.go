package client

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// sseEvent is one event of a text/event-stream.
type sseEvent struct {
	id   string // the last id seen, also when this event brought none
	data string
}

// sseReader reads a text/event-stream as the HTML standard says: lines end with LF, CR or CRLF, comments are skipped,
// data lines are joined, an event that is not ended by an empty line is none.
type sseReader struct {
	r     *bufio.Reader
	id    string
	any   bool // a line was read
	cr    bool // the last line ended with CR: an LF right after it belongs to it
	alive func()
	max   int // bytes of one event
}

func newSSEReader(r io.Reader, lastID string, alive func()) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, 16<<10), id: lastID, alive: alive, max: maxAnswer}
}

// next is the next event with data. The error is io.EOF or that of the reader.
func (s *sseReader) next() (sseEvent, error) {
	var data strings.Builder
	has := false
	for {
		line, err := s.line()
		if err != nil {
			return sseEvent{}, err
		}
		s.alive()
		if line == "" {
			if has {
				return sseEvent{s.id, strings.TrimSuffix(data.String(), "\n")}, nil
			}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			has = true
			if data.Len()+len(value) >= s.max {
				return sseEvent{}, malformed("an event of more than the limit of %d bytes", s.max)
			}
			data.WriteString(value)
			data.WriteByte('\n')
		case "id":
			if !strings.Contains(value, "\x00") {
				s.id = value
			}
		}
	}
}

// line is the next line without its end. What is not ended is not a line.
func (s *sseReader) line() (string, error) {
	var b []byte
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) && len(b) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
		switch {
		case c == '\n' && s.cr && len(b) == 0:
			s.cr = false
			continue
		case c == '\n', c == '\r':
			s.cr = c == '\r'
			line := string(b)
			if !s.any {
				line = strings.TrimPrefix(line, "\uFEFF")
			}
			s.any = true
			return line, nil
		}
		s.cr = false
		if b = append(b, c); len(b) > s.max {
			return "", malformed("a line of more than the limit of %d bytes", s.max)
		}
	}
}
