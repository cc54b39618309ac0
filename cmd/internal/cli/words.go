package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Count is a number of things as one says it.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Quoted is a word for a shell.
func Quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+", r))
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Given fails for a flag of a command that is set to nothing. A variable of the shell that is not set must not make
// the widest key or grant. reasons say for each flag what to do instead.
func Given(cmd *cobra.Command, reasons [][2]string) error {
	for _, r := range reasons {
		if f := cmd.Flags().Lookup(r[0]); f != nil && f.Changed && strings.Trim(f.Value.String(), "[]") == "" {
			return Usage("--%s is empty: %s", r[0], r[1])
		}
	}
	return nil
}
