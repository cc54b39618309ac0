package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/yett-dev/yett/core/wasm/check"
	"github.com/yett-dev/yett/sdk/abi"
)

// hostFunc is one function that a guest may import; core/wasm/check has its signature. An i32 argument may have dirt in
// its upper half, so run truncates; the result goes to the first slot.
type hostFunc struct {
	module, name string
	run          func(c *call, a []uint64)
}

// hostFuncs is everything that a guest can reach.
var hostFuncs = append([]hostFunc{
	{abi.ImportModule, abi.ImportEmit, (*call).emit},
	{abi.ImportModule, abi.ImportDecide, (*call).decide},
	{abi.ImportModule, abi.ImportPut, (*call).put},
	{abi.ImportModule, abi.ImportLog, (*call).writeLog},
}, wasiFuncs...)

var errNoCall = errors.New("host function outside a call")

// Call makes hostFunc an api.GoFunction. The context is the call itself; a host function that must stop the guest
// panics.
func (f hostFunc) Call(ctx context.Context, a []uint64) {
	c, ok := ctx.(*call)
	if !ok {
		panic(errNoCall)
	}
	c.enter()
	f.run(c, a)
}

// provide makes the functions importable in a runtime, and those of the meter.
func provide(ctx context.Context, rt wazero.Runtime) error {
	for _, module := range []string{abi.ImportModule, abi.WASIModule} {
		b := rt.NewHostModuleBuilder(module)
		for _, f := range hostFuncs {
			if f.module != module {
				continue
			}
			params, results, ok := check.ImportSignature(f.module, f.name)
			if !ok {
				return fmt.Errorf("%s.%s is not in the list of imports", f.module, f.name)
			}
			b.NewFunctionBuilder().WithGoFunction(f, []api.ValueType(params), []api.ValueType(results)).Export(f.name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return provideMeter(ctx, rt)
}

func millis(n int32) time.Duration { return time.Duration(n) * time.Millisecond }
