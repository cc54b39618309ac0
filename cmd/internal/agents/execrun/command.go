package execrun

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
)

// Command is `yett exec`.
func Command() *cobra.Command {
	var x Exec
	var open, filter, drain bool
	cmd := &cobra.Command{
		Use:   "exec --config FILE -- CMD [ARG...]",
		Short: "Run a command, and let its output through the gateway's scanners",
		Long: "exec runs CMD. What CMD prints to stdout and stderr is scanned while it streams, and only what the gateway\n" +
			"releases is printed. stdin, the terminal, signals and\n" +
			"the exit code are those of CMD; a command that a signal has killed gives 128 and the signal's number.\n\n" +
			"If the gateway denies the output, or cannot be asked, a notice takes the place of the rest of the output, and\n" +
			"CMD goes on. Output is text: bytes that are no UTF-8 become U+FFFD, terminal sequences and control characters\n" +
			"are left out, and the output is withheld from a NUL byte on. Text arrives late, because scanners wait for the\n" +
			"end of what could become a secret: programs that ask questions and full-screen programs do not work.\n\n" +
			"Exit codes of exec itself: 126 if it refuses and nothing has run, 127 if there is no such command.\n\n" +
			"FILE is the hook's own file: it says where the gateway is and which key to use.",
		Example: "  yett exec --config /etc/yett/hooks/claude-code.json -- make test",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := hide(); err != nil {
				return refuseWith(refuse(err))
			}
			switch {
			case drain:
				discard(os.Stdin)
				return nil
			case filter:
				return runFilter()
			case x.Ticket != "" && (cmd.Flags().Changed("tool") || x.AgentID != "" || x.SessionID != ""):
				return refuseWith(refuse(errors.New("--tool, --agent-id and --session are the ticket's: leave them out")))
			case open:
				return refuseWith(openFilter(&x, args, os.Stdout, os.Stderr))
			}
			return x.command(cmd.Context(), args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the command's own flags are the command's
	f.StringVar(&x.File, "config", "", "the hook's own file, as a clean absolute path")
	f.StringVar(&x.Ticket, "ticket", "", "the ticket that the hook has issued for this command")
	f.StringVar(&x.Tool, "tool", "exec", "the tool whose output is scanned")
	f.StringVar(&x.AgentID, "agent-id", "", "the agent that runs the command; by default the file's")
	f.StringVar(&x.SessionID, "session", "", "the agent's session")
	f.BoolVar(&x.Kill, "kill", false, "end the command when its output is withheld")
	f.BoolVar(&open, "open", false, "start a filter for a shell")
	f.BoolVar(&filter, "filter", false, "be a filter for a shell")
	f.BoolVar(&drain, "drain", false, "read stdin to nowhere")
	for _, name := range []string{"open", "filter", "drain"} { // for command lines that Wrap writes, and for exec itself
		if err := f.MarkHidden(name); err != nil {
			panic(err) // a name above is wrong
		}
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return refuseWith(refuse(err)) })
	return cmd
}

// command runs a command with this process's own files.
func (x *Exec) command(ctx context.Context, args []string) error {
	stdout, stderr, err := moveOutputs()
	if err != nil {
		return refuseWith(refuse(err))
	}
	x.Stdin, x.Stdout, x.Stderr = os.Stdin, stdout, stderr
	st, err := x.Run(ctx, args)
	if err != nil {
		return refuseWith(err)
	}
	if st.Signal != 0 {
		raise(st.Signal)
	}
	if st.Code != 0 {
		return cli.Fail(st.Code, nil)
	}
	return nil
}

// refuseWith gives an error its exit code, and says that nothing has run.
func refuseWith(err error) error {
	if err == nil {
		return nil
	}
	code := refused
	var r *refusal
	if errors.As(err, &r) {
		code = r.code
	}
	return cli.Fail(code, fmt.Errorf("exec: %w; nothing has run", err))
}
