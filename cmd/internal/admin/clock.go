package admin

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
)

// Clock is the command yett clock.
func Clock() *cobra.Command {
	var t target
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "clock --data DIR",
		Short: "Show the clock that a running server counts by, and confirm the machine's where it is in doubt",
		Long: "Keys, approvals, grants and limits end by the store's clock. It follows the machine's wall clock and never " +
			"goes back.\n" +
			"When the wall clock is more than a minute ahead of what the machine's uptime allows, it is in doubt. Then the " +
			"store's\n" +
			"clock goes on without it. What either clock calls over is refused, and nothing ends for good. Set the wall clock " +
			"right,\n" +
			"or confirm it if it is right. After a day it is believed.",
		Example: "  yett clock --data /var/lib/yett",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return t.with(func(c *admin.Client) error {
				var is admin.Clock
				if err := c.Do(cmd.Context(), "GET", "/clock", nil, &is); err != nil {
					return err
				}
				columns := []string{"STORE CLOCK", "WALL CLOCK", "AHEAD", "HELD FOR"}
				row := func(any) []string {
					return []string{is.Now.Format(clockForm), is.Wall.Format(clockForm), is.Ahead, is.HeldFor}
				}
				return out.Print(cmd.OutOrStdout(), []any{is}, true, columns, row)
			})
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	cmd.AddCommand(confirmClock())
	return cmd
}

const clockForm = "2006-01-02T15:04:05Z07:00"

func confirmClock() *cobra.Command {
	var t target
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "confirm --data DIR",
		Short: "Confirm that the machine's wall clock is right, so that the store's clock follows it",
		Long: "Confirm the wall clock of the machine while it is in doubt. Keys, approvals and grants that are over by it " +
			"end for good.\n" +
			"A record says who confirmed it.",
		Example: "  yett clock confirm --data /var/lib/yett",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return t.with(func(c *admin.Client) error {
				var done struct {
					OK  bool   `json:"ok"`
					Was string `json:"was_ahead"`
				}
				if err := c.Do(cmd.Context(), "POST", "/clock/confirm", nil, &done); err != nil {
					return err
				}
				if out.Format != "table" {
					return out.Print(cmd.OutOrStdout(), []any{done}, true, nil, nil)
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(),
					"the wall clock is confirmed: the store's clock was %s behind it\n", done.Was)
				return err
			})
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	return cmd
}
