package doortest

import (
	"strings"
	"testing"
)

// Block is the block of code of a language in a document that holds a word.
func Block(t testing.TB, doc, language, word string) string {
	t.Helper()
	for _, part := range strings.Split(doc, "```"+language+"\n")[1:] {
		if code, _, ok := strings.Cut(part, "```"); ok && strings.Contains(code, word) {
			return code
		}
	}
	t.Fatalf("the document has no block of %s with %q", language, word)
	return ""
}
