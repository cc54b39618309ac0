package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/exact"
)

// admissionReport is what the process of an admission says at its end.
type admissionReport struct {
	OK            bool
	Transient     bool // the refusal came from a deadline: another run may end otherwise
	BadConfig     bool // the refusal is of the settings
	Reason        string
	Metadata      abi.Metadata
	Scans, Checks bool
	NoScans       bool `json:",omitempty"` // it exports yett_scan, takes no text and takes calls
	NoChecks      bool `json:",omitempty"` // it exports yett_check, takes no call and takes texts
	Notes         []string
}

// maxNotes bounds the notes of a verdict, and noteText each.
const (
	maxNotes = 32
	noteText = 400
)

// readAdmitted decodes the body of a frameAdmitted.
func readAdmitted(body []byte) (*admissionReport, error) {
	r := new(admissionReport)
	if err := strictJSON(body, r); err != nil {
		return nil, fmt.Errorf("%w: verdict: %s", errFrame, quote.Short(err.Error(), 200))
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%w: verdict: %w", errFrame, err)
	}
	r.Reason = quote.Short(r.Reason, maxText)
	for i := range r.Notes {
		r.Notes[i] = quote.Short(r.Notes[i], noteText)
	}
	return r, nil
}

// check refuses a verdict that contradicts itself.
func (r *admissionReport) check() error {
	switch {
	case len(r.Notes) > maxNotes:
		return fmt.Errorf("%d notes: at most %d are allowed", len(r.Notes), maxNotes)
	case r.OK != (r.Reason == ""):
		return errors.New("a refusal, and nothing else, has a reason")
	case r.OK && r.BadConfig:
		return errors.New("an admitted module has no refused settings")
	case r.OK && r.Transient:
		return errors.New("an admission is not for one day")
	case r.OK && !r.Scans && !r.Checks:
		return errors.New("the module can do nothing")
	case r.OK:
		return checkMetadata(&r.Metadata, r.Scans)
	}
	return nil
}

// RunAdmission is the whole life of an admission process: it reads a module from in, tries it, and writes the verdict
// to out. An error means that it could not say what came out.
func RunAdmission(in io.Reader, out io.Writer) error {
	s := &server{out: out, in: readFrames(in, toChild(MaxMemory))}
	spec, err := s.awaitLoad()
	if err != nil {
		return err
	}
	report := s.try(context.Background(), spec)
	report.Reason = quote.Short(report.Reason, maxText/2)
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return s.write(simpleFrame(frameAdmitted, 0, body))
}

func (s *server) stage(format string, args ...any) error {
	return s.write(simpleFrame(frameStage, 0, []byte(quote.Short(fmt.Sprintf(format, args...), 200))))
}

// try loads the module and has it read the smoke vectors.
func (s *server) try(ctx context.Context, spec Spec) admissionReport {
	refuse := func(err error) admissionReport {
		return admissionReport{Reason: err.Error(), BadConfig: IsConfig(err), Transient: errors.Is(err, ErrInterrupted) ||
			errors.Is(err, ErrBusy)}
	}
	if err := s.stage("while it is compiled and started"); err != nil {
		return refuse(err)
	}
	host, err := New(ctx, Options{Log: s.log, CheckConfig: s.checkConfig})
	if err != nil {
		return refuse(err)
	}
	// Nothing is closed: the process ends with its verdict.
	m, err := host.Load(ctx, spec)
	if err != nil {
		return refuse(errors.Unwrap(err))
	}
	r := admissionReport{OK: true, Metadata: m.Metadata(), Scans: m.Scans(), Checks: m.Checks()}
	trials := smokes(m)
	errs := make([]error, len(trials))
	for i, smoke := range trials {
		if err := s.stage("while it reads %s", smoke.name); err != nil {
			return refuse(err)
		}
		errs[i] = smoke.run(ctx)
		if err := errs[i]; err != nil && !errors.Is(err, ErrStatus) && !errors.Is(err, ErrBuffer) {
			return refuse(fmt.Errorf("%s: %w", smoke.name, err))
		}
	}
	r.NoScans, r.NoChecks = otherKind(trials, errs, false), otherKind(trials, errs, true)
	for i, smoke := range trials {
		if errs[i] != nil && !otherKind(trials, errs, smoke.calls) {
			r.Notes = append(r.Notes, quote.Short(smoke.name+": "+errs[i].Error(), noteText))
		}
	}
	return r
}

// otherKind reports whether a module says of all texts, or of all calls, that they are not its kind of input, while it
// takes the other kind. That is how a module that exports both functions, as Go's do, says what it is, and nothing to
// note.
func otherKind(trials []smoke, errs []error, calls bool) bool {
	takesOther := false
	for i, t := range trials {
		var status *StatusError
		refuses := errors.As(errs[i], &status) && status.Status == abi.StatusUnsupported
		if t.calls == calls && !refuses {
			return false
		}
		takesOther = takesOther || t.calls != calls && !refuses
	}
	return takesOther
}

// smoke is one small thing that every module of its kind must bear.
type smoke struct {
	name  string
	calls bool // it is a call to decide, not a text to scan
	run   func(context.Context) error
}

func smokes(m *Module) (all []smoke) {
	if m.Scans() {
		for _, t := range smokeTexts() {
			all = append(all, smoke{t.name, false, func(ctx context.Context) error {
				_, err := m.ScanWindow(ctx, Window{Text: t.text, Flags: abi.FlagFirst | abi.FlagFinal})
				return err
			}})
		}
	}
	if m.Checks() {
		all = append(all, smoke{"a call", true, func(ctx context.Context) error {
			_, err := m.Check(ctx, smokeCall())
			return err
		}})
	}
	return all
}

type smokeText struct{ name, text string }

func smokeTexts() []smokeText {
	return []smokeText{
		{"an empty text", ""},
		{"a short text", "The quick brown fox jumps over the lazy dog.\n"},
		{"4 KiB of mixed text", mixedText(4 << 10)},
		{"invalid UTF-8", "caf\xe9 \xff\xfe\x00 \xed\xa0\x80 \xf0\x9f\x92"},
	}
}

// mixedText is n bytes of what tools print: prose, JSON, code, numbers, other scripts, control characters.
func mixedText(n int) string {
	const piece = "ls -la /var/log\n-rw-r--r-- 1 root root 18743 Nov 21 07:33 core.log\n" +
		"{\"user\":\"ana.petrova@example.com\",\"id\":4111111111111111,\"ok\":true,\"note\":\"\\u00e9\\n\"}\n" +
		"func main() { fmt.Println(\"hello\") } // see https://example.com/a?b=c&d=%20\n" +
		"Zażółć gęślą jaźń, 東京は晴れ, Ελληνικά, مرحبا, 🙂\t\x1b[31mred\x1b[0m\r\n" +
		"key = value; PASSWORD: hunter2 0123456789abcdef0123456789abcdef QUJDREVGR0g=\n"
	s := strings.Repeat(piece, n/len(piece)+1)[:n]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}

func smokeCall() *chain.Call {
	doc := new(exact.Doc)
	// The text is a constant and parses.
	_ = doc.Parse(`{"args":{"path":"/tmp/a","recursive":false,"depth":3,"names":["x","é"]},"context":{"task":"smoke"}}`,
		exact.DefaultLimits)
	return &chain.Call{AgentID: "agent-smoke", SessionID: "session-smoke", ToolID: "files/read", Operation: "read",
		CallID: "call-smoke", Args: doc.Root().Get("args"), Context: doc.Root().Get("context")}
}
