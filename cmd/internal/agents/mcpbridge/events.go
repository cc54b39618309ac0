package mcpbridge

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// event is one server-sent event.
type event struct {
	data string
	id   string
}

// errTooLong says why an answer is not passed on.
var errTooLong = fmt.Errorf("the gateway sent a message of more than %d bytes", MaxMessage)

// reader reads a stream of events as the HTML standard describes it.
type reader struct{ in *bufio.Reader }

func newReader(in io.Reader) *reader { return &reader{bufio.NewReaderSize(in, 32<<10)} }

// next reads one event. Text at the end of the stream without an empty line behind it is no event. The event of an
// error may have an id all the same.
func (r *reader) next() (e event, err error) {
	var data []byte
	has, size := false, 0
	for {
		line, err := r.line(&size)
		if err != nil {
			return event{id: e.id}, err
		}
		if len(line) == 0 {
			e.data = string(data)
			return e, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			e.id = string(value)
		case "data":
			if has {
				data = append(data, '\n')
			}
			data, has = append(data, value...), true
		}
	}
}

// line reads one line without its end, LF or CRLF. size counts the bytes of the event.
func (r *reader) line(size *int) ([]byte, error) {
	var out []byte
	for {
		part, err := r.in.ReadSlice('\n')
		out = append(out, part...)
		if *size += len(part); *size > MaxMessage {
			return nil, errTooLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(out, "\r\n"), err
	}
}
