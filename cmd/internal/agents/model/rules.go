package model

import (
	"bytes"
	"strings"
)

// WithoutTools is the rule for auxiliary requests that fits the clients which this package was tried with: a request of
// the conversation offers tools, and a request for a title, a topic, a quota or a summary offers none.
func WithoutTools(r *Request) string {
	if len(r.Tools) == 0 {
		return "it offers no tools"
	}
	return ""
}

// Never is the rule for a client that has no auxiliary requests, such as a bare SDK.
func Never(*Request) string { return "" }

// ByModel is a rule: a request for a model whose name contains one of the parts is auxiliary, as those for a small and
// fast model are.
func ByModel(parts ...string) func(*Request) string {
	return func(r *Request) string {
		for _, part := range parts {
			if strings.Contains(r.Model, part) {
				return "it asks for the model " + r.Model
			}
		}
		return ""
	}
}

// ByText is a rule: a request that contains the text is auxiliary.
func ByText(text string) func(*Request) string {
	return func(r *Request) string {
		if r.Contains(text) {
			return "it contains " + text
		}
		return ""
	}
}

// AnyOf joins rules: the first reason counts.
func AnyOf(rules ...func(*Request) string) func(*Request) string {
	return func(r *Request) string {
		for _, rule := range rules {
			if why := rule(r); why != "" {
				return why
			}
		}
		return ""
	}
}

// AuxiliaryReply answers an auxiliary request: with the smallest value that its JSON Schema allows where there is one,
// with "{}" where JSON is asked for, else with a word.
func AuxiliaryReply(r *Request) string {
	if !r.JSON {
		return "ok"
	}
	if v, err := smallest(r.Schema, 0); err == nil && len(bytes.TrimSpace(r.Schema)) > 0 {
		return string(v)
	}
	return "{}"
}
