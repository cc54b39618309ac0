package model

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// keep records a request, up to the limits. It is complete from now on.
func (s *Server) keep(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepLocked(r)
}

func (s *Server) keepLocked(r *Request) {
	if len(s.kept) >= maxRequests || s.bytes+len(r.Body) > maxKept {
		const full = "the server has kept all it may: no more requests are answered or kept"
		last := s.kept[len(s.kept)-1]
		if last.Why != full { // the last one says so, once
			s.kept[len(s.kept)-1] = &Request{Method: r.Method, Path: r.Path, Turn: -1, Kind: Refused, Why: full,
				Status: http.StatusTooManyRequests}
		}
		r.refuse(http.StatusTooManyRequests, full)
		return
	}
	s.kept, s.bytes = append(s.kept, r), s.bytes+len(r.Body)
	close(s.changed)
	s.changed = make(chan struct{})
}

// converse answers one request in a form, and keeps it. Requests are decided one after the other.
func (s *Server) converse(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.keepLocked(r)
	s.nameResults(r)
	s.answers++
	a := &answer{id: fmt.Sprintf("%s%03d", s.nonce, s.answers), model: r.Model}
	if why := s.script.Auxiliary(r); why != "" {
		r.Kind, r.Why = Auxiliary, why
		a.text = s.script.AuxiliaryText(r)
		s.render(r, a)
		return
	}
	missing := s.openCalls(r)
	turn := s.turnFor(r, len(missing) == 0)
	switch {
	case turn >= 0:
		s.play(r, a, turn)
	case s.open != nil && len(missing) > 0 && r.Path == s.open.Path && bytes.Equal(r.Body, s.open.Body):
		r.Kind, r.Turn, r.Answer = Retried, s.open.Turn, s.open.Answer
	default:
		r.Kind, r.Why = Extra, "the script has no more turns"
		if len(missing) > 0 {
			r.Why = "it brings no result for the open calls " + strings.Join(missing, ", ")
		} else if turn := s.firstUnused(); turn >= 0 {
			r.Why = fmt.Sprintf("no open turn accepts it: the next one is turn %d", turn)
		}
		a.text = s.script.Closing
		s.render(r, a)
	}
}

// nameResults gives the ids of calls to results of a form in which a client may leave them out. Such results come in
// the order of the calls.
func (s *Server) nameResults(r *Request) {
	seen := map[string]bool{}
	for i := range r.Results {
		res := &r.Results[i]
		for _, c := range s.issued {
			if res.CallID == "" && res.Tool == c.Tool && !seen[c.ID] {
				res.CallID = c.ID
			}
		}
		seen[res.CallID] = true
	}
}

// openCalls are the ids of calls of the last turn for which a request brings no result.
func (s *Server) openCalls(r *Request) []string {
	var missing []string
	if s.open == nil {
		return nil
	}
	for _, c := range s.issued {
		if c.Turn != s.open.Turn {
			continue
		}
		if _, ok := r.Result(c.ID); !ok {
			missing = append(missing, c.ID)
		}
	}
	return missing
}

// turnFor finds the open turn for a request: the first one in order whose conditions hold.
func (s *Server) turnFor(r *Request, continues bool) int {
	for i, t := range s.script.Turns {
		if s.used[i] {
			continue
		}
		if t.When != nil {
			if t.When(r) {
				return i
			}
			continue
		}
		if !continues {
			return -1 // a later turn does not overtake it
		}
		return i
	}
	return -1
}

func (s *Server) firstUnused() int {
	for i, used := range s.used {
		if !used {
			return i
		}
	}
	return -1
}

// play answers a request with a turn. A turn that cannot be played stays open.
func (s *Server) play(r *Request, a *answer, turn int) {
	t := s.script.Turns[turn]
	a.text = t.Text
	for i, c := range t.Calls {
		one, err := c.issue(r, fmt.Sprintf("%s%s%03d%d", forms[r.Form].prefix, s.nonce, s.answers, i))
		if err != nil {
			r.Kind, r.Why = Extra, fmt.Sprintf("turn %d cannot be played: call %d: %v", turn, i, err)
			s.render(r, &answer{id: a.id, model: a.model, text: s.script.Closing})
			return
		}
		one.Turn = turn
		a.calls = append(a.calls, one)
	}
	r.Kind, r.Turn = Scripted, turn
	if s.render(r, a); r.Status != http.StatusOK {
		return
	}
	s.used[turn] = true
	s.issued = append(s.issued, a.calls...)
	switch {
	case len(a.calls) > 0:
		s.open = r
	case t.When == nil:
		s.open = nil
	}
}

// render writes the answer in the request's form.
func (s *Server) render(r *Request, a *answer) {
	f := forms[r.Form]
	var err error
	if r.Stream {
		r.Answer, err = f.stream(a, r)
	} else {
		r.Answer, err = f.whole(a)
	}
	if err != nil {
		r.Turn = -1
		r.refuse(http.StatusInternalServerError, "the answer cannot be written: "+err.Error())
	}
}
