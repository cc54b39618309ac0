package scan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk"
)

// sample is a report with everything in it.
func sample() *Report {
	one := func(file string, line int, kind string, severity sdk.Severity) Finding {
		return Finding{File: file, Line: line, Column: 16, EndLine: line, EndColumn: 25, Start: 100 * line, End: 100*line + 9,
			Kind: kind, Scanner: "secrets", Severity: severity.String(), Confidence: 0.5, Masked: "[9 characters]",
			value: value(line), severity: severity}
	}
	known, allowed := one("a b/é%#?.env", 4, "SECRET_PASSWORD", sdk.High), one("src/x.go", 7, "SECRET_JWT", sdk.Low)
	allowed.Reason = "expired <sample>"
	return &Report{Version: "v1.2.3", Files: 3, Bytes: 12345,
		Findings: []Finding{one("a b/é%#?.env", 2, "SECRET_PASSWORD", sdk.High),
			one("a b/é%#?.env", 3, "SECRET_PASSWORD", sdk.High), one("/abs/y", 1, "SECRET_GITHUB_PAT", sdk.Critical),
			one("c:d", 1, "SECRET_PASSWORD", sdk.Info), one("-", 1, "PII_EMAIL", sdk.Medium)},
		Known: []Finding{known}, Allowed: []Finding{allowed}, Unreasoned: []Unreasoned{{"src/x.go", 9}}, BelowLeast: 2,
		Skipped:   map[string]int{skipBinary: 2, skipIgnored: 1},
		Unscanned: []Unscanned{{"pipe", "is not a regular file"}}, Interrupted: true, Gone: 1}
}

// TestReports: the forms of a report are promised.
func TestReports(t *testing.T) {
	o := &options{baseline: "known.json", least: sdk.Medium, verbose: true}
	for name, write := range map[string]func(*Report, io.Writer) error{
		"report.json":  func(r *Report, w io.Writer) error { return r.json(w) },
		"report.sarif": func(r *Report, w io.Writer) error { return r.sarif(w, o) },
		"report.txt": func(r *Report, w io.Writer) error {
			r.SkippedFiles = []Skipped{{"bin", skipBinary}}
			for i := range r.Findings {
				fmt.Fprintln(w, line(&r.Findings[i]))
			}
			r.summary(w, o)
			return nil
		},
	} {
		var got bytes.Buffer
		must(t, write(sample(), &got))
		golden(t, name, got.Bytes())
		if strings.Contains(got.String(), value(2)[:5]) {
			t.Errorf("%s holds a value", name)
		}
	}
}

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("GOLDEN") == "write" {
		must(t, os.MkdirAll("testdata", 0o755), os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; GOLDEN=write go test writes it. Got:\n%s", path, got)
	}
}

// TestSARIF: what we write has what the standard requires of the parts that we use, and is as the published schema says
// where YETT_SARIF_SCHEMA names a copy of it.
func TestSARIF(t *testing.T) {
	empty := &Report{Skipped: map[string]int{}, Complete: true}
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a": assigned(1) + "\n" + assigned(2) + " # yett:allow SECRET_PASSWORD sample\n"})
	ran := run(t, dir, "", "--format", "sarif", "a")
	if ran.code != ExitFound || strings.Contains(ran.stdout, value(1)) || strings.Contains(ran.stdout, value(2)) {
		t.Errorf("exit %d: %s", ran.code, ran.stdout)
	}
	docs := []string{ran.stdout}
	for _, r := range []*Report{sample(), empty} {
		var b bytes.Buffer
		must(t, r.sarif(&b, &options{}))
		docs = append(docs, b.String())
	}
	for _, doc := range docs {
		essentials(t, doc)
	}
	path := os.Getenv("YETT_SARIF_SCHEMA")
	if path == "" {
		t.Skip("YETT_SARIF_SCHEMA does not name the published schema")
	}
	schema, err := jsonschema.NewCompiler().Compile(path)
	must(t, err)
	for _, doc := range docs {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
		must(t, err, schema.Validate(v))
	}
}

// essentials are what SARIF 2.1.0 requires of what we write: its sections 3.13, 3.14, 3.19, 3.20, 3.27 and 3.30.
func essentials(t *testing.T, doc string) {
	t.Helper()
	var log sarifLog
	dec := json.NewDecoder(strings.NewReader(doc))
	dec.DisallowUnknownFields()
	must(t, dec.Decode(&log))
	if log.Version != "2.1.0" || len(log.Runs) != 1 {
		t.Fatalf("version %q, %d runs", log.Version, len(log.Runs))
	}
	r := log.Runs[0]
	levels := regexp.MustCompile(`^(none|note|warning|error)$`)
	uris := regexp.MustCompile(`^(file:///|[^:/?#]+(/|$)|\./)[^ ?#]*$`)
	if r.Tool.Driver.Name == "" || r.Results == nil || r.ColumnKind != "unicodeCodePoints" || len(r.Invocations) != 1 {
		t.Errorf("run: %+v", r)
	}
	prints := map[string]bool{}
	for _, res := range r.Results {
		region := res.Locations[0].Physical.Region
		if r.Tool.Driver.Rules[res.RuleIndex].ID != res.RuleID || !levels.MatchString(res.Level) || res.Message.Text == "" ||
			!uris.MatchString(res.Locations[0].Physical.Artifact.URI) || region.StartLine < 1 || region.StartColumn < 1 ||
			region.EndLine < region.StartLine || region.ByteLength < 1 || prints[res.Fingerprints[fingerprintName]] {
			t.Errorf("result: %+v at %+v", res, region)
		}
		prints[res.Fingerprints[fingerprintName]] = true
		for _, s := range res.Suppressions {
			if s.Kind != "inSource" && s.Kind != "external" {
				t.Errorf("suppression: %+v", s)
			}
		}
	}
}

// TestNoAllow: a text that somebody else has written cannot allow what is in it, where the user says so.
func TestNoAllow(t *testing.T) {
	text := assigned(1) + " # yett:allow SECRET_PASSWORD sample\n"
	run(t, t.TempDir(), text, "-").want(t, 0, "", "1 allowed by comments")
	run(t, t.TempDir(), text, "--no-allow", "-").want(t, 1, found("-", 1, 1))
}

// TestFingerprints: a finding whose line moves is the same one to a reader of reports.
func TestFingerprints(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	prints := func(text string) string {
		plant(t, dir, map[string]string{"a": text})
		return strings.Join(regexp.MustCompile(fingerprintName+`": "\w+`).FindAllString(run(t, dir, "", "--format", "sarif",
			"a").stdout, -1), " ")
	}
	first := prints(assigned(1) + "\n" + assigned(2) + "\n")
	if got := prints("x\n" + assigned(1) + "\ny\n" + assigned(2) + "\n"); got != first || first == "" {
		t.Errorf("%s, before %s", got, first)
	}
}

// stopped is a text that ends a run when it is read for the second time, as Ctrl-C does; after it nobody types.
type stopped struct {
	text string
	stop func()
}

func (s *stopped) Read(p []byte) (int, error) {
	if s.text != "" {
		n := copy(p, s.text)
		s.text = s.text[n:]
		return n, nil
	}
	s.stop()
	select {}
}

// TestInterrupted: what was found before a signal is reported, with what is missing. Nothing waits for a terminal.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a": assigned(1) + "\n", "b": assigned(2) + "\n"})
	for _, format := range []string{"text", "json", "sarif"} {
		ctx, stop := context.WithCancel(t.Context())
		r := runIn(t, ctx, dir, &stopped{"x\n", stop}, "--jobs", "1", "--format", format, "a", "-", "b")
		stop()
		if r.code != ExitUnscanned || strings.Contains(r.stdout, "b:1:16") {
			t.Errorf("exit %d: %s", r.code, r.stdout)
		}
		for _, said := range []string{"INTERRUPTED: the results are partial", "NOT SCANNED -: interrupted",
			"1 finding"} {
			if !strings.Contains(r.err, said) {
				t.Errorf("%s: stderr has no %q: %s", format, said, r.err)
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	runIn(t, ctx, dir, &stopped{"x\n", stop}, "--redact", "-").want(t, ExitUnscanned, "", "context canceled")
	stop()
}

// TestCut: a run whose list of files was cut short says so, even if all that was listed was scanned.
func TestCut(t *testing.T) {
	e := startSecrets(t)
	for _, cut := range []bool{false, true} {
		ctx, stop := context.WithCancel(t.Context())
		scanned := 0
		interrupted, err := e.each(ctx, func(yield func(item) bool) {
			if yield(stdin(strings.NewReader("x"))); cut {
				stop()
			}
		}, 1, sdk.Low, 100, func(result) error { scanned++; return nil })
		stop()
		if interrupted != cut || err != nil || scanned != 1 {
			t.Errorf("%d texts, interrupted: %t, want %t, %v", scanned, interrupted, cut, err)
		}
	}
}

// TestRedact: what is printed has no byte of what was found, whatever the text is cut into; a text that cannot be
// redacted to its end says so.
func TestRedact(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "a\n"+assigned(1)+" # yett:allow SECRET_PASSWORD x\n", "--redact", "-").want(t, 1,
		"a\ndb_password = \"[SECRET_PASSWORD]\" # yett:allow SECRET_PASSWORD x\n", "redacted 1 SECRET_PASSWORD")
	run(t, dir, `{"db_password":"`+value(1)+`","n":1}`, "--redact", "-").want(t, 1,
		`{"db_password":"[SECRET_PASSWORD]","n":1}`)
	run(t, dir, "clean", "--redact", "-").want(t, 0, "clean")
	run(t, dir, "", "--redact", "-").want(t, 0, "")
	run(t, dir, "a\x00", "--redact", "-").want(t, 3, "", "cannot be redacted")
	var in, want strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&in, "line %d is long enough to fill a piece\n", i)
		fmt.Fprintf(&want, "line %d is long enough to fill a piece\n", i)
		if i%1000 == 7 {
			fmt.Fprintln(&in, assigned(i))
			fmt.Fprintln(&want, `db_password = "[SECRET_PASSWORD]"`)
		}
	}
	run(t, dir, in.String(), "--redact", "-").want(t, 1, want.String(), "redacted 20 SECRET_PASSWORD")
	r := run(t, dir, in.String(), "--redact", "--max-size", "600KiB", "-")
	if r.code != ExitUnscanned || !strings.HasPrefix(want.String(), r.stdout) || !strings.Contains(r.err, "withheld") {
		t.Errorf("exit %d, %d bytes, said %s", r.code, len(r.stdout), r.err)
	}
	for i := range 20 {
		if strings.Contains(r.stdout, value(i*1000+7)) {
			t.Errorf("value %d is printed", i)
		}
	}
}

// endless is a value whose end the scanner does not see, and a line with it.
func endless() (value, line string) {
	r := rand.New(rand.NewPCG(1, 2))
	long := make([]byte, 20<<10)
	for i := range long {
		long[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[r.IntN(62)]
	}
	return string(long), "Authorization: Bearer " + string(long) + "\n"
}

// TestUnsettled: a text of which a scanner does not see the end of what it has found is not scanned, whole or in
// pieces. What was found before it is reported.
func TestUnsettled(t *testing.T) {
	dir := t.TempDir()
	long, bad := endless()
	before := assigned(1) + "\n" + strings.Repeat("x\n", 2*pieceSize)
	plant(t, dir, map[string]string{"short": bad, "long": before + bad, "clean": "x"})
	run(t, dir, "", ".").want(t, 3, found("long", 1, 1), "NOT SCANNED long: scanner secrets did not run to its end",
		"NOT SCANNED short: scanner secrets did not run to its end", "scanned 1 file")
	redacted := run(t, dir, before+bad, "--redact", "-")
	if redacted.code != ExitUnscanned || strings.Contains(redacted.stdout, long[:20]) ||
		strings.Contains(redacted.stdout, value(1)) || !strings.Contains(redacted.err, "withheld") {
		t.Errorf("exit %d, %d bytes, said %s", redacted.code, len(redacted.stdout), redacted.err)
	}
}

// TestSettings: scanners get their settings by name, and a module of somebody else's runs beside ours or alone.
func TestSettings(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	module, err := os.ReadFile("../../../scanners/secrets/secrets.wasm")
	must(t, err)
	plant(t, dir, map[string]string{"a": assigned(1) + "\n", "own.wasm": string(module),
		"off.yaml": "disable: [SECRET_PASSWORD]\n"})
	alone := []string{"--scanner", "secrets"}
	for _, args := range [][]string{{"--config", "off.yaml"}, {"--config", "secrets=off.yaml"},
		{"--config", `{"disable":["SECRET_PASSWORD"]}`}, {"--set", `secrets.disable=["SECRET_PASSWORD"]`},
		{"--config", `{"disable":[]}`, "--set", `secrets.disable=["SECRET_PASSWORD"]`}} {
		run(t, dir, "", append(append(args, alone...), "a")...).want(t, 0, "")
	}
	run(t, dir, "", "--scanner", "secrets", "a").want(t, 1, found("a", 1, 1))
	foreign := strings.Replace(found("a", 1, 1), "(secrets", "(own", 1)
	run(t, dir, "", "--wasm", "own.wasm", "a").want(t, 1, foreign)
	run(t, dir, "", "--wasm", "own.wasm", "--scanner", "secrets", "a").want(t, 1, foreign+found("a", 1, 1))
	run(t, dir, "", "--wasm", "own.wasm", "--scanner", "secrets", "--config", "off.yaml", "a").want(t, 2, "",
		"begin with the name of a scanner")
	_, bad := endless()
	plant(t, dir, map[string]string{"bad.wasm": "not a module", "endless": bad})
	run(t, dir, "", "--wasm", "own.wasm", "--set", `own.disable=["SECRET_BEARER_TOKEN"]`, "--scanner", "secrets",
		"endless").want(t, 3, "", "NOT SCANNED endless: scanner secrets") // one that has seen it is not enough
	run(t, dir, "", "--wasm", "bad.wasm", "a").want(t, 3, "", "bad")
}

// failing cannot be written to.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// TestUnwritten: a report that nobody has got is no success.
func TestUnwritten(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a": assigned(1) + "\n"})
	t.Chdir(dir)
	for _, format := range []string{"text", "json", "sarif"} {
		root := Command()
		var said bytes.Buffer
		if code := cli.Run(t.Context(), root, []string{"--format", format, "a"}, strings.NewReader(""), failing{},
			&said); code != ExitUnscanned || !strings.Contains(said.String(), "the disk is full") {
			t.Errorf("%s: exit %d, %s", format, code, said.String())
		}
	}
}

// TestProgress: a terminal has one line that changes now and then, and none once the run has ended.
func TestProgress(t *testing.T) {
	var w bytes.Buffer
	p := &progress{w: &w}
	p.at(1, 2_000_000)
	p.at(2, 3_000_000) // too soon
	p.hide()
	p.hide()
	if got, want := w.String(), "\r\x1b[Kscanning: 1 file, 2 MB\r\x1b[K"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
