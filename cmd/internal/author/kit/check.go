package kit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// CheckReport says whether a module is fit for a gateway, and why not.
type CheckReport struct {
	File     string        `json:"file"`
	Digest   string        `json:"digest"`
	Fit      bool          `json:"fit"`
	Reason   string        `json:"reason,omitempty"` // the first thing that is wrong
	Checks   []CheckResult `json:"checks"`
	Metadata *abi.Metadata `json:"metadata"` // nil when the module was not let in
}

// CheckResult is one check. A check that could not be made because of an earlier one is not in the list.
type CheckResult struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func (r *CheckReport) add(name string, err error, detail string, args ...any) {
	res := CheckResult{Name: name, OK: err == nil, Detail: fmt.Sprintf(detail, args...)}
	if err != nil {
		res.Detail = err.Error()
		if r.Reason == "" {
			r.Reason = name + ": " + err.Error()
		}
	}
	r.Checks = append(r.Checks, res)
}

// Unread is the report on a file that is not read as a module, such as one that is too large for any.
func Unread(path string, err error) *CheckReport {
	rep := &CheckReport{File: path}
	rep.add("admission", err, "")
	return rep
}

// Check admits a module as the gateway does and then holds it to the contract of ABI v1 and to vectors. config is the
// configuration to run it with (nil: {}); the texts of vectors with the same are used in every check. Whatever the
// module is or does, the answer is a report; the error is about the machine, such as ctx ending.
func (s Settings) Check(ctx context.Context, m Module, config json.RawMessage, vectors []*Vectors) (rep *CheckReport,
	err error) {
	rep = &CheckReport{File: m.Path, Digest: pin.Digest(m.Code), Checks: []CheckResult{}}
	defer func() {
		if err == nil {
			rep.Fit = rep.Reason == ""
		}
	}()
	spec := host.Spec{Name: m.Name, Code: m.Code, Config: config, Instances: 1, Fuel: s.fuel()}
	note, err := s.admit(ctx, spec)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var refused *notAdmitted
	if err != nil && !errors.As(err, &refused) {
		return nil, err // nothing is known about the module
	}
	if rep.add("admission", err, "%s", note); err != nil {
		return rep, nil
	}
	st, err := s.stage(ctx, m)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.close(ctx)) }()
	c := &conformance{stage: st, spec: st.spec(config), rep: rep}
	if c.sub, err = st.load(ctx, c.spec); err == nil {
		fresh := c.spec
		fresh.Isolation = host.Fresh
		c.fresh, err = st.host.Load(ctx, fresh)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		rep.add("load", unset(config, err), "")
		return rep, nil
	}
	meta := c.sub.first.Metadata()
	rep.Metadata = &meta
	c.run(ctx, vectors)
	return rep, ctx.Err()
}

// conformance is one module under check: two instances that are reset after each call, and one that is new each time.
type conformance struct {
	*stage
	spec  host.Spec
	rep   *CheckReport
	sub   *subject
	fresh *host.Module
}

func (c *conformance) run(ctx context.Context, vectors []*Vectors) {
	m := c.sub.first
	c.rep.add("metadata", nil, "%s %s", m.Metadata().Name, m.Metadata().Version)
	c.rep.add("config", c.garbage(ctx), "unknown settings are refused")
	scans, checks := c.does(ctx)
	switch {
	case scans && checks:
		c.rep.add("does", nil, "scans texts and checks calls")
	case scans:
		c.rep.add("does", nil, "scans texts")
	case checks:
		c.rep.add("does", nil, "checks calls")
	default:
		c.rep.add("does", errors.New("it answers neither texts nor calls: each with the status unsupported"), "")
	}
	if scans {
		c.scanner(ctx, vectors)
	}
	if checks {
		c.authorizer(ctx)
	}
	if c.rep.Reason == "" && len(vectors) > 0 && ctx.Err() == nil {
		note, err := c.vectors(ctx, vectors)
		c.rep.add("vectors", err, "%s", note)
	}
}

// vectors wants of each vector what `test` wants, each with its own settings.
func (c *conformance) vectors(ctx context.Context, files []*Vectors) (note string, err error) {
	total, failed := 0, 0
	for _, f := range files {
		for i := range f.List {
			v := &f.List[i]
			res := (&trial{stage: c.stage}).run(ctx, f.File, v, &f.List[(i+1)%len(f.List)])
			if total++; res.OK {
				continue
			}
			if failed++; failed == 1 {
				p := res.Problems[0]
				err = fmt.Errorf("%s:%d: %q: %s: %s", f.File, v.Line, Printable(v.Name, 60), p.Run, strings.Join(p.Diff, "; "))
			}
		}
	}
	if failed > 1 {
		err = fmt.Errorf("%w (and %d more of %d; yett scanner test shows them)", err, failed-1, total)
	}
	return fmt.Sprintf("%d of %d give what they want", total-failed, total), err
}

// sameSettings compares two configurations as they are written; none is {}.
func sameSettings(a, b json.RawMessage) bool {
	return cmp.Or(string(a), "{}") == cmp.Or(string(b), "{}")
}

// does tells what the module is for. One that exports both may answer one of them with "unsupported", as Go's does.
func (c *conformance) does(ctx context.Context) (scans, checks bool) {
	m := c.sub.first
	if m.Scans() {
		scans = !unsupported(whole(ctx, m, "text").err)
	}
	if m.Checks() {
		_, err := m.Check(ctx, &chain.Call{AgentID: "agent", ToolID: "tool"})
		checks = !unsupported(err)
	}
	return scans, checks
}

// garbage wants settings refused that no module can know: a typo that is taken in silence is a setting that does
// nothing.
func (c *conformance) garbage(ctx context.Context) error {
	for _, config := range []string{
		withUnknown(c.spec.Config), `{"":{"yett":[[[[null]]]]}}`,
		`{"` + strings.Repeat("k", 4096) + `":"` + strings.Repeat("v", 64<<10) + `"}`,
	} {
		spec := c.spec
		spec.Config = json.RawMessage(config)
		m, err := c.host.Load(ctx, spec)
		switch {
		case err == nil:
			return errors.Join(fmt.Errorf("the configuration %s is taken, want it refused", Printable(config, 60)), m.Close(ctx))
		case !host.IsConfig(err):
			return fmt.Errorf("the configuration %s ends in an error other than bad config: %w", Printable(config, 60), err)
		}
	}
	return nil
}

// withUnknown adds a setting to those that the module takes, so that nothing else is wrong with them.
func withUnknown(config json.RawMessage) string {
	text := strings.TrimSuffix(strings.TrimSpace(cmp.Or(string(config), "{}")), "}")
	if strings.TrimSpace(text) != "{" {
		text += ","
	}
	return text + `"yett_no_such_setting":true}`
}

func (c *conformance) scanner(ctx context.Context, vectors []*Vectors) {
	m := c.sub.first
	c.rep.add("empty input", whole(ctx, m, "").err, "an empty text is answered")
	samples := samplesFor(m.Triggers())
	for _, f := range vectors {
		for i := range f.List {
			if v := &f.List[i]; v.Call == nil && v.Error == "" && sameSettings(v.Config, c.spec.Config) {
				samples = append(samples, sample{"vector " + Printable(v.Name, 60), v.Text})
			}
		}
	}
	results := make([]outcome, len(samples))
	found := 0
	var bad, kinds, spans error
	var refused []string
	for i, s := range samples {
		results[i] = whole(ctx, m, s.text)
		found += len(results[i].findings)
		err := results[i].err
		if err == nil {
			continue
		}
		if errors.Is(err, host.ErrStatus) && i > 0 { // its right, as long as it can do a plain text
			refused = append(refused, s.name+": "+err.Error())
			continue
		}
		err = fmt.Errorf("%s: %w", s.name, err)
		switch {
		case errors.Is(err, host.ErrKind):
			kinds = err
		case errors.Is(err, host.ErrSpan):
			spans = err
		default:
			bad = err
		}
		break // a module that fails once may do so each time, and take its whole time to it
	}
	c.rep.add("answers", bad, "%s", answersNote(len(samples), refused))
	c.rep.add("kinds", kinds, "%s", countNote(found, "each of a declared kind"))
	c.rep.add("spans", spans, "%s", countNote(found, "each of a byte or more within its text"))
	if bad != nil || kinds != nil || spans != nil {
		return
	}
	c.rep.add("two instances", c.again(ctx, c.sub.second, samples, results),
		"the same findings, in the opposite order of texts")
	c.rep.add("reset", c.again(ctx, c.fresh, samples, results),
		"the same findings after other texts as from a new instance")
	c.rep.add("triggers", c.triggers(ctx, samples, results), "%s", c.triggersNote(found))
	loud, err := c.streams(ctx, samples, results)
	c.rep.add("streams", err, "%s", c.streamsNote(loud))
	note, err := c.maximal(ctx)
	c.rep.add("maximal input", err, "%s", note)
}

// countNote says how many findings a check is about. About none it proves nothing, and must not look as if it did.
func countNote(found int, good string) string {
	if found == 0 {
		return "0 findings, so nothing is shown: give --vectors with texts in which it finds something"
	}
	return fmt.Sprintf("%d findings, %s", found, good)
}

// answersNote counts the texts that were answered with a status: each ends in the on_error of a gateway's step.
func answersNote(texts int, refused []string) string {
	if len(refused) == 0 {
		return fmt.Sprintf("%d texts", texts)
	}
	return fmt.Sprintf("%d texts, %d of them with an error of the module's own: %s", texts, len(refused), refused[0])
}

// unsupported says whether a module answered, in the way it may, that it cannot do this input.
func unsupported(err error) bool {
	var status *host.StatusError
	return errors.As(err, &status) && status.Status == abi.StatusUnsupported
}

// again runs all samples on another instance, last first, and compares.
func (c *conformance) again(ctx context.Context, m *host.Module, samples []sample, want []outcome) error {
	for i := len(samples) - 1; i >= 0 && ctx.Err() == nil; i-- {
		if why := differ(whole(ctx, m, samples[i].text), want[i], samples[i].text); why != "" {
			return fmt.Errorf("%s: %s", samples[i].name, why)
		}
	}
	return nil
}

// triggers wants the prefiltered run of each text to find what the unfiltered one finds.
func (c *conformance) triggers(ctx context.Context, samples []sample, want []outcome) error {
	if c.sub.triggers == nil {
		return nil
	}
	for i, s := range samples {
		got := c.sub.filtered(ctx, s.text)
		if got.skipped && want[i].err != nil {
			continue // it says it cannot do this text, and is not asked to
		}
		if why := differ(got, want[i], s.text); why != "" {
			return fmt.Errorf("%s: with the host's hits, %s", s.name, why)
		}
	}
	return nil
}

func (c *conformance) triggersNote(found int) string {
	switch {
	case c.sub.triggers == nil:
		return "none are declared: the module runs on every text"
	case found == 0:
		return countNote(found, "")
	}
	return fmt.Sprintf("with the host's hits and without them the same %d findings", found)
}

// Only short samples are run as streams, so many of them and of those without findings fewer.
const (
	streamSample  = 512 // bytes
	streamSamples = 24
	streamSilent  = 3
)

// streams gives how many of the texts that it ran hold findings.
func (c *conformance) streams(ctx context.Context, samples []sample, want []outcome) (loud int, err error) {
	if !streams(c.sub.first) {
		return 0, nil
	}
	silent := 0
	for i, s := range samples {
		if len(s.text) > streamSample || want[i].err != nil || len(want[i].findings) >= abi.MaxFindings {
			continue
		}
		if len(want[i].findings) == 0 {
			silent++
		} else {
			loud++
		}
		if len(want[i].findings) == 0 && silent > streamSilent || loud > streamSamples {
			continue
		}
		for at := 1; at < len(s.text) && ctx.Err() == nil; at++ {
			if why := differ(stream(ctx, c.sub.first, s.text[:at], s.text[at:]), want[i], s.text); why != "" {
				return loud, fmt.Errorf("%s, cut at byte %d: %s", s.name, at, why)
			}
			if !c.sub.prefilters() {
				continue
			}
			if why := differ(c.sub.windows(ctx, s.text, at), want[i], s.text); why != "" {
				return loud, fmt.Errorf("%s, cut at byte %d, with the host's hits: %s", s.name, at, why)
			}
		}
	}
	return loud, nil
}

func (c *conformance) streamsNote(loud int) string {
	stream := c.sub.first.Metadata().Stream
	switch {
	case streams(c.sub.first) && loud == 0:
		return countNote(0, "")
	case stream.Mode == abi.StreamWindow:
		return fmt.Sprintf("cut at every byte the same findings, with %d bytes kept", stream.Lookbehind)
	case stream.Mode == abi.StreamStateful:
		return "cut at every byte the same findings"
	}
	return "none are declared: a text is scanned when all of it is there"
}

// differ says how two outcomes of one text differ; "" if they do not.
func differ(got, want outcome, text string) string {
	switch {
	case got.err != nil && want.err != nil:
		return ""
	case got.err != nil:
		return "error: " + got.err.Error()
	case want.err != nil:
		return "no error, where another run gave: " + want.err.Error()
	case slices.Equal(got.findings, want.findings):
		return ""
	}
	return difference(got.findings, want.findings, text)
}

func difference(got, want []sdk.Finding, text string) string {
	for _, f := range want {
		if !slices.Contains(got, f) {
			return "missing " + describe(&f, text)
		}
	}
	for _, f := range got {
		if !slices.Contains(want, f) {
			return "unexpected " + describe(&f, text)
		}
	}
	return fmt.Sprintf("%d findings, another run gave %d", len(got), len(want))
}
