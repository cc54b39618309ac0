// Command ticket-ids is an example of a scanner: it finds ticket codes such as ACME-1234, badge numbers and a code name
// in what a tool gave back. The same scanner stands in examples/scanner-rust, -c and -assemblyscript; all four answer
// the vectors of sdk/testdata/vectors/scanner alike. This one also takes code names from its configuration, as
// triggers. Text comes from the host or from standard input, findings are spans of it; it looks around the hits of its
// triggers only and keeps nothing between texts.
package main

import (
	"errors"
	"slices"

	"github.com/yett-dev/yett/sdk/scanner"
)

func init() { scanner.Register(spec) }
func main() { scanner.Main() }

// Indexes of the triggers.
const (
	ticketMark = iota
	digitRun
	codename
	_ // and all behind it: the operator's code names
)

// maxDigits of a ticket's number; what has more is something else.
const maxDigits = 12

var spec = scanner.Spec{
	Name:    "ticket-ids",
	Version: "1.0.0",
	Kinds: []scanner.Kind{
		{Name: "TICKET_ID", Severity: scanner.Medium},
		{Name: "BADGE_NUMBER", Severity: scanner.Low},
		{Name: "CODENAME", Severity: scanner.High},
	},
	Triggers: []scanner.Trigger{
		ticketMark: {Literal: "ACME-"},
		digitRun:   {Class: "digits", Min: 6},
		codename:   {Literal: "bluebird", Fold: true},
	},
	TriggersFrom: []scanner.TriggersFrom{{Path: "/codenames", Fold: true}},

	Stream:     scanner.StreamWindow,
	Lookbehind: 64,
	Config: `{"type":"object","additionalProperties":false,"properties":{` +
		`"min_digits":{"type":"integer","minimum":1,"maximum":9},` +
		`"severity":{"enum":["info","low","medium","high","critical"]},` +
		`"badges":{"type":"boolean"},` +
		`"codenames":{"type":"array","items":{"type":"string","minLength":1,"maxLength":64}},` +
		`"confidence":{"type":"number","minimum":0,"maximum":1},` +
		`"ignore":{"type":"array","items":{"type":"string","pattern":"^ACME-"}}}}`,
	Init: configure,
	Scan: scan,
}

// config is the operator's choice.
var config = struct {
	minDigits  int
	severity   scanner.Severity // of a ticket
	badges     bool
	confidence float32 // of a badge number
	ignore     []string
}{minDigits: 4, severity: scanner.Medium, badges: true, confidence: 0.5}

func configure(doc []byte) error {
	return scanner.Members(doc, func(name string, v scanner.Value) (err error) {
		switch name {
		case "min_digits":
			n, err := v.Float()
			if err != nil || n < 1 || n > 9 || n != float64(int(n)) {
				return errors.New("min_digits: must be an integer of 1–9")
			}
			config.minDigits = int(n)
		case "severity":
			s, err := v.Str()
			i := slices.Index([]string{"info", "low", "medium", "high", "critical"}, s)
			if err != nil || i < 0 {
				return errors.New("severity: must be info, low, medium, high or critical")
			}
			config.severity = scanner.Severity(i)
		case "badges":
			if config.badges, err = v.Bool(); err != nil {
				return errors.New("badges: " + err.Error())
			}
		case "confidence":
			c, err := v.Float()
			if err != nil || c < 0 || c > 1 {
				return errors.New("confidence: must be a number of 0–1")
			}
			config.confidence = float32(c)
		case "codenames": // the SDK makes triggers of them
			if _, err := v.Strings(); err != nil {
				return errors.New("codenames: must be an array of strings")
			}
		case "ignore":
			config.ignore, err = v.Strings()
			if err != nil || slices.ContainsFunc(config.ignore, func(s string) bool { return len(s) < 5 || s[:5] != "ACME-" }) {
				return errors.New("ignore: must be an array of tickets that begin with ACME-")
			}
		default:
			return errors.New(name + ": unknown key")
		}
		return nil
	})
}

func scan(in *scanner.In, out *scanner.Out) error {
	hits, err := in.Hits()
	for _, h := range hits {
		switch h.Trigger {
		case ticketMark:
			end := h.End
			for end < len(in.Text) && '0' <= in.Text[end] && in.Text[end] <= '9' {
				end++
			}
			digits := end - h.End
			if digits < config.minDigits || digits > maxDigits || slices.Contains(config.ignore, string(in.Text[h.Start:end])) {
				continue
			}
			out.Emit(scanner.Finding{Kind: "TICKET_ID", Start: h.Start, End: end, Confidence: 1,
				Severity: config.severity, SetSeverity: true, Action: scanner.Redact})
		case digitRun:
			if config.badges {
				out.Flag("BADGE_NUMBER", h.Start, h.End, config.confidence)
			}
		default: // codename, and what the operator named
			out.Emit(scanner.Finding{Kind: "CODENAME", Start: h.Start, End: h.End, Confidence: 0.9,
				Action: scanner.Replace, Replacement: "[codename]"})
		}
	}
	return err
}
