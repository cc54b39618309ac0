//go:build linux

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk/client"
)

// hookRow is how long one way of asking takes, in milliseconds.
type hookRow struct {
	Name  string  `json:"name"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Over  float64 `json:"p50_over_gateway_ms"` // how much longer than the gateway's own answer
	Calls int     `json:"calls"`
}

// hookWay is one way of asking.
type hookWay struct {
	name string
	ask  func(n int) error
	took histogram
}

// Limits of the flag.
const maxHookCalls = 100_000

func benchHookCommand() *cobra.Command {
	var out cli.Output
	calls := 0
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Measure how long a coding agent's hook takes",
		Long: "Start a throw-away gateway and ask it about the same calls in turn: over an open connection to its\n" +
			"socket, by yett hook claude-code (and by yett-hook, if it lies beside yett), and by the guard line that\n" +
			"stands in an agent's configuration, with sh and timeout. What a hook takes longer than the gateway itself is\n" +
			"what an agent waits for each tool.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if calls < 1 || calls > maxHookCalls {
				return cli.Usage("--calls %d: want 1 to %d", calls, maxHookCalls)
			}
			rows, err := measureHooks(cmd.Context(), calls)
			if err != nil {
				return err
			}
			if !out.Table() {
				list := make([]any, 0, len(rows))
				for _, r := range rows {
					list = append(list, r)
				}
				return out.PrintData(cmd.OutOrStdout(), list, false)
			}
			return printHooks(cmd.OutOrStdout(), rows)
		},
	}
	out.Bind(cmd)
	cmd.Flags().IntVar(&calls, "calls", 300, "calls by each way")
	return cmd
}

func printHooks(w io.Writer, rows []hookRow) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "WAY\tP50 ms\tP99 ms\tP50 OVER THE GATEWAY ms\tCALLS")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%.2f\t%.2f\t%.2f\t%d\n", r.Name, r.P50, r.P99, r.Over, r.Calls)
	}
	return tw.Flush()
}

// measureHooks asks about calls by each way in turn, so that what else the machine does falls on all of them.
func measureHooks(ctx context.Context, calls int) (rows []hookRow, err error) {
	g, err := startChild(ctx, "gateway")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	dir, err := os.MkdirTemp("", "yett-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	me, file := uint32(os.Geteuid()), filepath.Join(dir, "hook.json")
	text, err := (&hookfile.File{Agent: string(hook.ClaudeCode), Socket: g.socket, SocketOwner: &me,
		Key: g.keys.Agent}).Marshal()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	timeout, err := exec.LookPath("timeout")
	if err != nil {
		timeout = ""
	}
	program := self
	small := filepath.Join(filepath.Dir(self), "yett-hook") // which yett connect writes into the line, too
	if info, err := os.Stat(small); err == nil && info.Mode().IsRegular() {
		program = small
	}
	line, err := hook.Guard(hook.ClaudeCode, hook.Before, hook.Command{Yett: program, Config: file, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Options{Socket: g.socket, Key: g.keys.Agent})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	byHook := func(program string) func(n int) error {
		return func(n int) error {
			return askHook(exec.CommandContext(ctx, program, "hook", string(hook.ClaudeCode), "--config", file), n)
		}
	}
	ways := []hookWay{{name: "gateway", ask: func(n int) error { return askGateway(ctx, c, n) }},
		{name: "yett hook", ask: byHook(self)}}
	if program != self {
		ways = append(ways, hookWay{name: "yett-hook", ask: byHook(program)})
	}
	ways = append(ways, hookWay{name: "guard line", ask: func(n int) error {
		return askHook(exec.CommandContext(ctx, "sh", "-c", line), n)
	}})
	const warm = 5 // calls of each way that find the program's pages cold
	for i := range calls + warm {
		for w := range ways {
			from := time.Now()
			if err := ways[w].ask(len(ways)*i + w); err != nil {
				return nil, fmt.Errorf("%s: %w", ways[w].name, err)
			}
			if i >= warm {
				ways[w].took.add(time.Since(from))
			}
		}
	}
	for w := range ways {
		ms := func(q float64) float64 { return float64(ways[w].took.at(q)) / 1e6 }
		rows = append(rows, hookRow{Name: ways[w].name, P50: ms(0.5), P99: ms(0.99), Calls: calls})
		rows[w].Over = rows[w].P50 - rows[0].P50
	}
	return rows, nil
}

func askGateway(ctx context.Context, c *client.Client, n int) error {
	d, err := c.Authorize(ctx, client.Call{AgentID: string(hook.ClaudeCode), ToolID: "mcp.bench/read",
		Args: map[string]any{"path": fmt.Sprintf("file-%d", n)}})
	if err == nil && !d.Permitted() {
		err = fmt.Errorf("the answer is %s", d.Effect)
	}
	return err
}

// askHook runs a hook for one call, which must be permitted: status 0, and nothing printed.
func askHook(cmd *exec.Cmd, n int) error {
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"bench","cwd":"/","hook_event_name":"PreToolUse",`+
		`"tool_name":"mcp__bench__read","tool_input":{"path":"file-%d"},"tool_use_id":"toolu_%d"}`, n, n))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if err == nil && said.Len() > 0 {
		err = errors.New("it printed something")
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}
