package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk/client"
	"github.com/yett-dev/yett/sdk/wire"
)

func auditTail() *cobra.Command {
	var r reach
	var t tail
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow the audit log, until Ctrl-C",
		Long: "Follow the audit log from now, or from a record on. Each record comes once and in order; when the server " +
			"goes away it\n" +
			"is waited for, and the rest comes then. Ctrl-C ends it. The socket of the server is needed.\n" + whereHelp,
		Example: "  yett audit tail --data /var/lib/yett --types decision,kill\n" +
			"  yett audit tail --from 1 -o jsonl > log.jsonl\n  yett audit tail --agent billing-7 --count 10",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.in.FromSeq < 0 || t.count < 0 {
				return cli.Usage("--from and --count must not be negative")
			}
			opts, err := r.options(cmd.Context())
			if err != nil {
				return err
			}
			opts.OnLost = func(err error) {
				fmt.Fprintf(cmd.ErrOrStderr(), "connection lost (%s); waiting for the server\n", cli.Visible(err.Error()))
			}
			t.out, t.messages = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return dial(opts, "an API key with scope audit", func(c *client.Client) error { return t.run(cmd.Context(), c) })
		},
	}
	r.bind(cmd)
	fs := cmd.Flags()
	t.as.Bind(cmd)
	fs.IntVar(&t.in.FromSeq, "from", 0, "the first record wanted (default: what comes next)")
	fs.StringSliceVar(&t.in.Types, "types", nil, "only these types, such as decision,kill,defer_resolved")
	fs.StringVar(&t.in.AgentID, "agent", "", "only records of this agent")
	fs.IntVar(&t.count, "count", 0, "end after so many records (0: never)")
	return cmd
}

// tail shows records as they come.
type tail struct {
	in            wire.AuditSubscribeRequest
	as            cli.Output
	count         int
	out, messages io.Writer
}

func (t *tail) run(ctx context.Context, c *client.Client) error {
	s, err := c.Audit(ctx, t.in)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer s.Close()
	if t.as.Table() {
		fmt.Fprintln(t.out, tailLine("SEQ", "TIME", "TYPE", "AGENT", "TOOL", "EFFECT", "REASON"))
	}
	n := 0
	for r, err := range s.All(ctx) {
		var gap *client.GapError
		switch {
		case errors.As(err, &gap):
			fmt.Fprintf(t.messages, "records %d to %d are no longer there\n", gap.From, gap.To)
			continue
		case err != nil:
			return err
		}
		if err := t.show(&r); err != nil {
			return err
		}
		if n++; n == t.count {
			return nil
		}
	}
	return nil
}

func (t *tail) show(r *client.Record) error {
	line := ""
	switch t.as.Format {
	case "yaml":
		return t.as.PrintLine(t.out, r.Raw)
	case "json", "jsonl": // as it was recorded, byte for byte
		line = string(cli.VisibleJSON(r.Raw))
	default:
		stamp, _, _ := strings.Cut(r.Timestamp, ".")
		line = tailLine(fmt.Sprint(r.Seq), strings.TrimSuffix(stamp, "Z")+"Z", r.Type, r.Text("agent_id"), r.Text("tool_id"),
			r.Text("effect"), r.Text("reason_code"))
		if width := cli.WidthOf(t.out); width > 0 {
			line = cli.CutTo(line, width)
		}
	}
	_, err := fmt.Fprintln(t.out, line)
	return err
}

// tailLine lays one record out. The columns have fixed widths: what will come is not known.
func tailLine(cells ...string) string {
	var b strings.Builder
	for i, width := range []int{8, 20, 16, 20, 28, 7, 24} {
		c := cli.Visible(cells[i])
		b.WriteString(c)
		b.WriteString(strings.Repeat(" ", max(width-cli.CellWidth(c), 0)+2))
	}
	return strings.TrimRight(b.String(), " ")
}
