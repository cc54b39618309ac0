package author

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/rules"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
)

// explainFlags are the flags of `rules explain`.
type explainFlags struct {
	config, call string
	rules        []string
	out          cli.Output
}

func rulesExplain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain [--config FILE | --rules FILE] --call FILE",
		Short: "Say which rules look at a call, what their conditions say, and the verdict with its limits",
		Long: "Ask rules about one call and tell how they come to their verdict. The call is JSON or YAML, from a file " +
			"or, with -,\n" +
			"from standard input: agent_id, tool_id, and as far as rules ask for them operation, session_id, args, " +
			"context, key\n" +
			"(a name, or {id, name}) and now (this moment if not given).\n\n" +
			"With --config, every step of chains.authorize that has rules is asked, as in a server; steps that run modules,\n" +
			"scan_args, approvals, grants and counters are not, and are named on standard error. Limits are those a permit " +
			"would be\n" +
			"counted against. Rules whose tools do not cover the call are not looked at, and not listed. Exit 0 whatever the " +
			"verdict.",
		Example: "  yett rules explain --rules house.yaml --call call.json\n" +
			"  echo '{agent_id: bot-7, tool_id: pay/refund, args: {amount: 12.50}}' | yett rules explain --config yett.yaml " +
			"--call - -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file")
	fs.StringArrayVar(&f.rules, "rules", nil, "rules file; may be given more than once, read as one list")
	fs.StringVar(&f.call, "call", "", "the call: JSON, a file, or - for standard input")
	f.out.Bind(cmd)
	return cmd
}

func (f *explainFlags) run(cmd *cobra.Command) error {
	if err := f.out.Check(); err != nil {
		return err
	}
	switch {
	case f.call == "":
		return cli.Usage("--call FILE is required (- is standard input)")
	case (f.config == "") == (len(f.rules) == 0):
		return cli.Usage("give --config FILE or --rules FILE")
	}
	ask, err := f.chain()
	if err != nil {
		return cli.Fail(cli.ExitFailure, err)
	}
	asked, err := f.readCall(cmd.InOrStdin())
	if err != nil {
		return cli.Fail(cli.ExitFailure, err)
	}
	call, err := callOf(asked, time.Now())
	if err != nil {
		return cli.Fail(cli.ExitFailure, err)
	}
	for _, what := range ask.notRun {
		fmt.Fprintf(cmd.ErrOrStderr(), "not asked here: %s\n", what)
	}
	e := ask.explain(cmd.Context(), call)
	if f.out.Format != "table" {
		return f.out.Print(cmd.OutOrStdout(), []any{e}, true, nil, nil)
	}
	return e.print(cmd.OutOrStdout())
}

func (f *explainFlags) readCall(stdin io.Reader) (*config.Call, error) {
	if strings.HasPrefix(strings.TrimSpace(f.call), "{") {
		return config.ParseCall("--call", []byte(f.call))
	}
	if f.call != "-" {
		return config.ReadCall(f.call)
	}
	text, err := io.ReadAll(io.LimitReader(stdin, config.MaxCall+1))
	if err != nil {
		return nil, fmt.Errorf("read the call: %w", err)
	}
	return config.ParseCall("-", text)
}

// explainer is an authorize chain of rules alone that remembers how each step came to its verdict.
type explainer struct {
	chain  chain.Authorizer
	steps  []*explainedStep
	notRun []string
}

// explainedStep stands in for a step's rules.
type explainedStep struct {
	set    *rules.Set
	source map[string]*config.Rule
	asked  bool
	said   rules.Explanation
}

// Check is the rules' Check.
func (s *explainedStep) Check(ctx context.Context, call *chain.Call) (sdk.Verdict, error) {
	s.asked, s.said = true, s.set.Explain(ctx, call)
	return s.said.Verdict, s.said.Err
}

// explainTime is far above any budget in production: how fast this machine is must not change what is explained.
const explainTime = time.Minute

func (f *explainFlags) chain() (*explainer, error) {
	x := &explainer{chain: chain.Authorizer{Budget: explainTime, Default: sdk.Deny, Now: time.Now}}
	if f.config == "" {
		files, err := config.ReadRules(f.rules...)
		if err != nil {
			return nil, err
		}
		return x, x.add(chain.Step{Name: "rules"}, files)
	}
	cfg, err := config.Load(config.Sources{File: f.config, Env: os.Environ(), Builtins: scanners.Names()})
	if err != nil {
		return nil, err
	}
	effect, ok := sdk.ParseEffect(strings.ToUpper(cfg.Chains.Authorize.Default))
	if !ok {
		return nil, fmt.Errorf("chains.authorize.default: %q is no effect", cfg.Chains.Authorize.Default)
	}
	x.chain.Default = effect
	for _, s := range cfg.Chains.Authorize.Steps {
		if s.Use != "" {
			x.notRun = append(x.notRun, fmt.Sprintf("step %s (module %s)", s.Name, s.Use))
			continue
		}
		if s.ScanArgs {
			x.notRun = append(x.notRun, fmt.Sprintf("scan_args of step %s", s.Name))
		}
		step := chain.Step{Name: s.Name, Shadow: s.Mode == "shadow",
			Match: chain.Match{Tools: s.Match.Tools, Agents: s.Match.Agents, Sessions: s.Match.Sessions}}
		if err := x.add(step, s.Rules); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (x *explainer) add(step chain.Step, files []config.RuleSet) error {
	set, err := loaded.CompileRules(files)
	if err != nil {
		return err
	}
	s := &explainedStep{set: set, source: map[string]*config.Rule{}}
	for _, f := range files {
		for i := range f.Rules {
			s.source[f.Rules[i].ID] = &f.Rules[i]
		}
	}
	step.Kind, step.OnError, step.Inline, step.Checker = "rules", sdk.Deny, true, s
	x.chain.Steps, x.steps = append(x.chain.Steps, step), append(x.steps, s)
	return nil
}

// explanation is what `rules explain` prints.
type explanation struct {
	Agent   string      `json:"agent_id"`
	Tool    string      `json:"tool_id"` // with the operation joined
	Session string      `json:"session_id,omitempty"`
	Steps   []stepRow   `json:"steps"`
	NotRun  []string    `json:"not_asked,omitempty"`
	Verdict *verdictRow `json:"verdict"`
}

type stepRow struct {
	Step     string      `json:"step"`
	Mode     string      `json:"mode"`
	Note     string      `json:"note,omitempty"` // why it was not asked
	Rules    int         `json:"rules"`          // how many it has
	LookedAt []lookRow   `json:"looked_at"`
	Cut      int         `json:"not_listed,omitempty"` // looked at before the last one listed
	Verdict  *verdictRow `json:"verdict,omitempty"`    // none when no rule spoke
}

type lookRow struct {
	Rule    string `json:"rule"`
	Effect  string `json:"effect"`
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
	When    string `json:"when,omitempty"`
	At      string `json:"at"`
}

func (x *explainer) explain(ctx context.Context, call *chain.Call) *explanation {
	res := x.chain.Run(ctx, call, nil)
	out := &explanation{Agent: call.AgentID, Tool: call.ToolID, Session: call.SessionID, Steps: []stepRow{},
		NotRun: x.notRun, Verdict: rowOf(res.Verdict)}
	for i, s := range x.steps {
		step := &x.chain.Steps[i]
		row := stepRow{Step: step.Name, Mode: "enforce", LookedAt: []lookRow{}, Rules: s.said.Rules, Cut: s.said.Cut}
		if step.Shadow {
			row.Mode = "shadow"
		}
		switch {
		case !s.asked && step.Match.Holds(call.ToolID, call.AgentID, call.SessionID):
			row.Note = "not asked: an earlier step denies"
		case !s.asked:
			row.Note = "not asked: its match does not cover the call"
		case s.said.Err != nil:
			row.Note = s.said.Err.Error()
		case s.said.Verdict.Effect != sdk.Abstain:
			row.Verdict = rowOf(s.said.Verdict)
		default:
			row.Note = "no rule speaks"
		}
		for _, line := range s.said.Lines {
			rule := s.source[line.RuleID]
			row.LookedAt = append(row.LookedAt, lookRow{line.RuleID, line.Effect.String(), string(line.Outcome), line.Error,
				rule.When, rule.Pos.String()})
		}
		out.Steps = append(out.Steps, row)
	}
	return out
}

func (e *explanation) print(w io.Writer) error {
	cols := []cli.Column{cli.Cut("STEP"), cli.Whole("RULE"), cli.Whole("EFFECT"), cli.Wrap("OUTCOME"), cli.Wrap("AT"),
		cli.Wrap("WHEN")}
	var rows [][]string
	for _, s := range e.Steps {
		name := s.Step
		if s.Mode == "shadow" {
			name += " (shadow)"
		}
		for i, l := range s.LookedAt {
			if s.Cut > 0 && i == len(s.LookedAt)-1 {
				rows = append(rows, []string{name, "-", "-", fmt.Sprintf("%d more", s.Cut), "-", ""})
			}
			if l.Error != "" {
				l.Outcome += ": " + l.Error
			}
			rows = append(rows, []string{name, l.Rule, l.Effect, l.Outcome, l.At, oneLine(l.When)})
		}
		if s.Note != "" {
			rows = append(rows, []string{name, "-", "-", s.Note, "-", ""})
		}
	}
	if err := cli.PrintTable(w, cli.TableWidth(w), cols, rows); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "\nverdict\t%s\n", e.Verdict)
	v := e.Verdict
	for _, l := range []struct{ name, text string }{
		{"reason", v.Reason}, {"message", v.Message}, {"priority", v.Priority}, {"approvals", v.approvals()}, {"expires", v.Expires},
	} {
		if l.text != "" {
			fmt.Fprintf(tw, "%s\t%s\n", l.name, oneLine(l.text))
		}
	}
	for _, l := range v.Limits {
		per := ""
		if l.Per != "" {
			per = " per " + l.Per
		}
		fmt.Fprintf(tw, "%s\tadds %s to at most %s in %s%s\n", l.Kind, l.Amount, l.Max, l.Window, per)
	}
	return tw.Flush()
}

func (v *verdictRow) approvals() string {
	switch {
	case v.Approvals == 0:
		return ""
	case len(v.From) == 0:
		return fmt.Sprint(v.Approvals)
	}
	return fmt.Sprintf("%d of %s", v.Approvals, strings.Join(v.From, ", "))
}
