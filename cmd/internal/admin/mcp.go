package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
)

// MCP are the subcommands of `yett mcp` that ask a running server about the tools of MCP servers.
func MCP() []*cobra.Command { return []*cobra.Command{mcpTools(), mcpAccept()} }

const pinHelp = `The gateway keeps the definition of each tool that an MCP server has listed. A tool whose definition has changed is not
listed to clients, and its calls are refused, until an operator accepts the new definition. With mcp.pin: operator the
first definition has to be accepted too.`

func mcpTools() *cobra.Command {
	var t target
	var out cli.Output
	var server string
	var changed, asJSON bool
	cmd := &cobra.Command{
		Use:   "tools --data DIR",
		Short: "List the tools of MCP servers, with the differences of those that have changed",
		Long: pinHelp + "\n\nThis lists all tools that were seen. For each one that waits it shows the difference between " +
			"the definition that counts\nand the one that waits. Secrets in definitions are not kept, so they are not shown.",
		Example: "  yett mcp tools --data /var/lib/yett\n" +
			"  yett mcp tools --changed --server github --data /var/lib/yett -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				out.Format = "json"
			}
			return t.with(func(c *admin.Client) error {
				rows, err := listTools(cmd.Context(), c, server, changed)
				if err != nil {
					return err
				}
				return printTools(cmd, &out, rows)
			})
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&server, "server", "", "only the tools of this server (its name in mcp.servers)")
	cmd.Flags().BoolVar(&changed, "changed", false, "only tools that wait for an operator")
	cmd.Flags().BoolVar(&asJSON, "json", false, "the same as -o json")
	return cmd
}

// listTools asks for the tools, and for the texts of those that wait.
func listTools(ctx context.Context, c *admin.Client, server string, changed bool) ([]*admin.ToolRow, error) {
	q := url.Values{}
	if server != "" {
		q.Set("server", server)
	}
	if changed {
		q.Set("changed", "true")
	}
	var rows []*admin.ToolRow
	if err := c.Do(ctx, "GET", "/mcp/tools?"+q.Encode(), nil, &rows); err != nil {
		return nil, err
	}
	for i, r := range rows {
		if r.Pending == nil {
			continue
		}
		full, err := oneTool(ctx, c, r.Server, r.Tool)
		if err != nil {
			return nil, err
		}
		rows[i] = full
	}
	return rows, nil
}

func oneTool(ctx context.Context, c *admin.Client, server, tool string) (*admin.ToolRow, error) {
	row := &admin.ToolRow{}
	q := url.Values{"server": {server}, "tool": {tool}}
	return row, c.Do(ctx, "GET", "/mcp/tool?"+q.Encode(), nil, row)
}

func printTools(cmd *cobra.Command, out *cli.Output, rows []*admin.ToolRow) error {
	if len(rows) == 0 && out.Table() {
		fmt.Fprintln(cmd.ErrOrStderr(), "no such tool was seen; clients have to list the tools of a server first")
		return nil
	}
	var all []any
	for _, r := range rows {
		all = append(all, r)
	}
	cols := []cli.Column{cli.Whole("SERVER"), cli.Whole("TOOL"), cli.Whole("STATE"), cli.Whole("SINCE"), cli.Cut("BY"),
		cli.Cut("DIGEST")}
	err := out.PrintRows(cmd.OutOrStdout(), all, false, cols, func(row any) []string {
		r := row.(*admin.ToolRow)
		d := r.Pending
		if d == nil {
			d = r.Accepted
		}
		return []string{r.Server, r.Tool, r.State, d.At.Format(time.RFC3339), d.By, d.Digest}
	})
	if err != nil || !out.Table() {
		return err
	}
	for _, r := range rows {
		if r.Pending == nil {
			continue
		}
		if err := printDifference(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	}
	return nil
}

// printDifference shows what an operator has to look at before accepting a definition.
func printDifference(w io.Writer, r *admin.ToolRow) error {
	var was []byte
	from := "nothing was accepted before"
	if r.Accepted != nil {
		was = r.Accepted.Text
		from = fmt.Sprintf("accepted %s (%s)", r.Accepted.Digest, r.Accepted.At.Format(time.RFC3339))
	}
	lines, err := toolDifference(was, r.Pending.Text)
	if err != nil {
		return fmt.Errorf("the definition of %s of %s cannot be shown: %w", r.Tool, r.Server, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s of %s is %s:\n--- %s\n+++ waits    %s (%s)\n", cli.Visible(r.Tool), cli.Visible(r.Server),
		r.State, from, r.Pending.Digest, r.Pending.At.Format(time.RFC3339))
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	if len(lines) == 0 {
		b.WriteString("Only parts differ that the scanners have redacted, so that they are not kept.\n")
	}
	fmt.Fprintf(&b, "To accept it: %s\n", acceptCommand(r))
	_, err = io.WriteString(w, b.String())
	return err
}

// acceptCommand is a line for a shell. The names are a server's: they are quoted.
func acceptCommand(r *admin.ToolRow) string {
	return cli.Visible("yett mcp accept --digest " + r.Pending.Digest + " -- " + cli.Quoted(r.Server) + " " +
		cli.Quoted(r.Tool))
}

func mcpAccept() *cobra.Command {
	var t target
	var out cli.Output
	var digest string
	cmd := &cobra.Command{
		Use:   "accept SERVER TOOL --data DIR",
		Short: "Accept the changed definition of a tool",
		Long: pinHelp + "\n\nThis accepts the definition that waits, by its digest: yett mcp tools shows it. Without " +
			"--digest the difference is shown,\nand the digest is asked for at the terminal. If the definition has " +
			"changed again meanwhile, nothing is accepted. The audit\nlog says who accepted which digest.",
		Example: "  yett mcp accept github search_issues --data /var/lib/yett\n" +
			"  yett mcp accept github search_issues --digest sha256:… --data /var/lib/yett",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Given(cmd, [][2]string{{"digest", "give the digest that yett mcp tools shows"}}); err != nil {
				return err
			}
			return t.with(func(c *admin.Client) error {
				in := admin.AcceptRequest{Server: args[0], Tool: args[1], Digest: digest}
				if digest == "" {
					row, err := oneTool(cmd.Context(), c, args[0], args[1])
					if err != nil {
						return err
					}
					if in.Digest, err = askDigest(cmd, row); err != nil {
						return err
					}
				}
				var done admin.AcceptRequest
				if err := c.Do(cmd.Context(), "POST", "/mcp/accept", in, &done); err != nil {
					return err
				}
				return out.Done(cmd, done, "the definition %s of %s of %s is accepted", done.Digest, cli.Visible(done.Tool),
					cli.Visible(done.Server))
			})
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&digest, "digest", "", "digest of the definition that waits, as yett mcp tools shows it; "+
		"required where there is no terminal")
	return cmd
}

// leastDigits are the hex digits of a digest that a person has to type at least.
const leastDigits = 12

// askDigest shows the definition that waits, and asks the person at the terminal for its digest.
func askDigest(cmd *cobra.Command, r *admin.ToolRow) (string, error) {
	if r.Pending == nil {
		return "", fmt.Errorf("no definition of %s of %s waits: the newest one counts", r.Tool, r.Server)
	}
	if !cli.IsTerminal(cmd.InOrStdin()) {
		return "", cli.Usage("nobody can be asked for the digest here: standard input is no terminal. Look at yett mcp " +
			"tools, and add --digest; nothing was done")
	}
	w := cmd.ErrOrStderr()
	if err := printDifference(w, r); err != nil {
		return "", err
	}
	fmt.Fprintf(w, "Type its digest, or the first %d digits of it, to accept it: ", leastDigits)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil || !names(strings.TrimSpace(line), r.Pending.Digest) {
		return "", errNotConfirmed
	}
	return r.Pending.Digest, nil
}

// names reports whether what was typed is a digest or its beginning.
func names(typed, digest string) bool {
	typed, digest = strings.TrimPrefix(typed, "sha256:"), strings.TrimPrefix(digest, "sha256:")
	return len(typed) >= leastDigits && strings.HasPrefix(digest, typed)
}
