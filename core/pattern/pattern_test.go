package pattern

import (
	"regexp/syntax"
	"strings"
	"testing"
)

// TestSize: the estimate is never below what the standard library compiles.
func TestSize(t *testing.T) {
	for _, text := range []string{"", "a", "abc", "^a$", "(?i)abc", "a|b|cd", "(a|b)*c+d?", "[a-z]{3,7}", "(ab?){0,20}",
		"(?:a{2,}){3}", "((a{10}b){10}c){9}", "\\pL{70}", ".*\\bx", "(?s)..", "(){500}", "(?:){9}", "x{0}", "(a*)*",
		"(?:a*)+?",
		"[^\\x00-\\x{10FFFF}]", "a{0,1000}", "a{1000}", "(|a|)"} {
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		guess, err := Size(text)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		real := len(prog.Inst) - 2 // without fail and match
		most := 3*real + 200
		if strings.Contains(text, "pL") {
			most = 100 * real // its memory counts, not its instructions
		}
		if guess < real || guess > most {
			t.Errorf("%s: estimated at %d, it compiles to %d", text, guess, real)
		}
	}
}

func TestInvalid(t *testing.T) {
	for _, text := range []string{"(", "a{1001}", "(a{100}){100}", `(?=x)`} {
		if size, err := Size(text); err == nil {
			t.Errorf("%s: size %d", text, size)
		}
	}
}
