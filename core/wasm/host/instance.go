package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/wasm/check"
	"github.com/yett-dev/yett/sdk/abi"
)

// instance is one guest. It is used by one call at a time and never again after an error: a guest that trapped stays
// callable and answers from a broken runtime.
type instance struct {
	module *Module
	mod    api.Module
	mem    api.Memory
	arena  *arena // what mem lies in
	size   uint32 // of the memory after yett_init
	clock  uint64
	random rand.ChaCha8

	fuel, depth api.MutableGlobal   // of the meter
	globals     []api.MutableGlobal // the module's own, in the order of check.Module.Globals; nil if it has no snapshot

	// Each look-up allocates a call engine with a stack of its own, so they are looked up once.
	buffer, scan, check api.Function
	stack               [4]uint64
	call                call // reused, so that a call allocates nothing of its own
}

// start makes an instance that is ready for its first call: from the module's snapshot if it has one, and otherwise by
// _initialize and yett_init. After an error nothing of it is left.
func (m *Module) start(ctx context.Context) (*instance, error) {
	in, err := m.instantiate(ctx)
	if err != nil {
		return nil, err
	}
	if err := in.wake(ctx); err != nil {
		in.close()
		return nil, err
	}
	in.size = in.mem.Size()
	return in, nil
}

// instantiate makes an instance in which no code of the guest has run.
func (m *Module) instantiate(ctx context.Context) (*instance, error) {
	arena, err := newArena(m.spec.Memory)
	if err != nil {
		return nil, m.fault("", ErrTrap, "instantiate", err)
	}
	ictx := experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(
		func(_, _ uint64) experimental.LinearMemory { return arena }))
	// No start functions: the guest's first code runs under a call, like all of it.
	mod, err := instantiate(ictx, m.rt, m.compiled)
	if err != nil {
		arena.Free()
		return nil, m.fault("", ErrTrap, "instantiate: "+firstLine(err), ctx.Err())
	}
	m.live.Add(1)
	in := &instance{module: m, mod: mod, mem: mod.Memory(), arena: arena, random: *rand.NewChaCha8(m.seed),
		buffer: mod.ExportedFunction(abi.ExportBuffer)}
	if err := in.lookUp(); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// instantiate turns the panic of a runtime that gets no memory into an error.
func instantiate(ctx context.Context, rt wazero.Runtime, c wazero.CompiledModule) (mod api.Module, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("no memory: %v", r)
		}
	}()
	return rt.InstantiateModule(ctx, c, wazero.NewModuleConfig().WithName("").WithStartFunctions())
}

func (in *instance) lookUp() error {
	m, ok := in.module, false
	if m.checked.Scan {
		in.scan = in.mod.ExportedFunction(abi.ExportScan)
	}
	if m.checked.Check {
		in.check = in.mod.ExportedFunction(abi.ExportCheck)
	}
	if in.fuel, ok = in.mod.ExportedGlobal(check.ExportFuel).(api.MutableGlobal); !ok {
		return m.fault("", ErrTrap, "the module is not metered", nil)
	}
	if in.depth, ok = in.mod.ExportedGlobal(check.ExportStack).(api.MutableGlobal); !ok {
		return m.fault("", ErrTrap, "the module's call depth is not metered", nil)
	}
	if m.keeps == "" {
		if in.globals, ok = m.mutableGlobals(in.mod); !ok {
			return m.fault("", ErrTrap, "a mutable global of the module is not exported", nil)
		}
	}
	return nil
}

// wake brings a new instance to where a call can begin.
func (in *instance) wake(ctx context.Context) error {
	if s := in.module.snap; s != nil {
		switch ok, err := s.wake(in); {
		case err != nil:
			return in.module.fault("", ErrTrap, "start from the snapshot", err)
		case !ok:
			return in.module.fault("", ErrTrap, "start from the snapshot: its memory cannot be had", nil)
		}
		return nil
	}
	budget := in.module.spec.startFuel
	if in.module.perCall() {
		budget = min(budget, in.module.spec.Fuel)
	}
	c := in.newCall(starting)
	c.begin(ctx, in.module.spec.Start, budget)
	defer c.flush()
	defer c.leave()
	return in.initialize(c)
}

// perCall says whether the guest's own start runs for every call, so that it may not cost more than a call may.
func (m *Module) perCall() bool { return m.isolation == Fresh && m.keeps != "" }

// newCall clears what the call before left.
func (in *instance) newCall(p phase) *call {
	in.call = call{in: in, phase: p, printed: [2][]byte{in.call.printed[0][:0], in.call.printed[1][:0]}}
	return &in.call
}

func (in *instance) initialize(c *call) error {
	if in.module.checked.Initialize {
		if _, err := in.invoke(c, abi.ExportInitialize, in.mod.ExportedFunction(abi.ExportInitialize)); err != nil {
			return err
		}
	}
	doc := in.module.initDoc
	ptr, err := in.room(c, len(doc))
	if err != nil {
		return err
	}
	in.mem.Write(ptr, doc)
	return in.status(c, abi.ExportInit, in.mod.ExportedFunction(abi.ExportInit), uint32(len(doc)))
}

// describe runs yett_describe and gives what it put.
func (in *instance) describe(ctx context.Context) ([]byte, error) {
	c := in.newCall(describing)
	c.begin(ctx, in.module.spec.Start, in.module.spec.startFuel)
	defer c.flush()
	defer c.leave()
	if err := in.status(c, abi.ExportDescribe, in.mod.ExportedFunction(abi.ExportDescribe)); err != nil {
		return nil, err
	}
	if !c.has[abi.SlotMetadata] {
		return nil, in.module.fault(c.export, ErrPut, "it put no metadata", nil)
	}
	return c.puts[abi.SlotMetadata], nil
}

// room asks the guest for n writable bytes and checks what it answers. The answer is good until the next room.
func (in *instance) room(c *call, n int) (uint32, error) {
	if uint64(n) > in.module.spec.Memory {
		return 0, in.module.fault("", ErrInput, fmt.Sprintf("%d bytes are more than the memory limit of %d", n,
			in.module.spec.Memory), nil)
	}
	n = max(n, 1) // so that an empty text has an address too
	ptr, err := in.invoke(c, abi.ExportBuffer, in.buffer, uint32(n))
	switch {
	case err != nil:
		return 0, err
	case ptr == 0:
		return 0, in.module.fault(c.export, ErrBuffer, fmt.Sprintf("it refused %d bytes", n), nil)
	case ptr%8 != 0:
		return 0, in.module.fault(c.export, ErrBuffer, fmt.Sprintf("address %d is not 8-aligned", ptr), nil)
	case uint64(ptr)+uint64(n) > uint64(in.mem.Size()):
		return 0, in.module.fault(c.export, ErrBuffer, fmt.Sprintf("%d bytes at %d of %d", n, ptr, in.mem.Size()), nil)
	}
	return ptr, nil
}

// status invokes an export whose result is a status, and makes an error of anything but ok.
func (in *instance) status(c *call, export string, fn api.Function, args ...uint32) error {
	status, err := in.invoke(c, export, fn, args...)
	if err != nil {
		return err
	}
	if status != abi.StatusOK || c.has[abi.SlotError] {
		return in.module.fault(export, ErrStatus, "",
			&StatusError{Status: status, Text: chain.Heard(string(c.puts[abi.SlotError]))})
	}
	return nil
}

// invoke runs one export. A result that comes after the deadline, or beyond the budget, is no result.
func (in *instance) invoke(c *call, export string, fn api.Function, args ...uint32) (uint32, error) {
	c.export = export
	for i, v := range args {
		in.stack[i] = uint64(v)
	}
	if c.stack == 0 {
		c.stack = stackStep
		c.used += in.module.chainFuel() + c.memoryFuel()
	}
	if c.used > c.budget {
		return 0, in.module.fault(export, ErrFuel, fmt.Sprintf("%d units", c.budget), nil)
	}
	in.fuel.Set(uint64(uint32(c.refill())))
	in.depth.Set(uint64(c.stack)) // what it has paid for
	if err := c.takeTurn(); err != nil {
		return 0, in.module.fault(export, ErrInterrupted, "no processor was free", err)
	}
	err := fn.CallWithStack(c, in.stack[:])
	if c.err != nil {
		return 0, c.err
	}
	c.countFuel(int32(uint32(in.fuel.Get())))
	late := c.late()
	switch {
	case c.used > c.budget:
		return 0, in.module.fault(export, ErrFuel, fmt.Sprintf("%d units", c.budget), nil)
	case late != nil:
		return 0, in.module.fault(export, ErrInterrupted, "", late)
	case errors.Is(err, errNoCall):
		return 0, in.module.fault(export, ErrTrap, errNoCall.Error(), nil)
	case err != nil:
		return 0, in.module.fault(export, ErrTrap, firstLine(err), nil)
	}
	return uint32(in.stack[0]), nil
}

// firstLine drops the stack trace, whose names the guest's author chose.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return quote.Short(line, 200)
}

// clean removes the input from the guest's buffer.
func (in *instance) clean(ptr uint32, n int) {
	if b, ok := in.mem.Read(ptr, uint32(n)); ok {
		clear(b)
	}
}

// close frees the instance. It may be called once.
func (in *instance) close() {
	in.module.live.Add(-1)
	// The error is that of closing files, and there are none.
	_ = in.mod.Close(context.Background())
	in.arena.Free()
}
