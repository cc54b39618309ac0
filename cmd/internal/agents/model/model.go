// Package model owns a scripted model server on loopback: it plays the model for a coding agent whose hooks are
// probed. It speaks Anthropic Messages, OpenAI Responses, OpenAI chat completions and Gemini generateContent, answers
// from a Script, and keeps every request whole, so that a caller can ask what the model was sent.
// It must never listen beyond loopback, call anybody, answer a request without its key, or keep a key.
package model

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Script says what the model answers. The zero Script answers every request with a closing text, as an extra one. Its
// functions are called one at a time, while the server decides about a request: they must not call the Server.
type Script struct {
	// Turns are consumed in order, one by each request of the conversation.
	Turns []Turn
	// Closing is the text for requests beyond the script. Empty means "The script is over."
	Closing string
	// Auxiliary tells requests that a client makes beside the conversation. It returns the reason, or "" for a request
	// of the conversation. Nil means WithoutTools.
	Auxiliary func(*Request) string
	// AuxiliaryText answers such a request. Nil means AuxiliaryReply.
	AuxiliaryText func(*Request) string
	// Models are the names in the lists of models. Nil means one, "scripted".
	Models []string
}

// Turn is one answer: a text, calls of tools, or both.
type Turn struct {
	// When says whether the turn answers this request. The first open turn whose When accepts the request answers it,
	// whether or not the results of earlier calls have come. A turn without When answers the next request that brings
	// the results of all open calls.
	When  func(*Request) bool
	Text  string
	Calls []Call
}

// Call is one call of a tool, as a model makes it.
type Call struct {
	// Tool is the name that the request offers. Pick, if set, names the tool and its arguments when the request is known.
	Tool string
	// Namespace is the group of the tool, where a client groups them. Empty means that of the offered tool.
	Namespace string
	// Arguments are raw JSON. Their bytes are sent as they are. Where a wire form embeds JSON in JSON, space between
	// values is left out; numbers, order, duplicate keys and escapes stay. A custom tool takes any text instead.
	Arguments []byte
	Pick      func(*Request) (Call, error)
}

// Form is a wire form.
type Form string

// The four wire forms.
const (
	Messages  Form = "messages"    // Anthropic: POST /v1/messages
	Responses Form = "responses"   // OpenAI: POST /v1/responses
	Chat      Form = "completions" // OpenAI: POST /v1/chat/completions
	Gemini    Form = "gemini"      // Google: POST /v1beta/models/NAME:streamGenerateContent, :generateContent
)

// Limits of what a server reads and keeps. A client in an endless loop meets maxRequests.
const (
	maxBody     = 64 << 20
	maxKept     = 512 << 20
	maxRequests = 1000
)

// check refuses a script that no wire form can carry.
func (s *Script) check() error {
	for i, t := range s.Turns {
		if t.Text == "" && len(t.Calls) == 0 {
			return fmt.Errorf("turn %d is empty: give it a text or a call", i)
		}
		if !utf8.ValidString(t.Text) {
			return fmt.Errorf("the text of turn %d is not UTF-8: no wire form can carry it", i)
		}
		for j, c := range t.Calls {
			if c.Pick != nil && (c.Tool != "" || c.Arguments != nil || c.Namespace != "") {
				return fmt.Errorf("call %d of turn %d has Pick and Tool or Arguments: give one of the two", j, i)
			}
			if c.Pick != nil {
				continue
			}
			if err := c.check(); err != nil {
				return fmt.Errorf("call %d of turn %d: %w", j, i, err)
			}
		}
	}
	if !utf8.ValidString(s.Closing) {
		return fmt.Errorf("the closing text is not UTF-8: no wire form can carry it")
	}
	return nil
}

func (c Call) check() error {
	switch {
	case c.Tool == "":
		return fmt.Errorf("the call names no tool: set Tool, or Pick")
	case !utf8.Valid(c.Arguments):
		return fmt.Errorf("the arguments of %s are not UTF-8: no wire form can carry them", c.Tool)
	}
	return nil
}

// issue fixes a call for one request: which tool, which form, which id.
func (c Call) issue(r *Request, id string) (Issued, error) {
	if c.Pick != nil {
		picked, err := c.Pick(r)
		if err != nil {
			return Issued{}, err
		}
		if picked.Pick != nil {
			return Issued{}, fmt.Errorf("the function Pick returned another Pick: return Tool and Arguments")
		}
		if c = picked; c.check() != nil {
			return Issued{}, c.check()
		}
	}
	out := Issued{ID: id, Tool: c.Tool, Namespace: c.Namespace, Arguments: c.Arguments}
	for _, t := range r.Tools {
		if t.Name == c.Tool && (c.Namespace == "" || c.Namespace == t.Namespace) {
			out.Custom, out.Namespace = t.Custom, t.Namespace
			break
		}
	}
	if !out.Custom && !json.Valid(out.Arguments) {
		return Issued{}, fmt.Errorf("the arguments of %s are not JSON: only a custom tool takes other text", c.Tool)
	}
	return out, nil
}
