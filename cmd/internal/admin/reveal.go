package admin

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk/client"
	"github.com/yett-dev/yett/sdk/wire"
)

// revealMost is how many bytes of a text are read: the largest scan body that a server may take.
const revealMost = 256 << 20

// invalidUTF8 is where a text is not UTF-8, -1 if it is.
func invalidUTF8(text []byte) int {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

// Reveal is `yett reveal`: the values of a session's tokens, for whoever may read them.
func Reveal() *cobra.Command {
	var r reach
	var out cli.Output
	var in wire.RevealRequest
	cmd := &cobra.Command{
		Use:   "reveal --agent AGENT --session SESSION [TEXT...]",
		Short: "Put the values of a session's tokens back into a text",
		Long: "Put the values of a session's tokens, such as [PII_EMAIL#…], back into a text. Without TEXT, the text\n" +
			"comes from stdin. Tokens of other sessions stay as they are, and are counted on stderr. The log says who has\n" +
			"revealed how many.\n" + whereHelp,
		Example: "  yett reveal --agent support-bot --session s-17 'Write to [PII_EMAIL#…].'\n" +
			"  yett reveal --agent support-bot --session s-17 <answer.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			if in.AgentID == "" || in.SessionID == "" {
				return cli.Usage("yett reveal needs --agent and --session: a token belongs to both")
			}
			in.Text = strings.Join(args, " ")
			if len(args) == 0 {
				text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), revealMost+1))
				if err != nil {
					return err
				}
				if len(text) > revealMost {
					return fmt.Errorf("the text on stdin has more than %d bytes: send a part of it", revealMost)
				}
				if at := invalidUTF8(text); at >= 0 {
					return fmt.Errorf("the text on stdin is not UTF-8 at byte %d: send text alone", at)
				}
				in.Text = string(text)
			}
			return r.use(cmd.Context(), "an API key with scope reveal", func(c *client.Client) error {
				res, err := c.Reveal(cmd.Context(), in)
				if err != nil {
					return err
				}
				if res.Unknown > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "yett: %d tokens are not of this agent and session, or were changed\n",
						res.Unknown)
				}
				return out.PrintOr(cmd.OutOrStdout(), res, func(w io.Writer) error {
					lines := strings.Split(res.Text, "\n")
					if cli.IsTerminal(cmd.OutOrStdout()) { // what a tool has put out must not steer the terminal
						for i := range lines {
							lines[i] = cli.Visible(lines[i])
						}
					}
					text := strings.Join(lines, "\n")
					if len(args) > 0 {
						text += "\n"
					}
					_, err := io.WriteString(w, text)
					return err
				})
			})
		},
	}
	r.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&in.AgentID, "agent", "", "the agent of the scan that made the tokens")
	cmd.Flags().StringVar(&in.SessionID, "session", "", "the session of that scan")
	return cmd
}
