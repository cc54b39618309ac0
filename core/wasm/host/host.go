// Package host runs WASM modules written to ABI v1 (scanners and authorizers) in wazero. It owns everything between a
// module's bytes and the findings or the verdict that come out: the check of the binary, compiling, one runtime with
// its limits per module, the functions a guest may import, and a bounded pool of instances. It treats the module's
// author as hostile: nothing a guest hands over is repaired or skipped, every invalid act fails its call with an error
// of its own, and an instance that erred is never used again. It must never give a guest files, environment, network,
// the real clock or another caller's bytes on purpose, and no error here ever reads as "clean". Modules come from the
// gateway's config as bytes; calls come from core/chain; findings and verdicts go back there.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Options are what all modules of a Host share.
type Options struct {
	// CacheDir holds compiled code between starts; "" means none. It is created with mode 0700. It is native code guarded
	// by a checksum only, so a directory that others may enter, or that is not ours, is refused. Every module has its own
	// wazero cache object on its own subfolder per memory limit: wazero's objects must not be shared between runtimes.
	CacheDir string

	// Log takes a module's log lines, and what it prints, when a call has ended; nil drops them. The line is valid UTF-8,
	// at most abi.MaxLogLine bytes before replacement of bad bytes, and written by the module: treat it as hostile. level
	// is what the module gave (0 debug, 1 info, 2 warning, 3 error); printed lines have LevelStdout and LevelStderr.
	// It is called from the goroutine of the call, from many at once.
	Log func(module string, level int, line string)

	// CheckConfig checks an operator's config against the JSON Schema in a module's metadata; nil leaves the check to the
	// module's own yett_init. It runs before any code of a module that carries its metadata in a section.
	CheckConfig func(schema map[string]any, config json.RawMessage) error
}

// Levels of what a guest prints.
const (
	LevelStdout = 1
	LevelStderr = 2
)

// Host loads modules and closes them. It is safe for concurrent use.
type Host struct {
	opts Options

	mu      sync.Mutex
	modules map[*Module]struct{}
	closed  bool
}

// New makes a Host. It fails when the cache directory is not private to us, or when this processor has no WASM
// compiler: an interpreter that is a hundred times slower is never used instead.
func New(ctx context.Context, opts Options) (*Host, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"amd64", "arm64"}, runtime.GOARCH) {
		return nil, fmt.Errorf("wasm modules cannot run here: no compiler for %s, only for amd64 and arm64", runtime.GOARCH)
	}
	if opts.CacheDir != "" {
		if err := privateDir(opts.CacheDir); err != nil {
			return nil, fmt.Errorf("compile cache: %w", err)
		}
	}
	return &Host{opts: opts, modules: map[*Module]struct{}{}}, nil
}

// Load checks, compiles and starts a module, all or nothing: after an error nothing of it is left. The first instance
// is initialised with the config and described before Load returns. ctx bounds the start of that instance (and so does
// Spec.Start); the compilation itself cannot be interrupted, its cost is bounded by the size of the module.
func (h *Host) Load(ctx context.Context, spec Spec) (*Module, error) {
	m, err := h.load(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("load module %q: %w", spec.Name, spec.Hide.Error(err))
	}
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.modules[m] = struct{}{}
	}
	h.mu.Unlock()
	if closed {
		return nil, errors.Join(fmt.Errorf("load module %q: %w", spec.Name, ErrClosed), m.Close(ctx))
	}
	return m, nil
}

// Close closes every module that is still open and waits for their calls, each of which ends within its own timeout.
// When ctx ends first its error is returned, and Close may be called again.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	open := make([]*Module, 0, len(h.modules))
	for m := range h.modules {
		open = append(open, m)
	}
	h.mu.Unlock()
	var errs []error
	for _, m := range open {
		errs = append(errs, m.Close(ctx))
	}
	return errors.Join(errs...)
}

func (h *Host) forget(m *Module) {
	h.mu.Lock()
	delete(h.modules, m)
	h.mu.Unlock()
}
