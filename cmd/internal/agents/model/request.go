package model

import (
	"encoding/json"
	"net/http"
	"slices"
)

// Kind says what the server made of a request.
type Kind string

// The kinds of requests. Only a scripted one consumes a turn.
const (
	Scripted  Kind = "scripted"  // a turn of the script answered it
	Retried   Kind = "retried"   // the same bytes as the request whose calls are open: got the same answer again
	Auxiliary Kind = "auxiliary" // beside the conversation, see Script.Auxiliary
	Listing   Kind = "listing"   // lists of models, counts of tokens, probes
	Extra     Kind = "extra"     // beyond the script, or none of its turns accepts it: got the closing text
	Refused   Kind = "refused"   // got an error: wrong key, unknown path, unreadable body
)

// Request is one request as it came, and what became of it. Nobody changes it after the server has kept it.
type Request struct {
	Method string
	Path   string
	Query  string      // without keys
	Header http.Header // without keys
	Body   []byte      // decompressed; a refused request without the key has none
	Form   Form        // "" for a request that is in no form
	Kind   Kind
	Why    string // why it is auxiliary, extra or refused
	Turn   int    // the turn that answered it, or -1
	Status int
	Answer []byte // the body of the answer

	Model   string
	Stream  bool
	Tools   []Tool   // what the client offers, groups of tools flattened
	Results []Result // all results in the request, earlier turns included

	// JSON says that the client asks for an answer in JSON, not in words. Schema is its JSON Schema, if it sent one.
	JSON   bool
	Schema json.RawMessage
}

// Tool is one tool that a request offers to the model.
type Tool struct {
	Name       string
	Namespace  string // the group that it is in, for clients that group tools
	Parameters []byte // JSON Schema, or nil
	Custom     bool   // takes text that is not JSON
}

// Result is what a client sent back for a call.
type Result struct {
	CallID string
	Tool   string // only some forms name it
	Text   string // all decoded texts, one a line
	Failed bool   // only some forms say it
	Raw    []byte // the bytes of the result's JSON
}

// Issued is a call that the server made.
type Issued struct {
	ID        string
	Turn      int
	Tool      string
	Namespace string
	Arguments []byte
	Custom    bool
}

// Tool finds an offered tool by its name. A name that is in a group is found by the name alone.
func (r *Request) Tool(name string) (Tool, bool) {
	i := slices.IndexFunc(r.Tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return r.Tools[i], true
}

// Result finds the last result for a call in this request.
func (r *Request) Result(callID string) (Result, bool) {
	for i := len(r.Results) - 1; i >= 0; i-- {
		if r.Results[i].CallID == callID {
			return r.Results[i], true
		}
	}
	return Result{}, false
}

// Contains says whether the request's body, path or query holds a text: in its bytes, in a decoded JSON string or
// name, or in JSON inside such a string. It does not undo encodings other than JSON's, such as base64.
func (r *Request) Contains(text string) bool {
	return holds(r.Body, text) || holds([]byte(r.Path), text) || holds([]byte(r.Query), text)
}
