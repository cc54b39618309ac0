package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
)

func Keys() *cobra.Command {
	return cli.Group("keys", "Make, list, revoke and roll API keys of a running server", keysCreate(), keysList(),
		keysRevoke(), keysRoll())
}

func printNewKey(cmd *cobra.Command, out *cli.Output, k admin.NewKey) error {
	if out.Format == "table" {
		fmt.Fprintf(cmd.ErrOrStderr(), "The key %s (%s) is shown this once:\n", k.Name, strings.Join(k.Scopes, " "))
		_, err := fmt.Fprintln(cmd.OutOrStdout(), k.Key)
		return err
	}
	return out.Print(cmd.OutOrStdout(), []any{k}, true, nil, nil)
}

func keysCreate() *cobra.Command {
	var t target
	var out cli.Output
	var in admin.CreateRequest
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a key; its value is shown once",
		Long: "Make a key. A name is enough: then it is an agent's (scopes authorize and scan, every agent).\n" +
			"Presets: agent, approver (approve), auditor (audit), operator (approve grants kill audit).",
		Example: "  yett keys create billing --data /var/lib/yett --agents 'billing-*' -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			in.Name = args[0]
			if expires < 0 || expires == 0 && cmd.Flags().Changed("expires") {
				return cli.Usage("--expires %v: must be more than 0, such as 12h or 30d", expires)
			}
			if err := cli.Given(cmd, [][2]string{{"agents", "leave it out for every agent"},
				{"scopes", "leave it out for a preset"}, {"preset", "leave it out for an agent's key"},
				{"redeem", "leave it out for auto"}}); err != nil {
				return err
			}
			if expires > 0 {
				in.ExpiresAt = time.Now().Add(expires).UTC()
			}
			return t.with(func(c *admin.Client) error {
				var k admin.NewKey
				if err := c.Do(cmd.Context(), "POST", "/keys", in, &k); err != nil {
					return err
				}
				return printNewKey(cmd, &out, k)
			})
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&in.Preset, "preset", "", "agent, approver, auditor or operator (default agent)")
	cmd.Flags().StringSliceVar(&in.Scopes, "scopes", nil,
		"instead of a preset: authorize,scan,approve,grants,kill,audit,reveal")
	cmd.Flags().StringSliceVar(&in.Agents, "agents", nil, "globs of the agents it covers (default every agent)")
	cmd.Flags().StringVar(&in.Environment, "environment", "", "a word of yours, such as production")
	cmd.Flags().StringVar(&in.Note, "note", "", "a note")
	cmd.Flags().StringVar(&in.Redeem, "redeem", "",
		"explicit: an approved call runs only with its token; auto: calls may say redeem auto (default auto)")
	cli.DurationVar(cmd, &expires, "expires", 0, "how long it lives, such as 12h or 30d (default for ever)")
	return cmd
}

func keysList() *cobra.Command {
	var t target
	var out cli.Output
	cmd := &cobra.Command{Use: "list", Short: "List keys, revoked ones too", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return t.with(func(c *admin.Client) error { return listKeys(cmd.Context(), cmd, c, &out) })
		}}
	t.bind(cmd)
	out.Bind(cmd)
	return cmd
}

// minutes is how tables show times that nobody needs to the second.
const minutes = "2006-01-02T15:04Z"

func listKeys(ctx context.Context, cmd *cobra.Command, c *admin.Client, out *cli.Output) error {
	var rows []admin.KeyRow
	if err := c.Do(ctx, "GET", "/keys", nil, &rows); err != nil {
		return err
	}
	if len(rows) == 0 && out.Format == "table" {
		fmt.Fprintln(cmd.ErrOrStderr(), "There are no keys yet: yett keys create NAME makes one.")
		return nil
	}
	var list []any
	for _, r := range rows {
		list = append(list, r)
	}
	cols := []cli.Column{cli.Whole("ID"), cli.Wrap("NAME"), cli.Wrap("SCOPES"), cli.Wrap("AGENTS"), cli.Whole("STATE"),
		cli.Whole("LAST USED")}
	return out.PrintRows(cmd.OutOrStdout(), list, false, cols, func(row any) []string {
		r := row.(admin.KeyRow)
		state, used, agents := "live", "never", "every agent"
		switch now := time.Now(); {
		case !r.RevokedAt.IsZero() && !r.RevokedAt.After(now):
			state = "revoked " + r.RevokedAt.UTC().Format(minutes)
		case !r.RevokedAt.IsZero():
			state = "revoked from " + r.RevokedAt.UTC().Format(minutes)
		case !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(now):
			state = "expired " + r.ExpiresAt.UTC().Format(minutes)
		case !r.ExpiresAt.IsZero():
			state = "live until " + r.ExpiresAt.UTC().Format(minutes)
		}
		if !r.LastUsedAt.IsZero() {
			used = r.LastUsedAt.UTC().Format(minutes)
		}
		if len(r.Agents) > 0 {
			agents = strings.Join(r.Agents, ",")
		}
		scopes := strings.Join(r.Scopes, ",")
		if r.Redeem != "" {
			scopes += " (redeem: " + r.Redeem + ")"
		}
		return []string{r.ID, r.Name, scopes, agents, state, used}
	})
}

func keysRevoke() *cobra.Command {
	var t target
	var out cli.Output
	cmd := &cobra.Command{Use: "revoke ID", Short: "Revoke a key, at once and for ever",
		Long: "Revoke a key, at once and for ever. Its pending calls are denied, and its approvals and grants count no " +
			"more. A rolled key whose\n" +
			"grace still runs ends at once, and what it signed stands: to void that too, revoke the key that took its place.",
		Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			var ok struct{ ID string }
			if err := t.post(cmd.Context(), "keys", args[0], "revoke", nil, &ok); err != nil {
				return err
			}
			return out.Done(cmd, revoked{ok.ID, true}, "The key %s is revoked.", ok.ID)
		}}
	t.bind(cmd)
	out.Bind(cmd)
	return cmd
}

func keysRoll() *cobra.Command {
	var t target
	var out cli.Output
	var grace time.Duration
	cmd := &cobra.Command{Use: "roll ID", Short: "Make a new key with the same settings and revoke the old one",
		Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			if grace != 0 && (grace < time.Second || grace%time.Second != 0) {
				return cli.Usage("--grace %v: must be whole seconds, such as 90s or 1h", grace)
			}
			var k admin.NewKey
			in := admin.RollRequest{GraceSeconds: int(grace / time.Second)}
			if err := t.post(cmd.Context(), "keys", args[0], "roll", in, &k); err != nil {
				return err
			}
			return printNewKey(cmd, &out, k)
		}}
	t.bind(cmd)
	out.Bind(cmd)
	cli.DurationVar(cmd, &grace, "grace", 0, "how long the old key stays valid (default: it is revoked now)")
	return cmd
}
