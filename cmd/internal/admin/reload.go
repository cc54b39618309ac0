package admin

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
)

func Reload() *cobra.Command {
	var t target
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "reload --data DIR",
		Short: "Put a running server's configuration in force as its files are now",
		Long: "Read the configuration of a running server again: parse and check it, start what is new, and swap, all or " +
			"nothing.\n" +
			"Calls in flight end on the configuration they began on. On an error the old one stays in force; the error is " +
			"here, in\n" +
			"the server's log, on /readyz and in the audit log. A server does this by itself when a file changes, and on " +
			"SIGHUP.\n" +
			"Plugins that are as they were go on running; one that was quarantined is tried again. What runs is what the " +
			"digest in\n" +
			"the configuration or plugins.lock says: a plugin whose file changed is kept, with a word about it, until it is " +
			"pinned\n" +
			"anew. Each plugin is listed with what became of it; -o json has the digests.",
		Example: "  yett reload --data /var/lib/yett",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return t.with(func(c *admin.Client) error {
				var done admin.Reloaded
				if err := c.Do(cmd.Context(), "POST", "/reload", nil, &done); err != nil {
					return err
				}
				if out.Format != "table" {
					return out.Print(cmd.OutOrStdout(), []any{done}, true, nil, nil)
				}
				var rows []any
				for _, ch := range done.Changes {
					rows = append(rows, ch)
				}
				printReloaded(cmd, done)
				if len(rows) == 0 {
					return nil
				}
				return out.Print(cmd.OutOrStdout(), rows, false, []string{"KEY", "OLD", "NEW"}, func(row any) []string {
					ch := row.(admin.ConfigChange)
					return []string{ch.Key, ch.Old, ch.New}
				})
			})
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	return cmd
}

// printReloaded says what is in force now, and what became of the plugins.
func printReloaded(cmd *cobra.Command, done admin.Reloaded) {
	what := fmt.Sprintf("%s is in force (was %s), %d values changed", done.Policy, done.Was, len(done.Changes))
	if done.Policy == done.Was && len(done.Changes) == 0 {
		what = fmt.Sprintf("%s stays in force: no value changed", done.Policy)
	}
	cmd.PrintErrln(what)
	kept := 0
	for _, p := range done.Plugins {
		digest := p.Digest
		if digest != "" {
			digest = ", " + digest
		}
		switch {
		case p.Stale:
			cmd.PrintErrf("warning: plugin %s was kept: %s\n", cli.Visible(p.Name), cli.Visible(p.Why))
		case p.What == "kept":
			kept++
		case p.Why != "":
			cmd.PrintErrf("plugin %s was %s, since %s%s\n", cli.Visible(p.Name), p.What, cli.Visible(p.Why), digest)
		default:
			cmd.PrintErrf("plugin %s was %s%s\n", cli.Visible(p.Name), p.What, digest)
		}
	}
	if kept > 0 {
		cmd.PrintErrf("kept as they were: %d of %d plugins\n", kept, len(done.Plugins))
	}
}
