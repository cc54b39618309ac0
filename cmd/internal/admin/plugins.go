package admin

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/status"
)

// Plugins are the subcommands of `yett plugin` that ask a running server.
func Plugins() []*cobra.Command {
	return []*cobra.Command{pluginStatus(), pluginResume(), pluginReplay(), pluginForget()}
}

func pluginStatus() *cobra.Command {
	var t target
	var out cli.Output
	cmd := &cobra.Command{
		Use:     "status --data DIR",
		Short:   "List the plugins of a running server: state, calls, and how far subscribers have come",
		Example: "  yett plugin status --data /var/lib/yett",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return t.with(func(c *admin.Client) error {
				var list []status.Plugin
				if err := c.Do(cmd.Context(), "GET", "/plugins", nil, &list); err != nil {
					return err
				}
				var rows []any
				for _, r := range list {
					rows = append(rows, r)
				}
				return out.Print(cmd.OutOrStdout(), rows, false,
					[]string{"NAME", "KIND", "STATE", "CALLS", "ERRORS", "LAG", "DETAIL"}, func(row any) []string {
						r := row.(status.Plugin)
						lag, detail := "-", r.Detail
						if f := r.Subscriber; f != nil {
							lag = fmt.Sprint(f.LagRecords)
							detail += "; " + f.State
							if f.Detail != "" {
								detail += ": " + f.Detail
							}
						}
						return []string{r.Name, r.Kind, r.State, fmt.Sprint(r.Calls), fmt.Sprint(r.Errors), lag, detail}
					})
			})
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	return cmd
}

// namedPlugin is what a command prints that did something to a plugin.
type namedPlugin struct {
	Name string `json:"name"`
	From uint64 `json:"from,omitempty"`
}

func pluginResume() *cobra.Command {
	var t target
	var out cli.Output
	var in admin.ResumeRequest
	cmd := &cobra.Command{
		Use:   "resume NAME --data DIR",
		Short: "Let a plugin start again that was given up, or a paused subscriber go on",
		Long: "A plugin that crashed five times within ten minutes is quarantined until this or a reload, and a " +
			"subscriber that failed\n" +
			"five times at one record is paused (on_poison: pause) until this. With --skip a subscriber goes on behind the " +
			"record\n" +
			"that it is stuck at, whether it refuses the record or ends because of it; the audit log says so. yett plugin " +
			"status\n" +
			"says which record that is.",
		Example: "  yett plugin resume entitle --data /var/lib/yett\n  yett plugin resume siem --skip --data /var/lib/yett",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var done namedPlugin
			if err := t.post(cmd.Context(), "plugins", args[0], "resume", in, &done); err != nil {
				return err
			}
			return out.Done(cmd, done, "%s goes on", done.Name)
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().BoolVar(&in.Skip, "skip", false, "leave out the record at which a subscriber is stuck")
	return cmd
}

func pluginReplay() *cobra.Command {
	var t target
	var out cli.Output
	var in admin.ReplayRequest
	cmd := &cobra.Command{
		Use:   "replay NAME --from SEQ --data DIR",
		Short: "Give a subscriber records of the audit log again, from one on",
		Long: "Put a subscriber back to a record of the log: it gets that one and all behind it once more, marked as a " +
			"replay up to\n" +
			"where it was. The audit log says so. What retention has removed cannot be given again, and asking for it is " +
			"refused.",
		Example: "  yett plugin replay siem --from 1 --data /var/lib/yett",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.From == 0 {
				return cli.Usage("replay needs --from SEQ, the number of the first record")
			}
			done := namedPlugin{From: in.From}
			if err := t.post(cmd.Context(), "plugins", args[0], "replay", in, &done); err != nil {
				return err
			}
			return out.Done(cmd, done, "%s gets the log again from record %d on", done.Name, in.From)
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().Uint64Var(&in.From, "from", 0, "number of the first record")
	return cmd
}

func pluginForget() *cobra.Command {
	var t target
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "forget NAME --data DIR",
		Short: "Remove the cursor of a subscriber that is not configured any more",
		Long: "A subscriber that is taken out of audit.subscribers keeps its cursor, its place in the log, and one of the " +
			"same name goes on\n" +
			"from there. This removes the cursor: a subscriber of that name then begins anew, where its start says. The " +
			"audit log says\n" +
			"so. It is refused while the subscriber is configured; take it out and reload first. For a name without a cursor " +
			"the error\n" +
			"lists those that have one.",
		Example: "  yett plugin forget siem --data /var/lib/yett",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var done admin.Forgotten
			if err := t.post(cmd.Context(), "plugins", args[0], "forget", nil, &done); err != nil {
				return err
			}
			return out.Done(cmd, done, "%s is forgotten: it had come to record %d; a subscriber of that name begins anew",
				done.Name, done.Seq)
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	return cmd
}
