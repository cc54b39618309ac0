package admin

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk/client"
	"github.com/yett-dev/yett/sdk/wire"
)

const grantsKey = "an API key with scope grants"

// passing reports whether an error may be over in a moment.
func passing(err error) bool {
	return errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrTooMany)
}

func Grants() *cobra.Command {
	return cli.Group("grants", "List, add and revoke standing grants", grantsList(), grantsAdd(), grantsRevoke())
}

var grantColumns = []cli.Column{cli.Whole("ID"), cli.Cut("AGENT"), cli.Cut("TOOLS"), cli.Wrap("ONLY"),
	cli.Whole("USES"), cli.Whole("STATUS"), cli.Whole("EXPIRES"), cli.Cut("BY")}

// rulesOf are the rules that the grant is bound to, as people read them; "" if it is bound to none.
func rulesOf(g *wire.Grant) string {
	if len(g.Rules) == 0 {
		return g.RuleID
	}
	var out []string
	for i, r := range g.Rules {
		name := cmp.Or(r, "(the chain's default)")
		if i < len(g.Steps) && g.Steps[i] != "" && !strings.HasSuffix(r, "step "+g.Steps[i]) {
			name += " of step " + g.Steps[i]
		}
		out = append(out, name)
	}
	return strings.Join(out, " + ")
}

func grantCells(row any) []string {
	g := row.(wire.Grant)
	var only []string
	for _, p := range [][2]string{{"session", g.SessionID}, {"rule", rulesOf(&g)}, {"policy", g.PolicyVersion},
		{"args", g.ArgsMatch}} {
		if p[1] != "" {
			only = append(only, p[0]+" "+p[1])
		}
	}
	uses := fmt.Sprint(g.Uses)
	if g.MaxUses > 0 {
		uses = fmt.Sprintf("%d/%d", g.Uses, g.MaxUses)
	}
	expires := g.ExpiresAt
	if at, err := time.Parse(time.RFC3339, g.ExpiresAt); err == nil {
		expires = at.UTC().Format(time.RFC3339)
	}
	return []string{g.ID, g.AgentID, g.ToolPattern, strings.Join(only, ", "), uses, g.Status, expires,
		nameOr(g.IssuedByName, g.IssuedBy)}
}

func grantsList() *cobra.Command {
	var r reach
	var out cli.Output
	in := wire.GrantListRequest{Limit: 1000}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List standing grants, newest first",
		Long:    "List the standing grants that the key may see, newest first.\n" + whereHelp,
		Example: "  yett grants list --data /var/lib/yett --agent billing-7\n  yett grants list --all -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return r.use(cmd.Context(), grantsKey, func(c *client.Client) error { return listGrants(cmd, c, in, &out) })
		},
	}
	r.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&in.AgentID, "agent", "", "only grants that cover this agent")
	cmd.Flags().BoolVar(&in.IncludeExpired, "all", false, "also those that are expired, used up or revoked")
	return cmd
}

// listGrants reads all pages.
func listGrants(cmd *cobra.Command, c *client.Client, in wire.GrantListRequest, out *cli.Output) error {
	var rows []any
	for seen := map[string]bool{}; ; {
		page, err := c.GrantList(cmd.Context(), in)
		if err != nil {
			return err
		}
		for _, g := range page.Grants {
			rows = append(rows, g)
		}
		if page.NextCursor == "" {
			break
		}
		if seen[page.NextCursor] {
			return errors.New("the server gives the same page again and again")
		}
		seen[page.NextCursor], in.Cursor = true, page.NextCursor
	}
	if len(rows) == 0 && out.Format == "table" {
		fmt.Fprintln(cmd.ErrOrStderr(), "there are no standing grants")
		return nil
	}
	return out.PrintRows(cmd.OutOrStdout(), rows, false, grantColumns, grantCells)
}

func grantsAdd() *cobra.Command {
	var r reach
	var out cli.Output
	var in wire.GrantAddRequest
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "add --agent AGENT --tool PATTERN --ttl TIME",
		Short: "Let calls through that a rule would defer, for a while",
		Long: "Make a standing grant: calls of the agent that a rule would defer are permitted while it lasts. It never " +
			"permits what\n" +
			"a rule denies. In patterns * stays within one / segment and ** crosses them.\n" + whereHelp,
		Example: "  yett grants add --agent billing-7 --tool 'payments/*' --ttl 8h --uses 20\n" +
			"  yett grants add --agent billing-7 --tool 'payments/*' --ttl 8h --rule large --step house-rules\n" +
			"  yett grants add --agent 'batch-*' --tool files/write --ttl 1h --args-match 'args.path.startsWith(\"/out/\")' " +
			"--note \"night run\"",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := out.Check(); err != nil {
				return err
			}
			if in.AgentID == "" || in.ToolPattern == "" || ttl == 0 {
				return cli.Usage("grants add needs --agent, --tool and --ttl (see %s --help)", cmd.CommandPath())
			}
			if err := cli.Given(cmd, [][2]string{{"session", "leave it out for every session"},
				{"rule", "leave it out for every rule"}, {"step", "leave it out for every step"},
				{"policy", "leave it out for every policy"}, {"args-match", "leave it out for all arguments"}}); err != nil {
				return err
			}
			if in.Step != "" && in.RuleID == "" {
				return cli.Usage("--step %s needs --rule: the rule of that step which the grant is for", in.Step)
			}
			if in.TTLSeconds, err = seconds("--ttl", ttl); err != nil {
				return err
			}
			if in.MaxUses < 0 {
				return cli.Usage("--uses %d: want 0 (no limit) or more", in.MaxUses)
			}
			return r.use(cmd.Context(), grantsKey, func(c *client.Client) error {
				g, err := c.GrantAdd(cmd.Context(), in)
				if err != nil {
					return err
				}
				return errors.Join(warn(cmd.ErrOrStderr(), g.Warning),
					out.PrintRows(cmd.OutOrStdout(), []any{g.Grant}, true, grantColumns, grantCells))
			})
		},
	}
	r.bind(cmd)
	out.Bind(cmd)
	fs := cmd.Flags()
	fs.StringVar(&in.AgentID, "agent", "", "the agent, exact or a pattern")
	fs.StringVar(&in.ToolPattern, "tool", "", "the tools")
	cli.DurationVar(cmd, &ttl, "ttl", 0, "how long it lasts, 1s to 720h")
	fs.IntVar(&in.MaxUses, "uses", 0, "how many calls it permits (0: no limit)")
	fs.StringVar(&in.SessionID, "session", "", "only calls of this session")
	fs.StringVar(&in.RuleID, "rule", "", "only calls that this rule, and nothing else, defers")
	fs.StringVar(&in.Step, "step", "", "with --rule: only that step's rule of that name")
	fs.StringVar(&in.PolicyVersion, "policy", "", "only while this policy is in force")
	fs.StringVar(&in.ArgsMatch, "args-match", "", "only calls for which this CEL condition holds")
	fs.StringVar(&in.Note, "note", "", "why; recorded")
	return cmd
}

// revoked is what a command prints that revoked something.
type revoked struct {
	ID      string `json:"id"`
	Revoked bool   `json:"revoked"`
}

func grantsRevoke() *cobra.Command {
	var r reach
	var out cli.Output
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "End a standing grant at once",
		Long:    "End a standing grant at once.\n" + whereHelp,
		Example: "  yett grants revoke stg_… --data /var/lib/yett",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.use(cmd.Context(), grantsKey, func(c *client.Client) error {
				if err := c.GrantRevoke(cmd.Context(), args[0]); err != nil {
					return err
				}
				return out.Done(cmd, revoked{args[0], true}, "grant %s is revoked", cli.Visible(args[0]))
			})
		},
	}
	r.bind(cmd)
	out.Bind(cmd)
	return cmd
}
