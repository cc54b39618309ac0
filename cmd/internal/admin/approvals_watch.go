package admin

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk/client"
)

func approvalsWatch() *cobra.Command {
	var r reach
	var out cli.Output
	var agent string
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show calls as they begin to wait and as they are answered, until Ctrl-C",
		Long: "Show calls as they begin to wait and as they are answered. Ctrl-C ends it. A restart of the server is " +
			"waited out.\n" + whereHelp,
		Example: "  yett approvals watch --data /var/lib/yett\n" +
			"  yett approvals watch -o jsonl | while read -r line; do notify-send \"$line\"; done",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return cli.Usage("--every %v: must be at least 100ms", every)
			}
			return r.use(cmd.Context(), approverKey, func(c *client.Client) error {
				w := watcher{c: c, out: cmd.OutOrStdout(), messages: cmd.ErrOrStderr(), as: &out, agent: agent,
					known: map[string]bool{}}
				return w.run(cmd.Context(), every)
			})
		},
	}
	r.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&agent, "agent", "", "only calls of this agent")
	cli.DurationVar(cmd, &every, "every", 2*time.Second, "how often to look")
	return cmd
}

// watcher shows what changes in the list of approvals.
type watcher struct {
	c             *client.Client
	out, messages io.Writer
	as            *cli.Output
	agent         string
	known         map[string]bool // tokens that wait
	lost          bool            // the server could not be asked
}

// run looks again and again until ctx ends. What another try cannot help ends it too.
func (w *watcher) run(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first := true; ; first = false {
		err := w.look(ctx, first)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C
		case err == nil:
			w.lost = false
		case first || !passing(err):
			return err
		case !w.lost:
			w.lost = true
			fmt.Fprintf(w.messages, "the server cannot be asked (%s); trying again\n", cli.Visible(err.Error()))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *watcher) look(ctx context.Context, first bool) error {
	list, err := w.c.Approvals(ctx, w.agent, 1000)
	if err != nil {
		return err
	}
	if first && len(list.Approvals) == 0 {
		fmt.Fprintln(w.messages, "no approvals are pending; waiting")
	}
	now := map[string]bool{}
	for i := range list.Approvals {
		p := &list.Approvals[i]
		if now[p.DeferToken] = true; !w.known[p.DeferToken] {
			w.known[p.DeferToken] = true
			if err := w.show("pending", p.DeferToken, p, nil); err != nil {
				return err
			}
		}
	}
	if list.Total > len(list.Approvals) {
		return w.warnMore(list)
	}
	for token := range w.known {
		if now[token] {
			continue
		}
		st, err := w.c.DeferStatus(ctx, token, 0)
		if err != nil {
			return err
		}
		if st.Status == "pending" {
			continue // it came back between the two looks
		}
		delete(w.known, token)
		if err := w.show(st.Status, token, nil, st); err != nil {
			return err
		}
	}
	return nil
}

// warnMore: beyond the list's limit nobody can tell what was answered from what moved back.
func (w *watcher) warnMore(list *client.PendingList) error {
	_, err := fmt.Fprintf(w.messages, "%d more are pending than can be shown; answered ones are shown again below 1000\n",
		list.Total-len(list.Approvals))
	return err
}

func (w *watcher) show(event, token string, p *client.Pending, st *client.DeferStatus) error {
	if !w.as.Table() {
		return w.as.PrintLine(w.out, struct {
			Event   string              `json:"event"`
			Token   string              `json:"defer_token"`
			Pending *client.Pending     `json:"pending,omitempty"`
			Status  *client.DeferStatus `json:"status,omitempty"`
		}{event, token, p, st})
	}
	detail := ""
	if p != nil {
		detail = fmt.Sprintf("%s %s %s  (%s, %d/%d, %s left)", p.AgentID, toolOf(p), argsOf(p), why(p), p.Approvals,
			p.ApprovalsRequired, left(p.ExpiresAt, time.Now()))
		if says := agentSays(p); says != "" {
			detail += "  " + says
		}
	} else if detail = st.Reason; st.ResolvedBy != "" {
		detail = "by " + nameOr(st.ResolvedByName, st.ResolvedBy) + "  " + detail
	}
	line := fmt.Sprintf("%s  %-8s  %s  %s", time.Now().Format(time.TimeOnly), event, token, detail)
	if line = cli.Visible(strings.TrimRight(line, " ")); cli.WidthOf(w.out) > 0 {
		line = cli.CutTo(line, cli.WidthOf(w.out))
	}
	_, err := fmt.Fprintln(w.out, line)
	return err
}
