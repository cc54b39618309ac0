package wasmhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk/abi"
)

// Module is one loaded module with its runtime and its pool. It is safe for concurrent use and is a chain.Scanner and a
// chain.Checker.
type Module struct {
	host     *Host
	spec     Spec
	digest   string
	seed     [32]byte
	initDoc  []byte
	admitted *admitted
	meta     abi.Metadata
	kinds    map[string]string // declared names, to themselves: a look-up by bytes gives the string without a copy

	cache    wazero.CompilationCache // nil without a directory
	rt       wazero.Runtime
	compiled wazero.CompiledModule

	slots   chan struct{} // one for each instance in use
	closing chan struct{} // closed when no more calls are taken

	mu   sync.Mutex
	idle []*instance

	closeMu   sync.Mutex
	closeHeld int // slots that Close has taken
	closed    bool

	calls, errs, discarded, grown, dropped, cut atomic.Uint64
	live                                        atomic.Int64
}

// Stats are counters since the module was loaded.
type Stats struct {
	Calls     uint64 // scans and checks
	Errors    uint64 // those that failed, the wait for an instance included
	Live      int    // instances that exist now
	Discarded uint64 // instances thrown away after an error or because they grew; not those of Fresh that ended well
	Grown     uint64 // of these, those that only grew
	LogLines  uint64 // log lines dropped because they were over the budget
	LogBytes  uint64 // bytes cut off log lines that were too long
}

func (h *Host) load(ctx context.Context, spec Spec) (*Module, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, err
	}
	a, err := admit(spec.Code, spec.pages())
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(spec.Code)
	spec.Code = nil // the compiled code is what counts from here on
	m := &Module{host: h, spec: spec, digest: "sha256:" + hex.EncodeToString(sum[:]), seed: sum, admitted: a,
		slots: make(chan struct{}, spec.Instances), closing: make(chan struct{})}
	if m.initDoc, err = spec.initDocument(); err != nil {
		return nil, err
	}
	if a.meta != nil {
		if err := m.take(a.meta); err != nil {
			return nil, err
		}
	}
	if err := m.open(ctx); err != nil {
		return nil, errors.Join(err, m.shut(context.WithoutCancel(ctx)))
	}
	a.code = nil
	return m, nil
}

// open compiles the module and starts the first instance, which stays warm if instances are pooled.
func (m *Module) open(ctx context.Context) error {
	cfg := interruptible(wazero.NewRuntimeConfigCompiler()).WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(m.spec.pages()).WithDebugInfoEnabled(false)
	var err error
	if dir := m.host.opts.CacheDir; dir != "" {
		dir = filepath.Join(dir, fmt.Sprintf("memory-%d", m.spec.pages()))
		if m.cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return fmt.Errorf("compile cache: %w", err)
		}
		cfg = cfg.WithCompilationCache(m.cache)
	}
	m.rt = wazero.NewRuntimeWithConfig(ctx, cfg)
	if err := provide(ctx, m.rt); err != nil {
		return fmt.Errorf("host functions: %w", err)
	}
	if err := m.compile(ctx); err != nil {
		return err
	}
	in, err := m.start(ctx)
	if err != nil {
		return err
	}
	if err := m.describe(ctx, in); err != nil {
		in.close()
		return err
	}
	if m.spec.Isolation == Fresh {
		in.close()
		return nil
	}
	m.idle = append(m.idle, in)
	return nil
}

// compile has wazero validate and translate the module. A panic there is a refusal too: the bytes are the author's.
func (m *Module) compile(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = refusef("the compiler failed: %s", cut(fmt.Sprint(r), 200))
		}
	}()
	if m.compiled, err = m.rt.CompileModule(ctx, m.admitted.code); err != nil {
		return refusef("it does not compile: %s", firstLine(err))
	}
	return nil
}

// describe asks the module for its metadata, and compares if a section held them too.
func (m *Module) describe(ctx context.Context, in *instance) error {
	if !m.admitted.describe {
		return nil
	}
	doc, err := in.describe(ctx)
	if err != nil {
		return err
	}
	in.size = in.mem.Size()
	meta, err := readMetadata(doc, m.admitted.scan)
	if err != nil {
		return fmt.Errorf("%s: %w", abi.ExportDescribe, err)
	}
	if m.admitted.meta == nil {
		return m.take(meta)
	}
	if !reflect.DeepEqual(meta, m.admitted.meta) {
		return refusef("%s and the custom section %q differ", abi.ExportDescribe, abi.MetaSection)
	}
	return nil
}

// take accepts metadata, once the operator's limits and config agree with them.
func (m *Module) take(meta *abi.Metadata) error {
	if err := checkNeeds(meta.Needs, &m.spec); err != nil {
		return err
	}
	if check := m.host.opts.CheckConfig; check != nil && meta.ConfigSchema != nil {
		if err := check(meta.ConfigSchema, m.spec.Config); err != nil {
			return fmt.Errorf("config: %w", err)
		}
	}
	m.meta = *meta
	m.kinds = make(map[string]string, len(meta.Kinds))
	for _, k := range meta.Kinds {
		m.kinds[k.Name] = k.Name
	}
	return nil
}

// Metadata is what the module says about itself. The caller must not change what it points to.
func (m *Module) Metadata() abi.Metadata { return m.meta }

// Scans says whether the module exports yett_scan.
func (m *Module) Scans() bool { return m.admitted.scan }

// Checks says whether the module exports yett_check.
func (m *Module) Checks() bool { return m.admitted.check }

// About gives the module's own version and the digest of the bytes that Load was given.
func (m *Module) About() chain.About { return chain.About{Version: m.meta.Version, Digest: m.digest} }

// Stats are the counters as they are now; they are read one by one, not all at one moment.
func (m *Module) Stats() Stats {
	return Stats{Calls: m.calls.Load(), Errors: m.errs.Load(), Live: int(m.live.Load()), Discarded: m.discarded.Load(),
		Grown: m.grown.Load(), LogLines: m.dropped.Load(), LogBytes: m.cut.Load()}
}

func (m *Module) fault(export string, fault error, detail string, cause error) error {
	return &CallError{Module: m.spec.Name, Export: export, Fault: fault, Detail: detail, Err: cause}
}

// Close refuses new calls, waits for those that run and frees everything. When ctx ends first its error is returned and
// the module keeps its memory until Close is called again.
func (m *Module) Close(ctx context.Context) error {
	m.closeMu.Lock()
	defer m.closeMu.Unlock()
	if m.closed {
		return nil
	}
	select {
	case <-m.closing:
	default:
		close(m.closing)
	}
	for ; m.closeHeld < cap(m.slots); m.closeHeld++ {
		select {
		case m.slots <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("close module %q: %d calls still run: %w", m.spec.Name, cap(m.slots)-m.closeHeld, ctx.Err())
		}
	}
	m.closed = true
	m.host.forget(m)
	return m.shut(ctx)
}

// shut frees what open made. No call runs any more.
func (m *Module) shut(ctx context.Context) error {
	for _, in := range m.idle {
		in.close()
	}
	m.idle = nil
	var errs []error
	if m.rt != nil {
		errs = append(errs, m.rt.Close(ctx))
	}
	if m.cache != nil {
		errs = append(errs, m.cache.Close(ctx))
	}
	return errors.Join(errs...)
}
