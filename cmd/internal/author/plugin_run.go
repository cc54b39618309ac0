package author

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/author/conform"
	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/regular"
)

// maxCallLine bounds one call on standard input, bytes.
const maxCallLine = 2 << 20

// trial is what a plugin is tried with by hand.
type trial struct {
	call          conform.Call
	args, context string
	text, log     string
	out           cli.Output
}

func (t *trial) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.call.ToolID, "tool", "",
		"authorizers: ask about one call of this tool instead of reading calls")
	cmd.Flags().StringVar(&t.args, "args", "", "with --tool: its arguments, a JSON object")
	cmd.Flags().StringVar(&t.context, "context", "", "with --tool: its context, a JSON object")
	cmd.Flags().StringVar(&t.call.AgentID, "agent", "", "with --tool: the agent")
	cmd.Flags().StringVar(&t.text, "text", "", "scanners: file with the text, instead of standard input")
	cmd.Flags().StringVar(&t.log, "feed", "", "subscribers: file of yett audit export, instead of standard input")
	t.out.Bind(cmd)
}

// check refuses what does not go together, before a plugin is started.
func (t *trial) check() error {
	if err := t.out.Check(); err != nil {
		return err
	}
	if t.out.Format == "yaml" {
		return cli.Usage("-o yaml: answers come one by one: want table, json or jsonl")
	}
	if t.call.ToolID == "" && (t.args != "" || t.context != "" || t.call.AgentID != "") {
		return cli.Usage("--args, --context and --agent go with --tool")
	}
	for _, f := range []struct {
		name, text string
		to         *json.RawMessage
	}{{"--args", t.args, &t.call.Args}, {"--context", t.context, &t.call.Context}} {
		object, err := objectFlag(f.name, f.text)
		if err != nil {
			return err
		}
		*f.to = object
	}
	return nil
}

const trialHelp = `An authorizer is asked about --tool, or about calls on standard input, one JSON object a line:
{"tool_id": "mail/send", "args": {…}, "context": {…}, "agent_id": …, "session_id": …, "key_name": …}
A scanner is given the whole of standard input, or --text. A subscriber is given a log as yett audit export writes it, on
standard input or --feed, in batches as the gateway makes them.
`

func pluginRun() *cobra.Command {
	var f pluginFlags
	var t trial
	cmd := &cobra.Command{
		Use:   "run BINARY | --connect unix:///PATH",
		Short: "Start a plugin as the gateway does and try calls, texts or records on it",
		Long: "Start a plugin as the gateway does, hand over its settings (its example_config, or --config) and the " +
			"secrets that it\n" +
			"requires (--secret), and try it.\n" + trialHelp +
			"Answers are read as strictly as the gateway reads them. Exit 1 when something was not answered.",
		Example: "  yett plugin run ./entitle --tool mail/send --args '{\"to\":\"a@example.com\"}' --secret " +
			"license=license.txt\n  yett plugin run ./entitle -o jsonl < calls.jsonl\n" +
			"  yett audit export --data data --out - | yett plugin run ./sink",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(); err != nil {
				return err
			}
			o, err := f.conformOptions(cmd, args)
			if err != nil {
				return err
			}
			return t.run(cmd, o)
		},
	}
	f.bind(cmd, time.Second, "how long one call may take")
	t.bind(cmd)
	return cmd
}

// pluginStart bounds the start of a plugin that is tried by hand.
const pluginStart = 30 * time.Second

var secretField = regexp.MustCompile(`\bsecrets\.([A-Za-z0-9._-]{1,64}): `)

// withSecret says how a plugin that refused to run is given what it lacks: a secret, since conform makes one up and run
// does not, or a file, a port or a process that the kernel kept from it.
func withSecret(err error, o conform.Options) error {
	if text := err.Error(); o.Connect == "" && !o.Unconfined &&
		(strings.Contains(text, "permission denied") || strings.Contains(text, "operation not permitted")) {
		return fmt.Errorf("%w; it runs confined: give it what it needs with --read, --write and --network, or try "+
			"--unconfined", err)
	}
	m := secretField.FindStringSubmatch(err.Error())
	if m == nil || o.Connect != "" || o.Secrets[m[1]] != nil {
		return err
	}
	return fmt.Errorf("%w; none is made up here: give it with --secret %s=FILE", err, m[1])
}

// run starts or connects, and tries what fits the plugin's kind.
func (t *trial) run(cmd *cobra.Command, o conform.Options) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), pluginStart)
	defer cancel()
	client, err := conform.Dial(ctx, o)
	if err != nil {
		return withSecret(err, o)
	}
	defer client.Close()
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cli.Visible(client.Name), strings.Join(client.Kinds, ", "))
	switch {
	case t.log != "" && !client.Is("subscriber"), t.text != "" && !client.Is("scanner"), t.call.ToolID != "" &&
		!client.Is("authorizer"):
		return cli.Usage("--tool is for authorizers, --text for scanners, --feed for subscribers; this plugin is: %s",
			strings.Join(client.Kinds, ", "))
	case t.call.ToolID != "":
		return t.one(cmd, client)
	case t.text != "" || client.Is("scanner") && !client.Is("authorizer") && t.log == "":
		return t.scan(cmd, client)
	case t.log != "" || client.Is("subscriber") && !client.Is("authorizer"):
		return t.feed(cmd, client)
	}
	return t.calls(cmd, client)
}

// tried is one line of the output.
type tried struct {
	ToolID string `json:"tool_id"`
	*conform.Answer
	Error string `json:"error,omitempty"`
}

// ask asks about one call and prints what came. answered is false when there is no verdict.
func (t *trial) ask(cmd *cobra.Command, c *conform.Client, id uint64, call conform.Call) (answered bool, err error) {
	a, failure := c.Check(cmd.Context(), id, call)
	row := tried{ToolID: call.ToolID, Answer: a}
	if failure != nil {
		row.Error = failure.Error()
	}
	if t.out.Format != "table" {
		text, err := json.Marshal(row)
		if err != nil {
			return false, err
		}
		_, err = cmd.OutOrStdout().Write(append(cli.VisibleJSON(text), '\n'))
		return failure == nil, err
	}
	if failure != nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "ERROR    %s: %s\n", cli.Visible(call.ToolID), cli.Visible(row.Error))
		return false, err
	}
	said := strings.TrimSpace(a.Code + " " + a.Reason)
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%-8s %s %s (%v)\n", a.Effect, cli.Visible(call.ToolID), cli.Visible(said),
		time.Duration(a.Micros)*time.Microsecond)
	return true, err
}

func (t *trial) one(cmd *cobra.Command, c *conform.Client) error {
	answered, err := t.ask(cmd, c, 1, t.call)
	if err == nil && !answered {
		err = cli.Fail(cli.ExitFailure, nil) // the line said it
	}
	return err
}

// calls reads calls until the end of standard input.
func (t *trial) calls(cmd *cobra.Command, c *conform.Client) error {
	lines := bufio.NewScanner(cmd.InOrStdin())
	lines.Buffer(make([]byte, 64<<10), maxCallLine)
	failed, asked := 0, uint64(0)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var call conform.Call
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&call); err != nil {
			return fmt.Errorf("standard input, line %d: %w", n, err)
		}
		if dec.More() {
			return fmt.Errorf("standard input, line %d: more than one call in a line", n)
		}
		asked++
		answered, err := t.ask(cmd, c, asked, call)
		if err != nil {
			return err
		}
		if !answered {
			failed++
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if asked == 0 {
		return errors.New("standard input has no calls: give one a line, or --tool")
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d calls have no answer", failed, asked)
	}
	return nil
}

func (t *trial) scan(cmd *cobra.Command, c *conform.Client) error {
	var text []byte
	var err error
	if t.text != "" {
		text, err = regular.ReadNamed(cmd.Context(), t.text, maxSampleText)
	} else if text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxSampleText+1)); err == nil &&
		len(text) > maxSampleText {
		err = fmt.Errorf("standard input has more than %d bytes", maxSampleText)
	}
	if err != nil {
		return err
	}
	found, err := c.Scan(cmd.Context(), string(text))
	if err != nil {
		return fmt.Errorf("the text was not covered: %w", err)
	}
	rows := make([]any, 0, len(found))
	for _, f := range found {
		rows = append(rows, &scanFinding{f.Kind, f.Start, f.End, kit.Printable(string(text[f.Start:f.End]), 60), f.Confidence,
			f.Severity.String(), f.Suggested.String(), f.Replacement})
	}
	return t.out.PrintRows(cmd.OutOrStdout(), rows, false,
		[]cli.Column{cli.Whole("KIND"), cli.Whole("START"), cli.Whole("END"), cli.Whole("SEVERITY"), cli.Whole("ACTION"),
			cli.Cut("TEXT")},
		func(row any) []string {
			f := row.(*scanFinding)
			return []string{f.Kind, strconv.Itoa(f.Start), strconv.Itoa(f.End), f.Severity, f.Action, f.Text}
		})
}

func (t *trial) feed(cmd *cobra.Command, c *conform.Client) error {
	in := cmd.InOrStdin()
	if t.log != "" {
		f, err := regular.Named(cmd.Context(), t.log)
		if err != nil {
			return cli.Fail(cli.ExitUsage, err)
		}
		defer f.Close()
		in = f
	}
	last := uint64(0)
	err := c.Feed(cmd.Context(), in, func(seq uint64) { last = seq })
	if err != nil {
		return errors.Join(fmt.Errorf("acknowledged up to record %d", last), err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "acknowledged up to record %d\n", last)
	return err
}
