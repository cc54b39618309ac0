package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/wasm/check"
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
	checked  *check.Module
	meta     abi.Metadata
	triggers []abi.Trigger     // all triggers: those of meta and those of the settings
	kinds    map[string]string // declared names, to themselves: a look-up by bytes gives the string without a copy
	keeps    string            // why an instance cannot be reset; "" if it can

	isolation Isolation // in force: not spec's where that cannot be had
	snap      *snapshot // nil if keeps says why
	size      uint64    // bytes of memory after the start

	cache    wazero.CompilationCache // nil without a directory
	rt       wazero.Runtime
	compiled wazero.CompiledModule

	places  *places.Places // of the calls that have or want an instance
	masks   *places.Places // of those that mask
	closing chan struct{}  // closed when no more calls are taken

	mu      sync.Mutex
	idle    []*instance
	warming chan struct{} // closed when the instance that is started in the background is there; nil if none is
	waits   bool          // a call waits for it

	life       context.Context // of instances started in the background
	die        context.CancelFunc
	background sync.WaitGroup

	closeMu sync.Mutex
	closed  bool

	calls, errs, discarded, grown, dropped, cut, fuel atomic.Uint64
	live                                              atomic.Int64
}

// Stats are counters since the module was loaded.
type Stats struct {
	Calls     uint64 // scans and checks
	Errors    uint64 // those that failed, the wait for an instance included
	Fuel      uint64 // units that they used
	Live      int    // instances that exist now
	Memory    uint64 // bytes of linear memory of one instance after its start
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
	checked, err := check.Check(spec.Code, check.Limits{Pages: spec.pages()})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(spec.Code)
	m := &Module{host: h, spec: spec, digest: pin.Digest(spec.Code), seed: sum, checked: checked,
		isolation: spec.Isolation, keeps: checked.Keeps,
		places: newPlaces(spec.Instances), masks: newPlaces(maskPlaces), closing: make(chan struct{})}
	m.life, m.die = context.WithCancel(context.WithoutCancel(ctx))
	m.spec.Code = nil // the compiled code is what counts from here on
	if err := m.prepare(ctx); err != nil {
		return nil, errors.Join(err, m.shut(context.WithoutCancel(ctx)))
	}
	// What is left of the bytes would live as long as the module.
	m.checked = &check.Module{Initialize: checked.Initialize, Scan: checked.Scan, Check: checked.Check,
		Describe: checked.Describe, Keeps: checked.Keeps, Globals: checked.Globals, Chain: checked.Chain}
	return m, nil
}

// prepare is what can fail of a load. What the module says of itself is read and compared with the operator's limits
// before any of its code runs, if a section holds it.
func (m *Module) prepare(ctx context.Context) (err error) {
	if m.initDoc, err = m.spec.initDocument(); err != nil {
		return err
	}
	var section *abi.Metadata
	if m.checked.Meta != nil {
		if section, err = readMetadata(m.checked.Meta, m.checked.Scan); err != nil {
			return refusef("custom section %q: %v", abi.MetaSection, err)
		}
		if err := m.acceptMetadata(section); err != nil {
			return err
		}
	}
	if m.isolation == Reset && m.keeps != "" {
		m.isolation = Fresh
	}
	if err := m.compile(ctx); err != nil {
		return err
	}
	return m.first(ctx, section)
}

// compile makes the runtime, rewrites the module and has wazero validate and translate it. A panic there is a refusal
// too: the bytes are the author's.
func (m *Module) compile(ctx context.Context) (err error) {
	cfg := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(m.spec.pages()).WithDebugInfoEnabled(false)
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
	defer func() {
		if r := recover(); r != nil {
			err = refusef("the compiler failed: %s", quote.Short(fmt.Sprint(r), 200))
		}
	}()
	if m.compiled, err = m.rt.CompileModule(ctx, m.checked.Metered()); err != nil {
		return refusef("it does not compile: %s", firstLine(err))
	}
	return nil
}

// first starts the first instance, copies it before anything else runs in it, and has it describe itself. It stays warm
// where it is fit for a call.
func (m *Module) first(ctx context.Context, section *abi.Metadata) error {
	in, err := m.start(ctx)
	if err != nil {
		return err
	}
	m.size = uint64(in.size)
	if m.keeps == "" {
		if m.snap, err = takeSnapshot(in); err != nil {
			in.close()
			return err
		}
	}
	if err := m.describe(ctx, in, section); err != nil {
		in.close()
		return err
	}
	in.size = in.mem.Size()
	whole := m.isolation == Pooled || !m.checked.Describe
	if m.snap != nil {
		if whole, err = m.snap.restore(in); err != nil {
			in.close()
			return fmt.Errorf("reset: %w", err)
		}
	}
	if !whole {
		in.close()
		return nil
	}
	m.idle = append(m.idle, in)
	return nil
}

// describe asks the module for its metadata, and compares if a section held them too.
func (m *Module) describe(ctx context.Context, in *instance, section *abi.Metadata) error {
	if !m.checked.Describe {
		return nil
	}
	doc, err := in.describe(ctx)
	if err != nil {
		return err
	}
	meta, err := readMetadata(doc, m.checked.Scan)
	if err != nil {
		return fmt.Errorf("%s: %w", abi.ExportDescribe, err)
	}
	if section == nil {
		return m.acceptMetadata(meta)
	}
	if !reflect.DeepEqual(meta, section) {
		return refusef("%s and the custom section %q differ", abi.ExportDescribe, abi.MetaSection)
	}
	return nil
}

// acceptMetadata accepts metadata, once the operator's limits and config agree with them.
func (m *Module) acceptMetadata(meta *abi.Metadata) error {
	if err := checkNeeds(meta.Needs, &m.spec); err != nil {
		return err
	}
	if err := m.spec.checkNames(meta); err != nil {
		return err
	}
	if check := m.host.opts.CheckConfig; check != nil && meta.ConfigSchema != nil {
		if err := check(meta.ConfigSchema, m.spec.Config); err != nil {
			return unfit(err)
		}
	}
	var err error
	if m.triggers, err = allTriggers(meta, m.spec.Config); err != nil {
		return err
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

// Triggers are all that the host has to look for: those that the module declares, and behind them those that its
// settings hold. None: the module is called for every text. The caller must not change them.
func (m *Module) Triggers() []abi.Trigger { return m.triggers }

// Scans says whether the module exports yett_scan.
func (m *Module) Scans() bool { return m.checked.Scan }

// Checks says whether the module exports yett_check.
func (m *Module) Checks() bool { return m.checked.Check }

// About gives the module's own version and the digest of the bytes that Load was given.
func (m *Module) About() chain.About { return chain.About{Version: m.meta.Version, Digest: m.digest} }

// Isolation is what is in force between calls, and why it is not what Spec asked for; "" if it is.
func (m *Module) Isolation() (Isolation, string) {
	if m.isolation != m.spec.Isolation {
		return m.isolation, "it cannot be reset: it has " + m.keeps
	}
	return m.isolation, ""
}

// Stats are the counters as they are now; they are read one by one, not all at one moment.
func (m *Module) Stats() Stats {
	return Stats{Calls: m.calls.Load(), Errors: m.errs.Load(), Live: int(m.live.Load()), Discarded: m.discarded.Load(),
		Grown: m.grown.Load(), Fuel: m.fuel.Load(), Memory: m.size, LogLines: m.dropped.Load(), LogBytes: m.cut.Load()}
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
	if err := closePlaces(ctx, m.spec.Name, m.places, m.masks); err != nil {
		return err
	}
	m.die()
	m.background.Wait() // a start that runs ends within a slice of its fuel
	m.closed = true
	m.host.forget(m)
	return m.shut(ctx)
}

// shut frees what open made. No call runs any more.
func (m *Module) shut(ctx context.Context) error {
	m.die()
	for _, in := range m.idle {
		in.close()
	}
	m.idle = nil
	if m.snap != nil {
		m.snap.memory.close()
	}
	var errs []error
	if m.rt != nil {
		errs = append(errs, m.rt.Close(ctx))
	}
	if m.cache != nil {
		errs = append(errs, m.cache.Close(ctx))
	}
	return errors.Join(errs...)
}
