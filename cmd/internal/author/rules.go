package author

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/rules"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

func Rules() *cobra.Command {
	return cli.Group("rules", "Test rules against cases, and explain what they say of a call", rulesTest(), rulesExplain())
}

// casesNow is when the calls of cases happen unless they say otherwise: the same cases give the same answers every day.
var casesNow = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func rulesTest() *cobra.Command {
	var out cli.Output
	var junit string
	cmd := &cobra.Command{
		Use:   "test FILE…",
		Short: "Run files of cases: exit 0 if the rules say what every case wants, 1 if not",
		Long: "Ask rules about the calls of files of cases (YAML or JSON), and compare. Nothing runs but the rules: no " +
			"modules, no\n" +
			"approvals, no counters. A call that no rule matches is denied with UNMATCHED_DENY. Numbers are kept as " +
			"written.\n\n" +
			"  rules: house.yaml            # or a list; relative to this file; read as one list\n" +
			"  cases:\n" +
			"    - name: a large refund waits\n" +
			"      call: {agent_id: bot-7, tool_id: pay, operation: refund, args: {amount: 1000.01}}\n" +
			"      want: {effect: defer, rule: big-refunds, reason_code: RULE_DEFER}\n\n" +
			"call also takes session_id, context, key (a name, or {id, name}) and now (2026-03-04T05:06:07Z; the " +
			"beginning of\n" +
			"2026 if not given). rule and reason_code of want are compared when given. Exit 1 also when a file cannot be read.",
		Example: "  yett rules test house.cases.yaml\n  yett rules test -o json --junit report.xml cases/*.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			rows, err := runCases(cmd.Context(), args)
			if err != nil {
				return cli.Fail(cli.ExitFailure, err)
			}
			return reportCases(cmd, &out, junit, rows)
		},
	}
	out.Bind(cmd)
	cmd.Flags().StringVar(&junit, "junit", "", "also write a JUnit XML report to this file")
	return cmd
}

// said is an effect with the rule and the reason code that came with it.
type said struct {
	Effect     string `json:"effect"`
	Rule       string `json:"rule,omitempty"`
	ReasonCode string `json:"reason_code,omitempty"`
}

func (s said) String() string {
	return strings.TrimSpace(s.Effect + " " + strings.TrimSpace(s.ReasonCode+" "+s.Rule))
}

// caseRow is the result of one case.
type caseRow struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Name   string `json:"name"`
	Pass   bool   `json:"pass"`
	Want   said   `json:"want"`
	Got    said   `json:"got"`
	Reason string `json:"reason,omitempty"`
}

// runCases reads all files before it runs the first case: a file that cannot be read leaves no half report.
func runCases(ctx context.Context, paths []string) ([]any, error) {
	var errs []error
	files := make([]*config.Cases, len(paths))
	sets := make([]*rules.Set, len(paths))
	for i, path := range paths {
		var err error
		if files[i], err = config.ReadCases(path); err == nil {
			sets[i], err = loaded.CompileRules(files[i].Rules)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var rows []any
	for i, file := range files {
		for k := range file.Cases {
			row, err := runCase(ctx, sets[i], &file.Cases[k])
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: case %q: %w", file.Cases[k].Pos, file.Cases[k].Name, err))
				continue
			}
			row.File = file.Path
			rows = append(rows, row)
		}
	}
	return rows, errors.Join(errs...)
}

func runCase(ctx context.Context, set *rules.Set, c *config.Case) (*caseRow, error) {
	call, err := callOf(&c.Call, casesNow)
	if err != nil {
		return nil, err
	}
	told := set.Explain(ctx, call)
	if told.Err != nil {
		return nil, told.Err
	}
	v := told.Verdict
	if v.Effect == sdk.Abstain {
		v = sdk.Verdict{Effect: sdk.Deny, Code: sdk.ReasonUnmatchedDeny, Reason: "no rule matches this call"}
	}
	for _, l := range told.Lines { // a condition that failed is often why
		if l.Error != "" {
			v.Reason = strings.TrimPrefix(fmt.Sprintf("%s; rule %s: %s", v.Reason, l.RuleID, l.Error), "; ")
		}
	}
	row := &caseRow{
		Line: c.Pos.Line, Name: c.Name, Reason: v.Reason,
		Want: said{strings.ToUpper(c.Want.Effect), c.Want.Rule, c.Want.ReasonCode},
		Got:  said{v.Effect.String(), v.RuleID, v.Code},
	}
	row.Pass = row.Want.Effect == row.Got.Effect && cmp.Or(row.Want.Rule, row.Got.Rule) == row.Got.Rule &&
		cmp.Or(row.Want.ReasonCode, row.Got.ReasonCode) == row.Got.ReasonCode
	return row, nil
}

// callOf makes a call as the gateway would hand it to rules.
func callOf(c *config.Call, now time.Time) (*chain.Call, error) {
	call := &chain.Call{
		KeyID: c.Key.ID, KeyName: c.Key.Name, AgentID: c.AgentID, SessionID: c.SessionID,
		ToolID:    wire.ToolOf(c.ToolID, c.Operation),
		Operation: wire.OperationOf(wire.ToolOf(c.ToolID, c.Operation), c.Operation), Now: now,
	}
	for _, d := range []struct {
		name string
		text config.Document
		to   *exact.Value
	}{{"args", c.Args, &call.Args}, {"context", c.Context, &call.Context}} {
		if d.text == "" {
			continue
		}
		var doc exact.Doc
		if err := doc.Parse(string(d.text), exact.DefaultLimits); err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		*d.to = doc.Root()
	}
	if c.Now != "" {
		at, err := time.Parse(time.RFC3339, c.Now)
		if err != nil {
			return nil, fmt.Errorf("now: %w", err)
		}
		call.Now = at
	}
	return call, nil
}

func reportCases(cmd *cobra.Command, out *cli.Output, junit string, rows []any) error {
	failed := 0
	for _, r := range rows {
		if !r.(*caseRow).Pass {
			failed++
		}
	}
	cols := []cli.Column{cli.Whole("RESULT"), cli.Wrap("FILE"), cli.Wrap("CASE"), cli.Wrap("SAID"), cli.Wrap("WANT"),
		cli.Wrap("REASON")}
	err := out.PrintRows(cmd.OutOrStdout(), rows, false, cols, func(row any) []string {
		r := row.(*caseRow)
		result := "pass"
		if !r.Pass {
			result = "FAIL"
		}
		return []string{result, r.File + ":" + strconv.Itoa(r.Line), oneLine(r.Name), r.Got.String(), r.Want.String(),
			oneLine(r.Reason)}
	})
	if err == nil && junit != "" {
		err = writeJUnit(junit, rows)
	}
	if err != nil {
		return err
	}
	if failed > 0 {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%d of %d cases fail", failed, len(rows)))
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d cases pass\n", len(rows), len(rows))
	return err
}

// oneLine keeps a text that may have line breaks in its cell of a table.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Suites   []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	File      string        `xml:"file,attr"`
	Line      int           `xml:"line,attr"`
	Failure   *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit writes one suite for each file of cases.
func writeJUnit(path string, rows []any) error {
	var all junitSuites
	var suite *junitSuite
	for _, row := range rows {
		r := row.(*caseRow)
		if suite == nil || suite.Name != r.File {
			suite = &junitSuite{Name: r.File}
			all.Suites = append(all.Suites, suite)
		}
		c := junitCase{Name: r.Name, ClassName: r.File, File: r.File, Line: r.Line}
		if !r.Pass {
			c.Failure = &junitFailure{Message: fmt.Sprintf("said %s, want %s", r.Got, r.Want), Text: r.Reason}
			suite.Failures++
			all.Failures++
		}
		suite.Cases = append(suite.Cases, c)
		suite.Tests++
		all.Tests++
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	if err := os.WriteFile(path, append([]byte(xml.Header), append(text, '\n')...), 0o644); err != nil {
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	return nil
}

// verdictRow is a verdict as commands print it.
type verdictRow struct {
	said
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	Priority  string     `json:"priority,omitempty"`
	Approvals int        `json:"approvals,omitempty"`
	From      []string   `json:"from,omitempty"`
	Expires   string     `json:"expires,omitempty"`
	Limits    []limitRow `json:"limits,omitempty"`
}

type limitRow struct {
	Kind   string `json:"kind"`
	Rule   string `json:"rule"`
	Per    string `json:"per,omitempty"`
	Window string `json:"window"`
	Amount string `json:"amount"`
	Max    string `json:"max"`
}

var limitKinds = map[sdk.LimitKind]string{sdk.LimitRate: "rate", sdk.LimitBudget: "budget", sdk.LimitLoop: "loop"}

func rowOf(v sdk.Verdict) *verdictRow {
	r := &verdictRow{said: said{v.Effect.String(), v.RuleID, v.Code}, Reason: v.Reason, Message: v.Message,
		Priority: string(v.Priority), Approvals: v.Approvals, From: v.From}
	if v.Expires > 0 {
		r.Expires = config.Duration(v.Expires).String()
	}
	for _, l := range v.Limits {
		r.Limits = append(r.Limits, limitRow{limitKinds[l.Kind], l.Rule, l.Per, config.Duration(l.Window).String(), l.Amount,
			l.Max})
	}
	return r
}
