package wasmhost

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/yett-dev/yett/sdk/abi"
)

// instance is one guest. It is used by one call at a time and never again after an error: a guest that trapped stays
// callable and answers from a broken runtime.
type instance struct {
	module *Module
	mod    api.Module
	mem    api.Memory
	size   uint32 // of the memory after yett_init
	clock  uint64
	random *rand.ChaCha8

	// Each look-up allocates a call engine with a stack of its own, so they are looked up once.
	buffer, scan, check api.Function
	stack               [4]uint64
}

// start makes an instance: _initialize, then yett_init with the config. The instance is closed if either fails.
func (m *Module) start(ctx context.Context) (*instance, error) {
	ctx, cancel := within(ctx, m.spec.Start)
	defer cancel()
	// No start functions: the guest's first code runs under a call, like all of it.
	mod, err := m.rt.InstantiateModule(ctx, m.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, m.fault("", ErrTrap, "instantiate: "+firstLine(err), ctx.Err())
	}
	in := &instance{module: m, mod: mod, mem: mod.Memory(), random: rand.NewChaCha8(m.seed),
		buffer: mod.ExportedFunction(abi.ExportBuffer)}
	if m.admitted.scan {
		in.scan = mod.ExportedFunction(abi.ExportScan)
	}
	if m.admitted.check {
		in.check = mod.ExportedFunction(abi.ExportCheck)
	}
	m.live.Add(1)
	c := &call{Context: ctx, in: in, phase: starting}
	err = in.initialize(c)
	c.flush()
	if err != nil {
		in.close()
		return nil, err
	}
	in.size = in.mem.Size()
	return in, nil
}

func (in *instance) initialize(c *call) error {
	if in.module.admitted.initialize {
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
	ctx, cancel := within(ctx, in.module.spec.Start)
	defer cancel()
	c := &call{Context: ctx, in: in, phase: describing}
	defer c.flush()
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
		return 0, in.module.fault("", ErrInput, fmt.Sprintf("%d bytes are more than the memory limit of %d", n, in.module.spec.Memory), nil)
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
		return in.module.fault(export, ErrStatus, "", &StatusError{Status: status, Text: cut(string(c.puts[abi.SlotError]), 512)})
	}
	return nil
}

// invoke runs one export. A result that comes after the deadline is no result.
func (in *instance) invoke(c *call, export string, fn api.Function, args ...uint32) (uint32, error) {
	c.export = export
	for i, v := range args {
		in.stack[i] = uint64(v)
	}
	err := fn.CallWithStack(c, in.stack[:])
	late := c.Err() // read after the runtime's watcher was told to stop: if it is nil, the watcher closed nothing
	switch {
	case c.err != nil:
		return 0, c.err
	case late != nil:
		return 0, in.module.fault(export, ErrInterrupted, "", late)
	case err != nil:
		return 0, in.module.fault(export, ErrTrap, firstLine(err), nil)
	}
	return uint32(in.stack[0]), nil
}

// firstLine drops the stack trace, whose names the guest's author chose.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return cut(line, 200)
}

// clean removes the input from the guest's buffer.
func (in *instance) clean(ptr uint32, n int) {
	if b, ok := in.mem.Read(ptr, uint32(n)); ok {
		clear(b)
	}
}

func (in *instance) close() {
	in.module.live.Add(-1)
	// The error is that of closing files, and there are none.
	_ = in.mod.Close(context.Background())
}
