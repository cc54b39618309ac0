package main

import "strings"

// places is a set of JSON pointers as a tree. A step of "*" stands for every member and every element.
type places struct {
	here bool
	next map[string]*places
}

func (p *places) add(pointer string) {
	at := p
	for _, step := range steps(pointer) {
		if at.next == nil {
			at.next = map[string]*places{}
		}
		if at.next[step] == nil {
			at.next[step] = &places{}
		}
		at = at.next[step]
	}
	at.here = true
}

// at is the part of the set below one step, nil when there is none. An exact step hides "*".
func (p *places) at(step string) *places {
	if p == nil || p.next == nil {
		return nil
	}
	if n := p.next[step]; n != nil {
		return n
	}
	return p.next["*"]
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// steps are the reference tokens of a JSON pointer (RFC 6901).
func steps(pointer string) []string {
	all := strings.Split(pointer, "/")[1:]
	for i := range all {
		all[i] = unescape.Replace(all[i])
	}
	return all
}
