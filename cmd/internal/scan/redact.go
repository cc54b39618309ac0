package scan

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk"
)

// redactText prints standard input as a gateway would release it. What was found is said on stderr. After an error
// nothing more is printed: what is printed before it is clean.
func (o *options) redactText(cmd *cobra.Command, e *engine) error {
	in := bufio.NewReaderSize(&bounded{r: &interruptible{cmd.Context(), cmd.InOrStdin()}, left: o.most}, headSize)
	head, err := in.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return cli.Fail(ExitUnscanned, fmt.Errorf("standard input: %w", err))
	}
	if reason := unreadable(head); reason != "" {
		return cli.Fail(ExitUnscanned, fmt.Errorf("standard input cannot be redacted: %s", meaning(reason)))
	}
	kinds := map[string]int{}
	var order []string
	err = e.scan(cmd.Context(), in, func(released string, found []sdk.Finding, _ string, _ int) error {
		for i := range found {
			f := &found[i]
			if f.Action != sdk.Redact {
				continue
			}
			if kinds[f.Kind]++; kinds[f.Kind] == 1 {
				order = append(order, f.Kind)
			}
		}
		_, err := io.WriteString(cmd.OutOrStdout(), released)
		return err
	})
	var said []string
	for _, k := range order {
		said = append(said, fmt.Sprintf("%d %s", kinds[k], k))
	}
	if len(said) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "redacted %s\n", strings.Join(said, ", "))
	}
	switch {
	case err != nil:
		return cli.Fail(ExitUnscanned, fmt.Errorf("standard input: %w: the rest of the text is withheld", err))
	case len(said) > 0:
		return cli.Fail(ExitFound, nil)
	}
	return nil
}
