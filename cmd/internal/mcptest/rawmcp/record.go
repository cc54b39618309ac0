package rawmcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// Record is one thing that the server received, or that happened to it.
type Record struct {
	Via    string              // http or stdio
	Method string              // of HTTP
	Path   string              // with the query
	Host   string              // as the client named it
	Header map[string][]string // all of it
	Body   []byte              // the bytes as they came: a body of HTTP, or a line without its end
	Event  string              // ended, when a call ended early by cancellation or a lost connection: Body is its request
}

// Ended is the Event of a call that its client gave up.
const Ended = "ended"

func (s *Server) record(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, r)
	if s.opt.Record == nil {
		return
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = s.opt.Record.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("cannot record what came: %v", err)) // a test would take it for nothing
	}
}

// Records are what came until now.
func (s *Server) Records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Record(nil), s.records...)
}

// ReadRecords reads what a server of its own process has recorded until now. A line that is being written is left out.
func ReadRecords(path string) (records []Record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return records, nil // the end, perhaps within a line
		}
		var one Record
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(records)+1, err)
		}
		records = append(records, one)
	}
}
