package author

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/author/conform"
	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/regular"
)

// The bounds of what an author's commands read.
const (
	maxSettingsFile = 1 << 20  // bytes of --config and of one secret
	maxCallsFile    = 16 << 20 // bytes of --calls
	maxSampleText   = 1 << 20  // bytes of one --text
)

// pluginFlags are what the author's commands have in common: which plugin, and what it is given.
type pluginFlags struct {
	connect, config string
	secrets, env    []string
	logs            bool
	open            bool
	read, write     []string
	network         string
	timeout         time.Duration
}

func (f *pluginFlags) bind(cmd *cobra.Command, timeout time.Duration, about string) {
	f.bindSettings(cmd)
	cmd.Flags().StringVar(&f.connect, "connect", "",
		"socket of a plugin that runs already, unix:///PATH, instead of a file")
	cmd.Flags().StringArrayVar(&f.secrets, "secret", nil, "NAME=FILE: a secret of the plugin; may be given more than once")
	cmd.Flags().StringArrayVar(&f.env, "env", nil,
		"NAME=VALUE: a variable of its environment, which is empty otherwise; may be given more than once")
	cmd.Flags().StringArrayVar(&f.read, "read", nil,
		"PATH: a file or directory that it may read, as the gateway's paths.read; may be given more than once")
	cmd.Flags().StringArrayVar(&f.write, "write", nil,
		"PATH: a file or directory that it may write, as the gateway's paths.write; may be given more than once")
	cmd.Flags().StringVar(&f.network, "network", "",
		"none, or the TCP ports that it may use, such as 443,5432, as the gateway's network (default: not restricted)")
	cmd.Flags().BoolVar(&f.open, "unconfined", false,
		"run it without the kernel's confinement, as confine: off does: to see whether that is what stops it")
	cmd.Flags().BoolVar(&f.logs, "log", false, "print what the plugin logs on stderr")
	cli.DurationVar(cmd, &f.timeout, "timeout", timeout, about)
}

func (f *pluginFlags) bindSettings(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", "",
		"its settings: a JSON object, or a file that holds one in JSON or YAML (default: its own example_config)")
}

// source reads [BINARY] and --connect: exactly one of them.
func (f *pluginFlags) source(args []string) (path string, err error) {
	switch {
	case len(args) == 0 && f.connect == "":
		return "", cli.Usage("want the plugin's file, or --connect unix:///PATH for one that runs")
	case len(args) > 0 && f.connect != "":
		return "", cli.Usage("a file and --connect: want one of them")
	case f.connect != "" && (len(f.secrets) > 0 || len(f.env) > 0):
		return "", cli.Usage("--secret and --env do not go with --connect: whoever started the plugin gave them")
	case f.connect != "":
		if rest, ok := strings.CutPrefix(f.connect, "unix://"); !ok || !strings.HasPrefix(rest, "/") {
			return "", cli.Usage("--connect %s: want unix:///PATH", f.connect)
		}
		return "", nil
	}
	info, err := os.Stat(args[0])
	switch {
	case err != nil:
		return "", cli.Fail(cli.ExitUsage, err)
	case !info.Mode().IsRegular():
		return "", cli.Usage("%s is not a file: build the plugin first, and give the program", args[0])
	case info.Mode()&0o111 == 0:
		return "", cli.Usage("%s is not executable: chmod +x %s", args[0], args[0])
	}
	return args[0], nil
}

// settings reads --config; nil when it is not given.
func (f *pluginFlags) settings(ctx context.Context) (json.RawMessage, error) {
	if f.config == "" {
		return nil, nil
	}
	settings, err := kit.ReadSettings(ctx, f.config)
	if err != nil {
		return nil, cli.Fail(cli.ExitUsage, fmt.Errorf("--config: %w", err))
	}
	return settings, nil
}

var givenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// given reads --secret and --env.
func (f *pluginFlags) given(ctx context.Context) (secrets map[string][]byte, env map[string]string, err error) {
	secrets, env = map[string][]byte{}, map[string]string{}
	for _, s := range f.secrets {
		name, file, ok := strings.Cut(s, "=")
		if !ok || !givenName.MatchString(name) || secrets[name] != nil {
			return nil, nil, cli.Usage("--secret %s: want NAME=FILE, each name once", s)
		}
		if secrets[name], err = regular.ReadNamed(ctx, file, maxSettingsFile); err != nil {
			return nil, nil, cli.Fail(cli.ExitUsage, fmt.Errorf("--secret %s: %w", name, err))
		}
	}
	for _, e := range f.env {
		name, value, ok := strings.Cut(e, "=")
		if _, twice := env[name]; !ok || name == "" || twice {
			return nil, nil, cli.Usage("--env %s: want NAME=VALUE, each name once", e)
		}
		env[name] = value
	}
	return secrets, env, nil
}

// logTo prints the plugin's log, one line at a time, nothing in it that could move or hide text.
func (f *pluginFlags) logTo(cmd *cobra.Command) func(line string) {
	if !f.logs {
		return nil
	}
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(cmd.ErrOrStderr(), "log: %s\n", cli.Visible(strings.TrimRight(line, "\n")))
	}
}

// holdsSettings holds settings against a JSON Schema as the gateway does.
func holdsSettings(schema string, settings []byte) error {
	var doc map[string]any
	dec := json.NewDecoder(strings.NewReader(schema))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return fmt.Errorf("the schema is no JSON object: %w", err)
	}
	return config.CheckModule(doc, settings)
}

func pluginConform() *cobra.Command {
	var f pluginFlags
	var calls string
	var texts, only []string
	var total time.Duration
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "conform BINARY | --connect unix:///PATH",
		Short: "Say whether a plugin keeps the protocol, and what to mend if not",
		Long: "Start a plugin as the gateway does and hold it to the protocol: handshake and mutual TLS, Info and its " +
			"schema, Configure and\n" +
			"validate_only, health, calls that are unknown, malformed, large, late, many at once and on a stream, texts, " +
			"batches of the\n" +
			"audit log, standard output, SIGTERM, kill -9, and what it leaves behind. It runs with its example_config or " +
			"--config. A\n" +
			"required secret that is not given gets a made-up value. With --connect, what concerns its process is skipped.\n" +
			"--calls is a file with one call a line: {\"tool_id\": …, \"args\": {…}, \"context\": {…}, \"agent_id\": …, " +
			"\"effect\": \"DENY\"}; where\n" +
			"effect is given, the answer must be that.\n" +
			"Exit 0: it conforms; 1: it does not, and a sentence for each check says why; 2: a mistake on the command " +
			"line.\n\n" +
			"Checks: " + wrapped(conform.Names()),
		Example: "  yett plugin conform ./entitle\n  yett plugin conform ./entitle --config settings.json --secret " +
			"token=token.txt --calls calls.jsonl",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			o, err := f.conformOptions(cmd, args)
			if err != nil {
				return err
			}
			o.Only, o.Total = only, total
			if o.Calls, err = readCalls(cmd.Context(), calls); err != nil {
				return err
			}
			for _, file := range texts {
				text, err := regular.ReadNamed(cmd.Context(), file, maxSampleText)
				if err != nil {
					return cli.Fail(cli.ExitUsage, fmt.Errorf("--text: %w", err))
				}
				o.Texts = append(o.Texts, string(text))
			}
			rep, err := conform.Run(cmd.Context(), o)
			if err != nil {
				return cli.Fail(cli.ExitUsage, err)
			}
			return printConform(cmd, &out, rep)
		},
	}
	f.bind(cmd, 50*time.Millisecond, "how long one call may take, as limits.timeout of the plugin in the gateway's "+
		"configuration")
	cmd.Flags().StringVar(&calls, "calls", "", "file of calls to try beside the suite's own, JSON lines")
	cmd.Flags().StringArrayVar(&texts, "text", nil,
		"file with a text to scan beside the suite's own; may be given more than once")
	cmd.Flags().StringArrayVar(&only, "check", nil, "only this check, and those it stands on; may be given more than once")
	cli.DurationVar(cmd, &total, "total", 2*time.Minute, "how long the whole run may take")
	out.Bind(cmd)
	return cmd
}

// wrapped lists words in lines that fit a terminal.
func wrapped(words []string) string {
	const width = 100
	var b strings.Builder
	line := len("Checks: ")
	for i, w := range words {
		if i > 0 {
			b.WriteByte(',')
			if line+len(w) > width {
				b.WriteByte('\n')
				line = 0
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteString(w)
		line += len(w) + 2
	}
	return b.String() + "."
}

func (f *pluginFlags) conformOptions(cmd *cobra.Command, args []string) (o conform.Options, err error) {
	path, err := f.source(args)
	if err != nil {
		return o, err
	}
	if f.timeout <= 0 {
		return o, cli.Usage("--timeout %v: want more than nothing", f.timeout)
	}
	o = conform.Options{Path: path, Connect: f.connect, Timeout: f.timeout, Version: cli.Version(),
		CheckConfig: holdsSettings, Log: f.logTo(cmd)}
	if o.Config, err = f.settings(cmd.Context()); err != nil {
		return o, err
	}
	if o.Confine, err = f.policy(); err != nil {
		return o, err
	}
	o.Unconfined = f.open
	o.Secrets, o.Env, err = f.given(cmd.Context())
	return o, err
}

// policy is what the plugin keeps, as the gateway's configuration says it with paths and network.
func (f *pluginFlags) policy() (p confine.Policy, err error) {
	given := len(f.read)+len(f.write) > 0 || f.network != ""
	switch {
	case given && f.connect != "":
		return p, cli.Usage("--read, --write and --network have no effect with --connect: whoever started the plugin " +
			"confines it. Leave them out")
	case given && f.open:
		return p, cli.Usage("--read, --write and --network have no effect with --unconfined: leave one or the other out")
	}
	for _, l := range []struct{ from, to *[]string }{{&f.read, &p.Read}, {&f.write, &p.Write}} {
		for _, path := range *l.from {
			abs, err := filepath.Abs(path)
			if err != nil {
				return p, err
			}
			*l.to = append(*l.to, abs)
		}
	}
	if f.network == "" {
		return p, nil
	}
	p.Network = &confine.Network{}
	if f.network == "none" {
		return p, nil
	}
	for text := range strings.SplitSeq(f.network, ",") {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return p, cli.Usage("--network %s: expected none or TCP ports from 1 to 65535, such as 443,5432", f.network)
		}
		p.Network.Ports = append(p.Network.Ports, uint16(port))
	}
	return p, nil
}

// readCalls reads sample calls, one JSON object a line.
func readCalls(ctx context.Context, file string) ([]conform.Call, error) {
	if file == "" {
		return nil, nil
	}
	text, err := regular.ReadNamed(ctx, file, maxCallsFile)
	if err != nil {
		return nil, cli.Fail(cli.ExitUsage, fmt.Errorf("--calls: %w", err))
	}
	var out []conform.Call
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxCallsFile)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var c conform.Call
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil {
			return nil, cli.Usage("%s:%d: %w", file, n, err)
		}
		if dec.More() {
			return nil, cli.Usage("%s:%d: more than one call in a line", file, n)
		}
		out = append(out, c)
	}
	if err := lines.Err(); err != nil {
		return nil, cli.Usage("%s: %w", file, err)
	}
	return out, nil
}

func printConform(cmd *cobra.Command, out *cli.Output, rep *conform.Report) error {
	var rows []any
	failed := 0
	for i := range rep.Checks {
		rows = append(rows, &rep.Checks[i])
		if rep.Checks[i].Outcome == conform.Fail {
			failed++
		}
	}
	one := out.Format == "json" || out.Format == "yaml"
	if one {
		rows = []any{rep}
	}
	words := map[conform.Outcome]string{conform.Pass: "ok", conform.Fail: "FAILED", conform.Skipped: "skipped"}
	err := out.PrintRows(cmd.OutOrStdout(), rows, one,
		[]cli.Column{cli.Whole("RESULT"), cli.Whole("CHECK"), cli.Wrap("DETAIL")}, func(row any) []string {
			r := row.(*conform.Result)
			return []string{words[r.Outcome], r.Name, r.Why}
		})
	if err != nil {
		return err
	}
	printFailures(cmd.ErrOrStderr(), rep)
	what := rep.File
	if what == "" {
		what = rep.Connect
	}
	if !rep.Pass {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%s does not conform: %d of %d checks failed: %s", what, failed,
			len(rep.Checks), cli.Visible(rep.Reason)))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s conforms (%s %s: %s)\n", what, cli.Visible(rep.Name), cli.Visible(rep.Version),
		strings.Join(rep.Kinds, ", "))
	if rep.Untried() {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: all answers were ABSTAIN, so nothing is known about its rules: give "+
			"--calls FILE with calls that they are for")
	}
	if rep.Digest != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), rep.Digest)
	}
	return nil
}

// printFailures says of each failure what was wanted, what came, and what to do.
func printFailures(w io.Writer, rep *conform.Report) {
	for i := range rep.Checks {
		c := &rep.Checks[i]
		if c.Outcome != conform.Fail {
			continue
		}
		fmt.Fprintf(w, "%s\n  expected: %s\n  but:      %s\n", c.Name, c.Expects, cli.Visible(c.Why))
		if c.Advice != "" {
			fmt.Fprintf(w, "  do:       %s\n", cli.Visible(c.Advice))
		}
	}
}
