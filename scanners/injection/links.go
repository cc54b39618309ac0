package main

import (
	"strings"

	"github.com/yett-dev/yett/sdk/scanner"
)

// maxLink bounds the address that is looked at, bytes.
const maxLink = 2048

// carriers are names of parameters that carry away what a model knows.
var carriers = map[string]bool{"d": true, "data": true, "q": true, "query": true, "exfil": true, "secret": true,
	"secrets": true,
	"leak":    true, "payload": true, "prompt": true, "history": true, "conversation": true, "chat": true,
	"msg": true, "message": true,
	"content": true, "context": true, "info": true, "text": true, "steal": true, "stolen": true, "password": true,
	"summary":   true,
	"user_data": true, "userdata": true, "key": true, "token": true, "apikey": true, "api_key": true,
	"system": true, "log": true,
	"output": true, "email": true, "creds": true, "credentials": true, "env": true, "c": true, "p": true, "x": true}

// loads are words of a value that stands for what is to be filled in.
var loads = []string{"secret", "password", "canary", "token", "api_key", "apikey", "conversation", "history",
	"prompt", "summary", "data",
	"info", "email", "message", "context", "base64", "encoded", "urlencode", "user", "chat", "insert", "key",
	"content", "credentials"}

// link judges the address at a hit.
func (s *scan) link(h scanner.Hit) {
	if h.Start < s.linkDone {
		return
	}
	i := h.End
	for i > h.Start && s.t[i-1] != '(' && s.t[i-1] != '"' && s.t[i-1] != '\'' {
		i--
	}
	if i == h.Start {
		return // <img: its src has a hit of its own, or none
	}
	end := i
	for end < len(s.t) && end-i < maxLink && s.t[end] > ' ' && s.t[end] != ')' && s.t[end] != '"' &&
		s.t[end] != '\'' {
		end++
	}
	s.linkDone = end
	start, image := h.Start, s.t[h.Start] != ']'
	for n := 0; s.t[h.Start] == ']' && start > 0 && n < 200 && s.t[start-1] != '\n'; n++ {
		if start--; s.t[start] == '[' {
			if image = start > 0 && s.t[start-1] == '!'; image {
				start--
			}
			break
		}
	}
	if s.t[h.Start] != ']' {
		for n := 0; start > 0 && n < 200 && s.t[start] != '<'; n++ {
			start--
		}
	}
	if carries(strings.ToLower(string(s.t[i:end])), s.t[i:end], image) {
		if end < len(s.t) && (s.t[end] == ')' || s.t[end] == '"' || s.t[end] == '\'') {
			end++
		}
		if s.t[h.Start] != ']' {
			for n := 0; n < 200 && end < len(s.t) && s.t[end-1] != '>'; n++ {
				end++
			}
		}
		s.add(kLink, start, end, 0.8)
	}
}

// carries tells whether an address takes something along: a placeholder, or text that somebody has encoded.
func carries(low string, raw []byte, image bool) bool {
	mark := strings.IndexByte(low, '?')
	if mark < 0 {
		slash := strings.LastIndexByte(low, '/')
		return image && slash > 8 && placeholder(low[slash+1:], false)
	}
	at := mark + 1
	for _, pair := range strings.Split(low[mark+1:], "&") {
		name, value, _ := strings.Cut(pair, "=")
		valueAt := at + len(name) + 1
		at += len(pair) + 1
		if !carriers[name] {
			if placeholder(value, false) && image {
				return true
			}
			continue
		}
		if placeholder(value, image) || image && value == "" {
			return true
		}
		if len(value) >= 16 && valueAt+len(value) <= len(raw) && readable(decodeBase64(nil,
			raw[valueAt:valueAt+len(value)])) && image {
			return true
		}
	}
	return false
}

// placeholder tells whether a value is to be filled in. bare: the word alone says so.
func placeholder(v string, bare bool) bool {
	if v == "" {
		return false
	}
	open := strings.ContainsAny(v[:1], "{[<$") || strings.HasPrefix(v, "%7b") || strings.HasPrefix(v, "%5b") ||
		strings.HasPrefix(v, "%3c")
	if !open && !bare {
		return false
	}
	if bare && len(v) > 40 {
		return false
	}
	for _, w := range loads {
		if strings.Contains(v, w) {
			return true
		}
	}
	return false
}

// readable tells whether bytes are a text of some length.
func readable(b []byte) bool {
	if len(b) < 10 {
		return false
	}
	letters := 0
	for _, c := range b {
		if c < ' ' && !isSpace(c) || c == 0x7f {
			return false
		}
		if isWord(c) || c == ' ' {
			letters++
		}
	}
	return letters*4 >= len(b)*3
}
