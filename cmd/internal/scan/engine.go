package scan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
)

// patience is far above any limit in production: how fast this machine is must not change what is found.
const patience = time.Minute

const (
	// pieceSize is how much of a text is read at a time, bytes. A shorter text is scanned whole.
	pieceSize = 256 << 10
	// maxHeld is how much of a text may be in memory because a scanner needs to see more of it, bytes. A scanner that
	// takes whole texts only sees no longer ones.
	maxHeld = host.MaxStream
	// maxFindings bounds the findings of one file: a file that has more was not scanned.
	maxFindings = 10_000
)

// chosen is a scanner to run.
type chosen struct {
	module  kit.Module
	config  json.RawMessage // nil: none
	foreign bool            // not ours, so it is let in as a gateway lets it in
}

// engine is the production host with the chosen scanners in a chain. It is safe for concurrent use.
type engine struct {
	host    *host.Host
	chain   chain.ScanChain
	noAllow bool // comments that allow findings do not count
}

// builtin gives a scanner that comes with us.
func builtin(name string) (chosen, error) {
	code, ok := scanners.Builtin(name)
	if !ok {
		return chosen{}, cli.Usage("--scanner %s: unknown scanner: must be one of %v", name, scanners.Names())
	}
	return chosen{module: kit.Module{Name: name, Code: code}}, nil
}

// start loads the scanners, each with as many instances as there are workers. action is what the chain does about what
// is found: a text is only redacted where it is printed again.
func start(ctx context.Context, all []chosen, workers int, action sdk.Action,
	least sdk.Severity) (e *engine, err error) {
	e = &engine{}
	e.host, err = host.New(ctx, host.Options{CacheDir: cli.ModuleCache(), CheckConfig: config.CheckModule})
	if err != nil {
		return nil, err
	}
	e.chain = chain.ScanChain{Budget: 10 * patience, Now: time.Now,
		Actions: []chain.ActionRule{{Severity: least, Action: action, Replacement: "[{kind}]"}}}
	if err = e.load(ctx, all, workers); err == nil {
		err = e.chain.Prepare()
	}
	if err != nil {
		return nil, errors.Join(err, e.close(ctx))
	}
	return e, nil
}

// load adds a step for each scanner. They are loaded at the same time: most of a short run is that.
func (e *engine) load(ctx context.Context, all []chosen, workers int) error {
	e.chain.Steps = make([]chain.ScanStep, len(all))
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() { e.chain.Steps[i], errs[i] = e.step(ctx, &all[i], workers) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// step is one scanner in the chain. Ours run as a gateway runs them; another's is let in as a gateway does it.
func (e *engine) step(ctx context.Context, s *chosen, workers int) (chain.ScanStep, error) {
	spec := host.Spec{Name: s.module.Name, Code: s.module.Code, Config: s.config, Instances: workers,
		Timeout: patience, Start: patience}
	if !s.foreign {
		spec.Isolation = host.Pooled
	} else if err := admit(ctx, spec); err != nil {
		return chain.ScanStep{}, err
	}
	m, err := e.host.Load(ctx, spec)
	if err != nil {
		return chain.ScanStep{}, err
	}
	if !m.Scans() {
		return chain.ScanStep{}, fmt.Errorf("%s is not a scanner: the module has no yett_scan", s.module.Name)
	}
	meta := m.Metadata()
	return chain.ScanStep{Name: s.module.Name, Timeout: patience, OnError: sdk.Deny, Builtin: !s.foreign,
		Scanner: &crowd{m}, Triggers: m.Triggers(), Kinds: meta.Kinds, Stream: meta.Stream}, nil
}

// admit lets a module in as a gateway does: in a process of its own. Verdicts are kept.
func admit(ctx context.Context, spec host.Spec) error {
	opts := host.AdmitOptions{CheckConfig: config.CheckModule}
	if dir := cli.ModuleCache(); dir != "" {
		opts.CacheDir = filepath.Join(dir, "verdicts")
	}
	if _, err := host.Admit(ctx, opts, spec); err != nil {
		return fmt.Errorf("scanner %s: %w", spec.Name, err)
	}
	return nil
}

func (e *engine) close(ctx context.Context) error { return e.host.Close(context.WithoutCancel(ctx)) }

// errCrowded is a text with more findings than anybody reads.
var errCrowded = fmt.Errorf("it has more than %d findings: exclude it, or raise --min-severity", maxFindings)

// errDenied is a text of which a scanner has not seen everything.
type errDenied struct{ reason string }

func (e *errDenied) Error() string { return e.reason }

// settled takes what has become of the next part of a text: the part as it may be released, the findings that begin in
// it, and a text from the offset at that holds them all.
type settled func(released string, found []sdk.Finding, around string, at int) error

// scan reads a text to its end and hands on, piece by piece, what is settled. No more than a piece and what the
// scanners look back for is in memory.
func (e *engine) scan(ctx context.Context, r io.Reader, take settled) error {
	piece := make([]byte, pieceSize)
	n, final, err := fill(r, piece)
	if err != nil {
		return err
	}
	if final {
		text := string(piece[:n])
		res := e.chain.Run(ctx, &chain.Input{Text: text})
		if err := failure(ctx, res.Outcome, res.Reason); err != nil {
			return err
		}
		return take(res.Text, res.Findings, text, 0)
	}
	stream := e.chain.NewStream(&chain.Input{}, maxHeld)
	for {
		next, res := stream.Next(ctx, string(piece[:n]), final)
		if err := failure(ctx, res.Outcome, res.Reason); err != nil {
			return err
		}
		if err := take(res.Text, res.Findings, res.Around, res.At); err != nil {
			return err
		}
		if next == nil {
			return nil
		}
		stream = next
		if n, final, err = fill(r, piece); err != nil {
			return err
		}
	}
}

// fill reads until the piece is full or the text has ended.
func fill(r io.Reader, piece []byte) (n int, final bool, err error) {
	n, err = io.ReadFull(r, piece)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return n, true, nil
	}
	return n, false, err
}

func failure(ctx context.Context, outcome, reason string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if outcome == chain.Denied {
		return &errDenied{reason}
	}
	return nil
}
