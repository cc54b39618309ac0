package check

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

func gunzip(t *testing.T, file string) io.Reader {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

var (
	errOverflow  = errors.New("calls nested too deep")
	errExhausted = errors.New("out of fuel")
)

// meter is a host for metered modules. It counts what they pay.
type meter struct {
	slice, ticks, limit int
	paid                int64
	until               time.Time // after which a tick ends the guest; zero: never
}

func (h *meter) provide(ctx context.Context, rt wazero.Runtime) error {
	_, err := rt.NewHostModuleBuilder(HostModule).
		NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, a []uint64) {
		left := int64(int32(a[0]))
		h.paid += int64(h.slice) - left
		if h.ticks++; h.ticks > h.limit || !h.until.IsZero() && time.Now().After(h.until) {
			panic(errExhausted)
		}
		a[0] = uint64(uint32(h.slice))
	}), []api.ValueType{api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}).Export(ImportTick).
		NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) { panic(errOverflow) }), nil, nil).
		Export(ImportOverflow).Instantiate(ctx)
	return err
}

func newRuntime(ctx context.Context) wazero.Runtime {
	return wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(256).WithDebugInfoEnabled(false))
}

// outcomes calls every exported function that takes numbers only, with a few of them, and lists what comes out. The
// metered run goes first and says which call ended for want of fuel or stack: there the original stops too, for the
// rest could begin from another state.
func outcomes(t *testing.T, wasm []byte, metered bool, spare map[string]bool) (out []string) {
	t.Helper()
	ctx := context.Background()
	rt := newRuntime(ctx)
	defer rt.Close(ctx)
	h := &meter{slice: 100_000, limit: 200}
	if err := h.provide(ctx, rt); err != nil {
		t.Fatal(err)
	}
	inst, err := rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		_, why, _ := strings.Cut(firstLine(err), " failed: ") // what comes before has indices, and names an import
		return []string{"instantiate: " + why}
	}
	for _, d := range sortedExports(inst) {
		f := inst.ExportedFunction(d.ExportNames()[0])
		for _, v := range []uint64{0, 1, 7, 1 << 31, 0xffffffff, 1 << 40, 1<<64 - 1, 0x4048f5c3, 0x40091eb851eb851f} {
			args, ok := arguments(d.ParamTypes(), v)
			if !ok || len(args) == 0 && v > 0 {
				break
			}
			name := fmt.Sprintf("%s(%x)", d.ExportNames()[0], v)
			if spare[name] {
				return append(out, name)
			}
			if metered {
				inst.ExportedGlobal(ExportStack).(api.MutableGlobal).Set(StackBudget)
				h.ticks = 0
			}
			res, err := f.Call(ctx, args...)
			for i, t := range d.ResultTypes() {
				if err != nil || t == api.ValueTypeI32 || t == api.ValueTypeF32 {
					break
				}
				if t == api.ValueTypeExternref || t == 0x70 {
					res[i] = min(res[i], 1) // an address differs from run to run
				}
			}
			switch {
			case errors.Is(err, errExhausted) || errors.Is(err, errOverflow):
				spare[name] = true
				return append(out, name)
			case err != nil:
				out = append(out, name+": "+firstLine(err))
			default:
				out = append(out, fmt.Sprint(name, ": ", res))
			}
		}
	}
	for name := range inst.ExportedMemoryDefinitions() {
		mem := inst.ExportedMemory(name)
		b, _ := mem.Read(0, mem.Size())
		out = append(out, fmt.Sprint(len(b), " bytes ", checksum(b)))
	}
	return out
}

func sortedExports(inst api.Module) (out []api.FunctionDefinition) {
	defs := inst.ExportedFunctionDefinitions()
	names := make([]string, 0, len(defs))
	for n := range defs {
		names = append(names, n)
	}
	for _, n := range sortedStrings(names) {
		if len(defs[n].ExportNames()) > 0 && defs[n].ExportNames()[0] == n {
			out = append(out, defs[n])
		}
	}
	return out
}

func arguments(types []api.ValueType, v uint64) ([]uint64, bool) {
	args := make([]uint64, len(types))
	for i, t := range types {
		switch t {
		case api.ValueTypeI32, api.ValueTypeF32:
			args[i] = uint64(uint32(v))
		case api.ValueTypeI64, api.ValueTypeF64:
			args[i] = v
		default:
			return nil, false
		}
	}
	return args, true
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// TestTorture holds the rewriter against every module of the WebAssembly test suite: what we read, the compiler accepts
// rewritten exactly when it accepts the original, and both give the same results and traps.
func TestTorture(t *testing.T) {
	dir := os.Getenv("YETT_DATA")
	if dir == "" {
		t.Skip("YETT_DATA is not set: it names the directory with wasm_torture.tar.gz")
	}
	expect := map[string]string{}
	lines := bufio.NewScanner(gunzip(t, filepath.Join(dir, "wasm_torture.jsonl.gz")))
	for lines.Scan() {
		var row struct{ File, Expect string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		expect[row.File] = row.Expect
	}
	files := tar.NewReader(gunzip(t, filepath.Join(dir, "wasm_torture.tar.gz")))
	var seen, read, compiled, called int
	for {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(head.Name)
		want, listed := expect[name]
		if !listed {
			continue
		}
		wasm, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if _, err := Check(bytes.Clone(wasm), Limits{Pages: 1 << 16}); !errors.As(err, new(*Refusal)) {
			t.Errorf("%s: Check: %v", name, err)
		}
		c, r, n := tortured(t, name, want, wasm)
		read, compiled, called = read+r, compiled+c, called+n
	}
	t.Logf("%d modules offered, %d readable, %d compile, %d results compared", seen, read, compiled, called)
	if seen < 1000 || read < 1000 || compiled < 500 || called < 1000 {
		t.Error("too few")
	}
}

func tortured(t *testing.T, name, want string, wasm []byte) (compiled, read, called int) {
	t.Helper()
	ctx := context.Background()
	rt := newRuntime(ctx)
	defer rt.Close(ctx)
	compiles := func(b []byte) error {
		m, err := rt.CompileModule(ctx, b)
		if err == nil {
			m.Close(ctx)
		}
		return err
	}
	m, err := checkCore(wasm)
	if err != nil {
		if compiles(wasm) == nil {
			t.Errorf("%s (%s) compiles, but: %v", name, want, err)
		}
		return 0, 0, 0
	}
	original, metered := m.Original(), m.Metered()
	oerr, merr := compiles(original), compiles(metered)
	switch {
	case (oerr == nil) != (merr == nil):
		t.Errorf("%s (%s): original %v, metered %v", name, want, oerr, merr)
		return 0, 1, 0
	case oerr != nil:
		return 0, 1, 0
	case want == "malformed":
		t.Errorf("%s is malformed and compiles", name)
	}
	spare := map[string]bool{}
	got := outcomes(t, metered, true, spare)
	wanted := outcomes(t, original, false, spare)
	for i := range max(len(got), len(wanted)) {
		if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
			t.Errorf("%s: outcome %d: metered %q, original %q", name, i, got[min(i, len(got)):], wanted[min(i, len(wanted)):])
			break
		}
	}
	return 1, 1, len(got)
}
