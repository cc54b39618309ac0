//go:build !wasip1

package scanner

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// maxStdin bounds what the native command reads; bytes.
const maxStdin = 64 << 20

// Runner is a scanner that runs in this process, for tests and measurements. It is not for concurrent use.
type Runner struct{ m *machine }

// New makes a scanner ready with a configuration (a JSON object; empty means {}).
func New(spec Spec, config []byte) (*Runner, error) {
	m, err := newMachine(spec)
	if err != nil {
		return nil, err
	}
	if err := m.init(config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return &Runner{m}, nil
}

// Scan scans one whole text and gives at most abi.MaxFindings findings, ordered by start.
func (r *Runner) Scan(text []byte) ([]sdk.Finding, error) {
	r.m.in.complete, r.m.in.hostHits = false, nil
	return r.run(text)
}

// ScanHits scans like Scan but with the hits of a host: pairs as ABI v1 lays them out, all there are.
func (r *Runner) ScanHits(text, hits []byte) ([]sdk.Finding, error) {
	r.m.in.complete, r.m.in.hostHits = true, hits
	return r.run(text)
}

func (r *Runner) run(text []byte) ([]sdk.Finding, error) {
	r.m.in.Text, r.m.in.State = text, nil
	r.m.in.Flags = abi.FlagFirst | abi.FlagFinal
	if err := r.m.scan(); err != nil {
		return nil, err
	}
	if len(r.m.out.found) == 0 {
		return nil, nil
	}
	found := make([]sdk.Finding, len(r.m.out.found))
	for i, f := range r.m.out.found {
		found[i] = sdk.Finding{
			Kind: f.Kind, Scanner: r.m.spec.Name, Start: f.Start, End: f.End, Confidence: f.Confidence,
			Severity: sdk.Severity(f.Severity), Suggested: sdk.Action(f.Action + 1), Replacement: f.Replacement,
		}
	}
	return found, nil
}

// Describe gives the metadata document of a scanner, an abi.Metadata as JSON.
func Describe(spec Spec) ([]byte, error) {
	m, err := newMachine(spec)
	if err != nil {
		return nil, err
	}
	return m.describe(), nil
}

// Run makes a scanner ready and scans one text.
func Run(spec Spec, config []byte, text []byte) ([]sdk.Finding, error) {
	r, err := New(spec, config)
	if err != nil {
		return nil, err
	}
	return r.Scan(text)
}

// Main scans standard input with the registered scanner and prints a line of JSON for each finding, never the text that
// was found. It exits with 1 when the scan failed.
func Main() {
	if err := command(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command(args []string, in io.Reader, out io.Writer) error {
	if registered == nil {
		return fmt.Errorf("no scanner is registered")
	}
	flags := flag.NewFlagSet(registered.spec.Name, flag.ContinueOnError)
	configFile := flags.String("config", "", "file with the configuration, a JSON object")
	describe := flags.Bool("describe", false, "print the metadata and exit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *describe {
		_, err := fmt.Fprintln(out, string(registered.describe()))
		return err
	}
	var config []byte
	if *configFile != "" {
		var err error
		if config, err = os.ReadFile(*configFile); err != nil {
			return fmt.Errorf("read config: %w", err)
		}
	}
	text, err := io.ReadAll(io.LimitReader(in, maxStdin+1))
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	if len(text) > maxStdin {
		return fmt.Errorf("standard input is longer than %d bytes", maxStdin)
	}
	found, err := Run(registered.spec, config, text)
	if err != nil {
		return err
	}
	return printFindings(out, found)
}

func printFindings(out io.Writer, found []sdk.Finding) error {
	enc := json.NewEncoder(out)
	for _, f := range found {
		line := struct {
			Kind       string  `json:"kind"`
			Start      int     `json:"start"`
			End        int     `json:"end"`
			Severity   string  `json:"severity"`
			Confidence float32 `json:"confidence"`
			Suggested  string  `json:"suggested"`
		}{f.Kind, f.Start, f.End, f.Severity.String(), f.Confidence, f.Suggested.String()}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
