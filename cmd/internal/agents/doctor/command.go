package doctor

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/agents/connect"
	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/cli"
)

// agentLines are the lines about one agent.
type agentLines struct {
	Agent string `json:"agent"`
	Lines []Line `json:"lines"`
}

// Command is `yett doctor`.
func Command() *cobra.Command {
	var out cli.Output
	var file string
	var noProbe bool
	cmd := &cobra.Command{
		Use:   "doctor [AGENT]",
		Short: "Look whether a coding agent really asks the gateway",
		Long: "Look at the hooks of an agent, or of every agent that is connected: whether they stand where the agent\n" +
			"reads them, whether the gateway answers and accepts the key, and which ways past them stay open. Then run\n" +
			"the agent itself with a scripted model on this machine: a denied call must not run, and a secret in an\n" +
			"output must not reach the model. Nothing is sent to a real model, and no configuration is changed. The agent\n" +
			"keeps a record of the session, as of any other.",
		Example: "  yett doctor\n  yett doctor claude-code",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			agents := hook.Agents()
			if len(args) == 1 {
				one, err := hook.ParseAgent(args[0])
				if err != nil {
					return cli.Usage("%w", err)
				}
				agents = []hook.Agent{one}
			} else if file != "" {
				return cli.Usage("--config is the file of one agent's hook: name the agent")
			}
			all, err := examine(cmd, agents, file, noProbe)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return errors.New("no agent is connected for this user: see yett connect --help")
			}
			failed := false
			for _, a := range all {
				failed = failed || Failed(a.Lines)
			}
			if err := out.PrintOr(cmd.OutOrStdout(), all, func(w io.Writer) error { return text(w, all) }); err != nil {
				return err
			}
			if failed {
				return cli.Fail(cli.ExitFailure, nil)
			}
			return nil
		},
	}
	out.Bind(cmd)
	cmd.Flags().StringVar(&file, "config", "", "the hook's own file, if it is not where yett connect writes it")
	cmd.Flags().BoolVar(&noProbe, "no-probe", false, "do not run the agent")
	return cmd
}

// examine looks at agents; of several only at those that are connected.
func examine(cmd *cobra.Command, agents []hook.Agent, file string, noProbe bool) ([]agentLines, error) {
	places, uid, command, err := connect.This(true)
	if err != nil {
		return nil, err
	}
	var all []agentLines
	for _, agent := range agents {
		if len(agents) > 1 {
			found, err := connect.Look(agent, places, uid, command)
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				continue
			}
		}
		d := &Doctor{Agent: agent, Places: places, UID: uid, Command: command, File: file, NoProbe: noProbe}
		lines, err := d.Run(cmd.Context())
		if err != nil {
			return nil, err
		}
		all = append(all, agentLines{string(agent), lines})
	}
	return all, nil
}

func text(w io.Writer, all []agentLines) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, a := range all {
		fmt.Fprintf(tw, "%s\n", a.Agent)
		for _, open := range []bool{true, false} { // what was seen comes last
			for _, l := range a.Lines {
				if (l.Status == Open) != open {
					continue
				}
				fmt.Fprintf(tw, "  %s\t%s\n", l.Status, cli.Visible(l.Saw))
				if l.Do != "" {
					fmt.Fprintf(tw, "\t  %s\n", cli.Visible(l.Do))
				}
			}
		}
		fmt.Fprintf(tw, "%s\n", verdict(a.Agent, a.Lines))
	}
	return tw.Flush()
}

// Prove looks at an agent that has just been connected, and says on stderr what it saw. Hooks of the whole machine are
// proven by the agent's user: agents refuse to run as root, or run with other settings.
func Prove(cmd *cobra.Command, name string, scope connect.Scope) error {
	agent, err := hook.ParseAgent(name)
	if err != nil {
		return err
	}
	all, err := examine(cmd, []hook.Agent{agent}, "", scope == connect.Managed)
	if err != nil {
		return err
	}
	if err := text(cmd.ErrOrStderr(), all); err != nil {
		return err
	}
	if scope == connect.Managed {
		fmt.Fprintf(cmd.ErrOrStderr(), "Run `yett doctor %s` as the user who runs the agent: it looks whether a denial "+
			"holds.\n", name)
	}
	if Failed(all[0].Lines) {
		return cli.Fail(cli.ExitFailure, nil)
	}
	return nil
}
