package mcpd

import (
	"net/http"
	"sync"
	"time"
)

// clientWrite is how long a client may take to read what one write brings.
const clientWrite = 30 * time.Second

// sink is the answer to one request of a client: one message, or a stream of events. One goroutine writes; event may be
// called by others too once the stream has begun.
type sink struct {
	mu        sync.Mutex // of event
	w         http.ResponseWriter
	rc        *http.ResponseController
	streaming bool
	gone      bool // a write has failed
}

// begin makes the answer a stream.
func (s *sink) begin() {
	if s.streaming {
		return
	}
	s.streaming = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	s.flush()
}

// answer ends the exchange with one message: as the body, or as the last event of a stream that has begun.
func (s *sink) answer(status int, message string) {
	if s.streaming {
		s.event(eventOf(escaped(message)))
		return
	}
	s.deadline()
	writeJSON(s.w, status, message)
}

// event writes one event. It is false once the client has gone.
func (s *sink) event(raw []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return false
	}
	s.deadline()
	if _, err := s.w.Write(raw); err != nil {
		s.gone = true
		return false
	}
	s.flush()
	return !s.gone
}

// end keeps others from writing to an answer that is over.
func (s *sink) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
}

func (s *sink) deadline() {
	_ = s.rc.SetWriteDeadline(time.Now().Add(clientWrite)) // in vain: then the write tells
}

func (s *sink) flush() {
	if s.rc.Flush() != nil {
		s.gone = true
	}
}
