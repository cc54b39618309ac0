package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/client"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

const approverKey = "the API key of an approver (scope approve)"

func Approvals() *cobra.Command {
	return cli.Group("approvals", "List, watch and answer the calls that wait for a person", approvalsList(),
		approvalsShow(), approvalsWatch(), approvalsAnswer(true), approvalsAnswer(false), approvalsWithdraw())
}

func approvalsList() *cobra.Command {
	var r reach
	var out cli.Output
	var agent string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the calls that wait for an answer, soonest expiry first",
		Long: "List the calls that wait for an answer, soonest expiry first, as far as the key may answer them.\n" +
			whereHelp,
		Example: "  yett approvals list --data /var/lib/yett\n" +
			"  yett approvals list --agent billing-7 -o json | jq '.[].call'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			if limit < 1 || limit > 1000 {
				return cli.Usage("--limit %d: must be 1 to 1000", limit)
			}
			return r.use(cmd.Context(), approverKey, func(c *client.Client) error {
				list, err := c.Approvals(cmd.Context(), agent, limit)
				if err != nil {
					return err
				}
				return printPending(cmd, &out, list)
			})
		},
	}
	r.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&agent, "agent", "", "only calls of this agent")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many, 1 to 1000")
	return cmd
}

func approvalsShow() *cobra.Command {
	var r reach
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "show TOKEN",
		Short: "Show one call that waits for an answer, whole",
		Long: "Show one call that waits for an answer, whole. Lists leave long members of a call out and name them.\n" +
			whereHelp,
		Example: "  yett approvals show dfr_… --data /var/lib/yett\n  yett approvals show dfr_… -o json | jq .call.args",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return r.use(cmd.Context(), approverKey, func(c *client.Client) error {
				p, err := c.Approval(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if err := printPending(cmd, &out, &client.PendingList{Approvals: []client.Pending{*p}, Total: 1}); err != nil ||
					out.Format != "table" {
					return err
				}
				if says := agentSays(p); says != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", cli.Visible(says))
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", cli.VisibleJSON(p.Call))
				return err
			})
		},
	}
	r.bind(cmd)
	out.Bind(cmd)
	return cmd
}

func printPending(cmd *cobra.Command, out *cli.Output, list *client.PendingList) error {
	if len(list.Approvals) == 0 && out.Format == "table" {
		fmt.Fprintln(cmd.ErrOrStderr(), "no approvals are pending")
		return nil
	}
	if more := list.Total - len(list.Approvals); more > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d more are pending: see --limit\n", more)
	}
	var rows []any
	for _, p := range list.Approvals {
		rows = append(rows, p)
	}
	if !out.Table() {
		return out.PrintData(cmd.OutOrStdout(), rows, false)
	}
	cols := []cli.Column{cli.Cut("AGENT"), cli.Cut("KEY"), cli.Cut("TOOL"), cli.Cut("ARGS"), cli.Wrap("WHY"),
		cli.Whole("SIGNED"), cli.Whole("EXPIRES")}
	lead, table := []string{"TOKEN"}, [][]string{}
	for _, p := range list.Approvals {
		lead = append(lead, p.DeferToken)
		table = append(table, []string{p.AgentID, p.KeyName, toolOf(&p), argsOf(&p), why(&p),
			fmt.Sprintf("%d/%d", p.Approvals, p.ApprovalsRequired), left(p.ExpiresAt, time.Now())})
	}
	cols, table = withNotes(cols, table, list.Approvals)
	w := cmd.OutOrStdout()
	return cli.PrintBlocks(w, cli.TableWidth(w), cols, table, lead)
}

// toolOf is the full name of the tool, and the operation if the name does not end with it: rules see both.
func toolOf(p *client.Pending) string {
	var doc exact.Doc
	if slices.Contains(p.Omitted, "call") || doc.Parse(string(p.Call), exact.Limits{Depth: 128, Tokens: 1 << 20}) != nil {
		return p.ToolID
	}
	if op := wire.Apart(p.ToolID, doc.Root().Get("operation").Str()); op != "" {
		return p.ToolID + " (operation " + op + ")"
	}
	return p.ToolID
}

// argsOf is what of a canonical call an approver looks at first.
func argsOf(p *client.Pending) string {
	if slices.Contains(p.Omitted, "args") {
		return fmt.Sprintf("(long: %d bytes, see yett approvals show)", p.Bytes)
	}
	var doc exact.Doc
	if err := doc.Parse(string(p.Call), exact.Limits{Depth: 128, Tokens: 1 << 20}); err != nil {
		return "(unreadable)"
	}
	out := "{}"
	if args := doc.Root().Get("args"); args.Exists() {
		out = args.Raw()
	}
	for _, part := range []string{"args", "context"} {
		if why := doc.Root().Get(part + "_withheld"); why.Exists() {
			h := wire.Withheld{Cause: why.Get("cause").Str(), Scanner: why.Get("scanner").Str()}
			out += " (" + part + " withheld: " + h.String() + ")"
		}
	}
	return out
}

// nameOr is how a person reads who did something: the name of the key, or its id where the name is not known.
func nameOr(name, id string) string {
	if name != "" {
		return name
	}
	return id
}

// why names all rules that defer the call as it is now: a grant with the approval stands against each of them. A single
// rule has the name that the decision has.
func why(p *client.Pending) string {
	rules := p.RuleID
	if len(p.Rules) > 1 || p.Modified {
		rules = strings.Join(p.Rules, " and ")
	}
	var parts []string
	for _, s := range []string{p.Priority, rules, p.Reason} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return p.ReasonCode
	}
	return strings.Join(parts, ": ")
}

// left is how long there is until then.
func left(at string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	return max(t.Sub(now), 0).Round(time.Second).String()
}

func approvalsAnswer(yes bool) *cobra.Command {
	var r reach
	var out cli.Output
	var args string
	var ttl time.Duration
	grant := wire.ApproveGrant{}
	in := client.Answer{Approved: yes}
	cmd := &cobra.Command{Use: "deny TOKEN", Short: "Deny a call that waits; one denial ends it",
		Example: `  yett approvals deny dfr_… --reason "wrong customer"`, Args: cobra.ExactArgs(1)}
	if yes {
		cmd.Use, cmd.Short = "approve TOKEN", "Approve a call that waits"
		cmd.Example = "  yett approvals approve dfr_… --reason \"order checked\"\n" +
			"  yett approvals approve dfr_… --args '{\"order\":\"A-17\",\"amount\":50}'   # with other arguments\n" +
			"  yett approvals approve dfr_… --grant-ttl 1h --grant-uses 10             # and stand for the next ones\n" +
			"  yett approvals approve dfr_… --digest 4f1c…                            # what was changed, as it was shown"
	}
	cmd.Long = cmd.Short + ". Nobody answers their own call.\n"
	if yes {
		cmd.Long += "It approves the call that it shows. A call whose arguments another approver has changed is shown, " +
			"and approved with\n--digest only.\n"
	}
	cmd.Long += whereHelp
	cmd.RunE = func(cmd *cobra.Command, tokens []string) error {
		if err := out.Check(); err != nil {
			return err
		}
		err := cli.Given(cmd, [][2]string{{"digest", "leave it out to approve the call that is shown"},
			{"args", "leave it out to approve the call as it is"}, {"grant-session", "leave it out for every session"}})
		if err != nil {
			return err
		}
		in.DeferToken = tokens[0]
		if in.Grant, err = grantFlags(cmd, grant, ttl); err != nil {
			return err
		}
		if in.ModifiedArgs, err = jsonFlag(cmd.Context(), "--args", args, cmd.InOrStdin()); err != nil {
			return err
		}
		return r.use(cmd.Context(), approverKey, func(c *client.Client) error {
			if yes && in.Digest == "" {
				if in.Digest, err = showCall(cmd, c, in.DeferToken); err != nil {
					return err
				}
			}
			a, err := c.Approve(cmd.Context(), in)
			if err != nil {
				return err
			}
			return printAnswer(cmd, &out, a)
		})
	}
	r.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&in.Reason, "reason", "", "recorded, and shown to the asking agent")
	if yes {
		cmd.Flags().StringVar(&in.Digest, "digest", "", "approve only the call that was shown with this digest")
		cmd.Flags().StringVar(&args, "args", "", "approve with these arguments instead: JSON, a file, or - for stdin")
		cli.DurationVar(cmd, &ttl, "grant-ttl", 0,
			"also grant calls of this agent and tool for so long, such as 1h (needs scope grants)")
		cmd.Flags().IntVar(&grant.MaxUses, "grant-uses", 0, "with --grant-ttl: at most so many calls (0: no limit)")
		cmd.Flags().StringVar(&grant.SessionID, "grant-session", "", "with --grant-ttl: only calls of this session")
	}
	return cmd
}

// showCall shows a call that is about to be approved, and gives the digest that it was shown with; "" for a call that
// does not wait, about which the server says more. One that another approver has changed is not approved in passing.
func showCall(cmd *cobra.Command, c *client.Client, token string) (digest string, err error) {
	p, err := c.Approval(cmd.Context(), token)
	var refused *client.Error
	if errors.As(err, &refused) && slices.Contains([]sdk.Code{sdk.CodeUnknownDefer, sdk.CodeAlreadyResolved,
		sdk.CodeDeferExpired}, refused.Code) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s %s %s\n", cli.Visible(p.AgentID), cli.Visible(toolOf(p)), cli.Visible(argsOf(p)))
	if says := agentSays(p); says != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), cli.Visible(says))
	}
	if p.Modified {
		return "", fmt.Errorf("another approver has changed the arguments of this call to those above: approve them with "+
			"--digest %s", p.Digest)
	}
	return p.Digest, nil
}

func approvalsWithdraw() *cobra.Command {
	var r reach
	var out cli.Output
	var reason string
	cmd := &cobra.Command{
		Use:   "withdraw TOKEN",
		Short: "Take back an approval that the agent has not used yet",
		Long: "Take back an approval that the agent has not used yet: the call is denied. A standing grant that came " +
			"with the approval\nis revoked. A call that still waits is denied.\n" + whereHelp,
		Example: `  yett approvals withdraw dfr_… --reason "wrong customer"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, tokens []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return r.use(cmd.Context(), approverKey, func(c *client.Client) error {
				a, err := c.Withdraw(cmd.Context(), tokens[0], reason)
				if err != nil {
					return err
				}
				return printAnswer(cmd, &out, a)
			})
		},
	}
	r.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "recorded, and shown to the asking agent")
	return cmd
}

// grantFlags is the grant that --grant-… ask for, or nil.
func grantFlags(cmd *cobra.Command, g wire.ApproveGrant, ttl time.Duration) (*wire.ApproveGrant, error) {
	given := false
	for _, name := range []string{"grant-ttl", "grant-uses", "grant-session"} {
		given = given || cmd.Flags().Changed(name)
	}
	if !given {
		return nil, nil
	}
	var err error
	if g.TTLSeconds, err = seconds("--grant-ttl", ttl); err != nil {
		return nil, err
	}
	if g.MaxUses < 0 {
		return nil, cli.Usage("--grant-uses %d: want 0 (no limit) or more", g.MaxUses)
	}
	return &g, nil
}

// seconds is a time that the wire counts in whole seconds.
func seconds(flag string, d time.Duration) (int, error) {
	if d < time.Second || d%time.Second != 0 {
		return 0, cli.Usage("%s %s: must be whole seconds, at least 1s, such as 90s, 1h or 30d", flag, config.Duration(d))
	}
	return int(d / time.Second), nil
}

const maxJSONFlag = 16 << 20 // bytes of a file or of stdin

// jsonFlag reads a JSON object given as itself, as a file's name, or on stdin.
func jsonFlag(ctx context.Context, flag, v string, stdin io.Reader) (any, error) {
	text := []byte(v)
	var err error
	switch {
	case v == "":
		return nil, nil
	case v == "-":
		text, err = io.ReadAll(io.LimitReader(stdin, maxJSONFlag))
	case !strings.HasPrefix(strings.TrimSpace(v), "{"):
		text, err = regular.ReadNamed(ctx, v, maxJSONFlag)
	}
	if errors.Is(err, regular.ErrKind) {
		return nil, cli.Usage("%s: %w: give %[1]s - and the object on standard input", flag, err)
	}
	if err != nil {
		return nil, cli.Usage("%s: %w", flag, err)
	}
	var doc exact.Doc
	if err := doc.Parse(string(text), exact.DefaultLimits); err != nil {
		return nil, cli.Usage("%s: %w", flag, err)
	}
	if k := doc.Root().Kind(); k != exact.Object {
		return nil, cli.Usage("%s: want a JSON object, not %v", flag, k)
	}
	return json.RawMessage(text), nil
}

func printAnswer(cmd *cobra.Command, out *cli.Output, a *wire.ApproveResponse) error {
	if !out.Table() {
		return out.PrintData(cmd.OutOrStdout(), []any{a}, true)
	}
	w := cmd.ErrOrStderr()
	switch a.Status {
	case "pending":
		fmt.Fprintf(w, "signed: %d of %d; the call still waits\n", a.Approvals, a.ApprovalsRequired)
	default:
		fmt.Fprintf(w, "the call is %s\n", a.Status)
	}
	if a.GrantID != "" {
		fmt.Fprintf(w, "grant %s stands\n", cli.Visible(a.GrantID))
	}
	if a.GrantNote != "" {
		fmt.Fprintln(w, cli.Visible(a.GrantNote))
	}
	return nil
}
