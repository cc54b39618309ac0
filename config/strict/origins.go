package strict

import (
	"fmt"
	"strings"
)

// Pos is where something was written. File is a file's name, "env NAME" or "flag NAME"; Line and Column count from 1
// and are 0 where they have no meaning. The zero Pos is a built-in default.
type Pos struct {
	File         string
	Line, Column int
}

// String gives "file:line:column", as much of it as is known.
func (p Pos) String() string {
	switch {
	case p.File == "":
		return "default"
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Origins says where each key was last set, by its full name.
type Origins map[string]Pos

// At finds where key was written, or else the nearest thing around it that was.
func (o Origins) At(key string) Pos {
	for {
		if p, ok := o[key]; ok {
			return p
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			return o[""]
		}
		key = key[:i]
	}
}

// Written says whether key or something below it was set by a source.
func (o Origins) Written(key string) bool {
	if _, ok := o[key]; ok {
		return true
	}
	for k := range o {
		if strings.HasPrefix(k, key+".") || strings.HasPrefix(k, key+"[") {
			return true
		}
	}
	return false
}

// forget drops everything below key, which is about to be replaced.
func (o Origins) forget(key string) {
	for k := range o {
		if strings.HasPrefix(k, key+".") || strings.HasPrefix(k, key+"[") {
			delete(o, k)
		}
	}
}

// Join adds a member's name to a key.
func Join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
