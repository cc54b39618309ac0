package core

import (
	"regexp"
	"testing"
)

// TestNames: names of requests have the form of the other ids, and differ.
func TestNames(t *testing.T) {
	name, seen := newName("req_"), map[string]bool{}
	form := regexp.MustCompile(`^req_[A-Z2-7]{26}$`)
	for range 10_000 {
		id := name()
		if !form.MatchString(id) || len(id) != len(newID("req_")()) {
			t.Fatalf("%q", id)
		}
		if seen[id] {
			t.Fatalf("%q twice", id)
		}
		seen[id] = true
	}
}
