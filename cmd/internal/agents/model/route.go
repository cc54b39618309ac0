package model

import (
	"fmt"
	"net/http"
	"strings"
)

// reply decides about a request with the server's key, keeps it, and returns the type of its answer.
func (s *Server) reply(r *Request, in *http.Request) string {
	if data, listed := s.listing(r, in); listed {
		r.Kind = Listing
		r.Answer = mustEncode(data)
		s.keep(r)
		return "application/json"
	}
	if !r.route() || r.Method != http.MethodPost {
		s.keep(r.refuse(http.StatusNotFound, "no such path or method: this server plays four wire forms and no more"))
		return "application/json"
	}
	if err := forms[r.Form].read(r.Body, r); err != nil {
		s.keep(r.refuse(http.StatusBadRequest, "the body is not a request in the form "+string(r.Form)+": "+err.Error()))
		return "application/json"
	}
	s.converse(r)
	switch {
	case r.Status == http.StatusOK && r.Stream && (r.Form != Gemini || strings.Contains(r.Query, "alt=sse")):
		return "text/event-stream"
	default:
		return "application/json"
	}
}

// route sets the form by the path, and what a form keeps in its path. OpenAI's clients leave out /v1 where their base
// URL has none.
func (r *Request) route() bool {
	path := strings.TrimPrefix(r.Path, "/v1")
	switch path {
	case "/messages":
		r.Form = Messages
	case "/responses":
		r.Form = Responses
	case "/chat/completions":
		r.Form = Chat
	default:
		model, method, ok := geminiPath(r.Path)
		if !ok || method != "generateContent" && method != "streamGenerateContent" {
			return false
		}
		r.Form, r.Model, r.Stream = Gemini, model, method == "streamGenerateContent"
	}
	return true
}

// listing answers what clients ask about a server, not a model: lists of models, counts of tokens, probes.
func (s *Server) listing(r *Request, in *http.Request) (object, bool) {
	path := strings.TrimPrefix(r.Path, "/v1")
	_, method, gemini := geminiPath(r.Path)
	switch {
	case r.Method == http.MethodHead:
		return object{}, true
	case r.Method == http.MethodPost && path == "/messages/count_tokens":
		r.Form = Messages
		return object{"input_tokens": 1 + len(r.Body)/4}, true
	case r.Method == http.MethodPost && gemini && method == "countTokens":
		r.Form = Gemini
		return object{"totalTokens": 1 + len(r.Body)/4}, true
	case r.Method != http.MethodGet:
		return nil, false
	case r.Path == "/v1beta/models", path == "/models" && in.Header.Get("X-Goog-Api-Key") != "":
		r.Form = Gemini
		return object{"models": s.models(func(name string) object {
			return object{"name": "models/" + name, "displayName": name, "inputTokenLimit": 1000000,
				"outputTokenLimit": 65536, "supportedGenerationMethods": list{"generateContent", "countTokens"}}
		})}, true
	case path == "/models" && in.Header.Get("Anthropic-Version") != "":
		r.Form = Messages
		return object{"has_more": false, "first_id": nil, "last_id": nil, "data": s.models(func(name string) object {
			return object{"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
		})}, true
	case path == "/models":
		r.Form = Chat
		return object{"object": "list", "data": s.models(func(name string) object {
			return object{"id": name, "object": "model", "created": 1, "owned_by": "scripted"}
		})}, true
	}
	return nil, false
}

func (s *Server) models(one func(string) object) list {
	out := list{}
	for _, name := range s.script.Models {
		out = append(out, one(name))
	}
	return out
}

// refuse turns a request into one that gets an error in its own form.
func (r *Request) refuse(status int, why string) *Request {
	r.route() // the path alone says in which form the error is
	f, ok := forms[r.Form]
	if !ok {
		f = forms[Chat]
	}
	r.Kind, r.Status, r.Why = Refused, status, why
	r.Answer = mustEncode(f.fault(status, "scripted model: "+why))
	return r
}

// mustEncode writes an object of this package's own making.
func mustEncode(o object) []byte {
	raw, err := encode(o)
	if err != nil {
		return []byte(fmt.Sprintf("%q", err.Error()))
	}
	return raw
}
