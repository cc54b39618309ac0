package mcpd

import (
	"slices"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
)

// Many programs read members without regard to case, Go's encoding/json among them: the last that fits counts. Such a
// server would run another call than the one that was decided, so names that differ in case alone are refused.

// envelope are the members of a message.
var envelope = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// ofParams are the members of params that say what a request does.
var ofParams = []string{"name", "arguments", "uri", "cursor", "task", "taskId", "ref", "argument", "level", "_meta",
	"requestState", "inputResponses", "protocolVersion", "capabilities", "clientInfo"}

// fold is one text for all names that differ in case alone, as Unicode's simple folding has it.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// alike gives one of the known names that an object has in other letters, or in other letters too; "" if none.
func alike(v exact.Value, known []string) string {
	for name := range v.Members() {
		if slices.Contains(known, name) {
			continue
		}
		folded := fold(name)
		if i := slices.IndexFunc(known, func(k string) bool { return fold(k) == folded }); i >= 0 {
			return known[i]
		}
	}
	return ""
}

// twice reports whether two members of an object differ in case alone.
func twice(v exact.Value) bool {
	if v.Len() < 2 {
		return false
	}
	seen := make(map[string]bool, v.Len())
	for name := range v.Members() {
		folded := fold(name)
		if seen[folded] {
			return true
		}
		seen[folded] = true
	}
	return false
}

func unlike(name string) *fault {
	return invalid("the member " + name + " must be written in exactly these letters: programs differ on others")
}

// ambiguous refuses a message of a client that servers could understand differently.
func ambiguous(m *message) *fault {
	if name := alike(m.params, ofParams); name != "" {
		return unlike(name)
	}
	if args := m.params.Get("arguments"); twice(m.params) || args.Kind() == exact.Object && twice(args) {
		return invalid("two members have names that differ in case alone: programs differ on which one counts")
	}
	return nil
}
