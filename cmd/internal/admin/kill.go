package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/sdk/client"
	"github.com/yett-dev/yett/sdk/wire"
)

const killKey = "an API key with scope kill (or, on the server's machine and as its user, no key and --data DIR)"

const killWhere = `
With YETT_API_KEY the key asks, and the server is found by --url or --socket, by --data DIR or --config FILE, or by
YETT_URL and YETT_SOCKET. Without it the server's own user asks over the admin socket of --data DIR: that way also a
global kill can be undone.

Exit codes: 0 done, 1 error, 2 usage, 4 not authenticated.`

// killTarget are the flags that say whom.
type killTarget struct {
	agent, session, key, tool string
	global                    bool
}

func (k *killTarget) bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&k.agent, "agent", "", "an agent, exact or a pattern")
	fs.StringVar(&k.session, "session", "", "a session")
	fs.StringVar(&k.key, "key", "", "an API key, by its id")
	fs.StringVar(&k.tool, "tool", "", "a tool, exact or a pattern")
	fs.BoolVar(&k.global, "global", false, "everything")
}

// request is what the flags ask for: exactly one of them is given.
func (k *killTarget) request(cmd *cobra.Command) (wire.KillRequest, error) {
	var in wire.KillRequest
	given := 0
	for _, f := range [][2]string{{"agent", k.agent}, {"session", k.session}, {"key", k.key}, {"tool", k.tool}} {
		if !cmd.Flags().Changed(f[0]) {
			continue
		}
		if f[1] == "" {
			return in, cli.Usage("--%s must not be empty", f[0])
		}
		given++
		in.Scope, in.Target = f[0], f[1]
	}
	if k.global {
		given++
		in.Scope, in.Target = "global", ""
	}
	if given != 1 {
		return in, cli.Usage("%s needs exactly one of --agent, --session, --key, --tool, --global", cmd.CommandPath())
	}
	return in, nil
}

func Kill() *cobra.Command {
	cmd := killOrUndo(false)
	cmd.Use, cmd.Short = "kill", "Stop an agent, a session, a key, a tool or everything, at once"
	cmd.Long = "Stop an agent, a session, a key, a tool or everything. Once it returns nothing that it covers is " +
		"permitted, deferred\n" +
		"calls of it are denied, and it lasts until it is undone: see yett unkill.\n" + killWhere
	cmd.Example = "  yett kill --agent billing-7 --reason \"refunds loop\" --data /var/lib/yett\n" +
		"  yett kill --tool 'payments/**'\n  yett kill --global --yes\n  yett kill list"
	cmd.AddCommand(killList())
	return cmd
}

func Unkill() *cobra.Command {
	cmd := killOrUndo(true)
	cmd.Use, cmd.Short = "unkill", "Let go on again what yett kill stopped"
	cmd.Long = "Let go on again what yett kill stopped: the same flag with the same word. --reason is required, and " +
		"recorded.\n" + killWhere
	cmd.Example = "  yett unkill --agent billing-7 --reason \"fixed in 1.4.2\" --data /var/lib/yett"
	return cmd
}

func killOrUndo(undo bool) *cobra.Command {
	var r reach
	var out cli.Output
	var whom killTarget
	var reason string
	var yes bool
	cmd := &cobra.Command{Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		if err := out.Check(); err != nil {
			return err
		}
		in, err := whom.request(cmd)
		if err != nil {
			return err
		}
		if in.Reason, in.Undo = reason, undo; undo && reason == "" {
			return cli.Usage("unkill needs --reason: it is recorded who let it go on, and why")
		}
		if all := in.Scope == "global" || (in.Scope == "agent" || in.Scope == "tool") &&
			strings.Trim(in.Target, "*") == ""; all && !undo && !yes {
			if err := confirm(cmd, "This stops every agent of this server.", "--yes"); err != nil {
				return err
			}
		}
		k, err := r.kill(cmd.Context(), in)
		if err != nil {
			return told(err)
		}
		return printKill(cmd, &out, k)
	}}
	r.bind(cmd)
	out.Bind(cmd)
	whom.bind(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; recorded")
	if !undo {
		cmd.Flags().BoolVar(&yes, "yes", false, "confirm a kill of everything without being asked; required where there "+
			"is no terminal")
	}
	return cmd
}

// confirm asks the person at the terminal. Where there is none nobody can be asked, so flag has to be given.
func confirm(cmd *cobra.Command, what, flag string) error {
	if !cli.IsTerminal(cmd.InOrStdin()) {
		return cli.Usage("%s Nobody can be asked here: standard input is no terminal. Add %s to confirm it; nothing was done",
			what, flag)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s Type yes to go on: ", what)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "yes" {
		return errNotConfirmed
	}
	return nil
}

// kill asks as the API key, or without one as the server's own user.
func (r *reach) kill(ctx context.Context, in wire.KillRequest) (k *wire.KillResponse, err error) {
	if os.Getenv("YETT_API_KEY") == "" && (r.data != "" || r.config != "") && r.url == "" && r.socket == "" {
		err = r.with(func(c *admin.Client) error {
			k, err = adminKill(ctx, c, in)
			return err
		})
		return k, err
	}
	err = r.use(ctx, killKey, func(c *client.Client) error {
		if in.Undo {
			k, err = c.Unkill(ctx, in)
		} else {
			k, err = c.Kill(ctx, in)
		}
		return err
	})
	return k, err
}

// adminKill stops, or lets go on, over the admin socket.
func adminKill(ctx context.Context, c *admin.Client, in wire.KillRequest) (*wire.KillResponse, error) {
	out := new(wire.KillResponse)
	if err := c.Do(ctx, "POST", "/kill", in, out); err != nil {
		return nil, err
	}
	if !out.OK || out.Killed.Active == in.Undo {
		return nil, fmt.Errorf("admin socket: the answer does not say that it was done")
	}
	return out, nil
}

func printKill(cmd *cobra.Command, out *cli.Output, k *wire.KillResponse) error {
	if out.Format != "table" {
		return out.PrintRows(cmd.OutOrStdout(), []any{k}, true, nil, nil)
	}
	whom := strings.TrimSpace(k.Killed.Scope + " " + k.Killed.Target)
	w := cmd.ErrOrStderr()
	if !k.Killed.Active {
		_, err := fmt.Fprintf(w, "%s may go on\n", cli.Visible(whom))
		return err
	}
	_, err := fmt.Fprintf(w, "%s is stopped; deferred calls that this denied: %d\n", cli.Visible(whom), k.PendingDenied)
	return errors.Join(err, warn(w, k.Warning))
}

// warn passes on what the server says of something that it has done.
func warn(w io.Writer, warning string) error {
	if warning == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "warning: %s\n", cli.Visible(warning))
	return err
}

func killList() *cobra.Command {
	var r reach
	var out cli.Output
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List what is stopped",
		Long:    "List what is stopped.\n" + whereHelp,
		Example: "  yett kill list --data /var/lib/yett -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return r.use(cmd.Context(), "an API key with scope kill or audit", func(c *client.Client) error {
				kills, err := c.KillList(cmd.Context())
				if err != nil {
					return err
				}
				return printKills(cmd, &out, kills)
			})
		},
	}
	r.bind(cmd)
	out.Bind(cmd)
	return cmd
}

func printKills(cmd *cobra.Command, out *cli.Output, kills []wire.Killed) error {
	if len(kills) == 0 && out.Format == "table" {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing is stopped")
		return nil
	}
	var rows []any
	for _, k := range kills {
		rows = append(rows, k)
	}
	cols := []cli.Column{cli.Whole("SCOPE"), cli.Whole("TARGET"), cli.Whole("SINCE"), cli.Cut("BY"), cli.Wrap("REASON")}
	return out.PrintRows(cmd.OutOrStdout(), rows, false, cols, func(row any) []string {
		k := row.(wire.Killed)
		at, _, sub := strings.Cut(k.At, ".")
		if sub {
			at += "Z"
		}
		return []string{k.Scope, k.Target, at, nameOr(k.ByName, k.By), k.Reason}
	})
}

// errNotConfirmed ends a command that a person did not confirm.
var errNotConfirmed = errors.New("not confirmed; nothing was done")
