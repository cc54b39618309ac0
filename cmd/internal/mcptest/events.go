package mcptest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Event is one event of a stream.
type Event struct {
	Raw  []byte // its bytes, with the empty line that ends it
	ID   string
	Name string
	Data []byte
}

// ReadEvents gives the events of a stream until it ends or give says false. Events without data, such as comments, are
// given too. A stream that ends within an event is io.ErrUnexpectedEOF.
func ReadEvents(r io.Reader, give func(Event) bool) error {
	in := bufio.NewReaderSize(r, 1<<16)
	var e Event
	var data [][]byte
	for {
		line, err := readLine(in)
		e.Raw = append(e.Raw, line...)
		if err != nil {
			if errors.Is(err, io.EOF) && len(e.Raw) == 0 {
				return nil
			}
			if errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			e.Data = bytes.Join(data, []byte("\n"))
			if !give(e) {
				return nil
			}
			e, data = Event{}, nil
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			data = append(data, value)
		case "id":
			e.ID = string(value)
		case "event":
			e.Name = string(value)
		}
	}
}

// readLine reads up to a line's end, which is \n or \r\n. A lone \r would need a look at the byte after it, which may
// never come, and no server here sends one.
func readLine(in *bufio.Reader) ([]byte, error) { return in.ReadBytes('\n') }
