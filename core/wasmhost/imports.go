package wasmhost

import (
	"context"
	"errors"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/yett-dev/yett/sdk/abi"
)

// hostFunc is one function that a guest may import: admission checks its signature, the runtime gets it as it is. An i32
// argument may have dirt in its upper half, so run truncates; the result goes to the first slot.
type hostFunc struct {
	module, name string
	sig          signature
	run          func(c *call, a []uint64)
}

// hostFuncs is everything that a guest can reach.
var hostFuncs = append([]hostFunc{
	{abi.ImportModule, abi.ImportEmit, sig("iiiifiiii", "i"), (*call).emit},
	{abi.ImportModule, abi.ImportDecide, sig("iiiiii", "i"), (*call).decide},
	{abi.ImportModule, abi.ImportPut, sig("iii", "i"), (*call).put},
	{abi.ImportModule, abi.ImportLog, sig("iii", ""), (*call).writeLog},
}, wasiFuncs...)

var errNoCall = errors.New("host function outside a call")

// Call makes hostFunc an api.GoFunction. The context is the call itself; a host function that must stop the guest panics.
func (f hostFunc) Call(ctx context.Context, a []uint64) {
	c, ok := ctx.(*call)
	if !ok {
		panic(errNoCall)
	}
	c.enter()
	f.run(c, a)
}

// provide makes the functions importable in a runtime.
func provide(ctx context.Context, rt wazero.Runtime) error {
	for _, module := range []string{abi.ImportModule, abi.WASIModule} {
		b := rt.NewHostModuleBuilder(module)
		for _, f := range hostFuncs {
			if f.module == module {
				b.NewFunctionBuilder().WithGoFunction(f, values(f.sig.params), values(f.sig.results)).Export(f.name)
			}
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

func values(s string) []api.ValueType { return []api.ValueType(s) }

func millis(n int32) time.Duration { return time.Duration(n) * time.Millisecond }
